//! Periodic refreshes on a separate thread.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use super::Refresher;
use crate::metrics::METRICS;

/// First pause after a failed refresh. It doubles up to the interval. A mint that restarts is back within seconds,
/// and a missing database should not be polled constantly.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Shortest interval: timestamps have a resolution of 1 s.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Largest random delay, as a share of the interval.
const MAX_JITTER: f64 = 0.5;

/// Coarsest timestamp grid. With a finer grid, services that read at about the same time would disagree. With a
/// coarser one, filters would be dated earlier than necessary.
const GRID: Duration = Duration::from_secs(60);

/// How often to check whether the clock was set back.
const CLOCK_CHECK: Duration = Duration::from_secs(1);

/// A thread that refreshes at an interval, one refresh at a time. It starts at once. If the refresher has a data
/// directory, its contents are served first.
///
/// Refreshes begin at multiples of the interval on the system clock. Timestamps are multiples of the interval too,
/// or of a minute if that is shorter. Services on one database then read at about the same time and serve equal
/// bodies. If a refresh takes longer than the interval, the next one follows immediately. The next one also starts
/// early if the clock was set back behind the timestamps of the served filters. Dropping the handle asks the thread
/// to end, without waiting for it.
#[derive(Debug)]
pub struct RefreshThread {
    stop: Arc<AtomicBool>,
    wake: SyncSender<()>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl RefreshThread {
    /// Starts the thread. An interval below 1 s is raised to 1 s. Each refresh has a random delay of up to `jitter` times
    /// the interval, but at most 30 s, so that several services do not read one database at the same moment. `jitter` is
    /// clamped to 0 through 0.5.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn start(mut refresher: Refresher, interval: Duration, jitter: f64) -> io::Result<Self> {
        let stop = Arc::clone(&refresher.stop);
        // One waiting request is enough: the refresh that it starts sees everything written before.
        let (wake, woken) = mpsc::sync_channel(1);
        let interval = Interval {
            length: interval.max(SHORTEST_INTERVAL),
            jitter: jitter.clamp(0.0, MAX_JITTER),
        };
        refresher.grid = interval.length.min(GRID).as_secs();
        let (end, ended) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        thread::Builder::new()
            .name("nutfilter-refresh".to_owned())
            .spawn(move || {
                run(refresher, interval, &stopped, &woken);
                drop(end);
            })?;
        Ok(Self { stop, wake, ended })
    }

    /// Requests a refresh now instead of at the end of the interval. If a refresh is running, exactly one more
    /// follows it, regardless of the number of requests.
    pub fn refresh_now(&self) {
        // An error means that a request is already waiting, or that the thread has ended.
        let _ = self.wake.try_send(());
    }

    /// Asks the thread to end and waits for at most `patience`. Returns whether it has ended. A thread that has not
    /// ended is in the middle of a query; it only reads, so it can be left running.
    #[must_use]
    pub fn stop(self, patience: Duration) -> bool {
        self.signal();
        self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected)
    }

    fn signal(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.refresh_now();
    }
}

impl Drop for RefreshThread {
    fn drop(&mut self) {
        self.signal();
    }
}

/// Determines when refreshes begin.
#[derive(Clone, Copy, Debug)]
struct Interval {
    length: Duration,
    /// At most [`MAX_JITTER`].
    jitter: f64,
}

impl Interval {
    /// Returns the pause after a refresh that took `took` and ended at `now`, the time since 1970. `random` is from
    /// 0 to 1.
    fn pause(self, took: Duration, now: Duration, random: f64) -> Duration {
        if took >= self.length {
            return Duration::ZERO;
        }
        let passed = now.as_nanos() % self.length.as_nanos();
        // Less than the length; 64 bits of nanoseconds last for 584 years.
        let passed = Duration::from_nanos(u64::try_from(passed).unwrap_or(0));
        let delay = self.length.mul_f64(self.jitter).min(GRID / 2);
        self.length.saturating_sub(passed) + delay.mul_f64(random)
    }
}

/// Returns a number from 0 to 1. It need not be unpredictable, so a hasher's random key is enough.
fn random() -> f64 {
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}

fn run(mut refresher: Refresher, interval: Interval, stop: &AtomicBool, woken: &Receiver<()>) {
    guarded(&mut refresher, "restoring", Refresher::restore);
    let mut retry = FIRST_RETRY;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let good = refresh(&mut refresher);
        let pause = if good {
            retry = FIRST_RETRY;
            interval.pause(start.elapsed(), refresher.clock.wall(), random())
        } else {
            let pause = retry.min(interval.length);
            retry = retry.saturating_mul(2);
            pause
        };
        if !wait(&refresher, pause, woken) {
            return;
        }
    }
}

/// Waits until the pause is over, a refresh is requested, or the clock was set back behind the served timestamps.
/// Returns false if no handle is left.
fn wait(refresher: &Refresher, pause: Duration, woken: &Receiver<()>) -> bool {
    let start = Instant::now();
    loop {
        let left = pause.saturating_sub(start.elapsed());
        match woken.recv_timeout(left.min(CLOCK_CHECK)) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if left <= CLOCK_CHECK || refresher.is_dated_ahead() {
            return true;
        }
    }
}

/// Refreshes once. Returns whether all of it succeeded; failures are logged.
fn refresh(refresher: &mut Refresher) -> bool {
    guarded(refresher, "the refresh", |refresher| {
        refresher.refresh().is_ok_and(|report| report.is_complete())
    })
}

/// Runs an action on the refresher and treats a panic as a failure.
///
/// A source may be third-party code. If it panics, the service must not report itself as healthy while its filters
/// are no longer renewed. Shared state is never left half updated, because the snapshot is swapped whole. The
/// refresher's own sets may lack items after a panic, so everything is read again.
fn guarded(
    refresher: &mut Refresher,
    what: &str,
    action: impl FnOnce(&mut Refresher) -> bool,
) -> bool {
    match catch_unwind(AssertUnwindSafe(|| action(refresher))) {
        Ok(good) => good,
        Err(panic) => {
            refresher.service.set_failing(true);
            refresher.discard_and_rescan();
            METRICS.refreshes.with_label_values(&["failed"]).inc();
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            tracing::error!(panic = said, "{what} panicked; retrying");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refreshes_begin_at_multiples_of_the_interval() {
        let seconds = Duration::from_secs_f64;
        for (length, jitter, took, now, random, expected) in [
            (60.0, 0.0, 1.0, 6_021.5, 0.9, 38.5),
            (60.0, 0.1, 1.0, 6_021.5, 0.5, 41.5),
            (60.0, 0.1, 1.0, 6_021.5, 1.0, 44.5),
            (60.0, 0.0, 1.0, 6_000.0, 0.0, 60.0),
            // The delay is at most 30 s, whatever the interval is.
            (3_600.0, 0.5, 1.0, 7_200.0, 1.0, 3_630.0),
            (1.0, 0.0, 0.25, 7.25, 0.0, 0.75),
            // Already late.
            (60.0, 0.1, 60.0, 6_021.5, 0.5, 0.0),
        ] {
            let interval = Interval {
                length: seconds(length),
                jitter,
            };
            let pause = interval.pause(seconds(took), seconds(now), random);
            let difference = pause.abs_diff(seconds(expected));
            assert!(difference < seconds(1e-6), "{pause:?} and not {expected} s");
        }
    }
}
