//! The numbers that Python may give.

use std::fmt::Display;

use nutfilter::Params;
use pyo3::prelude::*;

use crate::errors;

/// An int argument, wider than every limit, so that one out of range gives a typed error with its value.
pub(crate) type Number = i128;

/// The parameters, or a `ParamsError`.
pub(crate) fn params(p: Number, m: Number) -> PyResult<Params> {
    let refuse = |name, number: &dyn Display, most| {
        errors::invalid_params(format!("{name} is {number}; use {most}"))
    };
    let most = u32::MAX;
    let narrow = u32::try_from(p).map_err(|_| refuse("P", &p, "0 to 32".to_owned()))?;
    let wide = u64::try_from(m).map_err(|_| refuse("M", &m, format!("1 to {most}")))?;
    Params::new(narrow, wide).map_err(errors::params)
}

/// N of a whole set.
pub(crate) fn set_size(n: Number) -> PyResult<u32> {
    u32::try_from(n).map_err(|_| errors::build_message(format!("n is {n}, not 0 to {}", u32::MAX)))
}
