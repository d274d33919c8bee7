//! Hashes items to 64 bits, and maps hashes to the range of a filter.
//!
//! A profile of the format is one implementation of [`ItemHash`]. All profiles hash raw bytes of any length (33
//! for a compressed secp256k1 point, 48 for BLS12-381), never hexadecimal text.
//!
//! ```
//! use nutfilter::{ItemHash, Nut25, map_to_range};
//!
//! let hash = Nut25.hash(&[0, 0, 0, 0]);
//! assert_eq!(map_to_range(hash, 784_931 * 1000), 108_500_230);
//! ```

/// The methods that hash many items, by those at a given level.
macro_rules! at_best_level {
    () => {
        fn hash_items<I: AsRef<[u8]>>(&self, items: &[I], out: &mut [u64]) {
            self.hash_items_at(SimdLevel::detect(), items, out);
        }

        fn hash_records(&self, records: &[u8], record_bytes: NonZeroUsize, out: &mut [u64]) {
            self.hash_records_at(SimdLevel::detect(), records, record_bytes, out);
        }
    };
}

mod any;
mod murmur3;
mod siphash;
#[cfg(test)]
mod tests;

use core::fmt::Debug;
use core::num::NonZeroUsize;

#[cfg(target_arch = "x86_64")]
use crate::arch::hash as kernels;
use crate::arch::memory::{as_records, map, prefetch};
use crate::arch::{Kind, SimdLevel};

pub use any::AnyHash;
pub use siphash::SipHash;
pub(crate) use siphash::{COLUMN, Column, words};

/// A hash function from items to uniformly distributed 64-bit numbers.
///
/// To use another hash function, implement this trait; only [`ItemHash::hash`] is required. Filters of
/// different hashers (or different keys) are unrelated, so merging requires equal hashers.
///
/// ```
/// use nutfilter::{ItemHash, Params, SortedHashes};
///
/// /// FNV-1a, 64 bits.
/// #[derive(Clone, Debug, Default, PartialEq)]
/// struct Fnv;
///
/// impl ItemHash for Fnv {
///     fn hash(&self, item: &[u8]) -> u64 {
///         item.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
///             (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
///         })
///     }
/// }
///
/// let set = SortedHashes::builder(Fnv).hash_items(["free", "taken"]);
/// let filter = set.encode(Params::for_rate(1e-9)?)?;
/// assert_eq!(filter.matches(&["taken", "new"]), [true, false]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait ItemHash: Clone + PartialEq + Debug + Send + Sync {
    /// The 64-bit hash of one item, given as raw bytes.
    fn hash(&self, item: &[u8]) -> u64;

    /// Writes the hash of each item to `out`, in order. Excess items or slots are ignored.
    ///
    /// Override it if hashing many items at once is faster than one by one.
    fn hash_items<I: AsRef<[u8]>>(&self, items: &[I], out: &mut [u64]) {
        hash_each(self, items, out);
    }

    /// Writes the hash of each record of `record_bytes` bytes to `out`, in order. The records lie one after
    /// another. An incomplete record, and excess records or slots, are ignored.
    fn hash_records(&self, records: &[u8], record_bytes: NonZeroUsize, out: &mut [u64]) {
        each_record(records, record_bytes, out, |record| self.hash(record));
    }

    /// [`ItemHash::hash`] that calls `upper` with the hash as soon as its upper half is known, for a prefetch. The lower
    /// half is zero then.
    #[doc(hidden)]
    #[inline]
    fn hash_in_halves(&self, item: &[u8], _upper: impl FnOnce(u64)) -> u64 {
        self.hash(item)
    }

    /// [`ItemHash::hash_items`] at a given level, which hashers without kernels ignore.
    #[doc(hidden)]
    fn hash_items_at<I: AsRef<[u8]>>(&self, _level: SimdLevel, items: &[I], out: &mut [u64]) {
        self.hash_items(items, out);
    }

    /// Hashes points in place of [`ItemHash::hash_records_at`]. Returns false, and does nothing, without code for them.
    #[doc(hidden)]
    fn hash_points(&self, _: SimdLevel, _: &[&[u8; POINT_BYTES]], _: &mut [u64]) -> bool {
        false
    }

    /// [`ItemHash::hash_records`] at a given level, which hashers without kernels ignore.
    #[doc(hidden)]
    fn hash_records_at(
        &self,
        _level: SimdLevel,
        records: &[u8],
        record_bytes: NonZeroUsize,
        out: &mut [u64],
    ) {
        self.hash_records(records, record_bytes, out);
    }
}

