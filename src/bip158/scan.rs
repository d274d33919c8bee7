//! [`Watchlist::scan`]: the filters of many blocks, side by side or on all cores.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

#[cfg(feature = "verify")]
use super::HeaderChain;
use super::{FilterHeader, Scratch, Watchlist};
#[cfg(target_arch = "x86_64")]
use crate::arch::Kind;
#[cfg(test)]
use crate::arch::SimdLevel;
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::side_by_side::Decodes;
#[cfg(feature = "verify")]
use crate::double_sha256::Sha256;
use crate::error::{DecodeError, error_texts};
use crate::hash::SipHash;

/// A block that may create or spend scripts of a [`Watchlist`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockMatch<'w, B> {
    /// The block, as it was given.
    pub block: B,
    /// The scripts that its filter matches, in no particular order; at least one.
    pub scripts: Vec<&'w [u8]>,
}

/// A block whose filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanError<B> {
    /// The block, as it was given.
    pub block: B,
    /// What is wrong.
    pub fault: ScanFault,
}

/// Why a filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanFault {
    /// The filter is invalid. If its header commits to it, every peer has it.
    Invalid(DecodeError),
    /// The header commits to another filter: ask another peer.
    WrongFilter {
        /// The height of the block.
        height: u32,
        /// The header that this filter would have.
        header: FilterHeader,
        /// The header in the chain.
        expected: FilterHeader,
    },
    /// The chain of headers does not reach this height.
    NoHeader {
        /// The height of the block.
        height: u32,
        /// The first height of the chain.
        first: u32,
        /// The number of headers of the chain.
        len: usize,
    },
}

error_texts!(ScanFault {
    Self::Invalid(error) => "{error}";
    Self::WrongFilter { height, .. } => "the filter at height {height} does not match its filter header";
    Self::NoHeader { height, first, len }
        => "no filter header for height {height}: the chain has {len} headers from height {first} on";
});

impl<B: fmt::Debug> fmt::Display for ScanError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use the filter of block {:?}", self.block)
    }
}

impl<B: fmt::Debug> core::error::Error for ScanError<B> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.fault)
    }
}

/// A block that matches, or one whose filter cannot be used.
pub type Scanned<'w, B> = Result<BlockMatch<'w, B>, ScanError<B>>;

