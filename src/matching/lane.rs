//! One of four look-ups that run in parallel in scalar code.
//!
//! A lane keeps no buffer: for every two codes it loads eight bytes at its position. That makes its dependency
//! chain longer than a serial reader's. But four chains overlap, and four lanes fit in the registers: 91
//! against 148 ns per target with AVX2 (index of 64 items per entry). A version with steps without branches, in
//! which arithmetic keeps a finished lane in place, took 177 ns.

use crate::arch::lanes::WINDOW;
use crate::cost;
use crate::matching::table::Point;
use crate::rice;

/// The number of parallel look-ups in scalar code.
pub(super) const LANES: usize = 4;

/// The state of one look-up: two registers, so that four fit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lane {
    position: u64,
    /// The remaining difference between the current value and the target.
    room: u64,
    /// The target's index in the batch.
    pub(super) place: usize,
}

impl Lane {
    #[inline(always)]
    pub(super) fn new(points: &[Point], targets: &[u64], place: usize) -> Self {
        let (Point { position, base }, target) = (points[place], targets[place]);
        Self {
            // A base above the target is forged, and leads to a careful look-up.
            position: if base <= target { position } else { u64::MAX },
            room: target.wrapping_sub(base),
            place,
        }
    }

    /// The next two numbers and their length in bits, if eight bytes remain and both codes fit.
    #[inline(always)]
    fn peek(&self, bytes: &[u8], last: usize, p: u32) -> Option<(u64, u64, u32)> {
        let at = usize::try_from(self.position / 8)
            .ok()
            .filter(|&at| at <= last)?;
        let word = bytes.get(at..)?.first_chunk::<8>()?;
        let window = !u64::from_be_bytes(*word) << (self.position % 8);
        let (first, second, bits) = rice::read_pair(window, p);
        (bits <= WINDOW).then_some((first, second, bits))
    }

    /// Decodes two codes. Returns false, without any change, if the target is reached or passed, or needs a
    /// careful look-up.
    #[inline(always)]
    pub(super) fn step(&mut self, bytes: &[u8], last: usize, p: u32) -> bool {
        match self.peek(bytes, last, p) {
            Some((first, second, bits)) if first + second < self.room => {
                cost::count(|| u64::from(bits));
                self.position += u64::from(bits);
                self.room -= first + second;
                true
            }
            _ => false,
        }
    }

    /// The result, if the lane has stopped.
    #[inline(always)]
    pub(super) fn answer(&self, bytes: &[u8], last: usize, p: u32) -> Option<Answer> {
        let Some((first, second, _)) = self.peek(bytes, last, p) else {
            return Some(Answer::Careful);
        };
        let known = first == self.room || first + second == self.room;
        (first + second >= self.room).then_some(Answer::Known(known))
    }
}

/// The result of a lane that has stopped.
pub(super) enum Answer {
    Known(bool),
    /// Unknown: the target needs a careful look-up.
    Careful,
}
