//! [`SortedHashes`]: the sorted set of hashes that filters are encoded from.

use alloc::vec::Vec;
use core::num::NonZeroUsize;

use crate::arch::Level;
use crate::encode;
use crate::error::{BuildError, BuildFault};
use crate::filter::Filter;
use crate::hash::{ItemHash, Nut25};
use crate::merge::{LARGE_BLOCK, merge_into};
use crate::params::Params;
use crate::sort::{Collector, sort_hashes, sort_made};

/// The sorted 64-bit hashes of a set's items, duplicates included.
///
/// Mapping preserves order, so a filter of any N, M and P takes one linear pass. Keep this form between two
/// publications of a growing set: hash and sort the new items, [`merge`](Self::merge),
/// [`encode`](Self::encode).
///
/// ```
/// use nutfilter::{Nut25, Params, SortedHashes};
///
/// let monday = SortedHashes::<Nut25>::from_items([b"one".as_slice(), b"two"]);
/// let tuesday = SortedHashes::from_items([b"three".as_slice()]);
/// let filter = monday.merge(tuesday)?.encode(Params::default())?;
/// assert_eq!(filter.n(), 3);
/// assert!(filter.contains(b"three"));
/// # Ok::<(), nutfilter::BuildError>(())
/// ```
///
/// # Cost
///
/// A set takes 8 bytes per item, plus up to 2 bytes of overhead. Building from records, or from items whose
/// count the iterator knows, needs no more: the hashes are written into the memory in which they are sorted.
/// [`from_hashes`](Self::from_hashes), and items of unknown count, need 8 more bytes per item during the sort.
///
/// With the feature `parallel`, the threads of the current rayon pool share the sort of sets of 131,072 items
/// and more, and the hashing of their records. All of these need the 8 extra bytes.
///
/// Uniform hashes sort faster than with `sort_unstable`. Hashes chosen by an attacker to cluster are passed to
/// `sort_unstable` after the first try; that was measured to take 1.4 to 2.6 times as long as `sort_unstable`
/// alone.
#[derive(Clone, Debug)]
pub struct SortedHashes<H = Nut25> {
    hasher: H,
    /// In ascending order.
    hashes: Vec<u64>,
    /// Changes no byte, so equality ignores it.
    level: Level,
}

impl<H: PartialEq> PartialEq for SortedHashes<H> {
    fn eq(&self, other: &Self) -> bool {
        self.hasher == other.hasher && self.hashes == other.hashes
    }
}

impl<H: Eq> Eq for SortedHashes<H> {}

/// The number of items hashed in one batch: enough to fill any vector unit, few enough to stay in cache.
const BATCH: usize = 256;

impl<H: ItemHash + Default> SortedHashes<H> {
    /// Hashes and sorts `items`, given in any order.
    #[must_use]
    pub fn from_items<I: IntoIterator<Item: AsRef<[u8]>>>(items: I) -> Self {
        Self::from_items_with(H::default(), items)
    }

    /// Hashes and sorts the records of `record_bytes` bytes each that lie one after another in `records`.
    ///
    /// # Errors
    ///
    /// `records` is not a whole number of records.
    pub fn from_records(records: &[u8], record_bytes: usize) -> Result<Self, BuildError> {
        Self::from_records_with(H::default(), records, record_bytes)
    }

    /// Sorts hashes given in any order.
    #[must_use]
    pub fn from_hashes(hashes: Vec<u64>) -> Self {
        Self::from_hashes_with(H::default(), hashes)
    }
}

impl<H: ItemHash> SortedHashes<H> {
    /// [`SortedHashes::from_items`] with a given hasher, for hashers that have a key.
    pub fn from_items_with<I: IntoIterator<Item: AsRef<[u8]>>>(hasher: H, items: I) -> Self {
        Self::from_items_at(Level::detect(), hasher, items)
    }

