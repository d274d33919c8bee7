//! Golomb-Rice codes of sorted items: 16 items per group, two codes per lane.
//!
//! A lane holds the codes of two items, at most [`LANE_BITS`] bits, and becomes one store of eight bytes. The
//! store starts at the byte of its first bit. The last bits of the previous lane fill the top of that byte, and
//! zeros follow the codes. The stores of one scatter happen in the order of the lanes. Each lane may therefore
//! overwrite the zeros of the previous one, and no lane needs to know how its neighbours share a byte.
//!
//! The kernel stops before a group with two codes that are too long for a lane, and before anything else that
//! it cannot handle. The caller handles all rare cases in one place.

use core::arch::x86_64::*;

use crate::arch::x86_64::{
    AHEAD, Avx512, CodeStream, LANE_BITS, encodes_pairs, group_bytes, prefetch,
};

/// Items per group.
const GROUP: usize = 16;

const GROUP_BYTES: usize = group_bytes(8);

/// The first i of the eight bytes of lane i.
const LANES_BEFORE: u64 = 0x7f3f_1f0f_0703_0100;

impl Avx512 {
    /// Maps hashes to `[0, range)` and appends their codes with `p` remainder bits, in groups of 16. Returns the
    /// number of encoded items: 0 if `p` is not supported (see [`encodes_pairs`]). Stops before a group that might
    /// not fit in the room, has an item smaller than its predecessor, or has two codes of more than 57 bits
    /// together in one lane.
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
        unsafe {
            match u64::BITS - range.leading_zeros() {
                ..=40 => encode_pairs::<40>(range, p, groups, stream, room),
                41..=52 => encode_pairs::<52>(range, p, groups, stream, room),
                _ => encode_pairs::<64>(range, p, groups, stream, room),
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,avx512vbmi,avx512vbmi2")]
fn encode_pairs<const RANGE_BITS: u32>(
    range: u64,
    p: u32,
    groups: &[[u64; GROUP]],
    stream: &mut CodeStream,
    room: &mut [u8],
) -> usize {
    let evens = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    let odds = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    // The index of the first byte of each lane, in every lane.
    let lanes = _mm512_set1_epi64(0x3830_2820_1810_0800);
    let reversed =
        _mm512_broadcast_i32x4(_mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
    let all = |number: u64| _mm512_set1_epi64(number as i64);
    let (zero, seven) = (all(0), all(7));
    let (shift, range) = (all(u64::from(p)), all(range));
    // The number of bits of a zero bit and a remainder, and twice that.
    let (fixed, fixed_pair) = (all(u64::from(p + 1)), all(u64::from(2 * (p + 1))));
    let most = all(u64::from(LANE_BITS - 2 * (p + 1)));
    let (above, minus_above) = (all(2 << p), all((2_u64 << p).wrapping_neg()));
    let (top, remainder) = (all(1 << p), all((1 << p) - 1));

    let mut previous = all(stream.previous);
    let mut code_before = all(stream.bits);
    let mut position = all(stream.position);
    let mut rest = groups;
    'groups: loop {
        stream.position = first_lane(position);
        let free = room.len() - ((stream.position / 8) as usize).min(room.len());
        let (safe, after) = rest.split_at((free.saturating_sub(1) / GROUP_BYTES).min(rest.len()));
        if safe.is_empty() {
            break;
        }
        rest = after;
        for (at, group) in safe.iter().enumerate() {
            let [low, high] = load(group);
            let low = map::<RANGE_BITS>(low, range);
            let high = map::<RANGE_BITS>(high, range);
            let first = _mm512_permutex2var_epi64(low, evens, high);
            let second = _mm512_permutex2var_epi64(low, odds, high);
            let before = _mm512_alignr_epi64::<7>(second, previous);
            let first_difference = _mm512_sub_epi64(first, before);
            let second_difference = _mm512_sub_epi64(second, first);
            let first_quotient = _mm512_srlv_epi64(first_difference, shift);
            let second_quotient = _mm512_srlv_epi64(second_difference, shift);
            // P is at least 3, so the sum does not overflow, even if items descend.
            let quotients = _mm512_add_epi64(first_quotient, second_quotient);
            if _mm512_cmpgt_epu64_mask(quotients, most) != 0 {
                rest = &groups[groups.len() - rest.len() - safe.len() + at..];
                break 'groups;
            }

            // As a number, the code of quotient q and remainder r is 2^(q+P+1) - 2^(P+1) + r. Two codes, the
            // second with b bits, are (2^(q+P+1) - (2^(P+1) - 1 - r)) * 2^b - 2^(P+1) + r'.
            let bits = _mm512_add_epi64(quotients, fixed_pair);
            let second_bits = _mm512_add_epi64(second_quotient, fixed);
            // top | (!difference & remainder), the inverted remainder with a one above it, and
            // minus_above | (difference & remainder).
            let first_low = _mm512_ternarylogic_epi64::<0xf2>(top, first_difference, remainder);
            let second_low =
                _mm512_ternarylogic_epi64::<0xf8>(minus_above, second_difference, remainder);
            let first_code = _mm512_sub_epi64(_mm512_sllv_epi64(above, first_quotient), first_low);
            // The rotation brings in only zeros, so it is a shift; the compiler would replace a real shift.
            let code = _mm512_add_epi64(_mm512_rolv_epi64(first_code, second_bits), second_low);

            // Each lane receives the lengths of all lanes before it, one byte each, and adds them.
            let bits_before = _mm512_maskz_permutexvar_epi8(LANES_BEFORE, lanes, bits);
            let starts = _mm512_add_epi64(position, _mm512_sad_epu8(bits_before, zero));
            // Rotated by its length, the code is at the top of its lane. It then moves down to make room for the
            // bits that share its first byte.
            let at_top = _mm512_rorv_epi64(code, bits);
            let codes_before = _mm512_alignr_epi64::<7>(code, code_before);
            let word = _mm512_shrdv_epi64(at_top, codes_before, _mm512_and_si512(starts, seven));
            let word = _mm512_shuffle_epi8(word, reversed);
            let bytes = _mm512_srli_epi64::<3>(starts);
            // SAFETY: since `safe` was cut, `at` groups of at most GROUP_BYTES bytes were added, so at least
            // GROUP_BYTES + 1 bytes are left for this group; see GROUP_BYTES.
            unsafe { _mm512_i64scatter_epi64::<1>(room.as_mut_ptr().cast(), bytes, word) };

            let ends = _mm512_add_epi64(starts, bits);
            position = _mm512_permutexvar_epi64(seven, ends);
            previous = second;
            code_before = code;
        }
    }
    stream.position = first_lane(position);
    stream.previous = last_lane(previous);
    stream.bits = last_lane(code_before);
    (groups.len() - rest.len()) * GROUP
}

/// The hashes of a group, in order.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(group: &[u64; GROUP]) -> [__m512i; 2] {
    let load = |at: usize| {
        let eight = &group[at..][..8];
        prefetch(eight, AHEAD);
        // SAFETY: the slice has the eight numbers.
        unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) }
    };
    [load(0), load(8)]
}

