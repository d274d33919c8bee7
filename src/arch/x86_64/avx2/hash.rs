//! Hashes of records of one length, eight (NUT-25) or four (SipHash) at a time.
//!
//! A lane is a record. Each record is loaded as it lies, 16 bytes at a time, and shuffles transpose a group of
//! records into vectors that hold one word of each, in an order of lanes that suits the stores.
//!
//! Nothing is read past a record: its rest of fewer than 16 bytes is loaded as its last 16 and shuffled
//! down. Shorter records are left to the portable code. The last group ends with the last record and
//! overlaps the group before, so that no rest of records is left; what is then hashed twice is equal.
//!
//! NUT-23 is 64-bit multiplications, which AVX2 has not: three of 32 bits for each lost to the scalar code.
//! Mapping to a range is one multiplication an item in scalar code, and four and nine other operations for
//! four items here: not faster either.
//!
//! The rows `hash/*/100k` at avx2 in docs/benchmarking.md are why this is here.

use core::arch::x86_64::*;

use super::super::Avx2;

impl Avx2 {
    /// NUT-25 of each of `out.len()` records of `width` bytes; false where nothing was done, because there
    /// are too few or they are too short.
    ///
    /// # Panics
    ///
    /// Where `records` is not `out.len()` records.
    pub(crate) fn nut25_records(self, records: &[u8], width: usize, out: &mut [u64]) -> bool {
        assert_eq!(Some(records.len()), width.checked_mul(out.len()));
        // SAFETY: the token says that the CPU has the features.
        unsafe { nut25(records, width, out) }
    }

    /// SipHash-2-4 from the state that the key gives: as [`Self::nut25_records`].
    ///
    /// # Panics
    ///
    /// Where `records` is not `out.len()` records.
    pub(crate) fn siphash_records(
        self,
        state: [u64; 4],
        records: &[u8],
        width: usize,
        out: &mut [u64],
    ) -> bool {
        assert_eq!(Some(records.len()), width.checked_mul(out.len()));
        // SAFETY: the token says that the CPU has the features.
        unsafe { siphash(state, records, width, out) }
    }

    /// SipHash-2-4 from the state that the key gives, of items that lie in columns: `words` columns for each of
    /// `out.len()` groups of eight items. A column holds one word of each item, and the last one also the lengths.
    ///
    /// # Panics
    ///
    /// If `columns` are not so many.
    pub(crate) fn siphash_columns(
        self,
        state: [u64; 4],
        columns: &[[u64; 8]],
        words: usize,
        out: &mut [[u64; 8]],
    ) {
        assert_eq!(Some(columns.len()), words.checked_mul(out.len()));
        // SAFETY: the token says that the CPU has the features.
        unsafe { siphash_columns(state, columns, words, out) }
    }
}

/// The bytes of a group of `LANES` records from byte `at` of each on, up to 16.
struct Columns<'a, const LANES: usize> {
    group: &'a [u8],
    width: usize,
    /// Where to load 16 bytes: at `at`, or before it where fewer are left.
    from: usize,
    /// How many of the loaded bytes come before `at`.
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
        // SAFETY: record `low` is within the group, and 16 bytes at `from` within the record, as `new`
        // has seen to.
        let low = unsafe { _mm_loadu_si128(start.add(low * self.width + self.from).cast()) };
        // SAFETY: the same for record `high`.
        let high = unsafe { _mm_loadu_si128(start.add(high * self.width + self.from).cast()) };
        let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        if self.skip == 0 {
            return both;
        }
        _mm256_shuffle_epi8(both, shift_down(self.skip))
    }
}

/// The shuffle that moves 16 bytes down by `skip` (at most 16) and fills up with zeros, in both halves.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn shift_down(skip: usize) -> __m256i {
    /// Where the top bit is set, the shuffle gives zero.
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

/// The four 32-bit words from byte `at` on of eight records. The lanes have the records in the order 0, 1, 4,
/// 5, 2, 3, 6, 7, the one in which [`store_32`] finds the first four in the lower halves.
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

/// The two 64-bit words from byte `at` on of four records: lane i has the words of record i.
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
    // SAFETY: it writes the 32 bytes of the array.
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

/// How many groups of eight records are hashed side by side, to fill the wait for the chain of each.
const GROUPS: usize = 4;

/// The same of 32 bits in each of the lanes of all groups.
type Side = [__m256i; GROUPS];

/// How many scrambled words of a record are kept from the first hash to the second, and from the loads to
/// the folds (see the AVX-512 kernel for why they go through memory).
const WORDS: usize = 32;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn nut25(records: &[u8], width: usize, out: &mut [u64]) -> bool {
    if width < 16 || out.len() < 8 * GROUPS {
        return false;
    }
    if width == 33 {
        nut25_groups::<33, 12>(records, width, out);
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
                    // It seeds the lower half.
                    upper = lower;
                }
            }
        }
        let (out, _) = out[start..].as_chunks_mut();
        for ((out, upper), lower) in out.iter_mut().zip(upper).zip(lower) {
            store_32(out, upper, lower);
        }
    }
}

/// The scrambled words from byte `at` on, as many as have room, the last one filled up with zeros.
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
        for (at, words) in (at..width).step_by(16).zip(words.chunks_exact_mut(4)) {
            let loaded = words_32(group, width, at);
            let len = (width - at).div_ceil(4);
            for (word, loaded) in words.iter_mut().zip(loaded).take(len) {
                word[number] = scramble_32(loaded);
            }
        }
    }
}

