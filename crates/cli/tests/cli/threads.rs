//! `--threads`: the number of threads. The library tests that its results do not depend on it.

use crate::nutfilter::Place;

#[test]
fn too_many_threads_are_rejected_with_the_range() {
    let place = Place::new();
    for threads in ["0", "1025", "65535", "65536"] {
        place.fails(format!("completions bash --threads {threads}"), "1..=1024");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn requested_number_of_threads_is_started() {
    use std::process::Stdio;
    use std::thread;
    use std::time::Duration;

    let place = Place::new();
    for threads in [1, 3] {
        let mut child = place
            .command(format!("build - --allow-empty --threads {}", threads))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary");
        // It waits for items, with its own thread.
        let tasks = format!("/proc/{}/task", child.id());
        let count = || std::fs::read_dir(&tasks).expect("a process").count();
        for _ in 0..2_000 {
            if count() > threads {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(count(), threads + 1);
        drop(child.stdin.take());
        assert!(child.wait().expect("an end").success());
    }
}
