//! [`Number`]: an int argument of any size, so that one out of range gives a typed error with its value.

use std::fmt;

use nutfilter::Params;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::errors;

/// A Python int.
pub(crate) enum Number {
    Word(u64),
    /// Negative, or 2^64 and above: its digits.
    Other(String),
}

impl Number {
    /// The defaults of the arguments `p` and `m`.
    pub(crate) const P: Self = Self::Word(Params::CASHU.p() as u64);
    pub(crate) const M: Self = Self::Word(Params::CASHU.m());

    pub(crate) fn get(&self) -> Option<u64> {
        match self {
            Self::Word(number) => Some(*number),
            Self::Other(_) => None,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(number) => number.fmt(f),
            Self::Other(digits) => digits.fmt(f),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Number {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<u64>() {
            Ok(number) => Ok(Self::Word(number)),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                let bits: u64 = match object.cast::<PyInt>() {
                    Ok(int) => int.call_method0("bit_length")?.extract()?,
                    Err(_) => return Err(error),
                };
                // Python refuses to print very long numbers.
                Ok(Self::Other(match bits {
                    0..=1024 => object.str()?.to_string(),
                    _ => format!("a number of {bits} bits"),
                }))
            }
            Err(error) => Err(error),
        }
    }
}

/// The parameters, or a `ParamsError`.
pub(crate) fn params(p: Number, m: Number) -> PyResult<Params> {
    let narrow = p.get().and_then(|p| u32::try_from(p).ok());
    let p = narrow.ok_or_else(|| errors::invalid_params(format!("P is {p}; use 0 to 32")))?;
    let m = m
        .get()
        .ok_or_else(|| errors::invalid_params(format!("M is {m}; use 1 to {}", u32::MAX)))?;
    Params::new(p, m).map_err(errors::params)
}

/// N of a whole set.
pub(crate) fn set_size(n: &Number) -> PyResult<u32> {
    let n = n.get().and_then(|n| u32::try_from(n).ok());
    n.ok_or_else(|| errors::build_message(format!("n is not 0 to {}", u32::MAX)))
}
