//! Looks for targets in many filters, which are decoded side by side.
//!
//! A filter cut into lanes decodes thousands of codes before its lanes find the boundaries of codes, and its end serially. With
//! a filter for each lane there is nothing to find.

use alloc::vec::Vec;

use super::scan::Scanner;
use super::sync::Coded;
use crate::arch::x86_64::Avx512;
use crate::arch::x86_64::avx512::side_by_side::{CODES, LANES, LOADED, P, SideBySide};
use crate::cost;
use crate::params::Params;

/// What lanes stand on that have no filter.
static IDLE: [u8; LOADED] = [0; LOADED];

/// Filters of fewer items have few groups, and of more none is that of a block.
const ITEMS: core::ops::RangeInclusive<u32> = 2 * CODES as u32..=1 << 16;

/// The memory of a batch, kept for the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// For each lane the sorted targets of its filter, and `u64::MAX`.
    targets: Vec<u64>,
}

/// A filter in a lane.
#[derive(Clone, Copy)]
struct Job {
    filter: usize,
    /// The groups that lanes had decoded when it began, and when its groups end.
    start: usize,
    end: usize,
}

impl Batch {
    /// Decodes and validates filters. `targets` puts the `count` targets of a filter into a slice, in ascending order. Returns
    /// for each filter whether it has one of them; `None` if it is unusual or invalid.
    ///
    /// # Cost
    ///
    /// Each bit is decoded at most once.
    pub(crate) fn matches(
        &mut self,
        avx512: Avx512,
        filters: &[Coded<'_>],
        count: usize,
        mut targets: impl FnMut(usize, &mut [u64]),
    ) -> Vec<Option<bool>> {
        let mut answers = Vec::new();
        answers.resize(filters.len(), None);
        let share = count + 1;
        self.targets.clear();
        self.targets.resize(LANES * share, u64::MAX);
        let mut lanes = SideBySide {
            positions: [0; LANES],
            sums: [0; LANES],
            active: 0,
            at_target: core::array::from_fn(|lane| (lane * share) as u64),
            next: [u64::MAX; LANES],
            found: [0; LANES / 8],
        };
        let mut bytes: [&[u8]; LANES] = [&IDLE; LANES];
        let mut jobs: [Option<Job>; LANES] = [None; LANES];
        // The longest first, so that few lanes wait for the last.
        let mut queue: Vec<usize> = (0..filters.len()).collect();
        queue.sort_unstable_by_key(|&at| filters[at].bytes.len());
        let mut done = 0;
        loop {
            for lane in 0..LANES {
                while jobs[lane].is_none()
                    && let Some(filter) = queue.pop()
                {
                    let coded = &filters[filter];
                    let Some(first) = first_quotient(coded) else {
                        continue;
                    };
                    let groups = (coded.n as usize - 1) / CODES;
                    let (start, end) = (done, done + groups);
                    jobs[lane] = Some(Job { filter, start, end });
                    bytes[lane] = coded.bytes;
                    (lanes.positions[lane], lanes.sums[lane]) = (first, 0);
                    lanes.active |= 1 << lane;
                    let of_lane = &mut self.targets[lane * share..][..share];
                    targets(filter, &mut of_lane[..count]);
                    (lanes.at_target[lane], lanes.next[lane]) = ((lane * share) as u64, of_lane[0]);
                }
            }
            let Some(next) = jobs.iter().flatten().map(|job| job.end).min() else {
                return answers;
            };
            let before = lanes.positions;
            let stopped = lanes.advance(avx512, &bytes, next - done, &self.targets);
            done += stopped.groups;
            for lane in 0..LANES {
                let Some(job) = jobs[lane] else { continue };
                let (coded, position) = (&filters[job.filter], lanes.positions[lane]);
                cost::count(|| position.saturating_sub(before[lane]));
                if stopped.stopped >> lane & 1 == 0 && job.end > done {
                    continue;
                }
                if stopped.odd >> lane & 1 == 0 {
                    let value = (position << P).wrapping_add(lanes.sums[lane]);
                    let item = (done - job.start) * CODES;
                    let left =
                        &self.targets[lanes.at_target[lane] as usize..(lane + 1) * share - 1];
                    let found = lanes.found[lane / 8] >> (2 * (lane % 8)) & 3 != 0;
                    let rest = finish(coded, position, value, item as u32, left);
                    answers[job.filter] = rest.map(|rest| found || rest);
                }
                jobs[lane] = None;
                bytes[lane] = &IDLE;
                (lanes.positions[lane], lanes.next[lane]) = (0, u64::MAX);
                lanes.active &= !(1 << lane);
                lanes.found[lane / 8] &= !(3 << (2 * (lane % 8)));
            }
        }
    }
}

/// The length of the first quotient of a filter that lanes can decode.
fn first_quotient(coded: &Coded<'_>) -> Option<u64> {
    let usual = coded.params == Params::CASHU && ITEMS.contains(&coded.n);
    // The first quotient ends in the first word, and a group fits behind it.
    if !usual || coded.bytes.len() < LOADED + 8 {
        return None;
    }
    let word = u64::from_be_bytes(*coded.bytes.first_chunk()?);
    Some(u64::from(word.leading_ones())).filter(|&ones| ones < 64)
}

/// Decodes the items after the last group, and checks the end of the filter. Returns whether one of them is a target; `None`
/// for anything unusual.
fn finish(
    coded: &Coded<'_>,
    position: u64,
    value: u64,
    item: u32,
    mut targets: &[u64],
) -> Option<bool> {
    let largest = coded.params.range(coded.n) - 1;
    if value > largest || position > coded.bytes.len() as u64 * 8 {
        return None;
    }
    // At the zero that ends a quotient, a code with quotient 0 begins.
    let (numbers, state) = ((coded.n, coded.params), (position, value, item));
    let mut scanner = Scanner::at_item(coded.level, coded.bytes, numbers, state);
    let mut found = false;
    let mut values = [0; CODES];
    loop {
        let count = scanner.fill(&mut values).ok()?;
        let Some(&last) = values[..count].last() else {
            return scanner.finish().is_ok().then_some(found);
        };
        let passed = targets.partition_point(|&target| target <= last);
        found |= targets[..passed]
            .iter()
            .any(|target| values[..count].contains(target));
        targets = &targets[passed..];
    }
}
