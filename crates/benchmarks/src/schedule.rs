//! Measures the rows of a group in turns.
//!
//! A shared machine is faster in one minute than in the next. Rows that are compared are therefore measured in
//! rounds: each row once per round, each round starting with a different row. Criterion cannot do that: it measures one
//! row after the other.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{Group, Row};

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Time per group, shared equally by its rows.
    pub per_group: Duration,
    /// Most samples per row.
    pub most_samples: u32,
    /// Fewest samples per row, however long they take.
    pub least_samples: u32,
}

/// A sample of a fast call is the mean of as many calls as take about this long.
const SAMPLE: Duration = Duration::from_micros(500);

/// The samples of one row.
pub struct Series {
    /// Index of the row in the group.
    pub row: usize,
    /// Nanoseconds per call, in the order of measurement.
    pub nanoseconds: Vec<f64>,
}

/// Measures every row of `group`.
pub fn interleave(group: &mut Group<'_>, effort: Effort) -> Vec<Series> {
    let share = effort.per_group / group.rows.len().max(1) as u32;
    let mut planned = Vec::new();
    for (at, row) in group.rows.iter_mut().enumerate() {
        let once = sample(row, 1);
        let calls = (SAMPLE.as_nanos() as f64 / once).clamp(1.0, 10_000.0) as u32;
        let fit = share.as_nanos() as f64 / (once * f64::from(calls));
        let samples = (fit as u32).clamp(effort.least_samples, effort.most_samples);
        let nanoseconds = Vec::with_capacity(samples as usize);
        planned.push((Series { row: at, nanoseconds }, calls, samples));
    }
    let rounds = planned.iter().map(|plan| plan.2).max().unwrap_or(0);
    for round in 0..rounds {
        for turn in 0..planned.len() {
            let at = (turn + round as usize) % planned.len();
            let (series, calls, samples) = &mut planned[at];
            // A slow row takes part in some rounds only, evenly spread.
            if is_due(round, *samples, rounds) {
                let row = &mut group.rows[series.row];
                let taken = sample(row, *calls);
                series.nanoseconds.push(taken);
            }
        }
    }
    planned.into_iter().map(|(series, ..)| series).collect()
}

/// Whether a row with this many samples takes part in this round.
fn is_due(round: u32, samples: u32, rounds: u32) -> bool {
    let upto = |round: u32| u64::from(round) * u64::from(samples) / u64::from(rounds);
    upto(round + 1) > upto(round)
}

/// The CPU time of all threads of this process: other programs do not count. Reading it takes 0.3 µs.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The mean of `calls` calls, in nanoseconds.
fn sample(row: &mut Row<'_>, calls: u32) -> f64 {
    let mut taken = Duration::ZERO;
    for _ in 0..calls {
        row.measure(&mut |call| {
            let start = cpu_time();
            call();
            taken += cpu_time() - start;
        });
    }
    (taken.as_nanos() as f64).max(1.0) / f64::from(calls)
}

/// The smallest of `values`.
pub fn minimum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The middle value, or the mean of the two middle values.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// The lower and the upper quartile, with linear interpolation.
pub fn quartiles(values: &[f64]) -> (f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    let at = |share: f64| {
        let place = share * last as f64;
        let below = place as usize;
        let (low, high) = (values[below], values[(below + 1).min(last)]);
        low + (high - low) * (place - below as f64)
    };
    (at(0.25), at(0.75))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Contender, Selection};

    #[test]
    fn a_row_takes_part_in_one_round_per_sample() {
        for rounds in 1..40 {
            for samples in 0..=rounds {
                let due = (0..rounds).filter(|&round| is_due(round, samples, rounds));
                assert_eq!(due.count() as u32, samples, "{samples} of {rounds}");
            }
        }
    }

    #[test]
    fn rows_are_sampled_in_turns() {
        let selection = Selection::default();
        let order = std::sync::Mutex::new(Vec::new());
        let mut group = Group::new(&selection, ("sort", "equal", "1"), (1, "item"));
        for who in [Contender::peer("a"), Contender::peer("b")] {
            let (name, order) = (who.name(), &order);
            let call = move || {
                order.lock().unwrap().push(name);
                let start = cpu_time();
                while cpu_time() - start < Duration::from_millis(1) {}
            };
            group.add(who, call, |()| true);
        }
        let effort = Effort { per_group: Duration::ZERO, most_samples: 9, least_samples: 3 };
        let series = interleave(&mut group, effort);
        let rows: Vec<_> = series.iter().map(|series| series.row).collect();
        assert_eq!(rows, [0, 1]);
        assert!(series.iter().all(|series| series.nanoseconds.len() == 3));
        assert!(series.iter().all(|series| minimum(&series.nanoseconds) >= 1e6));
        drop(group);
        // Two asserted answers, one estimate each, then three rounds, each starting one row later.
        let order = order.into_inner().unwrap();
        assert_eq!(order[2..], ["a", "b", "a", "b", "b", "a", "a", "b"]);
    }

    #[test]
    fn median_of_odd_and_even_lengths() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(minimum(&[4.0, 1.0, 2.0]), 1.0);
    }

    #[test]
    fn quartiles_interpolate_between_values() {
        assert_eq!(quartiles(&[7.0]), (7.0, 7.0));
        assert_eq!(quartiles(&[3.0, 1.0]), (1.5, 2.5));
        assert_eq!(quartiles(&[5.0, 1.0, 2.0, 3.0, 4.0]), (2.0, 4.0));
        assert_eq!(quartiles(&[4.0, 1.0, 2.0, 3.0]), (1.75, 3.25));
    }
}
