//! Activity of a connection and its deadlines.
//!
//! hyper's own timer only covers the head of an HTTP/1 request, and starts when the protocol is known. Here one
//! rule covers all stages and both protocols. Without a request, a connection lasts for the head timeout. While an
//! answer is being sent, it lasts as long as the peer takes some of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval of checks while a handler runs. Handlers have no time limit here.
const HANDLER_CHECK: Duration = Duration::from_secs(1);

/// Shared by a connection's socket, its requests, and its watchdog.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Requests whose answers are not fully handed over yet.
    open: usize,
    /// Open requests that have an answer.
    sending: usize,
    /// Start of the time without requests, if no request is open.
    idle_since: Instant,
    /// Whether any bytes were received since then: the beginning of a head.
    came: bool,
    /// Whether there was any request.
    asked: bool,
    /// When the socket last accepted bytes, or the first answer of several began.
    mark_at: Instant,
    /// Whether unread data must be discarded on close.
    abort: bool,
}

/// The next step for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing until this time.
    Until(Instant),
    /// Close it: no request is open.
    Idle(Overdue),
    /// Cut it: the peer does not read the answers that it requested.
    SlowReader,
}

/// The part that did not arrive in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The head of a request: the first one, or one that was begun.
    Head,
    /// Another request. This is not an error.
    Next,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            state: Mutex::new(State {
                open: 0,
                sending: 0,
                idle_since: now,
                came: false,
                asked: false,
                mark_at: now,
                abort: false,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Plain counters: a panic cannot leave them half updated.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read(&self, bytes: usize) {
        if bytes > 0 {
            self.state().came = true;
        }
    }

    pub(super) fn wrote(&self, bytes: usize) {
        if bytes > 0 {
            self.state().mark_at = Instant::now();
        }
    }

    pub(super) fn abort(&self) {
        self.state().abort = true;
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.state().abort
    }

    /// When a closing connection without open requests may be dropped; `None` if requests are open. The end of an
    /// answer may still be in transit when its request is done. The peer has the usual write window for it.
    pub(super) fn parted_at(&self, write_window: Duration) -> Option<Instant> {
        let state = self.state();
        match (state.open, state.asked) {
            (0, true) => Some(state.idle_since.max(state.mark_at) + write_window),
            (0, false) => Some(state.idle_since),
            _ => None,
        }
    }

    /// Returns what to do with the connection now.
    pub(super) fn judge(&self, idle: Duration, write_window: Duration) -> Verdict {
        let now = Instant::now();
        let state = self.state();
        if state.open == 0 {
            // The last piece of an answer counts as handed over while the peer still reads it.
            let deadline = state.idle_since.max(state.mark_at) + idle;
            let overdue = match state.came || !state.asked {
                true => Overdue::Head,
                false => Overdue::Next,
            };
            return match now < deadline {
                true => Verdict::Until(deadline),
                false => Verdict::Idle(overdue),
            };
        }
        if state.sending == 0 {
            return Verdict::Until(now + HANDLER_CHECK);
        }
        let deadline = state.mark_at + write_window;
        match now < deadline {
            true => Verdict::Until(deadline),
            false => Verdict::SlowReader,
        }
    }
}

/// An open request; it ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Open {
    activity: Arc<Activity>,
    sending: bool,
}

impl Open {
    pub(super) fn new(activity: &Arc<Activity>) -> Self {
        let mut state = activity.state();
        state.open += 1;
        state.asked = true;
        drop(state);
        Self {
            activity: Arc::clone(activity),
            sending: false,
        }
    }

    /// Marks that there is data to send from now on.
    pub(super) fn send(&mut self) {
        let mut state = self.activity.state();
        if !self.sending {
            state.sending += 1;
            if state.sending == 1 {
                state.mark_at = Instant::now();
            }
        }
        drop(state);
        self.sending = true;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        state.open -= 1;
        state.sending -= usize::from(self.sending);
        if state.open == 0 {
            state.idle_since = Instant::now();
            state.came = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const LATER: Duration = Duration::from_secs(3600);

    fn activity() -> Arc<Activity> {
        Activity::new()
    }

    #[test]
    fn without_a_request_the_head_is_overdue() {
        let activity = activity();
        assert!(matches!(activity.judge(LATER, NOW), Verdict::Until(_)));
        assert_eq!(activity.judge(NOW, LATER), Verdict::Idle(Overdue::Head));
        drop(Open::new(&activity));
        assert_eq!(activity.judge(NOW, LATER), Verdict::Idle(Overdue::Next));
        activity.read(1);
        assert_eq!(activity.judge(NOW, LATER), Verdict::Idle(Overdue::Head));
    }

    #[test]
    fn handler_has_no_time_limit_but_reader_has() {
        let activity = activity();
        let mut request = Open::new(&activity);
        assert!(matches!(activity.judge(NOW, NOW), Verdict::Until(_)));
        request.send();
        assert_eq!(activity.judge(LATER, NOW), Verdict::SlowReader);
        assert!(matches!(activity.judge(NOW, LATER), Verdict::Until(_)));
        drop(request);
        assert!(matches!(activity.judge(LATER, NOW), Verdict::Until(_)));
    }

    #[test]
    fn write_window_restarts_with_every_byte() {
        let activity = activity();
        let mut request = Open::new(&activity);
        request.send();
        let deadline = || match activity.judge(LATER, LATER) {
            Verdict::Until(deadline) => deadline,
            other => panic!("{other:?}"),
        };
        let first = deadline();
        std::thread::sleep(Duration::from_millis(2));
        activity.wrote(0);
        assert_eq!(deadline(), first);
        activity.wrote(1);
        assert!(deadline() > first);
    }
}
