//! Looks for targets in many filters, which are decoded side by side.
//!
//! A filter cut into lanes decodes thousands of codes before its lanes find the boundaries of codes, and its end serially. With
//! a filter for each lane there is nothing to find.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::resync::Coded;
use super::scanner::Scanner;
use crate::arch::x86_64::side_by_side::{CODES, Decodes, LANES, LOADED, NEXT, P, SideBySide};
use crate::arch::x86_64::targets::{FILTERS, Keyed, LAST, TargetRow, sort_columns, write_columns};
use crate::cost;
use crate::hash::SipHash;
use crate::params::Params;

/// What lanes stand on that have no filter.
static IDLE: [u8; LOADED] = [0; LOADED];

/// Filters of fewer items have few groups, and of more none is that of a block.
const ITEMS: core::ops::RangeInclusive<u32> = 2 * CODES as u32..=1 << 16;

/// The memory of a batch, kept for the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    rows: Vec<TargetRow>,
    /// For each filter an equal share: its sorted targets and at least [`NEXT`] numbers `u32::MAX`.
    targets: Vec<u32>,
    share: usize,
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
    /// Decodes and validates filters. `hash` writes a row for each of `count` items: its value in each filter. Returns for each
    /// filter whether it may have one of them; `None` if it is unusual or invalid.
    ///
    /// # Cost
    ///
    /// Each bit is decoded at most once.
    pub(crate) fn matches(
        &mut self,
        simd: impl Decodes,
        filters: &[(Coded<'_>, SipHash)],
        count: usize,
        hash: impl Fn(&Keyed, &mut [TargetRow]),
    ) -> Vec<Option<bool>> {
        let mut answers = Vec::new();
        answers.resize(filters.len(), None);
        // The longest first, so that few lanes wait for the last.
        let usual = filters
            .iter()
            .enumerate()
            .filter_map(|(filter, (coded, _))| Some((filter, first_quotient(coded)?)));
        let mut queue: Vec<(usize, u64)> = usual.collect();
        queue.sort_unstable_by_key(|&(filter, _)| Reverse(filters[filter].0.bytes.len()));
        let order = queue.iter().map(|&(filter, _)| &filters[filter]);
        let (targets, share) = self.targets(simd, order, count, hash);
        let mut queue = queue.into_iter().zip(targets.chunks_exact(share));
        let mut lanes = SideBySide {
            positions: [0; LANES],
            sums: [0; LANES],
            active: 0,
            at_target: [0; LANES],
            dropped: [0; LANES],
            found: [0; LANES / 4],
        };
        let mut bytes: [&[u8]; LANES] = [&IDLE; LANES];
        let mut targets: [&[u32]; LANES] = [&[u32::MAX; NEXT]; LANES];
        let mut jobs: [Option<Job>; LANES] = [None; LANES];
        let mut done = 0;
        loop {
            for lane in 0..LANES {
                if jobs[lane].is_none()
                    && let Some(((filter, first), of_filter)) = queue.next()
                {
                    let coded = &filters[filter].0;
                    let groups = (coded.n as usize - 1) / CODES;
                    let (start, end) = (done, done + groups);
                    jobs[lane] = Some(Job { filter, start, end });
                    (bytes[lane], targets[lane]) = (coded.bytes, of_filter);
                    (lanes.positions[lane], lanes.sums[lane]) = (first, 0);
                    lanes.active |= 1 << lane;
                    (lanes.at_target[lane], lanes.dropped[lane]) = (0, dropped(coded).into());
                    lanes.found[lane / 4] &= !(3 << (2 * (lane % 4)));
                }
            }
            let Some(next) = jobs.iter().flatten().map(|job| job.end).min() else {
                return answers;
            };
            let before = lanes.positions;
            let stopped = lanes.decode_groups(simd, &bytes, next - done, targets);
            done += stopped.groups;
            for lane in 0..LANES {
                let Some(job) = jobs[lane] else { continue };
                let (coded, position) = (&filters[job.filter].0, lanes.positions[lane]);
                cost::count(|| position.saturating_sub(before[lane]));
                if stopped.stopped >> lane & 1 == 0 && job.end > done {
                    continue;
                }
                if stopped.odd >> lane & 1 == 0 {
                    let value = (position << P).wrapping_add(lanes.sums[lane]);
                    let item = (done - job.start) * CODES;
                    let left = &targets[lane][lanes.at_target[lane] as usize..];
                    let found = lanes.found[lane / 4] >> (2 * (lane % 4)) & 3 != 0;
                    let rest = finish(coded, position, value, item as u32, left);
                    answers[job.filter] = rest.map(|rest| found || rest);
                }
                jobs[lane] = None;
                (bytes[lane], targets[lane]) = (&IDLE, &[u32::MAX; NEXT]);
                (lanes.positions[lane], lanes.at_target[lane]) = (0, 0);
                lanes.active &= !(1 << lane);
            }
        }
    }

    /// The sorted targets of each filter, and the length of their shares.
    fn targets<'f>(
        &mut self,
        simd: impl Decodes,
        filters: impl ExactSizeIterator<Item = &'f (Coded<'f>, SipHash)>,
        count: usize,
        hash: impl Fn(&Keyed, &mut [TargetRow]),
    ) -> (&[u32], usize) {
        let share = (count + NEXT).next_multiple_of(16);
        let len = filters.len().next_multiple_of(FILTERS) * share;
        let rows = count.next_power_of_two().max(16);
        // A longer list with equal shares wrote more rows, and nobody else would overwrite those.
        if self.share != share || self.rows.len() != rows || self.targets.len() < len {
            self.share = share;
            self.targets.clear();
            self.targets.resize(len, u32::MAX);
        }
        self.rows.resize(rows, LAST);
        let mut filters = filters;
        for out in self.targets[..len].chunks_exact_mut(FILTERS * share) {
            let mut keyed = Keyed::default();
            for (filter, (coded, key)) in filters.by_ref().take(FILTERS).enumerate() {
                keyed.set(simd, filter, key.state(), coded.range(), dropped(coded).into());
            }
            hash(&keyed, &mut self.rows[..count]);
            self.rows[count..].fill(LAST);
            sort_columns(simd, &mut self.rows);
            write_columns(&self.rows, out);
        }
        (&self.targets[..len], share)
    }
}

/// The number of the last bits that are dropped from values, so that they are less than `u32::MAX`.
fn dropped(coded: &Coded<'_>) -> u32 {
    32_u32.saturating_sub((coded.range() + 1).leading_zeros())
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
    mut targets: &[u32],
) -> Option<bool> {
    let dropped = dropped(coded);
    let largest = coded.params.range(coded.n) - 1;
    if value > largest {
        return None;
    }
    // At the zero that ends a quotient, a code with quotient 0 begins. At least one item is left, so a position at the end of
    // the bytes or beyond is an error of the scanner.
    let (numbers, state) = ((coded.n, coded.params), (position, value, item));
    let mut scanner = Scanner::at_item(coded.level, coded.bytes, numbers, state);
    let mut found = false;
    let mut values = [0; CODES];
    loop {
        let count = scanner.fill(&mut values).ok()?;
        let Some(&last) = values[..count].last() else {
            return scanner.finish().is_ok().then_some(found);
        };
        let passed = targets.partition_point(|&target| u64::from(target) <= last >> dropped);
        found |= values[..count]
            .iter()
            .any(|value| targets[..passed].contains(&((value >> dropped) as u32)));
        targets = &targets[passed..];
    }
}