/// The whole records that have slots, and those slots.
fn whole<'r, 'o>(
    records: &'r [u8],
    record_bytes: NonZeroUsize,
    out: &'o mut [u64],
) -> (&'r [u8], &'o mut [u64]) {
    let count = out.len().min(records.len() / record_bytes);
    (&records[..count * record_bytes.get()], &mut out[..count])
}

/// The maximum number of items that are copied together (enough to fill the widest kernel), and the maximum
/// number of bytes.
const LONGEST_RUN: usize = 256;
const BUFFER: usize = LONGEST_RUN * 34;

/// The number of items between one that is hashed or copied and one that is prefetched.
const AHEAD: usize = 64;

/// The minimum number of items of one length for the kernels; fewer are hashed one by one.
const RUN: usize = 8;

/// Hashes each item with [`ItemHash::hash_records_at`]. Consecutive items of one length are first copied together.
/// Copying takes 1 to 2 ns per item, which [`ItemHash::hash_points`] saves for points.
fn hash_runs<H: ItemHash, I: AsRef<[u8]>>(
    hasher: &H,
    level: SimdLevel,
    items: &[I],
    out: &mut [u64],
) {
    let count = items.len().min(out.len());
    let (mut items, mut out) = (&items[..count], &mut out[..count]);
    if count < RUN {
        return hash_each(hasher, items, out);
    }
    if hash_in_place(hasher, level, items, out) {
        return;
    }
    let mut points = [&[0; POINT_BYTES]; LONGEST_RUN];
    while items[0].as_ref().len() == POINT_BYTES {
        let run = point_run(items, &mut points);
        if run < RUN || !hasher.hash_points(level, &points[..run], &mut out[..run]) {
            break;
        }
        (items, out) = (&items[run..], &mut out[run..]);
        if items.is_empty() {
            return;
        }
    }
    let mut buffer = [0; BUFFER];
    while let Some(first) = items.first() {
        let width = first.as_ref().len();
        // With the level's registers, 32 bytes are one copy.
        let run = level.compiled(
            #[inline(always)]
            || match width {
                POINT_BYTES => copy_run::<POINT_BYTES, 0, I>(items, width, &mut buffer),
                8..16 => copy_run::<0, 8, I>(items, width, &mut buffer),
                16..32 => copy_run::<0, 16, I>(items, width, &mut buffer),
                32..=64 => copy_run::<0, 32, I>(items, width, &mut buffer),
                _ => copy_run::<0, 0, I>(items, width, &mut buffer),
            },
        );
        // An item that is longer than the buffer is not copied.
        let (now, later) = out.split_at_mut(run.max(1));
        match NonZeroUsize::new(width) {
            Some(width) if run >= RUN => {
                hasher.hash_records_at(level, &buffer[..run * width.get()], width, now);
            }
            _ => hash_each(hasher, items, now),
        }
        (items, out) = (&items[now.len()..], later);
    }
}

/// Collects items while they are points, as many as there is room for, and returns their number.
#[inline(always)]
fn point_run<'a, I: AsRef<[u8]>>(
    items: &'a [I],
    points: &mut [&'a [u8; POINT_BYTES]; LONGEST_RUN],
) -> usize {
    let mut run = 0;
    for (place, item) in points.iter_mut().zip(items) {
        let Ok(point) = item.as_ref().try_into() else {
            break;
        };
        *place = point;
        run += 1;
    }
    run
}

/// Hashes items that are records already, such as a slice of arrays. Returns whether they are.
#[inline(always)]
fn hash_in_place<H: ItemHash, I: AsRef<[u8]>>(
    hasher: &H,
    level: SimdLevel,
    items: &[I],
    out: &mut [u64],
) -> bool {
    let Some(width) = NonZeroUsize::new(size_of::<I>()) else {
        return false;
    };
    match as_records(items, width.get()) {
        Some(records) => {
            hasher.hash_records_at(level, records, width, out);
            true
        }
        None => false,
    }
}

