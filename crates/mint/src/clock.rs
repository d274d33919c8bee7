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
        Self::of(SystemTime::now, move || start.elapsed())
    }

    pub(crate) fn of(
        wall: impl Fn() -> SystemTime + Send + 'static,
        steady: impl Fn() -> Duration + Send + 'static,
    ) -> Self {
        Self { wall: Box::new(wall), steady: Box::new(steady) }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment {
            // Zero before 1970.
            wall: (self.wall)().duration_since(UNIX_EPOCH).unwrap_or_default(),
            steady: (self.steady)(),
        }
    }

    /// Whether the wall clock was set back since a moment, by more than slewing does. What was dated then may be dated
    /// later than it is true.
    pub(crate) fn was_set_back_since(&self, then: Moment) -> bool {
        const SLACK: Duration = Duration::from_millis(500);
        let now = self.now();
        now.wall + then.steady + SLACK < then.wall + now.steady
    }

    /// A past moment, by the earlier of two times of day: that of the wall clock then, and its present one less the monotonic
    /// time since. If the clock was set in between, one of them is wrong, and the earlier one claims less.
    pub(crate) fn corrected(&self, then: Moment) -> Moment {
        let wall = self.now().wall.saturating_sub(self.since(then));
        Moment { wall: then.wall.min(wall), ..then }
    }

    /// The time since a moment, by the monotonic clock.
    pub(crate) fn since(&self, then: Moment) -> Duration {
        (self.steady)().saturating_sub(then.steady)
    }
}

impl Moment {
    /// The Unix second.
    pub(crate) fn date(self) -> u64 {
        self.wall.as_secs()
    }

    /// The time since 1970.
    pub(crate) fn wall(self) -> Duration {
        self.wall
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}
