//! Progress bars for work that takes longer than a second, if stderr is a terminal.

use std::borrow::Cow;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::globals::Globals;

/// Shorter work needs no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// Interval between updates of a bar.
const TICK: Duration = Duration::from_millis(100);

/// A bar that appears after a second, even while the program waits. It disappears when this value is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    watcher: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// A bar for a number of bytes, or a spinner if the number is unknown.
    pub(crate) fn bytes(
        globals: &Globals,
        what: impl Into<Cow<'static, str>>,
        total: Option<u64>,
    ) -> Self {
        let template = match total {
            Some(_) => "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} left",
            None => "{spinner} {msg} {bytes} {bytes_per_sec}",
        };
        Self::start(globals, what, total, template)
    }

    /// A spinner for work that cannot be counted.
    pub(crate) fn spinner(globals: &Globals, what: impl Into<Cow<'static, str>>) -> Self {
        Self::start(globals, what, None, "{spinner} {msg} {elapsed}")
    }

    /// A counter for items whose number is not known in advance.
    pub(crate) fn items(globals: &Globals, what: impl Into<Cow<'static, str>>) -> Self {
        Self::start(
            globals,
            what,
            None,
            "{spinner} {msg} {human_pos} items {per_sec}",
        )
    }

    fn start(
        globals: &Globals,
        what: impl Into<Cow<'static, str>>,
        total: Option<u64>,
        template: &str,
    ) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        if !globals.shows_progress() {
            return Self { bar, watcher: None };
        }
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        let (finished, wait) = mpsc::channel();
        let shown = bar.clone();
        let watcher = thread::spawn(move || {
            if wait.recv_timeout(SHOWN_AFTER) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(TICK);
            }
        });
        Self {
            bar,
            watcher: Some((finished, watcher)),
        }
    }

    /// Adds bytes or items to the count.
    pub(crate) fn advance(&self, by: u64) {
        self.bar.inc(by);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((finished, watcher)) = self.watcher.take() {
            drop(finished);
            // A panic of the watcher would only mean that there is no bar, so ignore it.
            let _ = watcher.join();
            self.bar.finish_and_clear();
        }
    }
}
