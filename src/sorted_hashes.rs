//! [`SortedHashes`]: the sorted set of hashes that filters are encoded from.

use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroUsize;

use crate::arch::{SimdLevel, level_setter};
use crate::encode;
use crate::error::{BuildError, BuildFault};
use crate::filter::Filter;
use crate::hash::{ItemHash, Nut25};
use crate::merge::{LARGE_BLOCK, merge_into};
use crate::params::Params;
use crate::sort::{BLOCK, Collector, sort_hashes, sort_made};

/// The sorted 64-bit hashes of a set's items, duplicates included.
///
/// Mapping preserves order, so a filter of any N, M and P takes one linear pass. Keep this form between two
/// publications of a growing set: hash and sort the new items, [`merge`](Self::merge),
/// [`encode`](Self::encode).
///
/// ```
/// use nutfilter::{Params, SipHash, SortedHashes};
///
/// let mut set = SortedHashes::from_items(["one", "two"]); // hashed with Nut25
/// set.merge(&SortedHashes::from_items(["three"]))?;
/// let filter = set.encode(Params::default())?;
/// assert_eq!(filter.n(), 3);
/// assert!(filter.contains("three"));
///
/// // With another hasher:
/// let keyed = SortedHashes::builder(SipHash::new(1, 2)).hash_items(["one", "two"]);
/// assert!(keyed.contains("one"));
/// # Ok::<(), nutfilter::BuildError>(())
/// ```
///
/// # Cost
///
/// A set takes 8 bytes per item, plus up to 2 bytes of overhead. Building from records, or from items whose
/// count the iterator knows, needs no more: the hashes are written into the memory in which they are sorted.
/// [`from_hashes`](Self::from_hashes) needs 8 more bytes per item during the sort. Items of unknown count need up to
/// 16 more, because the vector that collects their hashes doubles when it is full.
///
/// Uniform hashes sort faster than with `sort_unstable`. Hashes chosen by an attacker to cluster are passed to
/// `sort_unstable` after a first try, whose time is then lost.
#[derive(Clone)]
pub struct SortedHashes<H = Nut25> {
    hasher: H,
    /// In ascending order.
    hashes: Vec<u64>,
    /// Changes no byte, so equality ignores it.
    level: SimdLevel,
}

impl<H: fmt::Debug> fmt::Debug for SortedHashes<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedHashes")
            .field("len", &self.hashes.len())
            .field("hasher", &self.hasher)
            .finish_non_exhaustive()
    }
}

impl<H: PartialEq> PartialEq for SortedHashes<H> {
    fn eq(&self, other: &Self) -> bool {
        self.hasher == other.hasher && self.hashes == other.hashes
    }
}

impl<H: Eq> Eq for SortedHashes<H> {}

impl<H: Default> Default for SortedHashes<H> {
    /// The empty set.
    fn default() -> Self {
        Self { hasher: H::default(), hashes: Vec::new(), level: SimdLevel::detect() }
    }
}

impl<H: ItemHash, I: AsRef<[u8]>> Extend<I> for SortedHashes<H> {
    /// Hashes and sorts `items`, and merges them in one linear pass. Few large calls are faster than many small
    /// ones.
    ///
    /// # Panics
    ///
    /// Memory cannot be allocated.
    fn extend<T: IntoIterator<Item = I>>(&mut self, items: T) {
        let builder =
            SortedHashesBuilder { level: self.level, ..SortedHashes::builder(self.hasher.clone()) };
        let merged = self.merge(&builder.hash_items(items));
        merged.expect("memory for the merged set");
    }
}

/// Makes [`SortedHashes`] with a given hasher; see [`SortedHashes::builder`].
#[derive(Clone, Debug)]
pub struct SortedHashesBuilder<H> {
    hasher: H,
    level: SimdLevel,
}

/// The number of items hashed in one batch: enough to fill any vector unit, few enough to stay in cache.
const BATCH: usize = 512;

impl SortedHashes {
    /// An empty set for [`Nut25`]. For another hasher, [`Default`] or a [`builder`](Self::builder) makes one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Hashes with [`Nut25`] and sorts `items`, given in any order. An empty item counts like any other.
    #[must_use]
    pub fn from_items<I: IntoIterator<Item: AsRef<[u8]>>>(items: I) -> Self {
        Self::builder(Nut25).hash_items(items)
    }

    /// Hashes with [`Nut25`] and sorts the records of `record_bytes` bytes each that lie one after another in
    /// `records`.
    ///
    /// # Errors
    ///
    /// `records` is not a whole number of records.
    pub fn from_records(records: &[u8], record_bytes: usize) -> Result<Self, BuildError> {
        Self::builder(Nut25).hash_records(records, record_bytes)
    }

