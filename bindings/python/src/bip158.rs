//! The module `nutfilter.bip158`: filters of Bitcoin's blocks.

use nutfilter::SipHash;
use nutfilter::bip158::{self, FilterHeader, ScanFault, Scratch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::{errors, items};

/// Builds the filter of a block from its `scripts`: CompactSize(N) and the coded set, as it is sent and stored.
///
/// block_hash: 32 bytes in internal order, the reverse of the order that is displayed: bytes.fromhex(text)[::-1].
/// scripts: as for Watchlist. BIP158 takes the scripts that the block creates, except those that start with OP_RETURN (0x6a),
/// and those that it spends, except empty ones. Duplicates count once; an empty script counts like any other.
///
/// Raises ValueError for a block hash of another length, or in the displayed order.
#[pyfunction]
pub(crate) fn build<'py>(
    block_hash: &Bound<'py, PyAny>,
    scripts: &Bound<'_, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = block_hash.py();
    let key = key_of(block_hash, || "block_hash".into())?;
    let scripts = items::collect(scripts)?;
    let built = py.detach(|| bip158::build(key, scripts).map(|filter| bip158::serialize(&filter)));
    Ok(PyBytes::new(py, &built.map_err(errors::build)?))
}

/// The hash of a serialised filter: 32 bytes in internal order. The filter is not validated.
#[pyfunction]
pub(crate) fn filter_hash(filter: &Bound<'_, PyAny>) -> PyResult<[u8; 32]> {
    items::with_item(filter, |filter| bip158::filter_hash(filter).to_byte_array())
}

/// The filter header of a block: 32 bytes in internal order. It commits to `filter` and all earlier ones.
///
/// filter: the serialised filter, which is not validated.
/// previous: the filter header of the block before, 32 bytes in internal order; zeros for the genesis block.
///
/// Compare the header with those of several peers before the filter is used: a filter can be valid and lack scripts.
#[pyfunction]
pub(crate) fn filter_header(
    filter: &Bound<'_, PyAny>,
    previous: &Bound<'_, PyAny>,
) -> PyResult<[u8; 32]> {
    let previous: FilterHeader = digest(previous, || "previous".into())?.into();
    items::with_item(filter, |filter| {
        bip158::filter_hash(filter).filter_header(previous).to_byte_array()
    })
}

/// Scripts that are looked for in the filters of many blocks. "Not in it" is certain; "in it" has a false-positive rate of
/// 1/784931 per script. A list without scripts matches nothing. It is immutable; threads can share it.
///
/// Watchlist(scripts) takes an iterable of bytes, or an array of records. Duplicates count once.
///
/// All methods validate each filter completely, and raise DecodeError if it is invalid, also for a list without scripts.
/// A block hash has 32 bytes in internal order, the reverse of the order that is displayed. Another order is another
/// key, with which scripts are missed. The displayed order is recognised by the zeros at its start and refused (ValueError), on
/// chains of difficulty 1 and above: not on regtest.
#[pyclass(frozen, module = "nutfilter.bip158")]
pub(crate) struct Watchlist(bip158::Watchlist);

#[pymethods]
impl Watchlist {
    #[new]
    fn new(scripts: &Bound<'_, PyAny>) -> PyResult<Self> {
        let scripts = items::collect(scripts)?;
        Ok(Self(scripts.iter().collect()))
    }

