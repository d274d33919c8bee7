//! A line on the progress of work that takes longer than a second, if stderr is a terminal.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::globals::Globals;
use crate::output::count;

/// Shorter work needs no line.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// Interval between updates of the line.
const TICK: Duration = Duration::from_millis(200);

/// A line that appears after a second, even while the program waits. It disappears when this value is dropped.
pub(crate) struct Progress {
    done: Arc<AtomicU64>,
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// For a number of bytes, which may be unknown.
    pub(crate) fn bytes(globals: &Globals, what: impl Into<String>, total: Option<u64>) -> Self {
        Self::start(globals, what.into(), total, " bytes")
    }

    /// For items, whose number may be unknown.
    pub(crate) fn items(globals: &Globals, what: impl Into<String>, total: Option<u64>) -> Self {
        Self::start(globals, what.into(), total, " items")
    }

    /// For work that cannot be counted.
    pub(crate) fn uncounted(globals: &Globals, what: impl Into<String>) -> Self {
        Self::start(globals, what.into(), None, "")
    }

    fn start(globals: &Globals, what: String, total: Option<u64>, unit: &'static str) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        let watcher = globals.shows_progress().then(|| {
            let (finished, wait) = mpsc::channel();
            let done = Arc::clone(&done);
            let watch = move || {
                let mut pause = SHOWN_AFTER;
                while wait.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    let done = done.load(Ordering::Relaxed);
                    let counted = match (unit, total) {
                        ("", _) => String::new(),
                        (_, None) => format!(": {}{unit}", count(done)),
                        (_, Some(total)) => format!(": {} of {}{unit}", count(done), count(total)),
                    };
                    // To the beginning of the line, and what is there before is erased.
                    let _ = write!(std::io::stderr(), "\r{what}{counted}\x1b[K");
                    pause = TICK;
                }
                if pause == TICK {
                    let _ = write!(std::io::stderr(), "\r\x1b[K");
                }
            };
            (finished, thread::spawn(watch))
        });
        Self { done, watcher }
    }

    /// Adds bytes or items to the count.
    pub(crate) fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    /// Sets the count.
    pub(crate) fn set(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((finished, watcher)) = self.watcher.take() {
            drop(finished);
            // A panic of the watcher would only mean that there is no line, so ignore it.
            let _ = watcher.join();
        }
    }
}