impl Watchlist {
    /// Matches many filters. Returns the blocks that match, false positives included (1 in 784,931 per script and
    /// block), and those whose filter is invalid, in the given order.
    ///
    /// A block is given by its hash in internal order (of type `bitcoin::BlockHash` with the feature `bitcoin`), or
    /// by the key itself. With AVX2 or AVX-512, filters are decoded side by side: give a hundred or more at a time, and keep
    /// the [`Scratch`].
    pub fn scan<'w, B, F>(
        &'w self,
        scratch: &mut Scratch,
        filters: &[(B, F)],
    ) -> Vec<Scanned<'w, B>>
    where
        B: Copy + Into<SipHash>,
        F: AsRef<[u8]>,
    {
        let batches = filters.chunks(BATCH);
        batches.flat_map(|batch| self.scan_batch(scratch, batch)).collect()
    }

    /// [`Watchlist::scan`] on all threads of the current rayon pool; results are in the same order.
    #[cfg(feature = "parallel")]
    pub fn par_scan<B, F>(&self, filters: &[(B, F)]) -> Vec<Scanned<'_, B>>
    where
        B: Copy + Into<SipHash> + Send + Sync,
        F: AsRef<[u8]> + Sync,
    {
        on_all_threads(filters, |scratch, batch| self.scan_batch(scratch, batch))
    }

    /// As [`Watchlist::scan`], for filters with their heights: first verifies that the header at that height commits to
    /// the filter. Matches and errors have the height and the block as it was given.
    ///
    /// Several filters are hashed faster side by side, too. A filter that is wrong is not decoded.
    #[cfg(feature = "verify")]
    pub fn scan_verified<'w, B, F>(
        &'w self,
        scratch: &mut Scratch,
        chain: &HeaderChain,
        filters: &[(u32, B, F)],
    ) -> Vec<Scanned<'w, (u32, B)>>
    where
        B: Copy + Into<SipHash>,
        F: AsRef<[u8]>,
    {
        let batches = filters.chunks(BATCH);
        batches.flat_map(|batch| self.verify_and_scan(scratch, chain, batch)).collect()
    }

    /// [`Watchlist::scan_verified`] on all threads of the current rayon pool; results are in the same order.
    #[cfg(all(feature = "parallel", feature = "verify"))]
    pub fn par_scan_verified<B, F>(
        &self,
        chain: &HeaderChain,
        filters: &[(u32, B, F)],
    ) -> Vec<Scanned<'_, (u32, B)>>
    where
        B: Copy + Into<SipHash> + Send + Sync,
        F: AsRef<[u8]> + Sync,
    {
        on_all_threads(filters, |scratch, batch| self.verify_and_scan(scratch, chain, batch))
    }

    fn scan_batch<'w, B: Copy + Into<SipHash>>(
        &'w self,
        scratch: &mut Scratch,
        batch: &[(B, impl AsRef<[u8]>)],
    ) -> Vec<Scanned<'w, B>> {
        let each = batch.iter().map(|(block, filter)| Given {
            block: *block,
            key: (*block).into(),
            filter: filter.as_ref(),
            fault: None,
        });
        self.scan_given(scratch, each.collect())
    }

    /// Verifies filters side by side, then matches them.
    #[cfg(feature = "verify")]
    fn verify_and_scan<'w, B: Copy + Into<SipHash>>(
        &'w self,
        scratch: &mut Scratch,
        chain: &HeaderChain,
        batch: &[(u32, B, impl AsRef<[u8]>)],
    ) -> Vec<Scanned<'w, (u32, B)>> {
        let given = batch.iter().map(|(height, _, filter)| (*height, filter.as_ref()));
        let faults = chain.faults(Sha256::of(scratch.level), given);
        let each = batch.iter().zip(faults).map(|((height, block, filter), fault)| Given {
            block: (*height, *block),
            key: (*block).into(),
            filter: filter.as_ref(),
            fault,
        });
        self.scan_given(scratch, each.collect())
    }

    fn scan_given<'w, B>(
        &'w self,
        scratch: &mut Scratch,
        batch: Vec<Given<'_, B>>,
    ) -> Vec<Scanned<'w, B>> {
        let without = self.without_match(scratch, &batch);
        let each = batch.into_iter().zip(without).filter_map(|(one, without)| {
            let Given { block, key, filter, fault } = one;
            let scripts = match fault {
                Some(fault) => Err(fault),
                None if without => return None,
                None => self.matches(scratch, key, filter).map_err(ScanFault::Invalid),
            };
            match scripts {
                Ok(scripts) if scripts.is_empty() => None,
                Ok(scripts) => Some(Ok(BlockMatch { block, scripts })),
                Err(fault) => Some(Err(ScanError { block, fault })),
            }
        });
        each.collect()
    }

    /// Whether each filter is known to be valid and to have none of the scripts, because it was decoded side by side with
    /// others. The rest are decoded one by one: few are unusual or invalid, and of those that match the scripts are needed.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn without_match<B>(&self, scratch: &mut Scratch, batch: &[Given<'_, B>]) -> Vec<bool> {
        #[cfg(target_arch = "x86_64")]
        // More scripts are tested faster in a bitmap of the values.
        if batch.len() >= FEW_FILTERS && self.len() <= MOST_SCRIPTS {
            match scratch.level.kind() {
                Kind::Avx512(avx512) => return self.side_by_side(avx512, scratch, batch),
                Kind::Avx2(avx2) => return self.side_by_side(avx2, scratch, batch),
                Kind::Baseline(_) => {}
            }
        }
        vec![false; batch.len()]
    }

    #[cfg(target_arch = "x86_64")]
    fn side_by_side<B>(
        &self,
        simd: impl Decodes,
        scratch: &mut Scratch,
        batch: &[Given<'_, B>],
    ) -> Vec<bool> {
        let good = (0..).zip(batch).filter(|(_, one)| one.fault.is_none());
        let (places, filters): (Vec<usize>, Vec<_>) = good
            .filter_map(|(place, one)| {
                let coded = self.coded(scratch.level, one.filter).ok()?;
                Some((place, (coded, one.key)))
            })
            .unzip();
        let lanes = &mut scratch.side_by_side;
        let answers = lanes.matches(simd, &filters, self.len(), |keyed, rows| {
            self.hash_for_all(simd, keyed, rows);
        });
        let mut without = vec![false; batch.len()];
        for (place, answer) in places.into_iter().zip(answers) {
            without[place] = answer == Some(false);
        }
        without
    }
}