    /// The scripts that may be in the serialised `filter` of a block, in no particular order.
    fn matches<'py>(
        &self,
        block_hash: &Bound<'py, PyAny>,
        filter: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = block_hash.py();
        let key = key_of(block_hash, || "block_hash".into())?;
        let found = items::with_item(filter, |filter| {
            py.detach(|| self.0.matches(&mut Scratch::new(), key, filter))
        })?;
        list_of(py, found.map_err(errors::decode)?)
    }

    /// Returns whether any of the scripts may be in the serialised `filter` of a block.
    fn match_any(
        &self,
        block_hash: &Bound<'_, PyAny>,
        filter: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let py = block_hash.py();
        let key = key_of(block_hash, || "block_hash".into())?;
        let found = items::with_item(filter, |filter| {
            py.detach(|| self.0.match_any(&mut Scratch::new(), key, filter))
        })?;
        found.map_err(errors::decode)
    }

    /// Matches many filters, an iterable of (block_hash, filter). Returns (number, scripts) for each filter that matches, in
    /// order; `number` counts the filters from 0.
    ///
    /// Raises DecodeError for the first invalid filter, with its number in the attribute `number`; no answer of the others is
    /// returned. Ask another peer for that filter and scan again.
    ///
    /// Cost: give 100 or more at a time; with AVX2 or AVX-512, they are decoded side by side. Runs without the GIL.
    fn scan<'py>(
        &self,
        py: Python<'py>,
        filters: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(usize, Bound<'py, PyList>)>> {
        let mut given = Vec::new();
        for (number, pair) in filters.try_iter()?.enumerate() {
            let (hash, filter) = pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            let key = key_of(&hash, || format!("block_hash of filter {number}"))?;
            let filter = items::item_of(filter, || format!("filter {number}"))?;
            given.push((Numbered { number, key }, filter));
        }
        let filters: Vec<(Numbered, &[u8])> =
            given.iter().map(|(block, filter)| (*block, filter.bytes())).collect();
        let scanned = py.detach(|| self.0.scan(&mut Scratch::new(), &filters));
        let each = scanned.into_iter().map(|one| match one {
            Ok(found) => Ok((found.block.number, list_of(py, found.scripts)?)),
            Err(error) => Err(invalid(error.block.number, error.fault)),
        });
        each.collect()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __contains__(&self, script: &Bound<'_, PyAny>) -> PyResult<bool> {
        items::with_item(script, |script| self.0.contains(script))
    }

    fn __repr__(&self) -> String {
        format!("Watchlist({} scripts)", self.0.len())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (py.get_type::<Self>(), (list_of(py, self.0.iter())?,)).into_pyobject(py)
    }
}

/// A block of a scan.
#[derive(Clone, Copy)]
struct Numbered {
    number: usize,
    key: SipHash,
}

impl From<Numbered> for SipHash {
    fn from(block: Numbered) -> Self {
        block.key
    }
}

fn invalid(number: usize, fault: ScanFault) -> PyErr {
    match fault {
        ScanFault::Invalid(error) => errors::decode_numbered(error, number),
        fault => PyValueError::new_err(format!("filter {number}: {fault}")),
    }
}

fn list_of<'py, 'a>(
    py: Python<'py>,
    scripts: impl IntoIterator<Item = &'a [u8]>,
) -> PyResult<Bound<'py, PyList>> {
    let scripts: Vec<_> = scripts.into_iter().map(|script| PyBytes::new(py, script)).collect();
    PyList::new(py, scripts)
}

/// 32 bytes.
fn digest(given: &Bound<'_, PyAny>, what: impl Fn() -> String) -> PyResult<[u8; 32]> {
    let bytes = items::item_of(given.clone(), &what)?;
    let bytes = bytes.bytes();
    bytes
        .try_into()
        .map_err(|_| PyValueError::new_err(format!("{} has {} bytes, not 32", what(), bytes.len())))
}

/// The key of a block. Its hash ends in four zero bytes wherever the difficulty is 1 or more. If they are at the start
/// instead, the order is that of display, whose key would miss every script.
fn key_of(block_hash: &Bound<'_, PyAny>, what: impl Fn() -> String) -> PyResult<SipHash> {
    let hash = digest(block_hash, &what)?;
    if hash.starts_with(&[0; 4]) && !hash.ends_with(&[0; 4]) {
        return Err(PyValueError::new_err(format!(
            "{} begins with zeros, as block hashes are displayed; pass the internal order, its reverse: [::-1]",
            what()
        )));
    }
    Ok(hash.into())
}
