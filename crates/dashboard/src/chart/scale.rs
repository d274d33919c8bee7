//! [`Scale`]: from values to places on a chart, and the values that an axis names.
//!
//! Ticks are 1, 2 or 5 times a power of ten, few enough to be read. On a logarithmic axis over many decades
//! they are powers of ten, over very many each second or third of them.

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Equal differences are equally long.
    Linear,
    /// Equal ratios are equally long. Values must be above 0.
    Log,
}

/// From an interval of values to an interval of places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// The value `low` at the place `from`, the value `high` at the place `to`.
    ///
    /// # Panics
    ///
    /// Where the values are not finite, `low` is not below `high`, or a logarithmic scale reaches 0.
    #[must_use]
    pub fn new(kind: Kind, (low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        assert!(
            low.is_finite() && high.is_finite() && low < high,
            "no interval: {low} to {high}"
        );
        assert!(
            kind == Kind::Linear || low > 0.0,
            "{low} on a logarithmic axis"
        );
        Self {
            kind,
            low,
            high,
            from,
            to,
        }
    }

    /// The place of `value`, which may lie outside of the interval.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    /// Whether `value` lies in the interval.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The values to name, at most about `most` of them.
    #[must_use]
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        match self.kind {
            Kind::Linear => linear_ticks(self.low, self.high, most),
            Kind::Log => log_ticks(self.low, self.high, most),
        }
    }
}

/// An interval that holds all `values`, with room at both ends: a twentieth of its length, or a decade's
/// fifth where there is only one value. `None` where there are no values.
#[must_use]
pub fn interval(kind: Kind, values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let mut ends: Option<(f64, f64)> = None;
    for value in values {
        let (low, high) = ends.unwrap_or((value, value));
        ends = Some((low.min(value), high.max(value)));
    }
    let (low, high) = ends?;
    Some(match kind {
        Kind::Linear => {
            let room = match high - low {
                0.0 => low.abs().max(1.0) * 0.1,
                length => length * 0.05,
            };
            (low - room, high + room)
        }
        Kind::Log => {
            let room = (high / low).powf(0.05).max(1.15);
            (low / room, high * room)
        }
    })
}

/// 1, 2 or 5 times a power of ten: the smallest that is not below `value`.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let found = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        // A quotient that should be 2 may come out a little above it.
        .find(|step| value / power <= step * (1.0 + 1e-9));
    found.unwrap_or(10.0) * power
}

fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let step = round_up((high - low) / most.max(1) as f64);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let within = |tick: &f64| low <= tick * (1.0 + 1e-9) && *tick <= high * (1.0 + 1e-9);
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let of = |steps: &[f64]| -> Vec<f64> {
        let decades = first..=last;
        let ticks =
            decades.flat_map(|power| steps.iter().map(move |step| times_ten_to(*step, power)));
        ticks.filter(within).collect()
    };
    for steps in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let ticks = of(steps);
        if (2..=most).contains(&ticks.len()) {
            return ticks;
        }
    }
    let powers = of(&[1.0]);
    if powers.len() <= 1 {
        // Less than a decade: what is equally far apart is easier to read.
        let ticks = linear_ticks(low, high, most);
        return ticks.into_iter().filter(|tick| *tick > 0.0).collect();
    }
    let every = powers.len().div_ceil(most.max(1));
    let is_named = |power: &f64| (power.log10().round() as i64).rem_euclid(every as i64) == 0;
    powers.into_iter().filter(is_named).collect()
}

/// As exact as the decimal form: 3 / 10 is 0.3, and 3 * 0.1 is not.
fn times_ten_to(step: f64, power: i32) -> f64 {
    match power < 0 {
        true => step / 10_f64.powi(-power),
        false => step * 10_f64.powi(power),
    }
}

