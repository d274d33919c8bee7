//! Refreshing again and again, on a thread of its own.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::publish::Publisher;

/// The first pause after a refresh that failed; it doubles until it is the interval. A mint that is
/// restarting is back within seconds, and a database that is gone should not be asked all the time.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The shortest interval: a refresh reads the whole database, and the timestamps have seconds.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// A thread that refreshes at an interval, one refresh at a time, beginning at once.
///
/// The interval is from start to start, measured by a clock that nobody sets. A refresh that takes
/// longer than the interval is followed by the next one right away. To drop the handle is to ask the
/// thread to end, without waiting for it.
#[derive(Debug)]
pub struct Refresher {
    stop: Arc<AtomicBool>,
    wake: Sender<()>,
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
        let stop = publisher.stop_flag();
        let (wake, woken) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        thread::Builder::new()
            .name("nutfilter-refresh".to_owned())
            .spawn(move || {
                run(publisher, interval.max(SHORTEST_INTERVAL), &stopped, &woken);
                drop(end);
            })?;
        Ok(Self { stop, wake, ended })
    }

    /// Asks for a refresh now, rather than when the interval is over. If one is under way, another
    /// follows it.
    pub fn refresh_now(&self) {
        // An error would mean that the thread has ended, and then there is nothing to wake.
        let _ = self.wake.send(());
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

impl Drop for Refresher {
    fn drop(&mut self) {
        self.signal();
    }
}

fn run(mut publisher: Publisher, interval: Duration, stop: &AtomicBool, woken: &Receiver<()>) {
    let mut retry = FIRST_RETRY;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let good = refresh(&mut publisher);
        let pause = if good {
            retry = FIRST_RETRY;
            interval.saturating_sub(start.elapsed())
        } else {
            let pause = retry.min(interval);
            retry = retry.saturating_mul(2);
            pause
        };
        match woken.recv_timeout(pause) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// One refresh; says whether all of it went well. What did not is in the log.
///
/// A source may be anybody's code. If it panics, the service must not go on calling itself well with
/// filters that nobody renews. Nothing that is shared is left half done: the snapshot is swapped whole,
/// and what a publisher keeps from one refresh to the next is only what it has logged.
fn refresh(publisher: &mut Publisher) -> bool {
    match catch_unwind(AssertUnwindSafe(|| publisher.refresh())) {
        Ok(result) => result.is_ok_and(|report| report.failures.is_empty()),
        Err(panic) => {
            publisher.service().set_failing(true);
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no words");
            tracing::error!(panic = said, "the refresh panicked; it is tried again");
            false
        }
    }
}