    /// Sorts [`Nut25`] hashes given in any order.
    #[must_use]
    pub fn from_hashes(hashes: Vec<u64>) -> Self {
        Self::builder(Nut25).sort(hashes)
    }
}

impl<H: ItemHash> SortedHashesBuilder<H> {
    level_setter!(level);

    /// Hashes and sorts `items`, given in any order.
    pub fn hash_items<I: IntoIterator<Item: AsRef<[u8]>>>(self, items: I) -> SortedHashes<H> {
        let mut items = items.into_iter();
        let mut collector = self.collector(items.size_hint().0);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            batch.extend(items.by_ref().take(BATCH));
            if batch.is_empty() {
                return collector.finish();
            }
            collector.push_items(&batch);
        }
    }

    /// A collector for items that arrive in parts, about `expected` of them. The number only affects time and memory; 0
    /// means that it is unknown.
    ///
    /// ```
    /// use nutfilter::{Nut25, SortedHashes};
    ///
    /// let mut collector = SortedHashes::builder(Nut25).collector(0);
    /// collector.push_items(&["one", "two"]);
    /// collector.push_records(b"threefour!", 5)?;
    /// let set = collector.finish();
    /// assert_eq!(set, SortedHashes::from_items(["one", "two", "three", "four!"]));
    /// # Ok::<(), nutfilter::BuildError>(())
    /// ```
    pub fn collector(self, expected: usize) -> HashCollector<H> {
        HashCollector { hashes: Collector::new(self.level, expected), builder: self }
    }

    /// Hashes and sorts the records of `record_bytes` bytes each that lie one after another in `records`.
    ///
    /// # Errors
    ///
    /// `records` is not a whole number of records.
    pub fn hash_records(
        self,
        records: &[u8],
        record_bytes: usize,
    ) -> Result<SortedHashes<H>, BuildError> {
        let width = whole_records(records, record_bytes)?;
        let n = records.len() / width;
        let (hasher, level) = (&self.hasher, self.level);
        let hash = |start: usize, out: &mut [u64]| {
            let records = &records[start * width.get()..];
            hasher.hash_records_at(level, records, width, out);
        };
        let hashes = sort_made(level, n, hash);
        Ok(self.set(hashes))
    }

    /// Sorts hashes given in any order.
    #[must_use]
    pub fn sort(self, hashes: Vec<u64>) -> SortedHashes<H> {
        let hashes = sort_hashes(self.level, hashes);
        self.set(hashes)
    }

    /// Takes hashes that are already sorted, as [`SortedHashes::into_hashes`] returns them.
    ///
    /// # Errors
    ///
    /// A hash is smaller than its predecessor.
    pub fn sorted(self, hashes: Vec<u64>) -> Result<SortedHashes<H>, BuildError> {
        if let Some(at) = hashes.windows(2).position(|pair| pair[1] < pair[0]) {
            let item = at as u64 + 1;
            return Err(BuildError(BuildFault::Unsorted { item }));
        }
        Ok(self.set(hashes))
    }

    fn set(self, hashes: Vec<u64>) -> SortedHashes<H> {
        SortedHashes { hasher: self.hasher, hashes, level: self.level }
    }
}

/// The width of records.
fn whole_records(records: &[u8], record_bytes: usize) -> Result<NonZeroUsize, BuildError> {
    NonZeroUsize::new(record_bytes).filter(|width| records.len().is_multiple_of(width.get())).ok_or(
        BuildError(BuildFault::RecordLength {
            len: records.len() as u64,
            record_bytes: record_bytes as u64,
        }),
    )
}

/// Makes [`SortedHashes`] of items that arrive in parts; see [`SortedHashesBuilder::collector`].
pub struct HashCollector<H> {
    builder: SortedHashesBuilder<H>,
    hashes: Collector,
}

impl<H: fmt::Debug> fmt::Debug for HashCollector<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashCollector")
            .field("hasher", &self.builder.hasher)
            .finish_non_exhaustive()
    }
}

impl<H: ItemHash> HashCollector<H> {
    /// Hashes `items`. Many at a time are faster than one by one.
    pub fn push_items<I: AsRef<[u8]>>(&mut self, items: &[I]) {
        let (hasher, level) = (&self.builder.hasher, self.builder.level);
        let mut hashes = [0; BATCH];
        for items in items.chunks(BATCH) {
            hasher.hash_items_at(level, items, &mut hashes);
            self.hashes.push(&hashes[..items.len()]);
        }
    }

