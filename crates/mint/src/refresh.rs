//! Refreshing again and again, on a thread of its own.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::publish::Publisher;

/// The first pause after a refresh that failed; it doubles until it is the interval. A mint that is
/// restarting is back within seconds, and a database that is gone should not be asked all the time.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The shortest interval: the timestamps have seconds.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// The largest share of the interval by which chance may delay a refresh.
const MAX_JITTER: f64 = 0.5;

/// The coarsest grid of timestamps. A finer one would make services disagree that read at about the same time; a
/// coarser one would date filters earlier than necessary.
const GRID: Duration = Duration::from_secs(60);

/// How often to look whether the clock was set back.
const CLOCK_CHECK: Duration = Duration::from_secs(1);

/// A thread that refreshes at an interval, one refresh at a time, beginning at once: with what the publisher's
/// data directory holds, if it has one.
///
/// Refreshes begin at multiples of the interval by the system's clock, and timestamps are multiples of it too, or of a
/// minute if that is shorter: services on one database then read at about the same time, and serve equal bodies. A
/// refresh that takes longer than the interval is followed by the next one right away; so is one whose filters are
/// dated after the clock because it was set back. To drop the handle is to ask the thread to end, without waiting for
/// it.
#[derive(Debug)]
pub struct Refresher {
    stop: Arc<AtomicBool>,
    wake: SyncSender<()>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Refresher {
    /// Starts the thread. An interval below a second is taken for a second.
    ///
    /// # Errors
    ///
    /// If the system has no thread to give.
    pub fn start(publisher: Publisher, interval: Duration) -> io::Result<Self> {
        Self::start_with_jitter(publisher, interval, 0.0)
    }

    /// [`Refresher::start`] with random delays of up to a share `jitter` of the interval, and up to half a minute:
    /// several services on one database then do not read it at the same moment. Below 0 is taken for 0, above 0.5 for
    /// 0.5.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start_with_jitter(
        publisher: Publisher,
        interval: Duration,
        jitter: f64,
    ) -> io::Result<Self> {
        let stop = publisher.stop_flag();
        // One that waits is enough: whatever was written before it begins will be in it.
        let (wake, woken) = mpsc::sync_channel(1);
        let interval = Interval {
            length: interval.max(SHORTEST_INTERVAL),
            jitter: jitter.clamp(0.0, MAX_JITTER),
        };
        let publisher = publisher.timestamp_grid(interval.length.min(GRID));
        let (end, ended) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        thread::Builder::new()
            .name("nutfilter-refresh".to_owned())
            .spawn(move || {
                run(publisher, interval, &stopped, &woken);
                drop(end);
            })?;
        Ok(Self { stop, wake, ended })
    }

    /// Asks for a refresh now, rather than when the interval is over. If one is under way, another
    /// follows it, however often it was asked for.
    pub fn refresh_now(&self) {
        self.trigger().refresh_now();
    }

    /// A handle to ask for refreshes with, from any thread.
    #[must_use]
    pub fn trigger(&self) -> RefreshTrigger {
        RefreshTrigger {
            wake: self.wake.clone(),
        }
    }

    /// Asks the thread to end and waits for it, though not longer than `patience`. Says whether it has
    /// ended. One that has not is in the middle of a query; it only reads, and may be left to itself.
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

/// Asks a [`Refresher`] for refreshes.
#[derive(Clone, Debug)]
pub struct RefreshTrigger {
    wake: SyncSender<()>,
}

impl RefreshTrigger {
    /// As [`Refresher::refresh_now`]; nothing happens once the refresher has ended.
    pub fn refresh_now(&self) {
        // Refused means that one is waiting already, or that nobody is there to be woken.
        let _ = self.wake.try_send(());
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        self.signal();
    }
}

/// When refreshes begin.
#[derive(Clone, Copy, Debug)]
struct Interval {
    length: Duration,
    /// At most [`MAX_JITTER`].
    jitter: f64,
}

impl Interval {
    /// The pause after a refresh that took this long and ended at this time since 1970; `random` is from 0 to 1.
    fn pause(self, took: Duration, now: Duration, random: f64) -> Duration {
        if took >= self.length {
            return Duration::ZERO;
        }
        let passed = now.as_nanos() % self.length.as_nanos();
        // Less than the length, whose nanoseconds in 64 bits last for 584 years.
        let passed = Duration::from_nanos(u64::try_from(passed).unwrap_or(0));
        let delay = self.length.mul_f64(self.jitter).min(GRID / 2);
        self.length.saturating_sub(passed) + delay.mul_f64(random)
    }
}

/// A number from 0 to 1. It need not be hard to guess: a hasher's random key will do.
fn random() -> f64 {
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}

fn run(mut publisher: Publisher, interval: Interval, stop: &AtomicBool, woken: &Receiver<()>) {
    guarded(&mut publisher, "restoring", Publisher::restore);
    let mut retry = FIRST_RETRY;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let good = refresh(&mut publisher);
        let pause = if good {
            retry = FIRST_RETRY;
            interval.pause(start.elapsed(), publisher.clock().wall(), random())
        } else {
            let pause = retry.min(interval.length);
            retry = retry.saturating_mul(2);
            pause
        };
        if !wait(&publisher, pause, woken) {
            return;
        }
    }
}

/// Waits until the pause is over, somebody asks, or the clock was set back behind what is served. Says whether
/// there may still be somebody to ask.
fn wait(publisher: &Publisher, pause: Duration, woken: &Receiver<()>) -> bool {
    let start = Instant::now();
    loop {
        let left = pause.saturating_sub(start.elapsed());
        match woken.recv_timeout(left.min(CLOCK_CHECK)) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if left <= CLOCK_CHECK || publisher.is_dated_ahead() {
            return true;
        }
    }
}

/// One refresh; says whether all of it went well. What did not is in the log.
fn refresh(publisher: &mut Publisher) -> bool {
    guarded(publisher, "the refresh", |publisher| {
        publisher
            .refresh()
            .is_ok_and(|report| report.failures.is_empty())
    })
}

/// Does something with the publisher, and takes a panic for a failure.
///
/// A source may be anybody's code. If it panics, the service must not go on calling itself well with
/// filters that nobody renews. Nothing that is shared is left half done: the snapshot is swapped whole. What the
/// publisher keeps may lack items then, and is read whole again.
fn guarded(
    publisher: &mut Publisher,
    what: &str,
    action: impl FnOnce(&mut Publisher) -> bool,
) -> bool {
    match catch_unwind(AssertUnwindSafe(|| action(publisher))) {
        Ok(good) => good,
        Err(panic) => {
            publisher.service().set_failing(true);
            publisher.start_over();
            metrics::counter!("nutfilter_refreshes_total", "result" => "failed").increment(1);
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no words");
            tracing::error!(panic = said, "{what} panicked; it is tried again");
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
            // Without delays of more than half a minute, whatever the interval is.
            (3_600.0, 0.5, 1.0, 7_200.0, 1.0, 3_630.0),
            (1.0, 0.0, 0.25, 7.25, 0.0, 0.75),
            // Late already.
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
