//! State on disk between refreshes: restarts, crashes, damage, full disks.

mod crash;
mod damage;
mod errors;
mod fake_mint;
#[path = "../../sequence/tests/sequence/observer.rs"]
#[allow(dead_code, reason = "the tests of the sequences use the rest")]
mod observer;
mod restart;
mod scripted;

fn main_child() -> bool {
    crash::child_if_asked()
}

/// Must run first in a process that another test started. That process is the other test's victim, and runs no
/// tests.
#[test]
fn a_victim_if_this_process_is_one() {
    assert!(!main_child() || std::env::var_os(crash::VICTIM).is_some());
}
