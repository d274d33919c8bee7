//! One of four look-ups that run side by side in plain code.
//!
//! A lane keeps no buffer: it loads eight bytes at its position anew for every two codes. That makes its chain
//! longer than a serial reader's, but four chains overlap, and four lanes fit the registers: 91 against 148 ns a
//! target with AVX2 (index of 64 items an entry). Steps without branches, where a lane that is done stays
//! where it is by arithmetic, took 177.

use crate::arch::lanes::WINDOW;
use crate::cost;
use crate::matching::table::Point;
use crate::rice;

/// How many look-ups run side by side in plain code.
pub(super) const LANES: usize = 4;

/// One of them: all of it in two registers, so that four fit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lane {
    position: u64,
    /// How much the values have still to grow to the target.
    room: u64,
    /// The target's place in the batch.
    pub(super) place: usize,
}

impl Lane {
    #[inline(always)]
    pub(super) fn new(points: &[Point], targets: &[u64], place: usize) -> Self {
        let (Point { position, base }, target) = (points[place], targets[place]);
        Self {
            // A base above the target is a forged one, and leads to a careful look-up.
            position: if base <= target { position } else { u64::MAX },
            room: target.wrapping_sub(base),
            place,
        }
    }

    /// The next two numbers and how many bits they take, if there are eight bytes, and if the two fit.
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

    /// Takes two codes; false, with nothing done, where the target is reached or passed, or has to be looked
    /// for with more care.
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

    /// What the lane knows, if it has to stay where it is.
    #[inline(always)]
    pub(super) fn answer(&self, bytes: &[u8], last: usize, p: u32) -> Option<Answer> {
        let Some((first, second, _)) = self.peek(bytes, last, p) else {
            return Some(Answer::Careful);
        };
        let known = first == self.room || first + second == self.room;
        (first + second >= self.room).then_some(Answer::Known(known))
    }
}

/// What a lane knows when it stays where it is.
pub(super) enum Answer {
    Known(bool),
    /// Nothing: the target has to be looked for with more care.
    Careful,
}