/// Which of the labels, each at a place and so wide, can stand in a row without touching: the first, and each
/// that begins a `gap` after the last one that stands.
#[must_use]
pub fn without_collisions(labels: &[(f64, f64)], gap: f64) -> Vec<bool> {
    let mut free_from = f64::NEG_INFINITY;
    let stands = |&(place, width): &(f64, f64)| {
        let stands = place - width / 2.0 >= free_from;
        if stands {
            free_from = place + width / 2.0 + gap;
        }
        stands
    };
    labels.iter().map(stands).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_an_interval_lie_at_the_ends_of_the_axis_and_its_middle_between() {
        let linear = Scale::new(Kind::Linear, (10.0, 20.0), (100.0, 0.0));
        assert_eq!(
            [10.0, 15.0, 20.0].map(|value| linear.place(value)),
            [100.0, 50.0, 0.0]
        );
        let log = Scale::new(Kind::Log, (0.1, 1000.0), (0.0, 400.0));
        for (value, place) in [(0.1, 0.0), (1.0, 100.0), (10.0, 200.0), (1000.0, 400.0)] {
            assert!((log.place(value) - place).abs() < 1e-9, "{value}");
        }
        assert!(log.holds(0.1) && log.holds(1000.0) && !log.holds(0.09));
    }

    #[test]
    #[should_panic(expected = "on a logarithmic axis")]
    fn a_logarithmic_axis_does_not_reach_nought() {
        let _ = Scale::new(Kind::Log, (0.0, 1.0), (0.0, 1.0));
    }

    #[test]
    fn linear_ticks_are_round_and_within_and_few() {
        let ticks = |low, high| Scale::new(Kind::Linear, (low, high), (0.0, 1.0)).ticks(5);
        assert_eq!(ticks(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(-1.0, 4.0), [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(20.9, 31.0), [25.0, 30.0]);
        assert_eq!(ticks(0.0, 0.011), [0.0, 0.005, 0.01]);
    }

    #[test]
    fn log_ticks_get_coarser_as_decades_get_more() {
        let ticks = |low, high| Scale::new(Kind::Log, (low, high), (0.0, 1.0)).ticks(6);
        assert_eq!(ticks(1.0, 60.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(ticks(0.09, 35.0), [0.1, 0.3, 1.0, 3.0, 10.0, 30.0]);
        assert_eq!(ticks(0.5, 50_000.0), [1.0, 10.0, 100.0, 1e3, 1e4]);
        assert_eq!(ticks(1e-9, 1.0), [1e-8, 1e-6, 1e-4, 1e-2, 1.0]);
        assert_eq!(ticks(3.1, 4.6), [3.5, 4.0, 4.5]);
        assert_eq!(ticks(1e5, 1e7), [1e5, 3e5, 1e6, 3e6, 1e7]);
    }

    #[test]
    fn every_interval_has_ticks_within_it_and_not_too_many() {
        for exponent in -9..9 {
            for length in [1.3, 2.0, 4.0, 9.0, 40.0, 1e3, 1e6, 1e12] {
                let low = 1.7 * 10_f64.powi(exponent);
                for (kind, high) in [(Kind::Linear, low + length), (Kind::Log, low * length)] {
                    let scale = Scale::new(kind, (low, high), (0.0, 1.0));
                    for most in [3, 5, 8] {
                        let ticks = scale.ticks(most);
                        let what = format!("{kind:?} {low} to {high}: {ticks:?}");
                        assert!((1..=most + 1).contains(&ticks.len()), "{what}");
                        assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{what}");
                        let near =
                            |tick: &f64| (low * (1.0 - 1e-6)..=high * (1.0 + 1e-6)).contains(tick);
                        assert!(ticks.iter().all(near), "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_interval_has_room_at_both_ends() {
        assert_eq!(interval(Kind::Linear, []), None);
        assert_eq!(interval(Kind::Linear, [0.0, 100.0]), Some((-5.0, 105.0)));
        assert_eq!(interval(Kind::Linear, [0.0]), Some((-0.1, 0.1)));
        let (low, high) = interval(Kind::Log, [10.0, 10.0]).unwrap();
        assert!(low < 10.0 && 10.0 < high && low > 5.0 && high < 20.0);
    }

    #[test]
    fn labels_that_would_touch_the_last_one_that_stands_are_left_out() {
        let labels = [(0.0, 10.0), (12.0, 10.0), (14.0, 10.0), (30.0, 10.0)];
        assert_eq!(without_collisions(&labels, 2.0), [true, true, false, true]);
        assert_eq!(without_collisions(&labels, 3.0), [true, false, true, true]);
    }
}