    /// Hashes the records of `record_bytes` bytes each that lie one after another in `records`.
    ///
    /// # Errors
    ///
    /// `records` is not a whole number of records. Nothing is added then.
    pub fn push_records(&mut self, records: &[u8], record_bytes: usize) -> Result<(), BuildError> {
        let width = whole_records(records, record_bytes)?;
        let (hasher, level) = (&self.builder.hasher, self.builder.level);
        self.hashes.make(0..records.len() / width, |start, out| {
            hasher.hash_records_at(level, &records[start * width.get()..], width, out);
        });
        Ok(())
    }

    /// Adds hashes of this hasher, in any order.
    pub fn push_hashes(&mut self, hashes: &[u64]) {
        for block in hashes.chunks(BLOCK) {
            self.hashes.push(block);
        }
    }

    /// The set of all items.
    pub fn finish(self) -> SortedHashes<H> {
        self.builder.set(self.hashes.into_sorted())
    }
}

impl<H: ItemHash> SortedHashes<H> {
    /// A builder of sets with the given hasher.
    ///
    /// ```
    /// use nutfilter::{Nut23, SortedHashes};
    ///
    /// let set = SortedHashes::builder(Nut23).hash_items(["one", "two"]);
    /// let again = SortedHashes::builder(Nut23).sorted(set.clone().into_hashes())?;
    /// assert_eq!(set, again);
    /// # Ok::<(), nutfilter::BuildError>(())
    /// ```
    #[must_use]
    pub fn builder(hasher: H) -> SortedHashesBuilder<H> {
        SortedHashesBuilder { hasher, level: SimdLevel::detect() }
    }

    level_setter!(level);

    /// Returns whether the set has an item with the hash of `item`: a binary search.
    #[must_use]
    pub fn contains(&self, item: impl AsRef<[u8]>) -> bool {
        let hash = self.hasher.hash(item.as_ref());
        self.hashes.binary_search(&hash).is_ok()
    }

    /// Keeps one of each run of equal hashes. A filter of the set then counts an item once, however often it was
    /// added.
    pub fn dedup(&mut self) {
        self.hashes.dedup();
    }

    /// Merges `more` into this set; duplicates are kept.
    ///
    /// # Errors
    ///
    /// The two sets have different hashers, or memory cannot be allocated. This set is then unchanged.
    ///
    /// # Cost
    ///
    /// One linear pass over both. A small set (an eighth of this one or less) is merged in place, with a queue
    /// of 16 bytes per item of the small set. The vector of this set grows by an eighth if it is full. A larger
    /// set needs a new vector of 8 bytes per item of both.
    pub fn merge(&mut self, more: &Self) -> Result<(), BuildError> {
        if self.hasher != more.hasher {
            return Err(BuildError(BuildFault::HasherDiffers));
        }
        merge_into(&mut self.hashes, &more.hashes, LARGE_BLOCK, |_| {})
    }

    /// Merges `more` into this set and returns the filter of the result, as a mint does for each publication.
    ///
    /// N changes, so F and every value change as well. The same pass therefore merges and re-encodes the whole
    /// set.
    ///
    /// ```
    /// use nutfilter::{Params, SortedHashes};
    ///
    /// let mut spent = SortedHashes::from_items([b"one".as_slice(), b"two"]);
    /// let new = SortedHashes::from_items([b"three".as_slice()]);
    /// let filter = spent.merge_and_encode(&new, Params::default())?;
    /// assert_eq!((spent.len(), filter.n()), (3, 3));
    /// # Ok::<(), nutfilter::BuildError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`SortedHashes::merge`] and [`SortedHashes::encode`]. After an error the set is unchanged, and the
    /// call can be repeated with `more`.
    ///
    /// # Cost
    ///
    /// One linear pass. For 10,000 new items among a million or more it takes about half the time of a separate
    /// merge and encoding.
    pub fn merge_and_encode(
        &mut self,
        more: &Self,
        params: Params,
    ) -> Result<Filter<Vec<u8>, H>, BuildError> {
        if self.hasher != more.hasher {
            return Err(BuildError(BuildFault::HasherDiffers));
        }
        let encoded = encode::merge_and_encode(self.level, &mut self.hashes, &more.hashes, params)?;
        Ok(Filter::encoded(self.level, encoded, params, self.hasher.clone()))
    }

    /// Encodes the filter of this set.
    ///
    /// # Errors
    ///
    /// There are more than 2^32 - 1 items, or the filter's memory cannot be allocated. (A small P with a large
    /// M can need 2^32 bits per item.)
    ///
    /// # Cost
    ///
    /// One linear pass. Memory is allocated once, with an excess of at most a quarter of (P + 1) / 8 bytes per
    /// item.
    pub fn encode(&self, params: Params) -> Result<Filter<Vec<u8>, H>, BuildError> {
        let encoded = encode::encode_hashes(self.level, &self.hashes, params)?;
        Ok(Filter::encoded(self.level, encoded, params, self.hasher.clone()))
    }
}

