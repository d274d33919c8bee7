//! Mints that take their time.

use crate::*;

#[test]
fn a_drip_is_ended_by_the_deadline_in_the_head_and_in_the_body() {
    let body = honest(now()).to_json();
    let whole = json(body);
    let body_starts = whole
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head")
        + 4;
    for at_once in [0, body_starts, body_starts + 1_000] {
        let whole = whole.clone();
        let mint = Loopback::start(move |_, stream| {
            stream.set_nodelay()?;
            stream.write_all(&whole[..at_once])?;
            drip(stream, &whole[at_once..])
        });
        // Bytes come far more often than the deadline, so no time-out of a single read ends this.
        let policy = Policy {
            deadline: Duration::from_millis(500),
            ..Policy::default()
        };
        let started = Instant::now();
        assert_failed!(fetch_by(&mint, policy), FetchError::Deadline { .. });
        assert!(started.elapsed() >= Duration::from_millis(500));
        assert!(
            started.elapsed() < Duration::from_secs(3),
            "took {:?}",
            started.elapsed()
        );
    }
}

fn drip(stream: &mut Connection, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        stream.write_all(&[*byte])?;
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[test]
fn the_deadline_is_one_for_all_redirects_together() {
    let mint = Loopback::start(|_, stream| {
        thread::sleep(Duration::from_millis(400));
        stream.write_all(&response("302 Found", &[("Location", "/again")], ""))
    });
    // Each request alone would be in time; the third is not.
    let policy = Policy {
        deadline: Duration::from_secs(1),
        ..Policy::default()
    };
    assert_failed!(fetch_by(&mint, policy), FetchError::Deadline { .. });
}

#[test]
fn silence_is_ended_by_the_deadline() {
    let mint = Loopback::start(|_, stream| stream.read_exact(&mut [0]));
    let policy = Policy {
        deadline: Duration::from_millis(300),
        ..Policy::default()
    };
    assert_failed!(fetch_by(&mint, policy), FetchError::Deadline { .. });
}

#[test]
fn endless_interim_responses_are_ended_by_the_deadline() {
    let mint = Loopback::start(|_, stream| {
        loop {
            stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n")?;
            thread::sleep(Duration::from_millis(1));
        }
    });
    let policy = Policy {
        deadline: Duration::from_millis(500),
        ..Policy::default()
    };
    let fetched = fetch_by(&mint, policy);
    assert_failed!(
        fetched,
        FetchError::Deadline { .. } | FetchError::Transport(_)
    );
}
