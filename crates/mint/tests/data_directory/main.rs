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
#[path = "../../sequence/tests/kills/victim.rs"]
mod victim;

/// Not a test: the process that is killed.
#[test]
fn a_victim_if_this_process_is_one() {
    crash::child_if_asked();
}