/// Copies items while they have `width` bytes and fit, and returns their number. If `WIDTH` is not 0, it is the
/// width. If `HALF` is not 0, `HALF <= width <= 2 * HALF`.
#[inline(always)]
fn copy_run<const WIDTH: usize, const HALF: usize, I: AsRef<[u8]>>(
    items: &[I],
    width: usize,
    buffer: &mut [u8; BUFFER],
) -> usize {
    let width = if WIDTH == 0 { width.max(1) } else { WIDTH };
    let mut run = 0;
    let first = &items[..items.len().min(LONGEST_RUN)];
    for (place, item) in buffer.chunks_exact_mut(width).zip(first) {
        let item = item.as_ref();
        // The kernel reads the copies, so the items are asked for here: 3 percent of a build from memory.
        if let Some(byte) = items.get(run + AHEAD).and_then(|item| item.as_ref().first()) {
            prefetch(byte);
        }
        if item.len() != width {
            break;
        }
        // Two copies of a known length, which may overlap, take a few instructions. A copy of variable length
        // is a call, and takes as long as the hash.
        match (item.first_chunk::<HALF>(), item.last_chunk::<HALF>()) {
            (Some(first), Some(last)) if HALF > 0 => {
                place[..HALF].copy_from_slice(first);
                place[width - HALF..].copy_from_slice(last);
            }
            _ => place.copy_from_slice(item),
        }
        run += 1;
    }
    run
}

/// Hashes item by item.
fn hash_each<H: ItemHash, I: AsRef<[u8]>>(hasher: &H, items: &[I], out: &mut [u64]) {
    for (hash, item) in out.iter_mut().zip(items) {
        *hash = hasher.hash(item.as_ref());
    }
}

/// The last `len` bytes of `item`, fewer than 8, as a little-endian number.
///
/// If the item has at least 8 bytes, this is one load. Copying a few bytes is a call of `memcpy`, which took
/// longer than the hash.
#[inline(always)]
fn last_bytes(item: &[u8], len: usize) -> u64 {
    match item.last_chunk::<8>() {
        Some(_) if len == 0 => 0,
        // By 8 to 56 bits.
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * len),
        None => {
            item[item.len() - len..].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
        }
    }
}

/// Hashes record by record.
#[inline(always)]
fn each_record(
    records: &[u8],
    record_bytes: NonZeroUsize,
    out: &mut [u64],
    hash: impl Fn(&[u8]) -> u64,
) {
    let (records, out) = whole(records, record_bytes, out);
    if record_bytes.get() == POINT_BYTES {
        // With a constant length, the loop does not check the length of each record. Two at a time: built for one CPU, the
        // compiler otherwise puts all products of one first, and its chain waits.
        let (points, _) = records.as_chunks::<POINT_BYTES>();
        let ((pairs, rest), (outs, last)) = (points.as_chunks::<2>(), out.as_chunks_mut::<2>());
        for (at, (out, [first, second])) in outs.iter_mut().zip(pairs).enumerate() {
            // The CPU's own prefetching is too slow: from memory, this takes a fifth to a half less time.
            if let Some(later) = points.get(2 * at + AHEAD) {
                prefetch(later);
            }
            *out = [hash(first), hash(second)];
        }
        for (out, point) in last.iter_mut().zip(rest) {
            *out = hash(point);
        }
    } else {
        for (out, record) in out.iter_mut().zip(records.chunks_exact(record_bytes.get())) {
            *out = hash(record);
        }
    }
}

/// The size of a compressed secp256k1 point, the only length with its own code path.
const POINT_BYTES: usize = 33;

/// The hash of NUT-25 as deployed (cashu-ts, nutshell): two 32-bit Murmur3 hashes. The first is the upper half,
/// and also the seed of the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nut25;

impl ItemHash for Nut25 {
    #[inline]
    fn hash(&self, item: &[u8]) -> u64 {
        by_length(item, murmur3::nut25, murmur3::nut25)
    }

    #[inline]
    fn hash_in_halves(&self, item: &[u8], upper: impl FnOnce(u64)) -> u64 {
        match <&[u8; POINT_BYTES]>::try_from(item) {
            Ok(item) => murmur3::nut25_in_halves(item, upper),
            Err(_) => murmur3::nut25_in_halves(item, upper),
        }
    }

    at_best_level!();

