//! The class `ResidentFilter`.

use nutfilter::{CacheLines, Nut25};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::filter::Filter;
use crate::items::look_ups;
use crate::profile::Profile;
use crate::{errors, items};

/// A form of a filter for single look-ups from memory, made by Filter.to_resident. It gives the answers of the filter,
/// and replaces it: about 30 bits per item.
///
/// Keep it with to_bytes() and ResidentFilter.from_bytes(). Stored bytes must come from a trusted source.
#[pyclass(frozen, module = "nutfilter")]
pub(crate) struct ResidentFilter {
    /// Queried by values only ([`Profile`]).
    core: nutfilter::ResidentFilter<CacheLines, Nut25>,
    profile: Profile,
}

#[pymethods]
impl Filter {
    /// The form for single look-ups from memory: about 30 bits per item, and the same answers.
    ///
    /// Raises ResidentError if m is above 2**20, or if the hashes are so far from uniform that somebody chose them.
    ///
    /// Cost: one decoding pass, about 10 ms per million items.
    fn to_resident(&self, py: Python<'_>) -> PyResult<ResidentFilter> {
        let core = py.detach(|| self.core.to_resident());
        Ok(ResidentFilter { core: core.map_err(errors::resident)?, profile: self.profile })
    }
}

#[pymethods]
impl ResidentFilter {
    /// Reads the bytes of `to_bytes`. `profile` and `key` are those of the filter.
    ///
    /// Raises ResidentError if the bytes are damaged, of another version, or not a resident filter.
    ///
    /// Cost: one pass over a copy of the bytes.
    #[staticmethod]
    #[pyo3(signature = (data, profile="nut25", key=None))]
    fn from_bytes(data: &Bound<'_, PyAny>, profile: &str, key: Option<&[u8]>) -> PyResult<Self> {
        let profile = Profile::parse(profile, key)?;
        let core = items::with_item(data, |bytes| {
            nutfilter::ResidentFilter::from_bytes(bytes).map(nutfilter::ResidentFilter::into_owned)
        })?;
        let core = core.map_err(errors::resident)?;
        Ok(Self { core, profile })
    }

    /// The filter as bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.core.bytes())
    }

    /// Returns whether `item` may be in the set. Cost: the hash of the item, and a read of one or two cache lines.
    fn contains(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let value = items::value_of(item, self.profile, self.core.range())?;
        Ok(self.core.contains_value(value))
    }

    /// N: the number of items, duplicates included.
    #[getter]
    fn n(&self) -> u32 {
        self.core.n()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let read = py.get_type::<Self>().getattr("from_bytes")?;
        let key = self.profile.key().map(|key| PyBytes::new(py, key));
        let arguments = (self.to_bytes(py), self.profile.name(), key);
        (read, arguments).into_pyobject(py)
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.contains(item)
    }

    fn __len__(&self) -> usize {
        self.n() as usize
    }

    fn __repr__(&self) -> String {
        let bits = self.core.bits_per_item();
        format!("ResidentFilter(n={}, {bits:.1} bits per item)", self.n())
    }
}

look_ups!(ResidentFilter, core => core.range());
