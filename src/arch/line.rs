//! The line of a resident filter: comparisons of one tag with all tags of a line.
//!
//! A line has [`SLOTS`] tags of 24 bits in two planes, so that one comparison of 16-bit and one of 8-bit lanes find a
//! tag: the low halves in bytes 0 to 41, the high bytes in 42 to 62. Byte 63 has counts, which the caller knows.
//!
//! AVX2 and AVX-512 compare more of a line at once, and are not faster: the comparisons wait for the line.

/// The tags of a line.
pub(crate) const SLOTS: usize = 21;

/// The first byte of the high plane.
pub(crate) const HIGH: usize = 2 * SLOTS;

/// A cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

/// The bytes of cache lines.
pub(crate) fn as_bytes(lines: &[Line]) -> &[u8] {
    // SAFETY: a line is 64 bytes without padding, and any bytes are initialised.
    unsafe { core::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
}

/// A bit for each slot of the line that holds this tag of 24 bits.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
#[inline(always)]
pub(crate) fn same(line: &[u8; 64], tag: u32) -> u32 {
    let (low, high) = (tag as u16, (tag >> 16) as u8);
    let (halves, _) = line.as_chunks::<2>();
    let slots = halves[..SLOTS].iter().zip(&line[HIGH..HIGH + SLOTS]);
    slots.enumerate().fold(0, |same, (slot, (half, byte))| {
        let equal = (u16::from_le_bytes(*half) == low) & (*byte == high);
        same | u32::from(equal) << slot
    })
}

/// A bit for each slot of the line that holds this tag of 24 bits. Every x86-64 CPU has SSE2.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline(always)]
pub(crate) fn same(line: &[u8; 64], tag: u32) -> u32 {
    use core::arch::x86_64::*;
    let (quarters, _) = line.as_chunks::<16>();
    // SAFETY: the slice has 16 bytes.
    let load = |at: usize| unsafe { _mm_loadu_si128(quarters[at].as_ptr().cast()) };
    // SAFETY: the target has SSE2.
    #[allow(unused_unsafe)]
    unsafe {
        let quarters = [load(0), load(1), load(2), load(3)];
        let low = _mm_set1_epi16(tag as i16);
        let high = _mm_set1_epi8((tag >> 16) as i8);
        let [a, b, c, d] = quarters;
        let lows = _mm_packs_epi16(_mm_cmpeq_epi16(a, low), _mm_cmpeq_epi16(b, low));
        let last = _mm_cmpeq_epi16(c, low);
        let first = _mm_movemask_epi8(lows) as u32;
        let rest = _mm_movemask_epi8(_mm_packs_epi16(last, last)) as u32;
        let (c, d) = (_mm_cmpeq_epi8(c, high), _mm_cmpeq_epi8(d, high));
        let bytes = (_mm_movemask_epi8(c) as u32) | (_mm_movemask_epi8(d) as u32) << 16;
        (first | rest << 16) & (bytes >> (HIGH - 32)) & ((1 << SLOTS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_finds_the_slots_of_a_tag() {
        for slot in 0..SLOTS {
            for tag in [0, 1, 0xffff, 0x1_0000, 0x80_8080, 0xff_ffff, 0x12_3456] {
                // Every other slot differs in one plane only, or in both.
                for other in [tag ^ 1, tag ^ 0x10_0000, !tag & 0xff_ffff] {
                    let mut line = [0xa5; 64];
                    for at in 0..SLOTS {
                        let tag: u32 = if at == slot || at == 20 { tag } else { other };
                        let [low, middle, high, _] = tag.to_le_bytes();
                        (line[2 * at], line[2 * at + 1], line[HIGH + at]) = (low, middle, high);
                    }
                    for last in [0, 0xff, line[HIGH], line[HIGH + slot]] {
                        line[63] = last;
                        let same = same(&line, tag);
                        assert_eq!(same, 1 << slot | 1 << 20, "{tag:x} in {line:x?}");
                    }
                }
            }
        }
    }
}
