//! Processes that are killed at any moment, of this test program.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Names the working directory of a process that will be killed.
const VICTIM: &str = "NUTFILTER_TEST_VICTIM";

/// The working directory, if this process is a victim.
pub(crate) fn directory() -> Option<PathBuf> {
    env::var_os(VICTIM).map(PathBuf::from)
}

/// Number of kills.
pub(crate) fn kills(default: u64) -> u64 {
    let kills = env::var("NUTFILTER_KILLS").ok();
    kills
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(default)
}

pub(crate) fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Starts the test `a_victim_if_this_process_is_one`, kills it, and returns what it printed: `ready`, and `refreshed`
/// after each refresh.
pub(crate) fn kill(directory: &Path, seed: &mut u64) -> String {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_victim_if_this_process_is_one", "--nocapture"])
        .env(VICTIM, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    // Most kills happen during refreshes, the others during the start.
    if random(seed).is_multiple_of(4) {
        thread::sleep(Duration::from_micros(random(seed) % 60_000));
    } else {
        // Some refreshes must complete, even on a slow machine.
        let refreshes = random(seed) % 3;
        let far_enough = |said: &str| {
            said.contains("ready") && said.matches("refreshed").count() as u64 >= refreshes
        };
        while !far_enough(&said) && stdout.read_line(&mut said).unwrap() > 0 {}
        thread::sleep(Duration::from_micros(random(seed) % 40_000));
    }
    let died = child.try_wait().unwrap();
    child.kill().unwrap();
    stdout.read_to_string(&mut said).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(died.is_none(), "before the kill: {said}{error}");
    said
}
