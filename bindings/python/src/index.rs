//! The classes `SeekIndex` and `IndexedFilter`.

use nutfilter::IndexInterval;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::filter::Filter;
use crate::items::look_ups;
use crate::number::Number;
use crate::profile::Profile;
use crate::{errors, items};

/// An index for repeated queries of one filter, about 3 bits per item.
///
/// SeekIndex(filter, items=64) records one place per 64 items. A look-up then takes a fraction of a microsecond.
/// Use it through filter.with_index(index). Keep it with to_bytes() and SeekIndex.from_bytes(). An index must come
/// from a trusted source; it is quickly rebuilt.
///
/// Cost: one decoding pass. Fewer `items` give faster look-ups and a larger index (64 bits per place).
#[pyclass(frozen, module = "nutfilter")]
pub(crate) struct SeekIndex {
    core: nutfilter::SeekIndex,
}

#[pymethods]
impl SeekIndex {
    #[new]
    #[pyo3(signature = (filter, items=Number::ITEMS))]
    #[pyo3(text_signature = "(filter, items=64)")]
    fn new(py: Python<'_>, filter: &Filter, items: Number) -> PyResult<Self> {
        let interval = items.get().and_then(|items| u32::try_from(items).ok());
        let interval = interval.map(IndexInterval::Items).ok_or_else(|| {
            let message = format!(
                "an index with one place per {items} items; use 1 to {}",
                u32::MAX
            );
            errors::invalid_params(message)
        })?;
        let core = py.detach(|| nutfilter::SeekIndex::build(&filter.core, interval));
        Ok(Self { core })
    }

    /// Reads an index written by `to_bytes`.
    ///
    /// Raises SeekIndexError if the bytes are damaged, of another version, or not an index.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let core = items::with_item(data, nutfilter::SeekIndex::from_bytes)?;
        let core = core.map_err(errors::index)?;
        Ok(Self { core })
    }

    /// The index as bytes, which start with the identity of its filter.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.core.to_bytes())
    }

    /// The size of the index in bits per item of the filter.
    #[getter]
    fn bits_per_item(&self) -> f64 {
        self.core.bits_per_item()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let read = py.get_type::<Self>().getattr("from_bytes")?;
        (read, (self.to_bytes(py),)).into_pyobject(py)
    }

    /// The number of recorded places.
    fn __len__(&self) -> usize {
        self.core.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "SeekIndex({} places, {:.2} bits per item)",
            self.core.len(),
            self.core.bits_per_item()
        )
    }
}

/// A filter with its index, made by Filter.with_index. It gives the answers of the filter, faster.
#[pyclass(frozen, module = "nutfilter")]
pub(crate) struct IndexedFilter {
    core: nutfilter::IndexedFilter,
    profile: Profile,
}

#[pymethods]
impl Filter {
    /// Combines the filter with an index that was built for it. The result gives the same answers, faster.
    ///
    /// Raises SeekIndexError if the index belongs to another filter.
    ///
    /// Cost: copies the filter and compares a fingerprint, less than 1 ms per million items. Call it once and query
    /// often.
    fn with_index(&self, py: Python<'_>, index: &SeekIndex) -> PyResult<IndexedFilter> {
        py.detach(|| {
            let indexed = self.core.clone().into_indexed_with(index.core.clone());
            Ok(IndexedFilter {
                core: indexed.map_err(|mismatch| errors::index(mismatch.into()))?,
                profile: self.profile,
            })
        })
    }
}

#[pymethods]
impl IndexedFilter {
    /// Returns whether `item` may be in the set. Cost: less than a microsecond.
    fn contains(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let value = items::value_of(item, self.profile, self.core.filter().range())?;
        Ok(self.core.contains_value(value))
    }

    /// N: the number of items, duplicates included.
    #[getter]
    fn n(&self) -> u32 {
        self.core.filter().n()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (core, index) = self.core.clone().into_parts();
        let profile = self.profile;
        let join = py.get_type::<Filter>().getattr("with_index")?;
        (join, (Filter { core, profile }, SeekIndex { core: index })).into_pyobject(py)
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.contains(item)
    }

    fn __len__(&self) -> usize {
        self.n() as usize
    }

    fn __repr__(&self) -> String {
        format!("IndexedFilter(n={})", self.n())
    }
}

look_ups!(IndexedFilter, core => core.filter().range());