/// A filter to scan.
struct Given<'f, B> {
    block: B,
    key: SipHash,
    filter: &'f [u8],
    /// Why it is not decoded.
    fault: Option<ScanFault>,
}

/// The number of filters that are verified and then decoded: enough to keep all lanes busy, and few enough to stay in a cache.
const BATCH: usize = 128;

/// Fewer filters leave most lanes idle.
#[cfg(target_arch = "x86_64")]
const FEW_FILTERS: usize = 8;

#[cfg(target_arch = "x86_64")]
const MOST_SCRIPTS: usize = 2048;

/// Batches on all threads, with the results in order.
#[cfg(feature = "parallel")]
fn on_all_threads<T: Sync, R: Send>(
    all: &[T],
    scan: impl Fn(&mut Scratch, &[T]) -> Vec<R> + Sync,
) -> Vec<R> {
    use rayon::iter::ParallelIterator as _;
    use rayon::slice::ParallelSlice as _;

    let batches = all.par_chunks(BATCH);
    let found = batches.map_init(Scratch::new, |scratch, batch| scan(scratch, batch));
    found.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bip158::{PARAMS, build, serialize};
    use crate::hash::ItemHash as _;
    use crate::sorted_hashes::SortedHashes;
    use crate::tests::Noise;

    #[test]
    fn scan_returns_matches_and_errors_in_order() {
        let block = |number: u16| {
            let mut hash = [3; 32];
            hash[..2].copy_from_slice(&number.to_le_bytes());
            hash
        };
        let list = Watchlist::from_iter([b"mine"]);
        let filters: Vec<_> = (0..600)
            .map(|number| {
                let script: &[u8] = if number % 100 == 7 { b"mine" } else { b"other" };
                let filter = build(SipHash::from(block(number)), [script]).unwrap();
                let mut bytes = serialize(&filter);
                if number == 300 {
                    bytes.pop();
                }
                (block(number), bytes)
            })
            .collect();
        let check = |found: Vec<Result<BlockMatch<'_, _>, ScanError<_>>>| {
            let blocks = found.iter().map(|found| match found {
                Ok(found) => {
                    assert_eq!(found.scripts, [b"mine"]);
                    found.block
                }
                Err(error) => {
                    assert_eq!(error.block, block(300));
                    error.block
                }
            });
            assert!(blocks.eq([7, 107, 207, 300, 307, 407, 507].map(block)));
        };
        check(list.scan(&mut Scratch::new(), &filters));
        #[cfg(feature = "parallel")]
        check(list.par_scan(&filters));
    }

    fn key(random: &mut Noise) -> SipHash {
        SipHash::new(random.number(), random.number())
    }

    fn coded(key: SipHash, hashes: Vec<u64>) -> (SipHash, Vec<u8>) {
        let set = SortedHashes::builder(key).sort(hashes);
        (key, serialize(&set.encode(PARAMS).unwrap()))
    }

    /// A filter of these hashes that also pays `script`.
    fn paying(
        random: &mut Noise,
        script: &[u8],
        hashes: impl FnOnce(&mut Noise) -> Vec<u64>,
    ) -> (SipHash, Vec<u8>) {
        let key = key(random);
        let mut hashes = hashes(random);
        hashes.push(key.hash(script));
        coded(key, hashes)
    }

    fn uniform(n: usize) -> impl Fn(&mut Noise) -> Vec<u64> {
        move |random| (0..n).map(|_| random.number()).collect()
    }

    /// A hash, less likely the larger it is.
    fn uneven(random: &mut Noise) -> u64 {
        let product = u128::from(random.number()) * u128::from(random.number());
        (product >> 64) as u64
    }

    /// A filter of `n` hashes and some scripts, perhaps with damage.
    fn filter(random: &mut Noise, n: u64, scripts: &[Vec<u8>]) -> (SipHash, Vec<u8>) {
        let key = key(random);
        // Hashes of uneven density make codes that are too short, or so long that lanes drift apart.
        let kind = random.below(8);
        let mut hash = || match kind {
            0 => random.number() >> 14,
            1 | 2 => uneven(random),
            _ => random.number(),
        };
        let mut hashes: Vec<u64> = (0..n).map(|_| hash()).collect();
        hashes.extend(scripts.iter().map(|script| key.hash(script)));
        let (key, mut bytes) = coded(key, hashes);
        let len = bytes.len() as u64;
        match random.below(16) {
            0 => bytes.truncate(random.below(len) as usize),
            1 => bytes[random.below(len) as usize] ^= 1 << random.below(8),
            2 => bytes.extend([0, 0]),
            3 => {
                let at = random.below(len);
                bytes[at as usize..len.min(at + random.below(80)) as usize].fill(0xff);
            }
            _ => {}
        }
        (key, bytes)
    }

    /// Compares a batch with the same filters one after another, at every level.
    fn assert_batch_equals_single_filters<F: AsRef<[u8]>>(
        list: &Watchlist,
        batch: &[(SipHash, F)],
    ) -> [usize; 3] {
        let mut seen = [0; 3];
        for level in SimdLevel::available() {
            let mut scratch = Scratch::new().with_level(level);
            let mut expected = Vec::new();
            for (key, filter) in batch {
                match list.matches(&mut scratch, *key, filter.as_ref()) {
                    Ok(scripts) if scripts.is_empty() => seen[0] += 1,
                    Ok(scripts) => {
                        seen[1] += 1;
                        let block = *key;
                        expected.push(Ok(BlockMatch { block, scripts }));
                    }
                    Err(error) => {
                        seen[2] += 1;
                        let fault = ScanFault::Invalid(error);
                        expected.push(Err(ScanError { block: *key, fault }));
                    }
                }
            }
            let found = list.scan_batch(&mut scratch, batch);
            assert!(found == expected, "{level}, {} scripts", list.len());
        }
        seen
    }

    #[test]
    fn batches_equal_single_filters() {
        let mut random = Noise::of(7);
        let mut seen = [0; 3];
        for count in [0, 1, 24, 160, 1500, 2500] {
            let scripts: Vec<Vec<u8>> = (0..count)
                .map(|i: u64| (0..22 + i % 13).map(|_| random.number() as u8).collect())
                .collect();
            let list: Watchlist = scripts.iter().collect();
            for _ in 0..3 {
                let batch: Vec<_> = (0..20 + random.below(60))
                    .map(|_| {
                        let sizes = [0, 1, 39, 40, 41, 252, 253, 400, 1000];
                        let n = sizes[random.below(9) as usize] + random.below(2);
                        // Every other pays one or several of the scripts.
                        let paid = random.below(6).saturating_sub(2).min(count);
                        let at = random.below(count.max(1)).min(count - paid) as usize;
                        filter(&mut random, n, &scripts[at..at + paid as usize])
                    })
                    .collect();
                let found = assert_batch_equals_single_filters(&list, &batch);
                seen.iter_mut().zip(found).for_each(|(sum, more)| *sum += more);
            }
        }
        assert!(seen.iter().all(|&seen| seen > 150), "{seen:?}");
    }

    /// Lists of each length share the scratch with longer and shorter ones; each filter pays one of the scripts.
    #[test]
    fn scratch_of_another_list_does_not_matter() {
        let mut random = Noise::of(77);
        let scripts: Vec<Vec<u8>> =
            (0..70).map(|_| (0..22).map(|_| random.number() as u8).collect()).collect();
        let levels = SimdLevel::available();
        let mut scratches: Vec<Scratch> =
            levels.map(|level| Scratch::new().with_level(level)).collect();
        for _ in 0..150 {
            let list: Watchlist = scripts.iter().take(1 + random.below(70) as usize).collect();
            let paid = scripts.iter().take(list.len()).cycle().take(40);
            let batch: Vec<_> =
                paid.map(|script| paying(&mut random, script, uniform(80))).collect();
            for scratch in &mut scratches {
                let (level, found) = (scratch.level, list.scan(scratch, &batch));
                assert_eq!(found.len(), batch.len(), "{level}, {} scripts", list.len());
            }
        }
    }

    /// The first word of a filter has no zero, or just one.
    #[test]
    fn first_quotients_of_a_whole_word_are_noticed() {
        let mut random = Noise::of(21);
        let list = Watchlist::from_iter([b"mine"]);
        let mut batch = Vec::new();
        while batch.len() < 300 {
            let key = key(&mut random);
            let (n, quotient) = (45 + random.below(60), 62 + random.below(5));
            let first = ((u128::from(quotient) << 83) / u128::from(784_931 * n)) as u64;
            let mine = key.hash(b"mine");
            if mine > first {
                let mut hashes: Vec<u64> =
                    (2..n).map(|_| first + random.below(u64::MAX - first)).collect();
                hashes.extend([mine, first + 1_000]);
                batch.push(coded(key, hashes));
            }
        }
        let [_, matching, _] = assert_batch_equals_single_filters(&list, &batch);
        assert_eq!(matching, batch.len() * SimdLevel::available().count());
    }

    #[test]
    fn script_is_found_wherever_it_is_in_a_filter() {
        let mut random = Noise::of(13);
        let list = Watchlist::from_iter([b"mine"]);
        let usual = uniform(150);
        // Sparse at one end, dense at the other: lanes drift apart.
        let drifting = |random: &mut Noise| (0..300).map(|_| uneven(random)).collect();
        // A code that is longer than a window, and that would leave as many codes as there are if it were cut.
        let cut = |random: &mut Noise| {
            let mut hashes = uniform(300)(random);
            let quotients = 40 + random.below(8);
            let gap = (u128::from(quotients) << 83) / (784_931 * 270);
            let (gap, start) = (0..gap as u64, random.number() >> 1);
            hashes.retain(|&hash| !gap.contains(&hash.wrapping_sub(start)));
            hashes
        };
        type Hashes<'a> = &'a dyn Fn(&mut Noise) -> Vec<u64>;
        for (count, hashes) in [(400, &usual as Hashes<'_>), (150, &drifting), (500, &cut)] {
            let batch: Vec<_> = (0..count).map(|_| paying(&mut random, b"mine", hashes)).collect();
            let [_, matching, _] = assert_batch_equals_single_filters(&list, &batch);
            assert_eq!(matching, count * SimdLevel::available().count());
        }
    }

    /// Whatever is refused alone is refused in a batch, however many items lie behind the last group of lanes.
    #[test]
    fn refusals_are_the_same_in_a_batch() {
        fn serialized(values: &[u64]) -> (Vec<u8>, usize) {
            let mut bits = Vec::new();
            let mut last = 0;
            for &value in values {
                let gap = value - last;
                bits.resize(bits.len() + (gap >> 19) as usize, true);
                bits.push(false);
                bits.extend((0..19).rev().map(|bit| gap >> bit & 1 == 1));
                last = value;
            }
            let byte = |bits: &[bool]| {
                bits.iter().rev().fold(0, |byte, &bit| byte >> 1 | u8::from(bit) << 7)
            };
            let codes = bits.chunks(8).map(byte);
            let n = values.len() as u8;
            ([n].into_iter().chain(codes).collect(), bits.len() % 8)
        }
        let list = Watchlist::from_iter([b"mine"]);
        let mut batch = Vec::new();
        for n in 40..200 {
            let range = n * 784_931;
            let even: Vec<u64> = (0..n).map(|item| item * 784_931).collect();
            let mut variants = vec![];
            for last in [range - 1, range, range + 1, 2 * range] {
                let mut values = even.clone();
                *values.last_mut().unwrap() = last;
                variants.push(serialized(&values));
            }
            for from in [1, n / 3, n - 2] {
                let shifted = even
                    .iter()
                    .zip(0..)
                    .map(|(&value, item)| if item < from { value } else { value + range });
                variants.push(serialized(&shifted.collect::<Vec<_>>()));
            }
            // By codes of usual lengths, as lanes decode them.
            for twelfths in [11, 13, 18, 24] {
                variants.push(serialized(
                    &even.iter().map(|value| value * twelfths / 12).collect::<Vec<_>>(),
                ));
            }
            let (plain, used) = serialized(&even);
            for cut in [1, 8, 20, 30, 40, 60] {
                variants.push((plain[..plain.len() - cut].to_vec(), 0));
            }
            variants.push(([&plain[..], &[0]].concat(), 0));
            if used > 0 {
                let mut padded = plain.clone();
                *padded.last_mut().unwrap() |= 1;
                variants.push((padded, used));
            }
            variants.push((plain, used));
            batch.extend(variants.into_iter().map(|(filter, _)| (SipHash::new(n, 0), filter)));
        }
        let [absent, matching, refused] = assert_batch_equals_single_filters(&list, &batch);
        assert!(matching == 0 && absent >= 160 && refused > absent, "{absent} and {refused}");
    }

    #[test]
    fn large_filters_and_equal_ones_are_scanned_beside_small_ones() {
        let mut random = Noise::of(9);
        let list = Watchlist::from_iter([b"mine"]);
        let mine = [b"mine".to_vec()];
        let mut batch = Vec::new();
        for n in [65_535, 65_536, 70_000, 43_000, 41, 5_000] {
            // The chance is small that all of one size are damaged.
            for _ in 0..3 {
                batch.push(filter(&mut random, n, if n % 2 == 0 { &mine } else { &[] }));
            }
        }
        let equal = batch[12].clone();
        batch.extend(vec![equal; 30]);
        assert_batch_equals_single_filters(&list, &batch);
    }

    /// See docs/testing.md.
    #[ignore = "takes a minute"]
    #[test]
    fn fifty_thousand_filters_with_payments_equal_single_filters() {
        let mut random = Noise::of(17);
        let mut seen = [0; 3];
        for turn in 0..50_000 / 125 {
            let count = [24, 120, 480, 1000, 2048][turn % 5];
            let scripts: Vec<Vec<u8>> =
                (0..count).map(|_| (0..22).map(|_| random.number() as u8).collect()).collect();
            let list: Watchlist = scripts.iter().collect();
            let batch: Vec<_> = (0..125)
                .map(|at| {
                    let paid = if at % 10 == 0 { 1 + at % 3 } else { 0 };
                    let n = 200 + random.below(14_500);
                    filter(&mut random, n, &scripts[at % 20..][..paid])
                })
                .collect();
            let found = assert_batch_equals_single_filters(&list, &batch);
            (0..3).for_each(|kind| seen[kind] += found[kind]);
        }
        assert!(seen.iter().all(|&seen| seen > 10_000), "{seen:?}");
    }

    #[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(miri)))]
    #[test]
    fn nothing_is_read_behind_a_filter() {
        use crate::arch::guard_page::Guarded;
        struct Bytes(Guarded<u8>);
        impl AsRef<[u8]> for Bytes {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        let mut random = Noise::of(11);
        let list = Watchlist::from_iter([b"mine"]);
        let batch: Vec<_> = (0..90)
            .map(|i| {
                let n = random.below(if i % 9 == 0 { 3000 } else { 300 });
                let (key, bytes) = filter(&mut random, n, &[]);
                (key, Bytes(Guarded::new(&bytes)))
            })
            .collect();
        assert_batch_equals_single_filters(&list, &batch);
    }
}
