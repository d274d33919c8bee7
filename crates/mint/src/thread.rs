//! Refreshes at an interval, on a thread.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
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

/// A thread that refreshes at an interval, one refresh at a time. It starts at once, with everything.
///
/// Refreshes begin at multiples of the interval on the system clock. Dates are multiples of the interval too, or of a
/// minute if that is shorter. Services on one database then read at about the same time and make equal objects. A refresh
/// that takes longer than the interval is followed by the next one. One starts early if the clock was set back, or
/// if somebody asked for an object whose file is gone. The thread ends by itself if the store is another mint's
/// ([`Status::other_mint`](crate::Status::other_mint)). Dropping the handle asks the thread to end, without waiting for it.
#[derive(Debug)]
pub struct RefreshThread {
    monitor: Arc<Monitor>,
    wake: SyncSender<()>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl RefreshThread {
    /// Starts the thread. An interval below 1 s is raised to 1 s.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn start(mut refresher: Refresher, interval: Duration) -> io::Result<Self> {
        // One waiting request is enough: the refresh that it starts sees everything written before.
        let (wake, woken) = mpsc::sync_channel(1);
        let interval = interval.max(SHORTEST_INTERVAL);
        refresher.set_grid(interval.min(GRID));
        let monitor = Arc::clone(refresher.monitor());
        let (end, ended) = mpsc::channel();
        thread::Builder::new()
            .name("nutfilter-refresh".to_owned())
            .spawn(move || {
                run(refresher, interval, &woken);
                drop(end);
            })?;
        Ok(Self {
            monitor,
            wake,
            ended,
        })
    }

    /// Requests a refresh of everything now. If a refresh is running, exactly one more follows it, regardless of the number
    /// of requests.
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
        self.monitor.stop();
        self.refresh_now();
    }
}

impl Drop for RefreshThread {
    fn drop(&mut self) {
        self.signal();
    }
}

fn run(mut refresher: Refresher, interval: Duration, woken: &Receiver<()>) {
    let (mut retry, mut whole) = (FIRST_RETRY, true);
    while !refresher.monitor().stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let pause = match refresh(&mut refresher, whole) {
            Outcome::Fatal => return,
            Outcome::Good => {
                retry = FIRST_RETRY;
                pause(interval, start.elapsed(), refresher.now(), random())
            }
            Outcome::Bad => {
                let pause = retry.min(interval);
                retry = retry.saturating_mul(2);
                pause
            }
        };
        match wait(&mut refresher, pause, woken) {
            Some(asked) => whole = asked,
            None => return,
        }
    }
}

/// The pause after a refresh that took `took` and ended at `now`, the time since 1970. `random` is from 0 to 1.
fn pause(interval: Duration, took: Duration, now: Duration, random: f64) -> Duration {
    if took >= interval {
        return Duration::ZERO;
    }
    let passed = now.as_nanos() % interval.as_nanos();
    // Less than the interval; 64 bits of nanoseconds last for 584 years.
    let passed = Duration::from_nanos(u64::try_from(passed).unwrap_or(0));
    interval.saturating_sub(passed) + interval.mul_f64(JITTER).min(GRID / 2).mul_f64(random)
}

/// Returns a number from 0 to 1. It need not be unpredictable, so a hasher's random key is enough.
fn random() -> f64 {
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}

/// Waits until the pause is over, a refresh is requested, the clock was set back, or a file was removed. Returns whether one was requested;
/// `None` if no handle is left.
fn wait(refresher: &mut Refresher, pause: Duration, woken: &Receiver<()>) -> Option<bool> {
    let start = Instant::now();
    loop {
        let left = pause.saturating_sub(start.elapsed());
        match woken.recv_timeout(left.min(CHECK)) {
            Ok(()) => return Some(true),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if left <= CHECK || refresher.withdraw() || refresher.monitor().table().was_disturbed() {
            return Some(false);
        }
    }
}

enum Outcome {
    Good,
    Bad,
    /// No later reading could be better.
    Fatal,
}

/// Refreshes once. Failures are logged.
///
/// A source may be third-party code. If it panics, the service must not report itself as healthy while its filters are no
/// longer renewed.
fn refresh(refresher: &mut Refresher, whole: bool) -> Outcome {
    let result = catch_unwind(AssertUnwindSafe(|| refresher.refresh(whole)));
    match result {
        Ok(Ok(report)) if report.is_complete() => Outcome::Good,
        Ok(Err(RefreshError::OtherMint { .. })) => Outcome::Fatal,
        Ok(_) => Outcome::Bad,
        Err(panic) => {
            refresher.distrust();
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            tracing::error!(panic = said, "the refresh panicked; retrying");
            Outcome::Bad
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
}
