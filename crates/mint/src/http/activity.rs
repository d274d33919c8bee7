//! What goes on at a connection, and by when something has to.
//!
//! hyper's own timer covers the head of HTTP/1 alone, and begins only once it is known which protocol is
//! spoken. Here one rule covers every stage and both protocols: without a request a connection lasts for
//! the time that a head may take; with an answer to send, for as long as the peer takes enough of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::limits::ServerOptions;

/// How often a connection is looked at while a handler is at work, for which there is no limit here.
const HANDLER_CHECK: Duration = Duration::from_secs(1);

/// Shared by a connection's socket, its requests, and the one who looks at the clock.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
    write_least: u64,
}

#[derive(Debug)]
struct State {
    /// Requests whose answers are not handed over yet.
    open: usize,
    /// Those of them that have an answer.
    sending: usize,
    /// Since when there is no request, if there is none.
    idle_since: Instant,
    /// Whether something came since then: the beginning of a head.
    came: bool,
    /// Whether there has been a request.
    asked: bool,
    /// Bytes that the socket took.
    written: u64,
    /// `written` at the last moment in which enough had been taken since the moment before it.
    mark: u64,
    mark_at: Instant,
    /// Whether what the peer has not taken is to be thrown away.
    abort: bool,
}

/// What is to be done about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing, until then.
    Until(Instant),
    /// It may be closed: nothing is under way.
    Idle(Overdue),
    /// It must be cut: the peer does not take what it asked for.
    SlowReader,
}

/// What did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The head of a request, the first one or one that was begun.
    Head,
    /// Another request, which is no fault.
    Next,
}

impl Activity {
    pub(super) fn new(options: &ServerOptions) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            state: Mutex::new(State {
                open: 0,
                sending: 0,
                idle_since: now,
                came: false,
                asked: false,
                written: 0,
                mark: 0,
                mark_at: now,
                abort: false,
            }),
            write_least: options.write_least,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counters: there is nothing that a panic could have left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read(&self, bytes: usize) {
        if bytes > 0 {
            self.state().came = true;
        }
    }

    pub(super) fn wrote(&self, bytes: usize) {
        let mut state = self.state();
        state.written += bytes as u64;
        if state.written - state.mark >= self.write_least {
            state.mark = state.written;
            state.mark_at = Instant::now();
        }
    }

    pub(super) fn abort(&self) {
        self.state().abort = true;
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.state().abort
    }

    /// When a connection without open requests that is being closed need not be waited for any longer;
    /// `None` if there are some. The end of an answer is still on its way when its request is over, and the
    /// peer has as much time for it as for all else.
    pub(super) fn parted_at(&self, write_window: Duration) -> Option<Instant> {
        let state = self.state();
        match (state.open, state.asked) {
            (0, true) => Some(state.idle_since.max(state.mark_at) + write_window),
            (0, false) => Some(state.idle_since),
            _ => None,
        }
    }

    /// How it stands now.
    pub(super) fn judge(&self, idle: Duration, write_window: Duration) -> Verdict {
        let now = Instant::now();
        let state = self.state();
        if state.open == 0 {
            // The last piece of an answer counts as handed over while the peer still takes it.
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

/// A request that is open for as long as this lives.
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

    /// From now on there is something to send.
    pub(super) fn send(&mut self) {
        let mut state = self.activity.state();
        if !self.sending {
            state.sending += 1;
            // Others may have made the peer's window full; the first one begins a new count.
            if state.sending == 1 {
                state.mark = state.written;
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
        Activity::new(&ServerOptions::default())
    }

    #[test]
    fn without_a_request_it_is_the_head_that_is_overdue() {
        let activity = activity();
        assert!(matches!(activity.judge(LATER, NOW), Verdict::Until(_)));
        assert_eq!(activity.judge(NOW, LATER), Verdict::Idle(Overdue::Head));
        drop(Open::new(&activity));
        assert_eq!(activity.judge(NOW, LATER), Verdict::Idle(Overdue::Next));
        activity.read(1);
        assert_eq!(activity.judge(NOW, LATER), Verdict::Idle(Overdue::Head));
    }

    #[test]
    fn a_handler_has_all_the_time_and_a_reader_has_not() {
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
    fn the_time_begins_again_when_enough_was_taken_and_not_before() {
        let activity = activity();
        let mut request = Open::new(&activity);
        request.send();
        let deadline = || match activity.judge(LATER, LATER) {
            Verdict::Until(deadline) => deadline,
            other => panic!("{other:?}"),
        };
        let first = deadline();
        std::thread::sleep(Duration::from_millis(2));
        activity.wrote(usize::try_from(super::super::limits::WRITE_LEAST).expect("small") - 1);
        assert_eq!(deadline(), first);
        activity.wrote(1);
        assert!(deadline() > first);
    }
}
