//! [`SortedHashes`]: the set itself, before N, M and P make a filter of it.

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

/// The 64-bit hashes of a set's items, sorted; equal ones are all kept.
///
/// Mapping keeps order, so a filter of any N, M and P is one linear pass away. That makes this the form
/// to keep between two publications of a growing set: hash and sort what is new, [`merge`](Self::merge),
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
/// A set takes 8 bytes an item, and up to 2 beside them. So does making one of records, or of items whose number
/// their iterator knows: they are hashed into the memory that they are sorted in.
/// [`from_hashes`](Self::from_hashes), and items whose number is not known, take 8 bytes an item more while they
/// are sorted.
///
/// With the feature `parallel`, the threads of the current rayon pool share the sorting of sets of 131,072 items and
/// more, and the hashing of their records. All of those take the 8 bytes more.
///
/// Uniform hashes take less time than `sort_unstable`. Hashes that somebody chose so that they crowd are left to
/// `sort_unstable` after the first try: 1.4 to 2.6 times its time was measured.
#[derive(Clone, Debug)]
pub struct SortedHashes<H = Nut25> {
    hasher: H,
    /// Never decreasing.
    hashes: Vec<u64>,
    /// Changes no byte, and so is no part of equality.
    level: Level,
}

impl<H: PartialEq> PartialEq for SortedHashes<H> {
    fn eq(&self, other: &Self) -> bool {
        self.hasher == other.hasher && self.hashes == other.hashes
    }
}

impl<H: Eq> Eq for SortedHashes<H> {}

/// How many items are hashed in one batch: enough to fill any vector unit, few enough to stay in cache.
const BATCH: usize = 256;

impl<H: ItemHash + Default> SortedHashes<H> {
    /// The set of `items`, in any order.
    #[must_use]
    pub fn from_items<I: IntoIterator<Item: AsRef<[u8]>>>(items: I) -> Self {
        Self::from_items_with(H::default(), items)
    }

    /// The set of the records of `record_bytes` bytes that lie one after another in `records`.
    ///
    /// # Errors
    ///
    /// Where `records` is not a whole number of records.
    pub fn from_records(records: &[u8], record_bytes: usize) -> Result<Self, BuildError> {
        Self::from_records_with(H::default(), records, record_bytes)
    }

    /// The set whose hashes are given, in any order.
    #[must_use]
    pub fn from_hashes(hashes: Vec<u64>) -> Self {
        Self::from_hashes_with(H::default(), hashes)
    }
}

impl<H: ItemHash> SortedHashes<H> {
    /// [`SortedHashes::from_items`] with a hasher that has a key.
    pub fn from_items_with<I: IntoIterator<Item: AsRef<[u8]>>>(hasher: H, items: I) -> Self {
        Self::from_items_at(Level::detect(), hasher, items)
    }

    /// [`SortedHashes::from_items_with`] at this level, which all that is made from the set has as well.
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

    /// [`SortedHashes::from_records`] with a hasher that has a key.
    ///
    /// # Errors
    ///
    /// Where `records` is not a whole number of records.
    pub fn from_records_with(
        hasher: H,
        records: &[u8],
        record_bytes: usize,
    ) -> Result<Self, BuildError> {
        Self::from_records_at(Level::detect(), hasher, records, record_bytes)
    }

    /// [`SortedHashes::from_records_with`] at this level, which all that is made from the set has as well.
    ///
    /// # Errors
    ///
    /// Where `records` is not a whole number of records.
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

    /// [`SortedHashes::from_hashes`] with a hasher that has a key.
    pub fn from_hashes_with(hasher: H, hashes: Vec<u64>) -> Self {
        Self::from_hashes_at(Level::detect(), hasher, hashes)
    }

    /// [`SortedHashes::from_hashes_with`] at this level, which all that is made from the set has as well.
    pub fn from_hashes_at(level: Level, hasher: H, hashes: Vec<u64>) -> Self {
        Self {
            hasher,
            hashes: sort_hashes(level, hashes),
            level,
        }
    }

    /// The set whose hashes are given in order, as [`SortedHashes::into_hashes`] gave them.
    ///
    /// # Errors
    ///
    /// Where a hash is smaller than the one before it.
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