/// Folds `len` bytes into the states. Never inlined, because a length that is known would unroll the loop,
/// and then the compiler puts one group after the other.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fold_words(words: &[Side], len: usize, states: &mut Side) {
    let mut folded = *states;
    for word in &words[..len / 4] {
        for (state, &word) in folded.iter_mut().zip(word) {
            *state = fold_32(*state, word);
        }
    }
    if !len.is_multiple_of(4) {
        for (state, &word) in folded.iter_mut().zip(&words[len / 4]) {
            *state = _mm256_xor_si256(*state, word);
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
    // Five times, by a shift and an addition: a multiplication takes five times as long.
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
fn siphash(state: [u64; 4], records: &[u8], width: usize, out: &mut [u64]) -> bool {
    if width < 16 || out.len() < 8 {
        return false;
    }
    if width == 33 {
        siphash_groups::<33, 6, 2>(state, records, width, out);
    } else {
        siphash_groups::<0, WORDS, 2>(state, records, width, out);
    }
    true
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn siphash_groups<const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    key: [u64; 4],
    records: &[u8],
    width: usize,
    out: &mut [u64],
) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let zero = _mm256_setzero_si256();
    let mut words = [[zero; GROUPS]; WORDS];
    let count = 4 * GROUPS;
    let mut next = 0;
    while next < out.len() {
        let start = next.min(out.len() - count);
        next += count;
        let records = &records[start * width..][..count * width];
        let mut states = [State::new(key); GROUPS];
        let mut last = [zero; GROUPS];
        for at in (0..width).step_by(8 * WORDS) {
            load_words::<WIDTH, WORDS, GROUPS>(records, width, at, &mut words);
            let len = (8 * WORDS).min(width - at);
            absorb_words(&words[..len / 8], &mut states);
            if !len.is_multiple_of(8) {
                last = words[len / 8];
            }
        }
        let length = _mm256_set1_epi64x(((width & 0xff) << 56) as i64);
        for last in &mut last {
            *last = _mm256_or_si256(*last, length);
        }
        absorb_words(&[last], &mut states);
        for state in &mut states {
            state.c = _mm256_xor_si256(state.c, _mm256_set1_epi64x(0xff));
        }
        // Absorbing zero is two rounds.
        absorb_words(&[[zero; GROUPS]; 2], &mut states);
        let (out, _) = out[start..].as_chunks_mut();
        for (out, State { a, b, c, d }) in out.iter_mut().zip(states) {
            store_64(
                out,
                _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)),
            );
        }
    }
}

/// The words from byte `at` on, as many as have room, the last one filled up with zeros.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn load_words<const WIDTH: usize, const WORDS: usize, const GROUPS: usize>(
    records: &[u8],
    width: usize,
    at: usize,
    words: &mut [[__m256i; GROUPS]; WORDS],
) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    for (number, group) in records.chunks_exact(4 * width).take(GROUPS).enumerate() {
        for (at, words) in (at..width).step_by(16).zip(words.chunks_exact_mut(2)) {
            let loaded = words_64(group, width, at);
            for (word, loaded) in words.iter_mut().zip(loaded) {
                word[number] = loaded;
            }
        }
    }
}

/// Never inlined, because a number of words that is known would unroll the loop, and then the compiler puts
/// one group after the other.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn absorb_words<const GROUPS: usize>(words: &[[__m256i; GROUPS]], states: &mut [State; GROUPS]) {
    let mut absorbed = *states;
    for words in words {
        for (state, &word) in absorbed.iter_mut().zip(words) {
            *state = state.absorb(word);
        }
    }
    *states = absorbed;
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn siphash_columns(key: [u64; 4], columns: &[[u64; 8]], words: usize, out: &mut [[u64; 8]]) {
    for (columns, out) in columns.chunks_exact(words).zip(out) {
        let mut states = [State::new(key); 2];
        for column in columns {
            for (state, four) in states.iter_mut().zip(column.as_chunks().0) {
                *state = state.absorb(load_64(four));
            }
        }
        for (state, out) in states.iter().zip(out.as_chunks_mut().0) {
            store_64(out, state.finish());
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn load_64(words: &[u64; 4]) -> __m256i {
    // SAFETY: it reads the 32 bytes of the array.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
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
    fn absorb(mut self, word: __m256i) -> Self {
        self.d = _mm256_xor_si256(self.d, word);
        self = self.round().round();
        self.a = _mm256_xor_si256(self.a, word);
        self
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn finish(mut self) -> __m256i {
        self.c = _mm256_xor_si256(self.c, _mm256_set1_epi64x(0xff));
        let Self { a, b, c, d } = self.round().round().round().round();
        _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d))
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn round(self) -> Self {
        let Self { a, b, c, d } = self;
        let a = _mm256_add_epi64(a, b);
        let b = _mm256_xor_si256(rotate::<13, 51>(b), a);
        let a = swap_halves(a);
        let c = _mm256_add_epi64(c, d);
        let d = _mm256_xor_si256(rotate_16(d), c);
        let a = _mm256_add_epi64(a, d);
        let d = _mm256_xor_si256(rotate::<21, 43>(d), a);
        let c = _mm256_add_epi64(c, b);
        let b = _mm256_xor_si256(rotate::<17, 47>(b), c);
        let c = swap_halves(c);
        Self { a, b, c, d }
    }
}

/// Left by `LEFT`, where `RIGHT` is 64 less that.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn rotate<const LEFT: i32, const RIGHT: i32>(x: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_slli_epi64::<LEFT>(x), _mm256_srli_epi64::<RIGHT>(x))
}

/// By 32: one shuffle instead of three operations.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn swap_halves(x: __m256i) -> __m256i {
    _mm256_shuffle_epi32::<0b10_11_00_01>(x)
}

/// Left by 16: one shuffle too.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn rotate_16(x: __m256i) -> __m256i {
    let from = _mm_set_epi8(13, 12, 11, 10, 9, 8, 15, 14, 5, 4, 3, 2, 1, 0, 7, 6);
    _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(from))
}
