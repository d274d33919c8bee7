//! The inputs and outputs of the lane kernels of all instruction sets.

/// The number of codes that a kernel decodes in every lane before it checks them.
pub(crate) const GROUP: usize = 8;

/// The number of valid bits after 8 bytes are loaded at a bit position and shifted into place.
pub(crate) const WINDOW: u32 = 57;

/// Places that are decoded in parallel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<const N: usize> {
    /// The bit position of the next code of each lane.
    pub(crate) positions: [u64; N],
    /// The value before it. Sums wrap, so callers must check values before they can overflow.
    pub(crate) values: [u64; N],
}

/// The progress of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advanced {
    /// The number of groups of [`GROUP`] codes that every lane decoded. Fewer than requested near the end of
    /// the bytes, or if a lane is `behind`.
    pub(crate) groups: usize,
    /// A bit mask of the lanes that are one group behind the others, because one of their codes did not fit in
    /// a step.
    pub(crate) behind: u32,
}

/// The number of groups, at most `groups`, that can be decoded from `positions` by loads of 8 bytes within
/// `len` bytes. A group has `steps` steps.
///
/// A step of one or two codes that fit in a window moves a lane by at most [`WINDOW`] bits. Other steps move it
/// by at most `worst_run` + 33 bits per code, and their group is the last. Room is reserved for one such group
/// and for the 71 bits of the last load.
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
