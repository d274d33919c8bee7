//! What the lane kernels of all instruction sets take and give.

/// How many codes a kernel decodes in every lane before it looks whether all were in order.
pub(crate) const GROUP: usize = 8;

/// The bits that are sure to be valid where 8 bytes are loaded at a bit position and shifted into place.
pub(crate) const WINDOW: u32 = 57;

/// Places that decode side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<const N: usize> {
    /// The bit position of the next code of each lane.
    pub(crate) positions: [u64; N],
    /// The value before it. Sums wrap: whoever limits values has to look at them before that can happen.
    pub(crate) values: [u64; N],
}

/// How far a kernel came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advanced {
    /// How many groups of [`GROUP`] codes every lane decoded; fewer than asked for near the end of the
    /// bytes, or where a lane is `behind`.
    pub(crate) groups: usize,
    /// The lanes, a bit each, that are one group behind the others, because a code of it did not fit a
    /// step.
    pub(crate) behind: u32,
}

/// At most `groups`, and no more than can be read at `positions` without leaving `len` bytes, by loads of 8
/// bytes, with `steps` steps in a group.
///
/// A step of one or two codes that fit a window moves a lane by at most [`WINDOW`] bits. One that does not
/// moves it by at most `worst_run` + 33 bits a code, and its group is the last: room is kept for a group of
/// those and for the 71 bits of the last load.
pub(crate) fn groups_within(
    len: usize,
    positions: &[u64],
    groups: usize,
    steps: usize,
    worst_run: u64,
) -> usize {
    let spare = GROUP as u64 * (worst_run + 33) + 71;
    let bits = len as u64 * 8;
    let foremost = positions.iter().max().copied().unwrap_or(u64::MAX);
    let room = bits.saturating_sub(spare).saturating_sub(foremost);
    groups.min((room / (steps as u64 * u64::from(WINDOW))) as usize)
}
