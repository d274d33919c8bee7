//! The class `SortedHashes`.

use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nutfilter::pieces::Piece;
use nutfilter::{BuildError, Nut25, Params};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::filter::Filter;
use crate::number::{Number, params, set_size};
use crate::profile::Profile;
use crate::{buffer, errors, items};

type CoreSet = nutfilter::SortedHashes<Nut25>;

/// The sorted 64-bit hashes of a growing set, from which filters are encoded.
///
/// SortedHashes(items=None, record_bytes=None, profile="nut25", key=None). Keep one between two publications: `add`
/// the new items, then `encode`. Duplicates are kept and counted, and an empty item counts like any other. Threads can share it.
/// Do not fork while another thread uses it: the lock would stay locked in the child.
///
/// Memory: 8 bytes per item. Raises as `add`, and ParamsError for an invalid profile.
#[pyclass(frozen, module = "nutfilter")]
pub(crate) struct SortedHashes {
    /// Locked without the GIL only, so that a thread that waits does not block the others.
    state: Mutex<State>,
    profile: Profile,
}

struct State {
    sorted: CoreSet,
    /// Added since the last merge, in any order.
    pending: Vec<u64>,
}

impl State {
    /// Sorts and merges what was added, and encodes the set. After an error nothing is lost.
    fn encode(&mut self, params: Params) -> Result<nutfilter::Filter<Vec<u8>, Nut25>, BuildError> {
        if self.pending.is_empty() {
            return self.sorted.encode(params);
        }
        let new = CoreSet::from_hashes(take(&mut self.pending));
        let encoded = self.sorted.merge_and_encode(&new, params);
        if encoded.is_err() {
            self.pending = new.into_hashes();
        }
        encoded
    }

    /// Sorts and merges what was added. After an error nothing is lost.
    fn settle(&mut self) -> Result<(), BuildError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let new = CoreSet::from_hashes(take(&mut self.pending));
        let merged = self.sorted.merge(&new);
        if merged.is_err() {
            self.pending = new.into_hashes();
        }
        merged
    }
}

#[pymethods]
impl SortedHashes {
    #[new]
    #[pyo3(signature = (items=None, record_bytes=None, profile="nut25", key=None))]
    fn new(
        items: Option<&Bound<'_, PyAny>>,
        record_bytes: Option<Number>,
        profile: &str,
        key: Option<&[u8]>,
    ) -> PyResult<Self> {
        let profile = Profile::parse(profile, key)?;
        let pending = match items {
            Some(items) => items::hash_all(items, record_bytes, profile)?,
            None => Vec::new(),
        };
        Ok(Self::of(pending, profile))
    }

    /// A set of hashes that `hash64_many` or `hashes` returned: any buffer of unsigned 64-bit integers, in any
    /// order. Raises TypeError for other buffers.
    #[staticmethod]
    #[pyo3(signature = (hashes, profile="nut25", key=None))]
    fn from_hashes(hashes: &Bound<'_, PyAny>, profile: &str, key: Option<&[u8]>) -> PyResult<Self> {
        let profile = Profile::parse(profile, key)?;
        Ok(Self::of(buffer::read_u64(hashes)?, profile))
    }

    /// Adds items, in any order.
    ///
    /// items: an iterable of bytes (or other buffers); a numpy array of uint8 of shape (n, record bytes), or of
    /// records such as dtype V33; Arrow data of type binary or fixed-size binary, or with one such column
    /// (anything with `__arrow_c_array__` or `__arrow_c_stream__`); a column of pandas; or, with `record_bytes`, one buffer
    /// of packed records, or a numpy array of byte strings (S33): numpy pads shorter ones. Bytes, contiguous arrays and
    /// Arrow data are not copied. Do not write to an array during the call.
    ///
    /// record_bytes: how many bytes every item has. Others are refused.
    ///
    /// Raises TypeError for other types, ValueError for records of a wrong length or Arrow nulls, MemoryError.
    /// After an error the set is unchanged.
    ///
    /// Cost: hashes the items, about 5 ns each for arrays and Arrow, 30 ns for lists. They are sorted once, by
    /// the next `encode`, `merge` or `hashes`.
    #[pyo3(signature = (items, record_bytes=None))]
    fn add(&self, items: &Bound<'_, PyAny>, record_bytes: Option<Number>) -> PyResult<()> {
        let hashes = items::hash_all(items, record_bytes, self.profile)?;
        items.py().detach(|| self.append(hashes))
    }

