//! The exceptions of the package, which `nutfilter/_errors.py` defines.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

mod python {
    pyo3::import_exception!(nutfilter._errors, BuildError);
    pyo3::import_exception!(nutfilter._errors, DecodeError);
    pyo3::import_exception!(nutfilter._errors, ParamsError);
    pyo3::import_exception!(nutfilter._errors, ResidentError);
}

pub(crate) fn params(error: nutfilter::error::ParamsError) -> PyErr {
    python::ParamsError::new_err(error.to_string())
}

/// An invalid P, M, profile or key.
pub(crate) fn invalid_params(message: String) -> PyErr {
    python::ParamsError::new_err(message)
}

pub(crate) fn build(error: nutfilter::BuildError) -> PyErr {
    match error.kind() {
        nutfilter::error::BuildErrorKind::OutOfMemory => PyMemoryError::new_err(error.to_string()),
        _ => python::BuildError::new_err(error.to_string()),
    }
}

pub(crate) fn build_message(message: String) -> PyErr {
    python::BuildError::new_err(message)
}

pub(crate) fn resident(error: nutfilter::error::ResidentError) -> PyErr {
    python::ResidentError::new_err(error.to_string())
}

/// A `DecodeError` with its class in the attribute `kind`.
pub(crate) fn decode(error: nutfilter::DecodeError) -> PyErr {
    python::DecodeError::new_err((error.to_string(), kind(error)))
}

/// [`decode`] of one filter of many.
pub(crate) fn decode_numbered(error: nutfilter::DecodeError, number: usize) -> PyErr {
    let message = format!("filter {number}: {error}");
    python::DecodeError::new_err((message, kind(error), number))
}

fn kind(error: nutfilter::DecodeError) -> &'static str {
    use nutfilter::error::DecodeErrorKind as Kind;
    match error.kind() {
        Kind::BadParameter => "bad-parameter",
        Kind::TooShort => "too-short",
        Kind::TooLong => "too-long",
        Kind::OutOfRange => "out-of-range",
        Kind::TrailingData => "trailing-data",
        Kind::Padding => "padding",
        _ => "invalid",
    }
}

/// The number of items is outside the limits of the format.
pub(crate) fn item_count(n: i128) -> PyErr {
    let message = format!("filter declares {n} items; the format allows 0 to {}", u32::MAX);
    python::DecodeError::new_err((message, "bad-parameter"))
}

pub(crate) fn memory(items: usize) -> PyErr {
    PyMemoryError::new_err(format!("could not allocate memory for the hashes of {items} items"))
}
