//! The last step of the sort: about two thousand hashes with equal leading bits, within the first-level cache.
//!
//! They are dealt to [`CELLS`] cells by their next bits, about eight per cell. Each cell is sorted by the
//! network of its [`PLACES`] places. A cell may overflow: hashes without a place, one in a thousand, go to a
//! list and are merged in afterwards. A list longer than [`SPARE`] means that the hashes are not uniform, and
//! the general sort is used.

use alloc::boxed::Box;
use alloc::vec;

use super::merge_tail;
use super::scatter::BATCH;
use crate::arch::{Kind, SimdLevel, memory::map, network::sort_16};

/// The number of cells. Their places take 32 KiB, which leaves a third of the first-level cache.
const CELLS: usize = 256;

/// The number of places per cell.
const PLACES: usize = 16;

/// The number of hashes that fill the cells to half. One cell in 270 is then too small.
pub(super) const LEAF_ITEMS: usize = CELLS * PLACES / 2;

/// The maximum number of hashes without a place. Uniform hashes leave 2 in [`LEAF_ITEMS`].
const SPARE: usize = 64;

/// From this number of leaves on, the hashes of a leaf are compared as floating-point numbers.
const FLOAT_LEAVES: u64 = 8;

/// The number that a leaf's first hash is then mapped to: the bits of 2.0. The numbers from there to infinity
/// have the order of their bits, and there are enough of them for an eighth of all hashes. Every CPU has
/// minimum and maximum of such numbers as single instructions. For 64-bit integers, not even AVX2 has them.
const FIRST: u64 = 1 << 62;

/// The cells, empty between two leaves.
pub(super) struct Leaf {
    /// The total number of leaves.
    leaves: u64,
    /// Indexed by place, then by cell, not cell by cell. A vector then holds the same place of neighbouring
    /// cells, and one comparison with the maximum fill serves every cell.
    places: Box<[[u64; CELLS]; PLACES]>,
    /// For each cell, the place of its next hash, counted over all places: `cell + CELLS * count`.
    next: [u16; CELLS],
    /// The representation of hashes in the places.
    form: Form,
    /// Hashes without a place, in the first `spare_len`.
    spare: [u64; SPARE],
    spare_len: usize,
}

/// The representation of hashes in the places.
#[derive(Clone, Copy)]
struct Form {
    /// Added to each hash.
    bias: u64,
    /// Marks an empty place: no value is greater.
    empty: u64,
}

/// What fills a vector of the target. With AVX and two, the compiler makes vectors of four out of pairs, and a sort takes a
/// fifth longer.
const FLOAT_LANES: usize = if cfg!(target_feature = "avx") { 4 } else { 2 };

/// `next` of empty cells.
const EMPTY: [u16; CELLS] = {
    let mut next = [0; CELLS];
    let mut cell = 0;
    while cell < CELLS {
        next[cell] = cell as u16;
        cell += 1;
    }
    next
};

/// Filled where it is: as an array that is moved to the heap, the code that makes it has 18 KB.
fn boxed(empty: u64) -> Box<[[u64; CELLS]; PLACES]> {
    let mut places = vec![[0; CELLS]; PLACES].into_boxed_slice();
    places.as_flattened_mut().fill(empty);
    places.try_into().expect("as many rows")
}

impl Leaf {
    pub(super) fn new(leaves: u64) -> Self {
        let empty = if leaves < FLOAT_LEAVES { u64::MAX } else { f64::INFINITY.to_bits() };
        Self {
            leaves,
            places: boxed(empty),
            next: EMPTY,
            form: Form { bias: 0, empty },
            spare: [0; SPARE],
            spare_len: 0,
        }
    }

    /// Deals the hashes of this leaf, given in pieces, to the cells. Returns `false`, and keeps nothing, if the
    /// cells overflow.
    pub(super) fn fill(&mut self, level: SimdLevel, leaf: u64, pieces: &[&[u64]]) -> bool {
        if self.leaves >= FLOAT_LEAVES {
            let start = (u128::from(leaf) << 64).div_ceil(u128::from(self.leaves));
            self.form.bias = FIRST.wrapping_sub(start as u64);
        }
        let dealt = level.compiled(
            #[inline(always)]
            || self.scatter_all(pieces),
        );
        if !dealt {
            self.places.as_flattened_mut().fill(self.form.empty);
            self.next = EMPTY;
            self.spare_len = 0;
        }
        dealt
    }

