//! Sorts the cells of the sort's last step, eight at a time (sort/uniform and build/nut25 in
//! docs/benchmarking.md).
//!
//! The places of a cell are 256 words apart, and equal places of neighbouring cells are adjacent. A vector
//! therefore holds one place of eight cells, and a network over 16 vectors sorts eight cells without shuffles.
//! Only the output is transposed. The usual network within vectors shuffles in each of its ten stages, and took
//! twice the time.

use core::arch::x86_64::*;

use super::lanes::transposed;
use crate::arch::network::sort_16;
use crate::arch::x86_64::Avx512;

const CELLS: usize = 256;
const PLACES: usize = 16;
const LANES: usize = 8;

impl Avx512 {
    /// Sorts each cell and writes the first `next[cell] / 256` of its places to `out`, one cell after another. It
    /// may also write up to a cell's places after them. Returns the number of places written. Places that do not
    /// fit in `out` are not written. All places become `u64::MAX` again.
    pub(crate) fn drain_cells(
        self,
        places: &mut [[u64; CELLS]; PLACES],
        next: &[u16; CELLS],
        out: &mut [u64],
    ) -> usize {
        // SAFETY: the token proves that the CPU has the features.
        unsafe { drain::<false>(places, next, 0, out) }
    }

    /// The same for places that hold the bits of positive floats. It writes their bits minus `bias`, and all places
    /// become infinity again. Two float comparisons run at a time.
    pub(crate) fn drain_float_cells(
        self,
        places: &mut [[u64; CELLS]; PLACES],
        next: &[u16; CELLS],
        bias: u64,
        out: &mut [u64],
    ) -> usize {
        // SAFETY: the token proves that the CPU has the features.
        unsafe { drain::<true>(places, next, bias, out) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn drain<const FLOATS: bool>(
    places: &mut [[u64; CELLS]; PLACES],
    next: &[u16; CELLS],
    bias: u64,
    out: &mut [u64],
) -> usize {
    let empty = if FLOATS {
        _mm512_castpd_si512(_mm512_set1_pd(f64::INFINITY))
    } else {
        _mm512_set1_epi64(-1)
    };
    let bias = _mm512_set1_epi64(bias as i64);
    let exchange = |a: __m512i, b: __m512i| {
        if FLOATS {
            let (a, b) = (_mm512_castsi512_pd(a), _mm512_castsi512_pd(b));
            let (least, most) = (_mm512_min_pd(a, b), _mm512_max_pd(a, b));
            (_mm512_castpd_si512(least), _mm512_castpd_si512(most))
        } else {
            (_mm512_min_epu64(a, b), _mm512_max_epu64(a, b))
        }
    };
    let mut written = 0;
    for (group, counts) in next.as_chunks::<LANES>().0.iter().enumerate() {
        let mut v = [empty; PLACES];
        for (at, v) in v.iter_mut().enumerate() {
            let eight = &mut places[at].as_chunks_mut::<LANES>().0[group];
            // SAFETY: `eight` is 64 bytes; no alignment is required.
            *v = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(eight.as_mut_ptr().cast(), empty) };
        }
        sort_16!(v, exchange);
        if FLOATS {
            for v in &mut v {
                *v = _mm512_sub_epi64(*v, bias);
            }
        }
        let low = transposed(&[v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]]);
        let high = transposed(&[v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]]);
        for lane in 0..LANES {
            let count = usize::from(counts[lane] / CELLS as u16).min(PLACES);
            let Some(room) = out.get_mut(written..) else {
                return written;
            };
            if let Some(sixteen) = room.first_chunk_mut::<PLACES>() {
                let to = sixteen.as_mut_ptr();
                // SAFETY: `to` has room for sixteen words; this writes the first eight.
                unsafe { _mm512_storeu_si512(to.cast(), low[lane]) };
                // SAFETY: this writes the other eight.
                unsafe { _mm512_storeu_si512(to.add(LANES).cast(), high[lane]) };
            } else {
                let kept = (1_u32 << count.min(room.len())) - 1;
                let to = room.as_mut_ptr().cast::<i64>();
                // SAFETY: the mask selects only words within `room`.
                unsafe { _mm512_mask_storeu_epi64(to, kept as u8, low[lane]) };
                if room.len() > LANES {
                    // SAFETY: as above, and `room` has a ninth word.
                    unsafe {
                        _mm512_mask_storeu_epi64(to.add(LANES), (kept >> LANES) as u8, high[lane]);
                    }
                }
            }
            written += count;
        }
    }
    written
}
