//! Golomb-Rice codes of sorted items: eight items per group, two codes per lane.
//!
//! The method is that of the AVX-512 kernel: a lane holds the codes of two items and becomes one store of eight
//! bytes, from the byte of its first bit on. The stores happen in the order of the lanes, so each may overwrite the
//! zeros of the previous one. Scalar code maps the hashes to values.
//!
//! Rows `encode/plain` in docs/benchmarking.md.

use core::arch::x86_64::*;

use crate::arch::x86_64::{
    AHEAD, Avx2, CodeStream, LANE_BITS, encodes_pairs, group_bytes, map_to_range, prefetch,
};

/// Items per group.
const GROUP: usize = 8;

const GROUP_BYTES: usize = group_bytes(4);

impl Avx2 {
    /// As [`Avx512::encode_pairs`](super::super::Avx512::encode_pairs), in groups of 8.
    pub(crate) fn encode_pairs(
        self,
        range: u64,
        p: u32,
        hashes: &[u64],
        stream: &mut CodeStream,
        room: &mut [u8],
    ) -> usize {
        if !encodes_pairs(p) {
            return 0;
        }
        let (groups, _) = hashes.as_chunks();
        // SAFETY: the token proves that the CPU has the features.
        unsafe { encode_pairs(range, p, groups, stream, room) }
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn encode_pairs(
    range: u64,
    p: u32,
    groups: &[[u64; GROUP]],
    stream: &mut CodeStream,
    room: &mut [u8],
) -> usize {
    let reversed = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8,
    ));
    let all = |number: u64| _mm256_set1_epi64x(number as i64);
    let (zero, seven, word_bits) = (all(0), all(7), all(64));
    let shift = _mm_cvtsi32_si128(p as i32);
    // The number of bits of a zero bit and a remainder, and twice that.
    let (fixed, fixed_pair) = (all(u64::from(p + 1)), all(u64::from(2 * (p + 1))));
    let most = all(u64::from(LANE_BITS - 2 * (p + 1)));
    let (above, minus_above) = (all(2 << p), all((2_u64 << p).wrapping_neg()));
    let (top, remainder) = (all(1 << p), all((1 << p) - 1));

    let mut values = Values::new(range, groups);
    // The last value, the last code, and the bit position in every lane.
    let mut previous = all(stream.previous);
    let mut code_before = all(stream.bits);
    let mut position = all(stream.position);
    let mut done = 0;
    'groups: loop {
        let free = room.len() - ((first_lane(position) / 8) as usize).min(room.len());
        let safe = (free.saturating_sub(1) / GROUP_BYTES).min(groups.len() - done);
        if safe == 0 {
            break;
        }
        for _ in 0..safe {
            let (first, second) = values.group(groups, done);
            // The second items, one lane up.
            let moved = _mm256_permute4x64_epi64::<0b10_01_00_11>(second);
            let before = _mm256_blend_epi32::<0b11>(moved, previous);
            let first_difference = _mm256_sub_epi64(first, before);
            let second_difference = _mm256_sub_epi64(second, first);
            let first_quotient = _mm256_srl_epi64(first_difference, shift);
            let second_quotient = _mm256_srl_epi64(second_difference, shift);
            // P is at least 3, so the sum is positive, even if items descend.
            let quotients = _mm256_add_epi64(first_quotient, second_quotient);
            let long = _mm256_cmpgt_epi64(quotients, most);
            if _mm256_testz_si256(long, long) == 0 {
                break 'groups;
            }

            // The code of two items as a number: see the AVX-512 kernel.
            let bits = _mm256_add_epi64(quotients, fixed_pair);
            let second_bits = _mm256_add_epi64(second_quotient, fixed);
            let first_low = _mm256_or_si256(top, _mm256_andnot_si256(first_difference, remainder));
            let second_low =
                _mm256_or_si256(minus_above, _mm256_and_si256(second_difference, remainder));
            let first_code = _mm256_sub_epi64(_mm256_sllv_epi64(above, first_quotient), first_low);
            let code = _mm256_add_epi64(_mm256_sllv_epi64(first_code, second_bits), second_low);

            // The sums of the lengths: within the halves, then across.
            let sums = _mm256_add_epi64(bits, _mm256_slli_si256::<8>(bits));
            let low_sum = _mm256_permute4x64_epi64::<0b01_01_01_01>(sums);
            let ends = _mm256_add_epi64(sums, _mm256_blend_epi32::<0xf0>(zero, low_sum));
            let starts = _mm256_add_epi64(position, _mm256_sub_epi64(ends, bits));
            position = _mm256_add_epi64(position, last_lane(ends));

            // The code moves to the top of its lane, and down to make room for the bits that share its first byte.
            let moved = _mm256_permute4x64_epi64::<0b10_01_00_11>(code);
            let codes_before = _mm256_blend_epi32::<0b11>(moved, code_before);
            let shared = _mm256_and_si256(starts, seven);
            let at_top = _mm256_sllv_epi64(code, _mm256_sub_epi64(word_bits, bits));
            // A shift by 64 gives zero.
            let word = _mm256_or_si256(
                _mm256_srlv_epi64(at_top, shared),
                _mm256_sllv_epi64(codes_before, _mm256_sub_epi64(word_bits, shared)),
            );
            let word = _mm256_shuffle_epi8(word, reversed);
            // SAFETY: since `safe` was computed, fewer than `safe` groups of at most GROUP_BYTES bytes were added,
            // so at least GROUP_BYTES + 1 bytes are left for this group; see GROUP_BYTES.
            unsafe { store(room, _mm256_srli_epi64::<3>(starts), word) };

            previous = last_lane(second);
            // The last code is in the first lane.
            code_before = moved;
            done += 1;
        }
    }
    stream.position = first_lane(position);
    stream.previous = first_lane(previous);
    stream.bits = first_lane(code_before);
    done * GROUP
}

