//! Hashes records of one length, eight (NUT-25) or four (NUT-23, SipHash) in a vector.
//!
//! A lane is a record. Each record is loaded 16 bytes at a time. Shuffles transpose a group of records into
//! vectors of one word of each, in an order of lanes that suits the stores.
//!
//! Nothing is read past a record: a rest of fewer than 16 bytes is loaded with the bytes before it and shifted
//! down. Shorter records are left to the portable code. The last group ends with the last record and overlaps
//! the group before it; records that are hashed twice get the same hash.
//!
//! Mapping to a range takes four multiplications and nine other operations for four items. Scalar code takes one
//! multiplication per item, but that is slow on AMD: two operations, and the compiler's loop took three cycles.
//!
//! Rows `hash/*/100k` in docs/benchmarking.md.

use core::arch::x86_64::*;

use crate::arch::x86_64::{Avx2, ask_ahead};

impl Avx2 {
    /// NUT-25 of each of `out.len()` records of `width` bytes. Returns false, and does nothing, if they are too few
    /// or too short.
    ///
    /// # Panics
    ///
    /// `records` are not `out.len()` records.
    pub(crate) fn nut25_records(self, records: &[u8], width: usize, out: &mut [u64]) -> bool {
        assert_eq!(Some(records.len()), width.checked_mul(out.len()));
        // SAFETY: the token proves that the CPU has the features.
        unsafe { nut25(records, width, out) }
    }

    /// NUT-23: see [`Self::nut25_records`]. `scalar` is its hash of one record.
    ///
    /// # Panics
    ///
    /// `records` are not `out.len()` records.
    pub(crate) fn nut23_records(
        self,
        records: &[u8],
        width: usize,
        out: &mut [u64],
        scalar: impl Fn(&[u8]) -> u64,
    ) -> bool {
        assert_eq!(Some(records.len()), width.checked_mul(out.len()));
        // SAFETY: the token proves that the CPU has the features.
        unsafe { nut23(records, width, out, scalar) }
    }

    /// SipHash-2-4 from the initial state of the key: see [`Self::nut25_records`].
    ///
    /// # Panics
    ///
    /// `records` are not `out.len()` records.
    pub(crate) fn siphash_records(
        self,
        state: [u64; 4],
        records: &[u8],
        width: usize,
        out: &mut [u64],
    ) -> bool {
        assert_eq!(Some(records.len()), width.checked_mul(out.len()));
        // SAFETY: the token proves that the CPU has the features.
        unsafe { siphash(state, records, width, out) }
    }

    /// SipHash-2-4 from the initial state of the key, of items in columns: `words` columns for each of `out.len()`
    /// groups of eight items. A column holds one word of each item; the last one also holds the lengths.
    ///
    /// # Panics
    ///
    /// The number of columns differs.
    pub(crate) fn siphash_columns(
        self,
        state: [u64; 4],
        columns: &[[u64; 8]],
        words: usize,
        out: &mut [[u64; 8]],
    ) {
        assert_eq!(Some(columns.len()), words.checked_mul(out.len()));
        // SAFETY: the token proves that the CPU has the features.
        unsafe { siphash_columns(state, columns, words, out) }
    }

    /// `hash * f >> 64` for each, in place.
    pub(crate) fn map_to_range(self, hashes: &mut [u64], f: u64) {
        // SAFETY: the token proves that the CPU has the features.
        unsafe { map_to_range(hashes, f) }
    }
}

/// The bytes of a group of `LANES` records from byte `at` of each on, up to 16.
struct Columns<'a, const LANES: usize> {
    group: &'a [u8],
    width: usize,
    /// The offset of the 16 bytes to load: `at`, or less if fewer bytes are left.
    from: usize,
    /// The number of loaded bytes before `at`.
    skip: usize,
}

impl<'a, const LANES: usize> Columns<'a, LANES> {
    #[inline(always)]
    fn new(group: &'a [u8], width: usize, at: usize) -> Self {
        assert!(group.len() == LANES * width && width >= 16 && at < width);
        let from = at.min(width - 16);
        Self {
            group,
            width,
            from,
            skip: at - from,
        }
    }

