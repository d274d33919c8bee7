//! Refreshes at an interval, on a thread.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::refresh::{RefreshError, Refresher};
use crate::status::Monitor;

/// First pause after a failed refresh. It doubles up to the interval. A mint that restarts is back within seconds,
/// and a missing database should not be polled constantly.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Shortest interval: dates have a resolution of 1 s.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Largest random delay of a refresh, as a share of the interval, so that services do not read in step.
const JITTER: f64 = 0.1;

/// Coarsest grid of dates. With a finer grid, services that read at about the same time would disagree. With a coarser
/// one, filters would be dated earlier than necessary.
const GRID: Duration = Duration::from_secs(60);

/// How often to look whether the clock was set back, or a file was removed.
const CHECK: Duration = Duration::from_secs(1);

/// Shortest time between two refreshes that changes start.
const SHORTEST_CHANGES: Duration = Duration::from_millis(100);

/// The share of a core that such refreshes may take: one starts after so many times the CPU time of the last one.
const CPU_SHARE: u32 = 10;

/// When to refresh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    interval: Duration,
    /// The same for refreshes that changes start.
    least: Duration,
}

impl Pace {
    /// Raises intervals that are too short. Files are synced, and their times have a resolution of 1 s.
    pub(crate) fn new(interval: Duration, least: Duration, has_files: bool) -> Self {
        let shortest = if has_files { SHORTEST_INTERVAL } else { SHORTEST_CHANGES };
        let interval = interval.max(SHORTEST_INTERVAL);
        let least = least.max(shortest).min(interval);
        Self { interval, least }
    }

    /// Whether changes start refreshes between those of the interval.
    pub(crate) fn follows_changes(self) -> bool {
        self.least < self.interval
    }

    /// The grid of dates. A service that follows changes has its readings at times of its own, so no other one agrees with it.
    pub(crate) fn grid(self) -> Duration {
        match self.follows_changes() {
            true => SHORTEST_INTERVAL,
            false => self.interval.min(GRID),
        }
    }

    /// How long after its beginning a refresh that took so much CPU time is followed by another one.
    fn soonest(self, cpu: Duration) -> Duration {
        self.least.max(cpu.saturating_mul(CPU_SHARE)).min(self.interval)
    }
}

/// A thread that refreshes at an interval, one refresh at a time. It starts at once, with everything.
///
/// Refreshes begin at multiples of the interval on the system clock. Dates are multiples of the interval too, or of a
/// minute if that is shorter. Services on one database then read at about the same time and make equal objects. A refresh
/// that takes longer than the interval is followed by the next one. One starts early if the store changed, the clock was set
/// back, or if somebody asked for an object whose file is gone. If the store is another mint's
/// ([`Status::other_mint`](crate::Status::other_mint)), it waits for losses to be accepted. Dropping the handle asks the
/// thread to end, without waiting for it.
#[derive(Debug)]
pub(crate) struct RefreshThread {
    monitor: Arc<Monitor>,
    wishes: Arc<Wishes>,
    thread: JoinHandle<()>,
}

/// Which refreshes were asked for since the last one began.
type Wishes = [AtomicBool; 2];

/// A refresh of what is new, after the pace of changes.
pub(crate) const NEW: usize = 0;

/// A refresh of everything, now.
pub(crate) const ALL: usize = 1;

/// How often to look whether the thread has ended.
const POLL: Duration = Duration::from_millis(2);

impl RefreshThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub(crate) fn start(mut refresher: Refresher, pace: Pace) -> io::Result<Self> {
        refresher.set_grid(pace.grid());
        let (monitor, wishes) = (Arc::clone(refresher.monitor()), Arc::<Wishes>::default());
        let asked = Arc::clone(&wishes);
        let thread = thread::Builder::new().name("nutfilter-refresh".to_owned());
        let thread = thread.spawn(move || run(refresher, pace, &asked))?;
        Ok(Self { monitor, wishes, thread })
    }

    /// Requests a refresh. If one is running, exactly one more follows it, regardless of the number of requests.
    pub(crate) fn ask(&self, wish: usize) {
        // Who asked first wakes the thread.
        if !self.wishes[wish].swap(true, Ordering::AcqRel) {
            self.thread.thread().unpark();
        }
    }

    /// Asks the thread to end and waits for at most `patience`. Returns whether it has ended.
    pub(crate) fn stop(&self, patience: Duration) -> bool {
        self.signal();
        let start = Instant::now();
        while !self.thread.is_finished() && start.elapsed() < patience {
            thread::sleep(POLL);
        }
        self.thread.is_finished()
    }

    fn signal(&self) {
        self.monitor.stop();
        self.thread.thread().unpark();
    }
}

impl Drop for RefreshThread {
    fn drop(&mut self) {
        self.signal();
    }
}

fn run(mut refresher: Refresher, pace: Pace, wishes: &Wishes) {
    let (mut retry, mut whole) = (FIRST_RETRY, true);
    while !refresher.monitor().stop.load(Ordering::Relaxed) {
        // What is asked for from now on may come too late for this reading.
        wishes[NEW].swap(false, Ordering::AcqRel);
        let (began, cpu) = (Instant::now(), cpu_time());
        let outcome = refresh(&mut refresher, whole);
        // In this order: a thread that has to wait in between begins the next one late, never before its time.
        let (now, took) = (refresher.now(), began.elapsed());
        let (pause, soonest) = match outcome {
            TurnOutcome::Good => {
                retry = FIRST_RETRY;
                let cpu = cpu.zip(cpu_time()).map_or(took, |(before, now)| now - before);
                let pause = pause(pace.interval, took, now, random());
                (took.saturating_add(pause), pace.soonest(cpu))
            }
            TurnOutcome::Bad => {
                let pause = retry.min(pace.interval);
                retry = retry.saturating_mul(2);
                (took + pause, Duration::MAX)
            }
            TurnOutcome::OtherMint => (Duration::MAX, Duration::MAX),
        };
        whole = wait(&mut refresher, began, pause, soonest, wishes);
    }
}