    fn hash_items_at<I: AsRef<[u8]>>(&self, level: SimdLevel, items: &[I], out: &mut [u64]) {
        hash_runs(self, level, items, out);
    }

    fn hash_records_at(
        &self,
        level: SimdLevel,
        records: &[u8],
        record_bytes: NonZeroUsize,
        out: &mut [u64],
    ) {
        let (records, out) = whole(records, record_bytes, out);
        #[cfg(target_arch = "x86_64")]
        let rows = kernels::Records::new(records, record_bytes.get());
        let done = match level.kind() {
            Kind::Baseline(_) => false,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(avx2) => kernels::nut25::<_, 4>(avx2, rows, out),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) => kernels::nut25::<_, 8>(avx512, rows, out),
        };
        if !done {
            murmur3::nut25_records(records, record_bytes.get(), out);
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn hash_points(
        &self,
        level: SimdLevel,
        points: &[&[u8; POINT_BYTES]],
        out: &mut [u64],
    ) -> bool {
        match level.kind() {
            Kind::Baseline(_) => false,
            Kind::Avx2(avx2) => kernels::nut25::<_, 4>(avx2, points, out),
            Kind::Avx512(avx512) => kernels::nut25::<_, 8>(avx512, points, out),
        }
    }
}

/// The hash of the NUT-23 text: the first word of the 128-bit Murmur3 for 64-bit machines, with seed 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nut23;

impl ItemHash for Nut23 {
    #[inline]
    fn hash(&self, item: &[u8]) -> u64 {
        by_length(item, murmur3::x64_128_first, murmur3::x64_128_first)
    }

    at_best_level!();

    fn hash_items_at<I: AsRef<[u8]>>(&self, level: SimdLevel, items: &[I], out: &mut [u64]) {
        match level.kind() {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) | Kind::Avx512(_) => hash_runs(self, level, items, out),
            Kind::Baseline(_) => hash_each(self, items, out),
        }
    }

    fn hash_records_at(
        &self,
        level: SimdLevel,
        records: &[u8],
        record_bytes: NonZeroUsize,
        out: &mut [u64],
    ) {
        let (records, out) = whole(records, record_bytes, out);
        #[cfg(target_arch = "x86_64")]
        let rows = kernels::Records::new(records, record_bytes.get());
        let done = match level.kind() {
            Kind::Baseline(_) => false,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(avx2) => kernels::nut23(avx2, rows, out),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) => kernels::nut23(avx512, rows, out),
        };
        if !done {
            each_record(records, record_bytes, out, murmur3::x64_128_first);
        }
    }
}

/// The hash of an item. Has a copy of the code for points, whose loops the compiler unrolls.
#[inline(always)]
fn by_length(item: &[u8], point: impl Fn(&[u8]) -> u64, other: impl Fn(&[u8]) -> u64) -> u64 {
    match <&[u8; POINT_BYTES]>::try_from(item) {
        Ok(item) => point(item),
        Err(_) => other(item),
    }
}

/// The hasher of a filter whose values the caller mapped. It cannot hash, so such a filter has only the queries
/// on values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawValues;

/// Maps a 64-bit hash to `[0, f)`: the upper 64 bits of the 128-bit product, as in D. Lemire, *Fast random integer
/// generation in an interval* (2019). The range of a filter is `f` = N * M; with 0, every hash maps to 0.
///
/// Monotonic in `hash`, so sorted hashes give sorted values.
#[inline]
#[must_use]
pub const fn map_to_range(hash: u64, f: u64) -> u64 {
    ((hash as u128 * f as u128) >> 64) as u64
}

/// Applies [`map_to_range`] to each of `hashes`, in place.
pub fn map_all_at(level: SimdLevel, hashes: &mut [u64], f: u64) {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2(avx2) => kernels::map_to_range(avx2, hashes, f),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512(avx512) => kernels::map_to_range(avx512, hashes, f),
        Kind::Baseline(_) => {
            let (eights, rest) = hashes.as_chunks_mut::<8>();
            for eight in eights {
                *eight = map(*eight, |hash| map_to_range(hash, f));
            }
            for hash in rest {
                *hash = map_to_range(*hash, f);
            }
        }
    }
}

/// A checksum of local bytes: protects against accidents, not against attackers.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    murmur3::x64_128_first(bytes)
}