    /// The words of record `low` in the lower half and of record `high` in the upper; zeros beyond the records.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn two(&self, low: usize, high: usize) -> __m256i {
        assert!(low < LANES && high < LANES);
        let start = self.group.as_ptr();
        // SAFETY: record `low` is within the group, and 16 bytes at `from` are within the record: `new` checked it.
        let low = unsafe { _mm_loadu_si128(start.add(low * self.width + self.from).cast()) };
        // SAFETY: the same, for record `high`.
        let high = unsafe { _mm_loadu_si128(start.add(high * self.width + self.from).cast()) };
        let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        if self.skip == 0 {
            return both;
        }
        _mm256_shuffle_epi8(both, shift_down(self.skip))
    }
}

/// The shuffle that moves the 16 bytes of each half down by `skip` (at most 16) and fills up with zeros.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn shift_down(skip: usize) -> __m256i {
    /// The shuffle gives zero for an index whose top bit is set.
    const FROM: [u8; 32] = {
        let mut from = [0x80; 32];
        let mut i = 0;
        while i < 16 {
            from[i] = i as u8;
            i += 1;
        }
        from
    };
    let from = &FROM[skip..skip + 16];
    // SAFETY: the slice is 16 bytes long.
    let from = unsafe { _mm_loadu_si128(from.as_ptr().cast()) };
    _mm256_broadcastsi128_si256(from)
}

/// The four 32-bit words from byte `at` on of eight records. The order of the records in the lanes is 0, 1, 4, 5,
/// 2, 3, 6, 7, as [`store_32`] expects it.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn words_32(group: &[u8], width: usize, at: usize) -> [__m256i; 4] {
    let columns = Columns::<8>::new(group, width, at);
    let (a, b) = (columns.two(0, 2), columns.two(1, 3));
    let (c, d) = (columns.two(4, 6), columns.two(5, 7));
    let (ab_01, ab_23) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd_01, cd_23) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab_01, cd_01),
        _mm256_unpackhi_epi64(ab_01, cd_01),
        _mm256_unpacklo_epi64(ab_23, cd_23),
        _mm256_unpackhi_epi64(ab_23, cd_23),
    ]
}

/// The two 64-bit words from byte `at` on of four records. Lane i has the words of record i.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn words_64(group: &[u8], width: usize, at: usize) -> [__m256i; 2] {
    let columns = Columns::<4>::new(group, width, at);
    let (a, b) = (columns.two(0, 2), columns.two(1, 3));
    [_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)]
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn store_64(out: &mut [u64; 4], hashes: __m256i) {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), hashes) }
}

/// Hashes from their halves, whose lanes are in the order of [`words_32`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn store_32(out: &mut [u64; 8], upper: __m256i, lower: __m256i) {
    let (first, second) = out.split_at_mut(4);
    if let (Some(first), Some(second)) = (first.first_chunk_mut(), second.first_chunk_mut()) {
        store_64(first, _mm256_unpacklo_epi32(lower, upper));
        store_64(second, _mm256_unpackhi_epi32(lower, upper));
    }
}

/// The number of groups of eight records that are interleaved, because the chain of each is long.
const GROUPS: usize = 4;

/// A 32-bit word of each record of all groups.
type Side = [__m256i; GROUPS];

/// The number of words of a record that are kept from the loads to the folds, and from the first hash of NUT-25 to
/// the second. The AVX-512 kernel explains why they go through memory.
const WORDS: usize = 32;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn nut25(records: &[u8], width: usize, out: &mut [u64]) -> bool {
    if width < 16 || out.len() < 8 * GROUPS {
        return false;
    }
    if width == 33 {
        nut25_groups::<33, 12>(records, width, out);
    } else if width == 48 {
        nut25_groups::<48, 12>(records, width, out);
    } else {
        nut25_groups::<0, WORDS>(records, width, out);
    }
    true
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn nut25_groups<const WIDTH: usize, const WORDS: usize>(
    records: &[u8],
    width: usize,
    out: &mut [u64],
) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let zero = [_mm256_setzero_si256(); GROUPS];
    let mut words = [zero; WORDS];
    let count = 8 * GROUPS;
    let mut next = 0;
    while next < out.len() {
        let start = next.min(out.len() - count);
        next += count;
        let records = &records[start * width..][..count * width];
        ask_ahead(records);
        let (mut upper, mut lower) = (zero, zero);
        if width <= 4 * WORDS {
            scramble_words::<WIDTH, WORDS>(records, width, 0, &mut words);
            fold_words(&words, width, &mut upper);
            avalanche(width, &mut upper);
            lower = upper;
            fold_words(&words, width, &mut lower);
            avalanche(width, &mut lower);
        } else {
            for pass in 0..2 {
                for at in (0..width).step_by(4 * WORDS) {
                    scramble_words::<WIDTH, WORDS>(records, width, at, &mut words);
                    fold_words(&words, (4 * WORDS).min(width - at), &mut lower);
                }
                avalanche(width, &mut lower);
                if pass == 0 {
                    // The upper half is the seed of the lower half.
                    upper = lower;
                }
            }
        }
        let (out, _) = out[start..].as_chunks_mut();
        for (group, &upper) in upper.iter().enumerate() {
            store_32(&mut out[group], upper, lower[group]);
        }
    }
}