    /// Adds all items of `other`, which does not change.
    ///
    /// Raises BuildError if the other set has another profile or key, and MemoryError.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        if self.profile != other.profile {
            return Err(errors::build_message(format!(
                "cannot merge sets with different hash functions or keys: '{}' and '{}'",
                self.profile.name(),
                other.profile.name()
            )));
        }
        py.detach(|| {
            // One lock at a time: two sets may be merged into each other by two threads.
            let hashes = {
                let mut state = other.lock();
                state.settle().map_err(errors::build)?;
                state.sorted.as_slice().to_vec()
            };
            self.append(hashes)
        })
    }

    /// Encodes the filter of this set.
    ///
    /// Raises ParamsError for p or m outside the limits of the format, and BuildError for more than 2**32 - 1
    /// items or if memory runs out; the set is then unchanged.
    ///
    /// Cost: sorts what was added (about 10 ns per item), then one linear pass of about 2 ns per item.
    #[pyo3(signature = (p=19, m=784931))]
    fn encode(&self, py: Python<'_>, p: Number, m: Number) -> PyResult<Filter> {
        let params = params(p, m)?;
        let encoded = py.detach(|| self.lock().encode(params));
        Ok(Filter { core: encoded.map_err(errors::build)?, profile: self.profile })
    }

    /// Encodes these hashes as a piece of the filter of `n` items, for `stitch`. Returns bytes.
    ///
    /// For sets that are distributed over several machines: count the items, divide the hashes into ranges, encode
    /// one piece per range, and stitch the pieces in the order of the ranges.
    ///
    /// Raises ParamsError for p or m outside the limits of the format, and BuildError if the set has more than n
    /// items. Cost: as `encode`.
    #[pyo3(signature = (n, p=19, m=784931))]
    fn encode_piece<'py>(
        &self,
        py: Python<'py>,
        n: Number,
        p: Number,
        m: Number,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let params = params(p, m)?;
        let n = set_size(n)?;
        let piece = py.detach(|| {
            let mut state = self.lock();
            state.settle()?;
            Piece::encode(&state.sorted, n, params).map(|piece| piece.to_bytes())
        });
        Ok(PyBytes::new(py, &piece.map_err(errors::build)?))
    }

    /// The hashes in ascending order: a memoryview of format "Q", 8 bytes per item (a copy).
    fn hashes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let hashes = py.detach(|| {
            let mut state = self.lock();
            state.settle().map_err(errors::build)?;
            Ok::<_, PyErr>(state.sorted.as_slice().to_vec())
        })?;
        buffer::memoryview_of_u64(py, &hashes)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        // A memoryview cannot be pickled.
        let array = py.import("array")?.getattr("array")?;
        let hashes = array.call1(("Q", self.hashes(py)?.call_method0("tobytes")?))?;
        let key = self.profile.key().map(|key| PyBytes::new(py, key));
        let restore = py.get_type::<Self>().getattr("from_hashes")?;
        (restore, (hashes, self.profile(), key)).into_pyobject(py)
    }

    /// The name of the hash function.
    #[getter]
    fn profile(&self) -> &'static str {
        self.profile.name()
    }

    /// The number of items, duplicates included.
    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| {
            let state = self.lock();
            state.sorted.len() + state.pending.len()
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (len, profile) = (self.__len__(py), self.profile.name());
        format!("SortedHashes({len} items, profile='{profile}')")
    }
}

impl SortedHashes {
    fn of(pending: Vec<u64>, profile: Profile) -> Self {
        let sorted = CoreSet::from_hashes(Vec::new());
        Self { state: Mutex::new(State { sorted, pending }), profile }
    }

    /// A panic while the lock was held cannot leave the state half changed, so poison is ignored.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, mut hashes: Vec<u64>) -> PyResult<()> {
        let pending = &mut self.lock().pending;
        if pending.is_empty() {
            *pending = hashes;
            return Ok(());
        }
        let items = pending.len() + hashes.len();
        pending.try_reserve(hashes.len()).map_err(|_| errors::memory(items))?;
        pending.append(&mut hashes);
        Ok(())
    }
}
