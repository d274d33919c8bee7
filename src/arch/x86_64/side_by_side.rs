//! Decodes 32 filters of P = 19 side by side, one in each lane: `block_filters` in docs/block-filters.md.
//!
//! A lane begins at its filter's first code. So there is nothing to synchronise, and values are absolute at once.
//!
//! A position is that of the zero that ends the quotient of the code at hand. From there, the remainder is at the top of the
//! window, and one count of leading zeros after it gives the length of a whole step: the zero, the remainder, and the ones of
//! the next quotient. A step adds `remainder + (ones << P)` to the value, and moves by `P + 1 + ones`. So the value so far,
//! with the quotient at hand, is `(position << P) + sum`, where `sum` needs the remainders alone.
//!
//! Each group of [`CODES`] codes loads 64 bytes per lane, which are transposed to eight words of all lanes. Filters of uniform
//! hashes advance at nearly the same speed, so each pair of codes begins in one of two known words. (Gathers are
//! slow on AMD: docs/decisions/0008-decoding.md.) A lane that is elsewhere, or has a code that does
//! not fit, is *odd*: its filter is left to other code.
//!
//! The next [`NEXT`] targets of each lane are compared with all values of the group, if any lane of its vector reaches the
//! first of them.

use crate::arch::hash::Words;

/// The number of filters.
pub(crate) const LANES: usize = 32;

/// The number of codes of a group.
pub(crate) const CODES: usize = 2 * PAIRS;

/// The bytes that are loaded for a group.
pub(crate) const LOADED: usize = 64;

/// The only P for which these lanes are made, with M = 784931.
pub(crate) const P: u32 = 19;

/// The bits of a zero and a remainder.
pub(super) const STEP: u64 = P as u64 + 1;

pub(super) const PAIRS: usize = 10;

/// The first of the two words in which a pair of codes begins. With 42.1 bits a pair, each begins on average at least 32 bits
/// after the beginning of the first, and before the end of the second.
pub(super) const WORD: [usize; PAIRS] = [0, 0, 0, 1, 2, 2, 3, 4, 4, 5];

/// The number of targets that are compared together. A lane that passes all of them compares the next ones, too.
pub(crate) const NEXT: usize = 4;

/// How far ahead bytes are prefetched: 32 streams are more than a CPU follows by itself.
pub(super) const AHEAD: usize = 512;

/// The lanes between two calls.
#[derive(Clone, Debug)]
pub(crate) struct SideBySide {
    /// The bit position of the zero that ends the quotient at hand.
    pub(crate) positions: [u64; LANES],
    /// The value so far, with that quotient, less `position << P`.
    pub(crate) sums: [u64; LANES],
    /// A bit for each lane that decodes. The others stand still.
    pub(crate) active: u32,
    /// The place of the target that each lane looks for.
    pub(crate) at_target: [u32; LANES],
    /// The number of the last bits that targets lack. Values are compared without them.
    pub(crate) dropped: [u64; LANES],
    /// Two bits for each lane: whether a target was found.
    pub(crate) found: [u8; LANES / 4],
}

/// Why a call ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped {
    /// The groups that were decoded.
    pub(crate) groups: usize,
    /// The lanes that are odd: their state means nothing.
    pub(crate) odd: u32,
    /// The lanes that are odd, or have no room for another group.
    pub(crate) stopped: u32,
}

/// An instruction set that decodes side by side.
pub(crate) trait Decodes: Words {
    /// The lesser and the greater of each two 32-bit numbers.
    fn order(self, a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector);
    /// `(hash * range >> 64) >> dropped` in each lane, for ranges less than 2^52.
    fn map_each(
        self,
        hashes: Self::Vector,
        ranges: Self::Vector,
        dropped: Self::Vector,
    ) -> Self::Vector;

    /// [`SideBySide::decode_groups`].
    ///
    /// # Safety
    ///
    /// The bytes of each lane have [`LOADED`] bytes from the byte of its position on, and of any position up to its limit.
    /// From its place on, its targets are ascending, at least [`NEXT`], and the last [`NEXT`] are `u32::MAX`.
    unsafe fn decode_groups(
        self,
        lanes: &mut SideBySide,
        bytes: &[*const u8; LANES],
        limits: &[u64; LANES],
        groups: usize,
        targets: &[*const u32; LANES],
    ) -> Stopped;
}

impl SideBySide {
    /// Decodes up to `groups` groups of [`CODES`] codes, until a lane stops, and looks for targets among their values. Each lane
    /// has `targets`, in ascending order, which end with [`NEXT`] numbers `u32::MAX`.
    ///
    /// # Panics
    ///
    /// A lane has fewer than [`LOADED`] bytes left, is beyond its targets, or these do not end like that.
    pub(crate) fn decode_groups(
        &mut self,
        simd: impl Decodes,
        bytes: &[&[u8]; LANES],
        groups: usize,
        targets: [&[u32]; LANES],
    ) -> Stopped {
        let mut limits = [0; LANES];
        for lane in 0..LANES {
            let last = bytes[lane].len().checked_sub(LOADED);
            let last = last.expect("the bytes of a group");
            assert!(self.positions[lane] / 8 <= last as u64);
            limits[lane] = last as u64 * 8 + 7;
            let left = targets[lane].get(self.at_target[lane] as usize..);
            assert!(left.is_some_and(|left| left.ends_with(&[u32::MAX; NEXT])));
        }
        let start = bytes.map(<[u8]>::as_ptr);
        let targets = targets.map(<[u32]>::as_ptr);
        // SAFETY: each position, and each up to its limit, is at least 64 bytes before the end of its bytes. A target `u32::MAX`
        // is never passed, so each lane has `NEXT` targets from its place on.
        unsafe { simd.decode_groups(self, &start, &limits, groups, &targets) }
    }
}
