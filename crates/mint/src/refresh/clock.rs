//! The clock that dates readings.

use core::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The wall clock, which can be set, and a monotonic clock.
pub(crate) struct Clock {
    wall: Box<dyn Fn() -> SystemTime + Send>,
    steady: Box<dyn Fn() -> Duration + Send>,
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
        Self {
            wall: Box::new(SystemTime::now),
            steady: Box::new(move || start.elapsed()),
        }
    }

    /// Creates a clock whose monotonic part stands still.
    pub(crate) fn of(wall: impl Fn() -> SystemTime + Send + 'static) -> Self {
        Self {
            wall: Box::new(wall),
            steady: Box::new(|| Duration::ZERO),
        }
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
        let clock = Clock {
            wall: Box::new(move || UNIX_EPOCH + read_wall()),
            steady: Box::new(read(&steady)),
        };
        let set = move |seconds, elapsed| {
            wall.store(seconds, Ordering::Relaxed);
            steady.store(elapsed, Ordering::Relaxed);
        };
        (clock, set)
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