/// The values of the next groups. Scalar code maps the hashes, [`EARLY`] groups before they are encoded. AVX2 has no
/// multiplication of 64 bits, and the vector units have more to do than the scalar ones. A load of four values that
/// were stored one by one waits until the stores have left the store buffer: until then, other groups are encoded.
struct Values {
    range: u64,
    firsts: [[u64; GROUP / 2]; KEPT],
    seconds: [[u64; GROUP / 2]; KEPT],
}

/// How many groups ahead the hashes are mapped: 4 to 12 are equally fast, 2 a third slower.
const EARLY: usize = 8;

/// The number of groups in [`Values`].
const KEPT: usize = 16;

impl Values {
    #[inline(always)]
    fn new(range: u64, groups: &[[u64; GROUP]]) -> Self {
        let mut values =
            Self { range, firsts: [[0; GROUP / 2]; KEPT], seconds: [[0; GROUP / 2]; KEPT] };
        for number in 0..EARLY {
            values.map(groups, number);
        }
        values
    }

    /// Maps group `number`, if it exists.
    #[inline(always)]
    fn map(&mut self, groups: &[[u64; GROUP]], number: usize) {
        if let Some(group) = groups.get(number) {
            prefetch(group, AHEAD);
            let (firsts, seconds) =
                (&mut self.firsts[number % KEPT], &mut self.seconds[number % KEPT]);
            let (pairs, _) = group.as_chunks::<2>();
            for (pair, &[a, b]) in pairs.iter().enumerate() {
                firsts[pair] = map_to_range(a, self.range);
                seconds[pair] = map_to_range(b, self.range);
            }
        }
    }

    /// The values of the items with even and with odd numbers of a group. The groups are taken in order.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn group(&mut self, groups: &[[u64; GROUP]], number: usize) -> (__m256i, __m256i) {
        self.map(groups, number + EARLY);
        (load(&self.firsts[number % KEPT]), load(&self.seconds[number % KEPT]))
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(numbers: &[u64; 4]) -> __m256i {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
}

/// Stores the words in the order of the lanes.
///
/// # Safety
///
/// Eight bytes from each of the places `bytes` are within the room.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(room: &mut [u8], bytes: __m256i, words: __m256i) {
    let start = room.as_mut_ptr();
    let words = halves(words);
    for (half, bytes) in halves(bytes).into_iter().enumerate() {
        let words = words[half];
        for (byte, word) in [
            (_mm_cvtsi128_si64(bytes), _mm_cvtsi128_si64(words)),
            (_mm_extract_epi64::<1>(bytes), _mm_extract_epi64::<1>(words)),
        ] {
            // SAFETY: by the contract of this function.
            let place = unsafe { start.add(byte as usize) };
            // SAFETY: the same.
            unsafe { place.cast::<i64>().write_unaligned(word) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves(vector: __m256i) -> [__m128i; 2] {
    [_mm256_castsi256_si128(vector), _mm256_extracti128_si256::<1>(vector)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn first_lane(vector: __m256i) -> u64 {
    _mm_cvtsi128_si64(_mm256_castsi256_si128(vector)) as u64
}

/// The last lane in every lane.
#[inline]
#[target_feature(enable = "avx2")]
fn last_lane(vector: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_11_11_11>(vector)
}