/// The scrambled words from byte `at` on, as many as have room. Zeros fill up the last one.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn scramble_words<const WIDTH: usize, const WORDS: usize>(
    records: &[u8],
    width: usize,
    at: usize,
    words: &mut [Side; WORDS],
) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    for (number, group) in records.chunks_exact(8 * width).take(GROUPS).enumerate() {
        for (four, words) in words.chunks_exact_mut(4).enumerate() {
            let at = at + 16 * four;
            if at >= width {
                break;
            }
            let loaded = words_32(group, width, at);
            let len = (width - at).div_ceil(4);
            for (word, loaded) in loaded.into_iter().enumerate().take(len) {
                words[word][number] = scramble_32(loaded);
            }
        }
    }
}

/// Folds `len` bytes into the states. Not inlined: with a known length the compiler would unroll the loop and put
/// one group after the other.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fold_words(words: &[Side], len: usize, states: &mut Side) {
    let mut folded = *states;
    for word in &words[..len / 4] {
        for (group, state) in folded.iter_mut().enumerate() {
            *state = fold_32(*state, word[group]);
        }
    }
    if !len.is_multiple_of(4) {
        let word = &words[len / 4];
        for (group, state) in folded.iter_mut().enumerate() {
            *state = _mm256_xor_si256(*state, word[group]);
        }
    }
    *states = folded;
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn scramble_32(word: __m256i) -> __m256i {
    let word = _mm256_mullo_epi32(word, _mm256_set1_epi32(0xcc9e_2d51_u32 as i32));
    let word = _mm256_or_si256(_mm256_slli_epi32::<15>(word), _mm256_srli_epi32::<17>(word));
    _mm256_mullo_epi32(word, _mm256_set1_epi32(0x1b87_3593))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fold_32(state: __m256i, word: __m256i) -> __m256i {
    let state = _mm256_xor_si256(state, word);
    let state = _mm256_or_si256(
        _mm256_slli_epi32::<13>(state),
        _mm256_srli_epi32::<19>(state),
    );
    // Multiplies by five with a shift and an addition. A multiplication takes five times as long.
    let moved = _mm256_add_epi32(state, _mm256_set1_epi32(0xe654_6b64_u32 as i32));
    _mm256_add_epi32(_mm256_slli_epi32::<2>(state), moved)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avalanche(width: usize, states: &mut Side) {
    for state in states {
        let x = _mm256_xor_si256(*state, _mm256_set1_epi32(width as i32));
        let x = _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x));
        let x = _mm256_mullo_epi32(x, _mm256_set1_epi32(0x85eb_ca6b_u32 as i32));
        let x = _mm256_xor_si256(x, _mm256_srli_epi32::<13>(x));
        let x = _mm256_mullo_epi32(x, _mm256_set1_epi32(0xc2b2_ae35_u32 as i32));
        *state = _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x));
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn nut23(records: &[u8], width: usize, out: &mut [u64], scalar: impl Fn(&[u8]) -> u64) -> bool {
    if width < 16 || out.len() < NUT23_VECTORS + 2 {
        return false;
    }
    if width == 33 && out.len() >= NUT23_VECTORS + 4 {
        nut23_groups::<33, 4>(records, width, out, scalar);
    } else {
        nut23_groups::<0, 2>(records, width, out, scalar);
    }
    true
}

