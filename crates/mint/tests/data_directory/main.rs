//! State on disk between refreshes: restarts, crashes, damage, full disks.

mod crash;
mod damage;
mod errors;
mod fake_mint;
mod restart;
mod scripted;
mod victim;

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// Calls `attempt` until it returns something.
fn wait_for<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "waited in vain");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Calls `open` again while the directory is in use: a process that another test starts holds copies of all locks until
/// it executes its program.
fn open<T, E: Display>(open: impl Fn() -> Result<T, E>) -> T {
    wait_for(|| {
        let in_use = |error: &E| assert!(error.to_string().contains("in use"), "{error}");
        open().inspect_err(in_use).ok()
    })
}

/// Not a test: the process that is killed.
#[test]
fn a_victim_if_this_process_is_one() {
    crash::child_if_asked();
}