    // Loops here and below, not Iterator::all: that is not always inlined, and then it is not compiled for the
    // level.
    #[inline(always)]
    fn scatter_all(&mut self, pieces: &[&[u64]]) -> bool {
        for piece in pieces {
            if !self.scatter(piece) {
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn scatter(&mut self, hashes: &[u64]) -> bool {
        let (leaves, bias) = (self.leaves, self.form.bias);
        let places = self.places.as_flattened_mut();
        let mut store = |place: u16, hash: u64| match places.get_mut(usize::from(place)) {
            Some(place) => {
                *place = hash.wrapping_add(bias);
                true
            }
            None => match self.spare.get_mut(self.spare_len) {
                Some(spare) => {
                    *spare = hash;
                    self.spare_len += 1;
                    true
                }
                None => false,
            },
        };
        let (batches, rest) = hashes.as_chunks::<BATCH>();
        for batch in batches {
            let mut places = [0; BATCH];
            for (at, place) in places.iter_mut().enumerate() {
                *place = take_place(&mut self.next, leaves, batch[at]);
            }
            for (at, &place) in places.iter().enumerate() {
                if !store(place, batch[at]) {
                    return false;
                }
            }
        }
        for &hash in rest {
            if !store(take_place(&mut self.next, leaves, hash), hash) {
                return false;
            }
        }
        true
    }

    /// Writes the contents of the cells, sorted, to the start of `out`, empties the cells, and returns the
    /// number of hashes. `out` must have room for them; the part after them may be overwritten.
    pub(super) fn drain(&mut self, level: SimdLevel, out: &mut [u64]) -> usize {
        let (places, next, form) = (&mut *self.places, &self.next, self.form);
        let floats = self.leaves >= FLOAT_LEAVES;
        let written = match level.kind() {
            Kind::Baseline(_) if floats => {
                drain_cells(places, next, form, out, floats_in_order::<FLOAT_LANES>)
            }
            Kind::Baseline(_) => drain_cells(places, next, form, out, in_order::<1>),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(avx2) => avx2.compiled(
                #[inline(always)]
                || {
                    if floats {
                        drain_cells(places, next, form, out, floats_in_order::<4>)
                    } else {
                        drain_cells(places, next, form, out, in_order::<4>)
                    }
                },
            ),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) if floats => {
                avx512.drain_float_cells(places, next, form.bias, out)
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) => avx512.drain_cells(places, next, out),
        };
        let spare = &mut self.spare[..self.spare_len];
        spare.sort_unstable();
        let len = written + spare.len();
        merge_tail(&mut out[..len], spare);
        self.next = EMPTY;
        self.spare_len = 0;
        len
    }
}

/// Sorts each cell and writes its contents to `out`, cell after cell. Each write may extend to a full cell and
/// overwrite what follows. Returns the number of hashes. All places are then empty.
#[inline(always)]
fn drain_cells<const LANES: usize>(
    places: &mut [[u64; CELLS]; PLACES],
    next: &[u16; CELLS],
    form: Form,
    out: &mut [u64],
    in_order: impl Fn([u64; LANES], [u64; LANES]) -> ([u64; LANES], [u64; LANES]),
) -> usize {
    let mut written = 0;
    for (group, counts) in next.as_chunks::<LANES>().0.iter().enumerate() {
        let mut v = [[0; LANES]; PLACES];
        for (at, v) in v.iter_mut().enumerate() {
            let cells = &mut places[at].as_chunks_mut::<LANES>().0[group];
            *v = *cells;
            *cells = [form.empty; LANES];
        }
        sort_16!(v, in_order);
        for lane in 0..LANES {
            let count = usize::from(counts[lane] / CELLS as u16).min(PLACES);
            let room = &mut out[written..];
            // Copies all places although only some are valid: a loop of unpredictable length costs more.
            if let Some(room) = room.first_chunk_mut::<PLACES>() {
                for (to, v) in room.iter_mut().zip(&v) {
                    *to = v[lane].wrapping_sub(form.bias);
                }
            } else {
                for (to, v) in room[..count].iter_mut().zip(&v) {
                    *to = v[lane].wrapping_sub(form.bias);
                }
            }
            written += count;
        }
    }
    written
}

/// The minimum and maximum in each lane.
#[inline(always)]
fn in_order<const LANES: usize>(a: [u64; LANES], b: [u64; LANES]) -> ([u64; LANES], [u64; LANES]) {
    let (mut least, mut most) = (a, b);
    for lane in 0..LANES {
        least[lane] = a[lane].min(b[lane]);
        most[lane] = a[lane].max(b[lane]);
    }
    (least, most)
}

/// [`in_order`] for the bits of positive floating-point numbers.
#[inline(always)]
fn floats_in_order<const LANES: usize>(
    a: [u64; LANES],
    b: [u64; LANES],
) -> ([u64; LANES], [u64; LANES]) {
    // Converted as whole arrays: with conversion per number, the compiler no longer vectorizes.
    let (a, b) = (map(a, f64::from_bits), map(b, f64::from_bits));
    let (mut least, mut most) = (a, b);
    for lane in 0..LANES {
        // This is what the instructions do. f64::min requires more if a NaN is possible.
        least[lane] = if a[lane] < b[lane] { a[lane] } else { b[lane] };
        most[lane] = if a[lane] > b[lane] { a[lane] } else { b[lane] };
    }
    (map(least, f64::to_bits), map(most, f64::to_bits))
}

/// The place of `hash`, or a number beyond all places if its cell is full.
#[inline(always)]
fn take_place(next: &mut [u16; CELLS], leaves: u64, hash: u64) -> u16 {
    // The upper half of the product is the leaf; the cell is in the next bits.
    let cell = (hash.wrapping_mul(leaves) >> 56) as u8;
    let next = &mut next[usize::from(cell)];
    let place = *next;
    // It may exceed the places, but only by SPARE and one batch.
    *next = place + CELLS as u16;
    place
}