/// `(hash * range) >> 64` in each lane, exactly, for a range below 2^`RANGE_BITS` (40, 52 or 64).
///
/// The multiplier takes the low 52 bits of both factors and adds the low or the high 52 bits of their product to
/// a third number.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn map<const RANGE_BITS: u32>(hash: __m512i, range: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    if RANGE_BITS <= 40 {
        // With hash = a * 2^52 + b, the value is (a * range + (b * range >> 52)) >> 12, and a * range is below
        // 2^52.
        let a = _mm512_srli_epi64::<52>(hash);
        let sum = _mm512_madd52hi_epu64(zero, hash, range);
        return _mm512_srli_epi64::<12>(_mm512_madd52lo_epu64(sum, a, range));
    }
    // With hash = a * 2^12 + b, the value is (a * range + (b * range >> 12)) >> 52: the high half of the first
    // product, plus the carry of the sum of its low half and the second product. b is shifted to bit 40, so that
    // the high half of its product is the required part.
    let a = _mm512_srli_epi64::<12>(hash);
    let b = _mm512_slli_epi64::<40>(hash);
    let low = _mm512_madd52lo_epu64(zero, a, range);
    let low = _mm512_madd52hi_epu64(low, b, range);
    if RANGE_BITS <= 52 {
        return _mm512_madd52hi_epu64(_mm512_srli_epi64::<52>(low), a, range);
    }
    // With range = c * 2^52 + d, the above covers d. c adds a * c + (b * c >> 12) to the value, and the fraction
    // of that to the sum.
    let c = _mm512_srli_epi64::<52>(range);
    let low = _mm512_madd52lo_epu64(low, b, c);
    let value = _mm512_madd52hi_epu64(_mm512_srli_epi64::<52>(low), a, range);
    let value = _mm512_madd52hi_epu64(value, b, c);
    let value = _mm512_madd52lo_epu64(value, a, c);
    let high = _mm512_madd52hi_epu64(zero, a, c);
    _mm512_add_epi64(value, _mm512_slli_epi64::<52>(high))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn first_lane(vector: __m512i) -> u64 {
    _mm_cvtsi128_si64(_mm512_castsi512_si128(vector)) as u64
}

#[inline]
#[target_feature(enable = "avx512f")]
fn last_lane(vector: __m512i) -> u64 {
    first_lane(_mm512_alignr_epi64::<7>(vector, vector))
}