    /// [`SortedHashes::from_items_with`] at a given SIMD level, which everything made from the set inherits.
    pub fn from_items_at<I: IntoIterator<Item: AsRef<[u8]>>>(
        level: Level,
        hasher: H,
        items: I,
    ) -> Self {
        let mut items = items.into_iter();
        let expected = items.size_hint().0;
        let mut collector = Collector::new(level, expected);
        let mut batch = Vec::with_capacity(BATCH);
        let mut hashes = [0; BATCH];
        loop {
            batch.clear();
            batch.extend(items.by_ref().take(BATCH));
            if batch.is_empty() {
                break;
            }
            hasher.hash_items(level, &batch, &mut hashes);
            collector.push(&hashes[..batch.len()]);
        }
        Self {
            hasher,
            hashes: collector.into_sorted(),
            level,
        }
    }

    /// [`SortedHashes::from_records`] with a given hasher, for hashers that have a key.
    ///
    /// # Errors
    ///
    /// `records` is not a whole number of records.
    pub fn from_records_with(
        hasher: H,
        records: &[u8],
        record_bytes: usize,
    ) -> Result<Self, BuildError> {
        Self::from_records_at(Level::detect(), hasher, records, record_bytes)
    }

    /// [`SortedHashes::from_records_with`] at a given SIMD level, which everything made from the set inherits.
    ///
    /// # Errors
    ///
    /// `records` is not a whole number of records.
    pub fn from_records_at(
        level: Level,
        hasher: H,
        records: &[u8],
        record_bytes: usize,
    ) -> Result<Self, BuildError> {
        let width = NonZeroUsize::new(record_bytes)
            .filter(|width| records.len().is_multiple_of(width.get()))
            .ok_or(BuildError(BuildFault::RecordLength {
                len: records.len() as u64,
                record_bytes: record_bytes as u64,
            }))?;
        let n = records.len() / width;
        let hashes = sort_made(level, n, |start, out| {
            hasher.hash_records(level, &records[start * width.get()..], width, out);
        });
        Ok(Self {
            hasher,
            hashes,
            level,
        })
    }

    /// [`SortedHashes::from_hashes`] with a given hasher, for hashers that have a key.
    pub fn from_hashes_with(hasher: H, hashes: Vec<u64>) -> Self {
        Self::from_hashes_at(Level::detect(), hasher, hashes)
    }

    /// [`SortedHashes::from_hashes_with`] at a given SIMD level, which everything made from the set inherits.
    pub fn from_hashes_at(level: Level, hasher: H, hashes: Vec<u64>) -> Self {
        Self {
            hasher,
            hashes: sort_hashes(level, hashes),
            level,
        }
    }

    /// Takes hashes that are already sorted, as [`SortedHashes::into_hashes`] returns them.
    ///
    /// # Errors
    ///
    /// A hash is smaller than its predecessor.
    pub fn from_sorted_hashes(hasher: H, hashes: Vec<u64>) -> Result<Self, BuildError> {
        if let Some(at) = hashes.windows(2).position(|pair| pair[1] < pair[0]) {
            let item = at as u64 + 1;
            return Err(BuildError(BuildFault::Unsorted { item }));
        }
        Ok(Self {
            hasher,
            hashes,
            level: Level::detect(),
        })
    }

    /// Sets the SIMD level for merging and encoding.
    #[must_use]
    pub fn with_level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Merges this set with `more`; duplicates are kept.
    ///
    /// # Errors
    ///
    /// The two sets were hashed with different keys, or memory cannot be allocated. Both sets are lost in that
    /// case, so compare [`hasher`](Self::hasher) first if possible. [`SortedHashes::merge_and_encode`] loses
    /// nothing.
    ///
    /// # Cost
    ///
    /// One linear pass over both. A small set (an eighth of the large one or less) is merged in place, with a
    /// queue of 16 bytes per item of the small set. The vector of the large set grows by an eighth if it is
    /// full. Two sets of similar size make a new vector of 8 bytes per item of both.
    pub fn merge(mut self, mut more: Self) -> Result<Self, BuildError> {
        if self.hasher != more.hasher {
            return Err(BuildError(BuildFault::HasherDiffers));
        }
        if self.hashes.len() < more.hashes.len() {
            core::mem::swap(&mut self.hashes, &mut more.hashes);
        }
        merge_into(&mut self.hashes, &more.hashes, LARGE_BLOCK, |_| {})?;
        Ok(self)
    }