/// The number of records that NUT-23 hashes in vectors, two groups of four, while scalar code hashes the others.
/// AVX2 has no multiplication of 64 bits, so scalar code is nearly as fast. Both at once use more of the execution
/// units. For points, four scalar records take a tenth less time than two; for other widths, 6 % more.
const NUT23_VECTORS: usize = 8;

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn nut23_groups<const WIDTH: usize, const SCALARS: usize>(
    records: &[u8],
    width: usize,
    out: &mut [u64],
    scalar: impl Fn(&[u8]) -> u64,
) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let count = NUT23_VECTORS + SCALARS;
    let zero = _mm256_setzero_si256();
    let mut next = 0;
    while next < out.len() {
        let start = next.min(out.len() - count);
        next += count;
        let records = &records[start * width..][..count * width];
        let mut states = [Pair { a: zero, b: zero }; 2];
        for at in (0..width).step_by(16) {
            let left = width - at;
            for (group, state) in states.iter_mut().enumerate() {
                let group = &records[group * 4 * width..][..4 * width];
                let [first, second] = words_64(group, width, at);
                if left >= 16 {
                    *state = fold_64(*state, first, second);
                    continue;
                }
                // Absent bytes count as zero, and a zero word scrambles to zero.
                state.a = _mm256_xor_si256(state.a, scramble_first(first));
                if left > 8 {
                    state.b = _mm256_xor_si256(state.b, scramble_second(second));
                }
            }
        }
        let length = _mm256_set1_epi64x(width as i64);
        let out = &mut out[start..][..count];
        for last in NUT23_VECTORS..count {
            out[last] = scalar(&records[last * width..][..width]);
        }
        let (out, _) = out[..NUT23_VECTORS].as_chunks_mut();
        for (group, Pair { a, b }) in states.into_iter().enumerate() {
            let b = _mm256_xor_si256(b, length);
            let a = _mm256_add_epi64(_mm256_xor_si256(a, length), b);
            let b = _mm256_add_epi64(b, a);
            store_64(
                &mut out[group],
                _mm256_add_epi64(avalanche_64(a), avalanche_64(b)),
            );
        }
    }
}

