//! What is kept on the disk from one refresh to the next: restarts, crashes, damage, full disks.

mod crash;
mod damage;
mod errors;
mod invented;
mod restart;
mod scripted;

fn main_child() -> bool {
    crash::child_if_asked()
}

/// Has to run first in a process that another test started: it is that test's victim, and no test.
#[test]
fn a_victim_if_this_process_is_one() {
    assert!(!main_child() || std::env::var_os(crash::VICTIM).is_some());
}
