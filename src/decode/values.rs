//! [`Values`]: iterates over the values of a filter.

use alloc::vec::Vec;
use core::iter::FusedIterator;
use core::ops::ControlFlow;

use super::{AHEAD, BLOCK, Coded, Scanner, VALIDATED, append_ahead, visit_rest};

/// The values of a validated filter, in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Values<'a> {
    coded: Coded<'a>,
    scanner: Scanner<'a>,
    /// Values decoded ahead; those from `given` on are not returned yet.
    block: Vec<u64>,
    given: usize,
    /// The number of blocks that are decoded one code after another before lanes are used.
    serial: usize,
    /// The memory of the lanes.
    lanes: Vec<u64>,
}

/// From this number of items on, lanes are used.
const LARGE: u32 = 4 * AHEAD;

/// The number of blocks before that, so that the first values come at once.
const SERIAL: usize = 16;

impl<'a> Values<'a> {
    pub(crate) fn of(coded: Coded<'a>) -> Self {
        let scanner = Scanner::new(coded.level, coded.bytes, coded.n, coded.params);
        let serial = match scanner.remaining() < LARGE {
            true => usize::MAX,
            false => SERIAL,
        };
        Self { coded, scanner, block: Vec::new(), given: 0, serial, lanes: Vec::new() }
    }

    /// Decodes the next block. An empty block means that no values are left.
    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        self.block.clear();
        self.given = 0;
        if self.serial == 0 {
            let more =
                append_ahead(&mut self.lanes, &mut self.block, &mut self.scanner, self.coded);
            if !more.expect(VALIDATED) {
                self.serial = usize::MAX;
            }
        }
        if self.block.is_empty() {
            self.serial -= 1;
            self.block.resize(BLOCK, 0);
            let filled = self.scanner.fill(&mut self.block).expect(VALIDATED);
            self.block.truncate(filled);
        }
    }

    fn remaining(&self) -> u64 {
        (self.block.len() - self.given) as u64 + u64::from(self.scanner.remaining())
    }
}

impl Iterator for Values<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.given == self.block.len() {
            self.refill();
        }
        let value = self.block.get(self.given).copied();
        self.given += usize::from(value.is_some());
        value
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = usize::try_from(self.remaining());
        (remaining.unwrap_or(usize::MAX), remaining.ok())
    }

    /// A full fold over a large filter takes a third of the time, because several places are decoded at once.
    /// It allocates buffers of at most half a megabyte.
    fn fold<B, F: FnMut(B, u64) -> B>(self, init: B, mut f: F) -> B {
        // A loop, because `Iterator::fold` would call `f` by reference, which is not inlined in every profile.
        let mut all = |mut folded, values: &[u64], base: u64| {
            for &value in values {
                folded = f(folded, value.wrapping_add(base));
            }
            folded
        };
        // An `Option`, because the closure must move the value out and put it back.
        let mut folded = Some(all(init, &self.block[self.given..], 0));
        let visited = visit_rest(&self.scanner, self.coded, |values, base| {
            if let Some(before) = folded.take() {
                folded = Some(all(before, values, base));
            }
            ControlFlow::Continue(())
        });
        let _end = visited.expect(VALIDATED);
        folded.expect("it is put back each time")
    }
}

impl ExactSizeIterator for Values<'_> {}
impl FusedIterator for Values<'_> {}