/// The two words of state of four records.
#[derive(Clone, Copy)]
struct Pair {
    a: __m256i,
    b: __m256i,
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fold_64(Pair { a, b }: Pair, first: __m256i, second: __m256i) -> Pair {
    let a = rotate::<27, 37>(_mm256_xor_si256(a, scramble_first(first)));
    let a = five_times_plus(_mm256_add_epi64(a, b), 0x52dc_e729);
    let b = rotate::<31, 33>(_mm256_xor_si256(b, scramble_second(second)));
    let b = five_times_plus(_mm256_add_epi64(b, a), 0x3849_5ab5);
    Pair { a, b }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn five_times_plus(x: __m256i, constant: i64) -> __m256i {
    let moved = _mm256_add_epi64(x, _mm256_set1_epi64x(constant));
    _mm256_add_epi64(_mm256_slli_epi64::<2>(x), moved)
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn scramble_first(word: __m256i) -> __m256i {
    multiply::<C2>(rotate::<31, 33>(multiply::<C1>(word)))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn scramble_second(word: __m256i) -> __m256i {
    multiply::<C1>(rotate::<33, 31>(multiply::<C2>(word)))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avalanche_64(x: __m256i) -> __m256i {
    let x = _mm256_xor_si256(x, _mm256_srli_epi64::<33>(x));
    let x = multiply::<0xff51_afd7_ed55_8ccd>(x);
    let x = _mm256_xor_si256(x, _mm256_srli_epi64::<33>(x));
    let x = multiply::<0xc4ce_b9fe_1a85_ec53>(x);
    _mm256_xor_si256(x, _mm256_srli_epi64::<33>(x))
}

/// The low 64 bits of the products, with two multiplications. One gives both products of a lower half and an
/// upper half, which count in the upper half of the result. The other multiplies the lower halves.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn multiply<const BY: u64>(x: __m256i) -> __m256i {
    let crossed = _mm256_mullo_epi32(x, _mm256_set1_epi64x(BY.rotate_left(32) as i64));
    let sum = _mm256_add_epi32(crossed, swap_halves(crossed));
    let upper = _mm256_blend_epi32::<0b1010_1010>(_mm256_setzero_si256(), sum);
    _mm256_add_epi64(_mm256_mul_epu32(x, _mm256_set1_epi64x(BY as i64)), upper)
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn siphash(state: [u64; 4], records: &[u8], width: usize, out: &mut [u64]) -> bool {
    if width < 16 || out.len() < 8 {
        return false;
    }
    // Three interleaved groups take an eighth less time than two, and a fifth more from 180 bytes on (Zen 5). Four
    // spill registers. Two scalar records at the same time take another thirtieth less per point (Zen 4).
    match (width, out.len()) {
        (33, 14..) => siphash_groups::<33, 6, 3, 2>(state, records, width, out),
        (48, 14..) => siphash_groups::<48, 6, 3, 2>(state, records, width, out),
        (..=160, 14..) => siphash_groups::<0, WORDS, 3, 2>(state, records, width, out),
        _ => siphash_groups::<0, WORDS, 2, 0>(state, records, width, out),
    }
    true
}

/// A word of each record of `GROUPS` groups of four, and of `SCALARS` records that scalar code hashes at the same
/// time: it uses other execution units.
#[derive(Clone, Copy)]
struct Words<const GROUPS: usize, const SCALARS: usize> {
    vectors: [__m256i; GROUPS],
    scalars: [u64; SCALARS],
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn siphash_groups<
    const WIDTH: usize,
    const WORDS: usize,
    const GROUPS: usize,
    const SCALARS: usize,
>(
    key: [u64; 4],
    records: &[u8],
    width: usize,
    out: &mut [u64],
) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let zero = Words {
        vectors: [_mm256_setzero_si256(); GROUPS],
        scalars: [0; SCALARS],
    };
    let mut words = [zero; WORDS];
    let unset = States::new([0; 4]);
    let count = 4 * GROUPS + SCALARS;
    let mut next = 0;
    while next < out.len() {
        let start = next.min(out.len() - count);
        next += count;
        let records = &records[start * width..][..count * width];
        let mut states = unset;
        let rest = width % (8 * WORDS);
        let whole = width - rest;
        for at in (0..whole).step_by(8 * WORDS) {
            load_words::<WIDTH, WORDS, GROUPS, SCALARS>(records, width, at, &mut words);
            absorb_words(&words, (at == 0).then_some(&key), &mut states, false);
        }
        // The last word holds the remaining bytes, perhaps none, and the length.
        if rest.is_multiple_of(16) {
            words[rest / 8] = zero;
        }
        load_words::<WIDTH, WORDS, GROUPS, SCALARS>(records, width, whole, &mut words);
        let length = _mm256_set1_epi64x(((width & 0xff) << 56) as i64);
        for last in &mut words[rest / 8].vectors {
            *last = _mm256_or_si256(*last, length);
        }
        let first = (whole == 0).then_some(&key);
        absorb_words(&words[..=rest / 8], first, &mut states, true);
        let (vectors, scalars) = out[start..][..count].split_at_mut(4 * GROUPS);
        let (vectors, _) = vectors.as_chunks_mut();
        for (group, out) in vectors.iter_mut().enumerate() {
            store_64(out, states.vectors[group].a);
        }
        for (record, out) in scalars.iter_mut().enumerate() {
            *out = states.scalars[record][0];
        }
    }
}

/// The words from byte `at` on, as many as have room. Zeros fill up the last one.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn load_words<const WIDTH: usize, const WORDS: usize, const GROUPS: usize, const SCALARS: usize>(
    records: &[u8],
    width: usize,
    at: usize,
    words: &mut [Words<GROUPS, SCALARS>; WORDS],
) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let (vectors, scalars) = records.split_at(4 * GROUPS * width);
    for (number, group) in vectors.chunks_exact(4 * width).enumerate() {
        for (two, words) in words.chunks_exact_mut(2).enumerate() {
            let at = at + 16 * two;
            if at >= width {
                break;
            }
            let [first, second] = words_64(group, width, at);
            words[0].vectors[number] = first;
            words[1].vectors[number] = second;
        }
    }
    for (number, record) in scalars.chunks_exact(width).enumerate() {
        let (whole, tail) = record[at..].as_chunks();
        for (word, loaded) in whole.iter().enumerate().take(WORDS) {
            words[word].scalars[number] = u64::from_le_bytes(*loaded);
        }
        if let (Some(word), Some(last)) = (words.get_mut(whole.len()), record.last_chunk()) {
            // In two steps, because a shift by 64 is not possible.
            let tail = u64::from_le_bytes(*last) >> 8 >> (8 * (7 - tail.len()));
            word.scalars[number] = tail | (width as u64) << 56;
        }
    }
}

/// Absorbs words, from the initial state of the key if they are the first. After the last ones, the first word of each
/// state is the hash.
///
/// Not inlined: with a known number of words the compiler would unroll the loop and put one group after the other.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn absorb_words<const GROUPS: usize, const SCALARS: usize>(
    words: &[Words<GROUPS, SCALARS>],
    first: Option<&[u64; 4]>,
    states: &mut States<GROUPS, SCALARS>,
    last: bool,
) {
    let mut absorbed = match first {
        Some(key) => States::new(*key),
        None => *states,
    };
    let by_16 = rotation_by_16();
    for words in words {
        absorb(&mut absorbed, words, by_16);
    }
    if last {
        finish(&mut absorbed, by_16);
    }
    *states = absorbed;
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn finish<const GROUPS: usize, const SCALARS: usize>(
    states: &mut States<GROUPS, SCALARS>,
    by_16: __m256i,
) {
    for state in &mut states.vectors {
        state.c = _mm256_xor_si256(state.c, _mm256_set1_epi64x(0xff));
    }
    for [_, _, c, _] in &mut states.scalars {
        *c ^= 0xff;
    }
    for _ in 0..2 {
        two_rounds(states, by_16);
    }
    for State { a, b, c, d } in &mut states.vectors {
        *a = _mm256_xor_si256(_mm256_xor_si256(*a, *b), _mm256_xor_si256(*c, *d));
    }
    for [a, b, c, d] in &mut states.scalars {
        *a ^= *b ^ *c ^ *d;
    }
}

/// Absorbs a word of each record. Takes half a round of each group in turn: a CPU with short queues for vector
/// operations does not look ahead as far as the next group's rounds.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn absorb<const GROUPS: usize, const SCALARS: usize>(
    states: &mut States<GROUPS, SCALARS>,
    words: &Words<GROUPS, SCALARS>,
    by_16: __m256i,
) {
    for (group, state) in states.vectors.iter_mut().enumerate() {
        let word = words.vectors[group];
        state.d = _mm256_xor_si256(state.d, word);
    }
    for (record, [_, _, _, d]) in states.scalars.iter_mut().enumerate() {
        let word = words.scalars[record];
        *d ^= word;
    }
    two_rounds(states, by_16);
    // Read again: between, there are no registers to keep the words in.
    let words = core::hint::black_box(words);
    for (group, state) in states.vectors.iter_mut().enumerate() {
        let word = words.vectors[group];
        state.a = _mm256_xor_si256(state.a, word);
    }
    for (record, [a, _, _, _]) in states.scalars.iter_mut().enumerate() {
        let word = words.scalars[record];
        *a ^= word;
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn two_rounds<const GROUPS: usize, const SCALARS: usize>(
    states: &mut States<GROUPS, SCALARS>,
    by_16: __m256i,
) {
    for _ in 0..2 {
        for state in &mut states.vectors {
            *state = state.first_half(by_16);
        }
        for [a, b, c, d] in &mut states.scalars {
            *a = a.wrapping_add(*b);
            *b = b.rotate_left(13) ^ *a;
            *a = a.rotate_left(32);
            *c = c.wrapping_add(*d);
            *d = d.rotate_left(16) ^ *c;
        }
        for state in &mut states.vectors {
            *state = state.second_half();
        }
        for [a, b, c, d] in &mut states.scalars {
            *a = a.wrapping_add(*d);
            *d = d.rotate_left(21) ^ *a;
            *c = c.wrapping_add(*b);
            *b = b.rotate_left(17) ^ *c;
            *c = c.rotate_left(32);
        }
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn siphash_columns(key: [u64; 4], columns: &[[u64; 8]], words: usize, out: &mut [[u64; 8]]) {
    let by_16 = rotation_by_16();
    let zero = Words {
        vectors: [_mm256_setzero_si256(); 2],
        scalars: [],
    };
    for (columns, out) in columns.chunks_exact(words).zip(out) {
        let mut states = States::new(key);
        for column in columns {
            if let [first, second] = column.as_chunks().0 {
                let vectors = [load_64(first), load_64(second)];
                absorb(&mut states, &Words { vectors, ..zero }, by_16);
            }
        }
        finish(&mut states, by_16);
        for (group, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            store_64(out, states.vectors[group].a);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn load_64(words: &[u64; 4]) -> __m256i {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[derive(Clone, Copy)]
struct States<const GROUPS: usize, const SCALARS: usize> {
    vectors: [State; GROUPS],
    scalars: [[u64; 4]; SCALARS],
}

impl<const GROUPS: usize, const SCALARS: usize> States<GROUPS, SCALARS> {
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn new(key: [u64; 4]) -> Self {
        Self {
            vectors: [State::new(key); GROUPS],
            scalars: [key; SCALARS],
        }
    }
}

/// The four words of state of four records.
#[derive(Clone, Copy)]
struct State {
    a: __m256i,
    b: __m256i,
    c: __m256i,
    d: __m256i,
}

impl State {
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn new([a, b, c, d]: [u64; 4]) -> Self {
        Self {
            a: _mm256_set1_epi64x(a as i64),
            b: _mm256_set1_epi64x(b as i64),
            c: _mm256_set1_epi64x(c as i64),
            d: _mm256_set1_epi64x(d as i64),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn first_half(self, by_16: __m256i) -> Self {
        let Self { a, b, c, d } = self;
        let a = _mm256_add_epi64(a, b);
        let b = _mm256_xor_si256(rotate::<13, 51>(b), a);
        let a = swap_halves(a);
        let c = _mm256_add_epi64(c, d);
        let d = _mm256_xor_si256(_mm256_shuffle_epi8(d, by_16), c);
        Self { a, b, c, d }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn second_half(self) -> Self {
        let Self { a, b, c, d } = self;
        let a = _mm256_add_epi64(a, d);
        let d = _mm256_xor_si256(rotate::<21, 43>(d), a);
        let c = _mm256_add_epi64(c, b);
        let b = _mm256_xor_si256(rotate::<17, 47>(b), c);
        let c = swap_halves(c);
        Self { a, b, c, d }
    }
}

/// Rotates left by `LEFT`. `RIGHT` is 64 - `LEFT`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn rotate<const LEFT: i32, const RIGHT: i32>(x: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_slli_epi64::<LEFT>(x), _mm256_srli_epi64::<RIGHT>(x))
}

/// Rotates by 32 with one shuffle instead of three operations.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn swap_halves(x: __m256i) -> __m256i {
    _mm256_shuffle_epi32::<0b10_11_00_01>(x)
}

/// The shuffle that rotates left by 16. Hidden from the compiler, which would make two shuffles of it.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn rotation_by_16() -> __m256i {
    let from = _mm_set_epi8(13, 12, 11, 10, 9, 8, 15, 14, 5, 4, 3, 2, 1, 0, 7, 6);
    core::hint::black_box(_mm256_broadcastsi128_si256(from))
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn map_to_range(hashes: &mut [u64], f: u64) {
    let low = _mm256_set1_epi64x(f as i64);
    let high = _mm256_set1_epi64x((f >> 32) as i64);
    let (groups, rest) = hashes.as_chunks_mut();
    for group in groups {
        let hash = load_64(group);
        let upper = _mm256_srli_epi64::<32>(hash);
        // No sum overflows: a product is at most the square of 2^32 - 1, and a half is less than 2^32.
        let sum = _mm256_add_epi64(
            _mm256_mul_epu32(upper, low),
            _mm256_srli_epi64::<32>(_mm256_mul_epu32(hash, low)),
        );
        let sum_low = _mm256_blend_epi32::<0b1010_1010>(sum, _mm256_setzero_si256());
        let carry = _mm256_add_epi64(_mm256_mul_epu32(hash, high), sum_low);
        let value = _mm256_add_epi64(_mm256_mul_epu32(upper, high), _mm256_srli_epi64::<32>(sum));
        store_64(
            group,
            _mm256_add_epi64(value, _mm256_srli_epi64::<32>(carry)),
        );
    }
    for hash in rest {
        *hash = ((u128::from(*hash) * u128::from(f)) >> 64) as u64;
    }
}