impl<H> SortedHashes<H> {
    /// N: the number of items, duplicates included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Returns whether the set has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The hashes in ascending order.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.hashes
    }

    /// Returns the hashes in ascending order.
    #[must_use]
    pub fn into_hashes(self) -> Vec<u64> {
        self.hashes
    }

    /// The hasher of the set.
    #[must_use]
    pub fn hasher(&self) -> &H {
        &self.hasher
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SipHash;
    use alloc::vec;

    #[test]
    fn sets_with_different_keys_do_not_merge() {
        let set = |k0| SortedHashes::builder(SipHash::new(k0, 0)).hash_items([b"item"]);
        let mut one = set(1);
        assert_eq!(one.merge(&set(1)), Ok(()));
        let before = one.clone();
        let error = one.merge(&set(2)).unwrap_err();
        assert_eq!(error.0, BuildFault::HasherDiffers);
        assert_eq!(one, before);
    }

    #[test]
    fn every_hash_that_is_pushed_is_kept() {
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
            let hashes: Vec<u64> = crate::tests::Noise::of(len as u64).take(len).collect();
            let mut collector = SortedHashes::builder(SipHash::new(1, 2)).collector(0);
            for part in hashes.chunks(BLOCK + 3) {
                collector.push_hashes(part);
            }
            let expected = SortedHashes::builder(SipHash::new(1, 2)).sort(hashes);
            assert_eq!(collector.finish(), expected, "{len} hashes");
        }
    }

    #[test]
    fn failed_merge_and_encode_leaves_the_set_unchanged() {
        let mut set = SortedHashes::from_hashes((0..1 << 20).map(|i| i << 44).collect());
        let more = SortedHashes::from_hashes(vec![1, 2, u64::MAX]);
        let before = set.clone();
        // 2^52 bits.
        let params = Params::new(0, u64::from(u32::MAX)).unwrap();
        let error = set.merge_and_encode(&more, params).unwrap_err();
        assert!(matches!(error.0, BuildFault::OutOfMemory { .. }), "{error}");
        assert_eq!(set, before);

        let set = |k0| SortedHashes::builder(SipHash::new(k0, 0)).hash_items([b"item"]);
        let mut kept = set(1);
        let error = kept.merge_and_encode(&set(2), Params::CASHU).unwrap_err();
        assert_eq!(error.0, BuildFault::HasherDiffers);
        assert_eq!(kept, set(1));
    }

    #[test]
    fn partial_records_are_rejected() {
        let set = |len, width| SortedHashes::from_records(&vec![1; len], width);
        assert_eq!(set(99, 33).unwrap().len(), 3);
        assert_eq!(set(0, 33).unwrap().len(), 0);
        for (len, width) in [(98, 33), (1, 0), (0, 0)] {
            assert!(set(len, width).is_err(), "{len} bytes, records of {width}");
            let mut collector = SortedHashes::builder(Nut25).collector(0);
            collector.push_items(&["before"]);
            assert!(collector.push_records(&vec![1; len], width).is_err());
            collector.push_items(&["after"]);
            let expected = SortedHashes::from_items(["before", "after"]);
            assert!(collector.finish() == expected, "{len} bytes of {width}");
        }
    }

    #[test]
    fn extended_set_contains_old_and_new_items_once_after_dedup() {
        let mut set = SortedHashes::<Nut25>::default();
        assert!(set.is_empty());
        set.extend(["one", "two"]);
        set.extend(["two", "three"]);
        assert_eq!(set.len(), 4);
        assert_eq!(set, SortedHashes::from_items(["one", "two", "two", "three"]));
        set.dedup();
        assert_eq!(set, SortedHashes::from_items(["one", "two", "three"]));
        let found = ["one", "two", "three", "four"].map(|item| set.contains(item));
        assert_eq!(found, [true, true, true, false]);
    }

    #[test]
    fn wrong_size_hint_loses_no_items() {
        struct Promise<I>(I, usize);
        impl<I: Iterator> Iterator for Promise<I> {
            type Item = I::Item;
            fn next(&mut self) -> Option<I::Item> {
                self.0.next()
            }
            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.1, None)
            }
        }
        let items = || (0..20_000_u32).map(u32::to_le_bytes);
        let expected = SortedHashes::from_items(items());
        for promised in [0, 1, 2000, 19_000, 20_000, 300_000, usize::MAX] {
            let set = SortedHashes::from_items(Promise(items(), promised));
            assert!(set == expected, "{promised} items promised");
        }
    }
}
