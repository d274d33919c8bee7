//! The class `Filter`.

use nutfilter::{ItemHash as _, Nut23, Nut25};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::items::look_ups;
use crate::number::{Number, params};
use crate::profile::Profile;
use crate::{buffer, errors, items};

/// The library's filter, queried by values only ([`Profile`]).
pub(crate) type CoreFilter = nutfilter::Filter<Vec<u8>, Nut25>;

/// A validated filter. "Not in it" is certain; "in it" has a false-positive rate of 1/m.
///
/// Filter(content, n, p=19, m=784931, profile="nut25", key=None) validates every bit of `content`, the coded set
/// of `n` items. Filter.build(items) and SortedHashes.encode() make a new one. Filters are immutable; threads can
/// share them, and pickle can copy them.
///
/// content: bytes or any buffer of bytes (copied).
/// n: number of items, 0 to 2**32 - 1, duplicates included.
/// p: bits of a remainder, 0 to 32. m: inverse of the false-positive rate, 1 to 2**32 - 1.
/// profile: the hash function: "nut25", "nut23", or "siphash" with a `key` of 16 bytes.
///
/// Raises DecodeError (with the attribute `kind`) if the content is not a filter of n items, and ParamsError.
///
/// Cost: one decoding pass, about 1 ms per million items.
#[pyclass(frozen, module = "nutfilter")]
pub(crate) struct Filter {
    pub(crate) core: CoreFilter,
    pub(crate) profile: Profile,
}

#[pymethods]
impl Filter {
    #[new]
    #[pyo3(signature = (content, n, p=19, m=784931, profile="nut25", key=None))]
    fn new(
        content: &Bound<'_, PyAny>,
        n: Number,
        p: Number,
        m: Number,
        profile: &str,
        key: Option<&[u8]>,
    ) -> PyResult<Self> {
        let params = params(p, m)?;
        let profile = Profile::parse(profile, key)?;
        let n = u64::try_from(n).map_err(|_| errors::item_count(n))?;
        let bytes = items::with_item(content, <[u8]>::to_vec)?;
        let parsed = content.py().detach(|| CoreFilter::parse(bytes, n, params));
        let core = parsed.map_err(errors::decode)?;
        Ok(Self { core, profile })
    }

    /// Builds the filter of `items`. Same as SortedHashes(items).encode(p, m).
    #[staticmethod]
    #[pyo3(signature = (items, p=19, m=784931, record_bytes=None, profile="nut25", key=None))]
    fn build(
        items: &Bound<'_, PyAny>,
        p: Number,
        m: Number,
        record_bytes: Option<Number>,
        profile: &str,
        key: Option<&[u8]>,
    ) -> PyResult<Self> {
        let params = params(p, m)?;
        let profile = Profile::parse(profile, key)?;
        let hashes = items::hash_all(items, record_bytes, profile)?;
        let encode = || nutfilter::SortedHashes::<Nut25>::from_hashes(hashes).encode(params);
        let core = items.py().detach(encode).map_err(errors::build)?;
        Ok(Self { core, profile })
    }

    /// N: the number of items, duplicates included.
    #[getter]
    fn n(&self) -> u32 {
        self.core.n()
    }

    /// P: the number of bits of a remainder.
    #[getter]
    fn p(&self) -> u32 {
        self.core.params().p()
    }

    /// M: the inverse of the false-positive rate.
    #[getter]
    fn m(&self) -> u64 {
        self.core.params().m()
    }

    /// The name of the hash function.
    #[getter]
    fn profile(&self) -> &'static str {
        self.profile.name()
    }

    /// The coded set as bytes (a copy): what a mint publishes, together with n, p and m.
    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.core.bytes())
    }

    /// Returns whether `item` may be in the set.
    ///
    /// Cost: decodes the filter up to the item. Use `matches` for more than one, or `to_resident`.
    fn contains(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let value = items::value_of(item, self.profile, self.core.range())?;
        Ok(py.detach(|| self.core.contains_value(value)))
    }

    /// The mapped values in ascending order: a memoryview of format "Q", 8 bytes per item.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values = py.detach(|| {
            let mut values = Vec::new();
            self.core.append_values(&mut values);
            values
        });
        buffer::memoryview_of_u64(py, &values)
    }

    fn __contains__(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.contains(py, item)
    }

    fn __len__(&self) -> usize {
        self.core.n() as usize
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.profile == other.profile && self.core == other.core
    }

    fn __hash__(&self) -> u64 {
        Nut23.hash(self.core.bytes())
    }

    fn __repr__(&self) -> String {
        format!(
            "Filter(n={}, p={}, m={}, profile='{}', {} bytes)",
            self.n(),
            self.p(),
            self.m(),
            self.profile(),
            self.core.bytes().len()
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let key = self.profile.key().map(|key| PyBytes::new(py, key));
        let arguments = (self.content(py), self.n(), self.p(), self.m(), self.profile(), key);
        (py.get_type::<Self>(), arguments).into_pyobject(py)
    }
}

look_ups!(Filter, core => core.range());