/// The CPU time of this thread, if the system tells it.
pub(crate) fn cpu_time() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    return {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).ok()
    };
    #[cfg(not(target_os = "linux"))]
    None
}

/// The pause after a refresh that took `took` and ended at `now`, the time since 1970. `random` is from 0 to 1.
fn pause(interval: Duration, took: Duration, now: Duration, random: f64) -> Duration {
    if took >= interval {
        return Duration::ZERO;
    }
    let passed = now.as_nanos() % interval.as_nanos();
    // Less than the interval; 64 bits of nanoseconds last for 584 years.
    let passed = Duration::from_nanos(u64::try_from(passed).unwrap_or(0));
    let jitter = interval.mul_f64(JITTER).min(GRID / 2).mul_f64(random);
    interval.saturating_sub(passed).saturating_add(jitter)
}

/// Returns a number from 0 to 1. It need not be unpredictable, so a hasher's random key is enough.
fn random() -> f64 {
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}

/// Waits until the last refresh began `pause` ago, or `soonest` if the store changed; or until everything is asked for, the
/// clock was set back, a file was removed, or the thread is to end. Returns whether everything was asked for.
fn wait(
    refresher: &mut Refresher,
    began: Instant,
    pause: Duration,
    soonest: Duration,
    wishes: &Wishes,
) -> bool {
    let mut checked = Instant::now();
    loop {
        if wishes[ALL].swap(false, Ordering::AcqRel) {
            return true;
        }
        let until = match wishes[NEW].load(Ordering::Acquire) {
            true => pause.min(soonest),
            false => pause,
        };
        let left = until.saturating_sub(began.elapsed());
        if left.is_zero() || refresher.monitor().stop.load(Ordering::Relaxed) {
            return false;
        }
        thread::park_timeout(left.min(CHECK));
        if checked.elapsed() >= CHECK {
            checked = Instant::now();
            if refresher.withdraw() || refresher.monitor().table().was_disturbed() {
                return false;
            }
        }
    }
}

enum TurnOutcome {
    Good,
    Bad,
    /// No later reading could be better, unless losses are accepted.
    OtherMint,
}

/// Refreshes once. Failures are logged.
///
/// A source may be third-party code. If it panics, the service must not report itself as healthy while its filters are no
/// longer renewed.
fn refresh(refresher: &mut Refresher, whole: bool) -> TurnOutcome {
    let result = catch_unwind(AssertUnwindSafe(|| refresher.refresh(whole)));
    // It stays so until everything is read, and no other keyset waits for that.
    let is_held = |(_, error): &(String, RefreshError)| matches!(error, RefreshError::Held);
    match result {
        Ok(Ok(report)) if report.failures.iter().all(is_held) => TurnOutcome::Good,
        Ok(Err(RefreshError::OtherMint { .. })) => TurnOutcome::OtherMint,
        Ok(_) => TurnOutcome::Bad,
        Err(panic) => {
            refresher.distrust();
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said =
                said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            tracing::error!(panic = said, "the refresh panicked; retrying");
            TurnOutcome::Bad
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refreshes_begin_at_multiples_of_the_interval() {
        let seconds = Duration::from_secs_f64;
        for (interval, took, now, random, expected) in [
            (60.0, 1.0, 6_021.5, 0.0, 38.5),
            (60.0, 1.0, 6_021.5, 0.5, 41.5),
            (60.0, 1.0, 6_000.0, 0.0, 60.0),
            // The delay is at most 30 s, whatever the interval is.
            (3_600.0, 1.0, 7_200.0, 1.0, 3_630.0),
            (1.0, 0.25, 7.25, 0.0, 0.75),
            // Already late.
            (60.0, 60.0, 6_021.5, 0.5, 0.0),
        ] {
            let pause = pause(seconds(interval), seconds(took), seconds(now), random);
            let difference = pause.abs_diff(seconds(expected));
            assert!(difference < seconds(1e-6), "{pause:?} and not {expected} s");
        }
    }

    #[test]
    fn changes_start_refreshes_within_limits() {
        let ms = Duration::from_millis;
        for (interval, least, has_files, cpu, expected) in [
            (60_000, 5_000, false, 7, 5_000),
            (60_000, 0, false, 7, 100),
            (60_000, 0, true, 7, 1_000),
            (60_000, 100, false, 72, 720),
            // Without a call the interval holds anyway.
            (60_000, 100, false, 9_000, 60_000),
            (2_000, 5_000, false, 7, 2_000),
            (10, 10, false, 7, 100),
        ] {
            let pace = Pace::new(ms(interval), ms(least), has_files);
            assert_eq!(pace.soonest(ms(cpu)), ms(expected), "{pace:?}");
        }
        let grids = [(60, 5), (60, 60), (600, 600), (7, 9)].map(|(interval, least)| {
            let [interval, least] = [interval, least].map(Duration::from_secs);
            Pace::new(interval, least, true).grid().as_secs()
        });
        assert_eq!(grids, [1, 60, 60, 7]);
    }
}