    /// The same set, merged and encoded at this level.
    #[must_use]
    pub fn with_level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// This set and `more` together; equal hashes are all kept.
    ///
    /// # Errors
    ///
    /// Where the two were hashed with different keys, or there is no memory. Both are then gone, so compare
    /// [`hasher`](Self::hasher) first where that can be; [`SortedHashes::merge_and_encode`] loses nothing.
    ///
    /// # Cost
    ///
    /// One linear pass over both. A few into many (an eighth or less) go in place, with a queue of 16 bytes
    /// for each of the few beside them, and the vector of the many grows by an eighth where it is full; two of
    /// like sizes make a new vector, 8 bytes an item of both.
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

    /// Merges `more` into this set and gives the filter of all: what a mint does each time it publishes.
    ///
    /// N is another then, and so is F, and every value moves: it is all coded anew, in the pass that merges.
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
    /// As [`SortedHashes::merge`] and [`SortedHashes::encode`]. After an error the set is as it was, and
    /// `more` is still there to try again with.
    ///
    /// # Cost
    ///
    /// One linear pass, for 10,000 new among a million or more about half of a merge and an encoding apart.
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

    /// The filter of this set.
    ///
    /// # Errors
    ///
    /// More than 2^32 - 1 items, or no memory for the filter (a small P with a large M can ask for
    /// 2^32 bits an item).
    ///
    /// # Cost
    ///
    /// One linear pass. Memory is had once, for at most a quarter of (P + 1) / 8 bytes an item too much.
    /// With the feature `parallel` all threads of the current rayon pool encode a large set, if they are four
    /// or more; they read it twice.
    pub fn encode(&self, params: Params) -> Result<Filter<'static, H>, BuildError> {
        let encoded = encode::encode_hashes(self.level, &self.hashes, params)?;
        let filter = Filter::encoded(encoded, params, self.hasher.clone());
        Ok(filter.with_level(self.level))
    }

    /// [`SortedHashes::encode`] in segments of so many items (0 counts as 1), on the threads of the current pool:
    /// for tests.
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

    /// [`SortedHashes::encode`] as a set on disk is coded: in pieces of these lengths, over and over, through a
    /// buffer of so many bytes (2 KiB at least). For tests.
    ///
    /// # Errors
    ///
    /// As [`SortedHashes::encode`].
    #[cfg(feature = "store")]
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
    /// N: the number of items, equal ones counted each.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The hashes, never decreasing.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.hashes
    }

    /// The hashes, never decreasing, out of the set.
    #[must_use]
    pub fn into_hashes(self) -> Vec<u64> {
        self.hashes
    }

    /// The hasher that made them.
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
    fn merging_equals_sorting_all_together() {
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
    fn sets_of_different_keys_do_not_merge() {
        let set = |k0| SortedHashes::from_items_with(SipHash::new(k0, 0), [b"item"]);
        assert!(set(1).merge(set(1)).is_ok());
        let error = set(1).merge(set(2)).unwrap_err();
        assert_eq!(error.0, BuildFault::HasherDiffers);
    }

    #[test]
    fn merging_and_encoding_in_one_pass_equals_both_apart() {
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
    fn a_set_is_as_it_was_after_an_error() {
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
    fn hashes_go_out_and_in_again_only_in_order() {
        let set = SortedHashes::<Nut25>::from_hashes(vec![3, 1, 2, 2]);
        let again = SortedHashes::from_sorted_hashes(Nut25, set.clone().into_hashes());
        assert_eq!(again, Ok(set));
        let error = SortedHashes::from_sorted_hashes(Nut25, vec![1, 2, 1]).unwrap_err();
        assert_eq!(error.0, BuildFault::Unsorted { item: 2 });
        assert!(SortedHashes::from_sorted_hashes(Nut25, vec![]).is_ok());
    }

    #[test]
    fn records_are_whole_or_an_error() {
        let set = |len, width| SortedHashes::<Nut25>::from_records(&vec![1; len], width);
        assert_eq!(set(99, 33).unwrap().len(), 3);
        assert_eq!(set(0, 33).unwrap().len(), 0);
        for (len, width) in [(98, 33), (1, 0), (0, 0)] {
            assert!(set(len, width).is_err(), "{len} bytes, records of {width}");
        }
    }

    #[test]
    fn items_records_and_hashes_make_the_same_set_at_every_level() {
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
                    // A number that is not known before.
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
    fn a_wrong_number_of_items_in_advance_costs_no_item() {
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
