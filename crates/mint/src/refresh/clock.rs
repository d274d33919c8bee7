//! The clock that dates readings.

use core::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far the wall clock may run ahead of the monotonic one between two looks without being doubted.
const SLACK: Duration = Duration::from_secs(2);

/// How long the wall clock must stay ahead before it is believed. Until then what cannot be corrected later is dated by
/// the monotonic clock, which is at most this much too early.
const HOLD: Duration = Duration::from_secs(3_600);

/// The wall clock, which can be set, and a monotonic clock.
pub(crate) struct Clock {
    wall: Box<dyn Fn() -> SystemTime + Send>,
    steady: Box<dyn Fn() -> Duration + Send>,
    /// `None` if the monotonic clock stands still.
    trust: Option<Mutex<Trust>>,
}

/// The last moment at which the wall clock was believed, and the first of a jump ahead that is not believed yet.
#[derive(Debug)]
struct Trust {
    last: Moment,
    jump: Option<Moment>,
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    wall: Duration,
    steady: Duration,
}

impl Clock {
    pub(crate) fn system() -> Self {
        let start = Instant::now();
        Self::of_both(SystemTime::now, move || start.elapsed())
    }

    fn of_both(
        wall: impl Fn() -> SystemTime + Send + 'static,
        steady: impl Fn() -> Duration + Send + 'static,
    ) -> Self {
        let mut clock = Self::of(wall);
        clock.steady = Box::new(steady);
        let (last, jump) = (clock.moment(), None);
        clock.trust = Some(Mutex::new(Trust { last, jump }));
        clock
    }

    /// Creates a clock whose monotonic part stands still.
    pub(crate) fn of(wall: impl Fn() -> SystemTime + Send + 'static) -> Self {
        Self {
            wall: Box::new(wall),
            steady: Box::new(|| Duration::ZERO),
            trust: None,
        }
    }

    /// The Unix second for what is published for ever: the wall clock, unless it has jumped ahead of the monotonic
    /// clock. A jump counts after [`HOLD`]. A clock that is set back counts at once, as an earlier date claims less.
    pub(crate) fn trusted(&self) -> u64 {
        let now = self.moment();
        let Some(trust) = &self.trust else {
            return now.wall.as_secs();
        };
        let mut trust = trust.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = trust.last.at(now.steady);
        if now.wall <= expected + SLACK {
            *trust = Trust {
                last: now,
                jump: None,
            };
            return now.wall.as_secs();
        }
        match trust.jump {
            Some(jump) if now.wall.abs_diff(jump.at(now.steady)) <= SLACK => {
                if now.steady.saturating_sub(jump.steady) >= HOLD {
                    *trust = Trust {
                        last: now,
                        jump: None,
                    };
                    return now.wall.as_secs();
                }
            }
            _ => {
                let seconds = (now.wall - expected).as_secs();
                tracing::warn!(
                    seconds,
                    "the clock jumped ahead; dating state filters by the monotonic clock for an hour"
                );
                trust.jump = Some(now);
            }
        }
        expected.as_secs()
    }

    /// Time since 1970 on the wall clock; zero if the clock shows a time before 1970.
    pub(crate) fn wall(&self) -> Duration {
        (self.wall)().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment {
            wall: self.wall(),
            steady: (self.steady)(),
        }
    }

    /// Returns the Unix second of a past moment: the earlier of two dates. One is the wall clock's time at that
    /// moment. The other is its present time minus the monotonic time since. If the clock was set in between, one of
    /// them is wrong, and the earlier date claims less.
    pub(crate) fn date(&self, moment: Moment) -> u64 {
        let ago = (self.steady)().saturating_sub(moment.steady);
        let by_now = self.wall().saturating_sub(ago);
        moment.wall.min(by_now).as_secs()
    }
}

impl Moment {
    /// What the wall clock would show at a later time of the monotonic one.
    fn at(self, steady: Duration) -> Duration {
        self.wall + steady.saturating_sub(self.steady)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A clock, and a function that sets both of its parts, in seconds.
    fn settable() -> (Clock, impl Fn(u64, u64)) {
        let (wall, steady) = (Arc::new(AtomicU64::new(1_000)), Arc::new(AtomicU64::new(0)));
        let read = |clock: &Arc<AtomicU64>| {
            let clock = Arc::clone(clock);
            move || Duration::from_secs(clock.load(Ordering::Relaxed))
        };
        let read_wall = read(&wall);
        let clock = Clock::of_both(move || UNIX_EPOCH + read_wall(), read(&steady));
        let set = move |seconds, elapsed| {
            wall.store(seconds, Ordering::Relaxed);
            steady.store(elapsed, Ordering::Relaxed);
        };
        (clock, set)
    }

    #[test]
    fn jump_ahead_counts_after_an_hour_and_back_at_once() {
        let (clock, set) = settable();
        assert_eq!(clock.trusted(), 1_000);
        for (wall, elapsed, expected) in [
            (1_060, 60, 1_060),
            // A minute, or ten years, ahead for some refreshes.
            (1_180, 120, 1_120),
            (1_240, 180, 1_180),
            (315_361_240, 240, 1_240),
            (1_300, 300, 1_300),
            // Set back: at once, and the correct time after that is a jump again.
            (700, 360, 700),
            (1_420, 420, 760),
            (4_960, 3_960, 4_300),
            // An hour after the jump.
            (5_020, 4_020, 5_020),
            (5_080, 4_080, 5_080),
        ] {
            set(wall, elapsed);
            assert_eq!(clock.trusted(), expected, "{wall} after {elapsed} s");
        }
    }

    #[test]
    fn moment_has_the_earlier_of_two_dates() {
        // The wall clock showed 1,000 at first and shows `later` after 100 s.
        for (later, expected) in [
            (1_100, 1_000),
            (4_700, 1_000),
            (1_070, 970),
            (860, 760),
            (7, 0),
        ] {
            let (clock, set) = settable();
            let moment = clock.moment();
            assert_eq!(clock.date(moment), 1_000);
            set(later, 100);
            assert_eq!(clock.date(moment), expected, "it shows {later}");
        }
    }
}
