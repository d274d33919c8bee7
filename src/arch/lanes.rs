//! What the lane kernels of all instruction sets take and give.

/// How many codes a kernel decodes in every lane before it looks whether all were in order.
pub(crate) const GROUP: usize = 8;

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