    /// Merges `more` into this set and returns the filter of the result, as a mint does for each publication.
    ///
    /// N changes, so F and every value change as well. The same pass therefore merges and re-encodes the whole
    /// set.
    ///
    /// ```
    /// use nutfilter::{Nut25, Params, SortedHashes};
    ///
    /// let mut spent = SortedHashes::<Nut25>::from_items([b"one".as_slice(), b"two"]);
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
    ) -> Result<Filter<'static, H>, BuildError> {
        if self.hasher != more.hasher {
            return Err(BuildError(BuildFault::HasherDiffers));
        }
        let encoded = encode::merge_and_encode(self.level, &mut self.hashes, &more.hashes, params)?;
        let filter = Filter::encoded(encoded, params, self.hasher.clone());
        Ok(filter.with_level(self.level))
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
    /// item. With the feature `parallel`, the threads of the current rayon pool share the encoding of a large
    /// set if there are at least four; they read it twice.
    pub fn encode(&self, params: Params) -> Result<Filter<'static, H>, BuildError> {
        let encoded = encode::encode_hashes(self.level, &self.hashes, params)?;
        let filter = Filter::encoded(encoded, params, self.hasher.clone());
        Ok(filter.with_level(self.level))
    }

    /// [`SortedHashes::encode`] in segments of the given number of items (0 counts as 1), on the threads of the
    /// current pool. For tests.
    ///
    /// # Errors
    ///
    /// As [`SortedHashes::encode`].
    #[cfg(feature = "parallel")]
    #[doc(hidden)]
    pub fn encode_in_segments(
        &self,
        params: Params,
        segment_items: usize,
    ) -> Result<Filter<'static, H>, BuildError> {
        let encoded = encode::encode_in_segments(self.level, &self.hashes, params, segment_items)?;
        let filter = Filter::encoded(encoded, params, self.hasher.clone());
        Ok(filter.with_level(self.level))
    }

    /// [`SortedHashes::encode`] by the method for sets on disk: in pieces whose lengths repeat `lengths`,
    /// through a buffer of the given size (at least 2 KiB). For tests.
    ///
    /// # Errors
    ///
    /// As [`SortedHashes::encode`].
    #[doc(hidden)]
    pub fn encode_in_pieces(
        &self,
        params: Params,
        lengths: &[u8],
        buffer_bytes: usize,
    ) -> Result<Filter<'static, H>, BuildError> {
        let level = self.level;
        let encoded = encode::encode_in_pieces(level, &self.hashes, params, lengths, buffer_bytes)?;
        let filter = Filter::encoded(encoded, params, self.hasher.clone());
        Ok(filter.with_level(level))
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
    fn merge_equals_sort_of_both_sets() {
        let lists: [&[u64]; 6] = [
            &[],
            &[5],
            &[5, 5, 5],
            &[0, u64::MAX],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 5, 5, u64::MAX, u64::MAX],
        ];
        for a in lists {
            for b in lists {
                let merged = SortedHashes::<Nut25>::from_hashes(a.to_vec())
                    .merge(SortedHashes::from_hashes(b.to_vec()))
                    .unwrap();
                let mut expected = [a, b].concat();
                expected.sort_unstable();
                assert_eq!(merged.as_slice(), expected, "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn sets_with_different_keys_do_not_merge() {
        let set = |k0| SortedHashes::from_items_with(SipHash::new(k0, 0), [b"item"]);
        assert!(set(1).merge(set(1)).is_ok());
        let error = set(1).merge(set(2)).unwrap_err();
        assert_eq!(error.0, BuildFault::HasherDiffers);
    }

    #[test]
    fn merge_and_encode_equals_merge_then_encode() {
        let random = |seed: u64, n: usize| {
            let items = (0..n as u64).map(|i| (seed << 32 | i).to_le_bytes());
            SortedHashes::<Nut25>::from_items(items)
        };
        for level in Level::available() {
            for (p, m) in [(19, 784_931), (0, 3), (9, 700), (26, 1 << 26)] {
                let params = Params::new(p, m).unwrap();
                for n in [0, 1, 16, 1_000, 1_030, 40_000] {
                    for k in [0, 1, 2, 100, n / 8, n / 8 + 1, n, 3 * n] {
                        let (kept, more) = (random(1, n), random(2, k));
                        let together = kept.clone().merge(more.clone()).unwrap();
                        let expected = together.clone().with_level(Level::PORTABLE).encode(params);
                        let mut set = kept.with_level(level);
                        let filter = set.merge_and_encode(&more, params);
                        assert_eq!(filter, expected, "{level}, {k} into {n}, {params:?}");
                        assert_eq!(set, together, "{level}, {k} into {n}");
                    }
                }
            }
        }
    }

    #[test]
    fn failed_merge_and_encode_leaves_the_set_unchanged() {
        let mut set = SortedHashes::<Nut25>::from_hashes((0..1 << 20).map(|i| i << 44).collect());
        let more = SortedHashes::from_hashes(vec![1, 2, u64::MAX]);
        let before = set.clone();
        // 2^52 bits.
        let params = Params::new(0, u64::from(u32::MAX)).unwrap();
        let error = set.merge_and_encode(&more, params).unwrap_err();
        assert!(matches!(error.0, BuildFault::OutOfMemory { .. }), "{error}");
        assert_eq!(set, before);

        let set = |k0| SortedHashes::from_items_with(SipHash::new(k0, 0), [b"item"]);
        let mut kept = set(1);
        let error = kept.merge_and_encode(&set(2), Params::CASHU).unwrap_err();
        assert_eq!(error.0, BuildFault::HasherDiffers);
        assert_eq!(kept, set(1));
    }

    #[test]
    fn from_sorted_hashes_rejects_unsorted_hashes() {
        let set = SortedHashes::<Nut25>::from_hashes(vec![3, 1, 2, 2]);
        let again = SortedHashes::from_sorted_hashes(Nut25, set.clone().into_hashes());
        assert_eq!(again, Ok(set));
        let error = SortedHashes::from_sorted_hashes(Nut25, vec![1, 2, 1]).unwrap_err();
        assert_eq!(error.0, BuildFault::Unsorted { item: 2 });
        assert!(SortedHashes::from_sorted_hashes(Nut25, vec![]).is_ok());
    }

    #[test]
    fn partial_records_are_rejected() {
        let set = |len, width| SortedHashes::<Nut25>::from_records(&vec![1; len], width);
        assert_eq!(set(99, 33).unwrap().len(), 3);
        assert_eq!(set(0, 33).unwrap().len(), 0);
        for (len, width) in [(98, 33), (1, 0), (0, 0)] {
            assert!(set(len, width).is_err(), "{len} bytes, records of {width}");
        }
    }

    #[test]
    fn all_constructors_and_levels_give_the_same_set() {
        for n in [0, 1, 255, 256, 257, 5000] {
            let records: Vec<u8> = (0..n * 33)
                .map(|i: usize| ((i * i) >> 3) as u8 ^ i as u8)
                .collect();
            let items: Vec<&[u8]> = records.chunks(33).collect();
            let mut expected: Vec<u64> = items.iter().map(|item| Nut25.hash(item)).collect();
            let unsorted = expected.clone();
            expected.sort_unstable();
            for level in Level::available() {
                let sets = [
                    SortedHashes::from_items_at(level, Nut25, &items),
                    // An iterator that does not know its length.
                    SortedHashes::from_items_at(level, Nut25, items.iter().filter(|_| true)),
                    SortedHashes::from_records_at(level, Nut25, &records, 33).unwrap(),
                    SortedHashes::from_hashes_at(level, Nut25, unsorted.clone()),
                ];
                for set in sets {
                    assert_eq!(set.as_slice(), expected, "{n} items, {level}");
                }
            }
        }
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
        let expected = SortedHashes::<Nut25>::from_items(items());
        for promised in [0, 1, 2000, 19_000, 20_000, 300_000, usize::MAX] {
            let set = SortedHashes::<Nut25>::from_items(Promise(items(), promised));
            assert!(set == expected, "{promised} items promised");
        }
    }
}
