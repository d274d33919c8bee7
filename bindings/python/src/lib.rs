//! The native half of the Python package `nutfilter`.
//!
//! Every class is immutable or locked, so it can be shared by threads. Work on more than one item runs without
//! the GIL. `unsafe` is confined to [`buffer`] and [`arrow`], which read memory that Python objects own.

#![deny(unsafe_code)]

mod arrow;
mod bip158;
mod buffer;
mod errors;
mod filter;
mod items;
mod number;
mod profile;
mod resident;
mod sink;
mod sorted_hashes;
mod stitch;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use bip158::{Watchlist, build, filter_hash, filter_header};
    #[pymodule_export]
    use filter::Filter;
    #[pymodule_export]
    use resident::ResidentFilter;
    #[pymodule_export]
    use sorted_hashes::SortedHashes;
    #[pymodule_export]
    use stitch::stitch;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// The 64-bit hash of one item, as an int.
    ///
    /// `item` is raw bytes of any length, never hexadecimal text.
    #[pyfunction]
    #[pyo3(signature = (item, profile="nut25", key=None))]
    fn hash64(item: &Bound<'_, PyAny>, profile: &str, key: Option<&[u8]>) -> PyResult<u64> {
        let profile = profile::Profile::parse(profile, key)?;
        items::with_item(item, |bytes| profile.hash(bytes))
    }

    /// The 64-bit hashes of many items, in the order of the items.
    ///
    /// Returns a memoryview of format "Q" (8 bytes per item); `numpy.asarray` makes an array of it without a
    /// copy. `items`, `record_bytes` and the errors are those of `SortedHashes.add`.
    #[pyfunction]
    #[pyo3(signature = (items, record_bytes=None, profile="nut25", key=None))]
    fn hash64_many<'py>(
        items: &Bound<'py, PyAny>,
        record_bytes: Option<number::Number>,
        profile: &str,
        key: Option<&[u8]>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let profile = profile::Profile::parse(profile, key)?;
        let hashes = items::hash_all(items, record_bytes, profile)?;
        buffer::memoryview_of_u64(items.py(), &hashes)
    }
}
