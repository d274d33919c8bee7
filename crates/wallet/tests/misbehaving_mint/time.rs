//! Slow mints.

use std::iter;
use std::net::TcpStream;
use std::time::Instant;

use crate::*;
use nutfilter_wallet::{Fallback, QueryError, RestoreOptions};

#[test]
fn slow_bytes_in_head_or_body_are_ended_by_the_deadline() {
    let body = honest(now()).to_json();
    let whole = json(body);
    let body_starts = whole.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    for at_once in [0, body_starts, body_starts + 1_000] {
        let whole = whole.clone();
        let mint = start(move |_, stream| {
            stream.set_nodelay(true)?;
            stream.write_all(&whole[..at_once])?;
            // Bytes arrive much more often than the deadline, without end.
            for &byte in whole[at_once..].iter().chain(iter::repeat(&b' ')) {
                stream.write_all(&[byte])?;
                thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        });
        assert_failed!(fetch_by(&mint, short()), FetchError::Deadline { .. });
    }
}

#[test]
fn slow_body_that_keeps_its_rate_is_not_cut() {
    let whole = json(honest(now()).to_json());
    let mint = start(move |_, stream| {
        stream.set_nodelay(true)?;
        // 24 KiB/s, for about twice the deadline.
        for part in whole.chunks(2_458) {
            stream.write_all(part)?;
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    });
    let started = Instant::now();
    let fetched = fetch_by(&mint, short()).expect("a slow answer");
    assert_eq!(fetched.n(), ITEMS);
    assert!(started.elapsed() > short().deadline);
}

#[test]
fn time_limit_of_a_restore_ends_slow_bodies() {
    // 24 KiB/s, for ten seconds.
    let drip = |stream: &mut TcpStream, answer: &[u8]| {
        stream.set_nodelay(true)?;
        for part in answer.chunks(2_458) {
            stream.write_all(part)?;
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    };
    for slow in ["GET /v1/filter/issued", "POST"] {
        let mint = start(move |request, stream| {
            let padding = vec![b' '; 240 << 10];
            match request.starts_with(slow) {
                true => drip(stream, &[&head("200 OK", &[]), &padding[..]].concat()),
                false => stream.write_all(&conversation::honest_reply(request)),
            }
        })
        .checked(eavesdrop::anything_in_posts);
        let options = RestoreOptions { time_limit: Duration::from_secs(2), ..conversation::PLAIN };
        let started = Instant::now();
        let error = conversation::restore(&mint, conversation::ALL, &options).expect_err("slow");
        assert!(matches!(error.cause, QueryError::OutOfTime { .. }), "{error:?}");
        assert!(started.elapsed() < Duration::from_secs(6), "{slow}");
    }
}

/// Long enough to connect, even on a busy machine.
fn short() -> Policy {
    policy!(deadline: Duration::from_millis(500))
}

#[test]
fn silence_is_ended_by_the_deadline() {
    let mint = start(|_, stream| stream.read_exact(&mut [0]));
    assert_failed!(fetch_by(&mint, short()), FetchError::Deadline { .. });
    // What came before has earned more than a minute.
    let mint = start(|_, stream| {
        stream.write_all(&json(vec![b' '; 1 << 20])[..1 << 20])?;
        stream.read_exact(&mut [0])
    });
    let started = Instant::now();
    assert_failed!(fetch_by(&mint, short()), FetchError::Deadline { .. });
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn abort_ends_waits_and_silence_and_keeps_what_is_known() {
    // The second request has no answer, or 61 s to wait.
    for answer in [None, Some("HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n")] {
        let (abort, asked) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
        let set = abort.clone();
        let mint = conversation::mint(move |request| {
            if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                return conversation::honest_reply(request);
            }
            let set = set.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(200));
                set.store(true, Ordering::SeqCst);
            });
            let answer = answer.map(|answer| answer.as_bytes().to_vec());
            answer.unwrap_or_else(|| {
                thread::sleep(Duration::from_secs(10));
                Vec::new()
            })
        });
        let client = client(&mint).with_abort(abort.clone());
        let list = conversation::candidates(conversation::ALL);
        let started = Instant::now();
        let error = client.restore(&keyset(), &list[..], &conversation::PLAIN).expect_err("set");
        assert!(matches!(error.cause, QueryError::Fetch(FetchError::Aborted)), "{error:?}");
        assert!(started.elapsed() < Duration::from_secs(8));
        let unfinished = error.unfinished.expect("one answered batch");
        assert_eq!(unfinished.so_far().live().count(), 100);
        // Nothing is sent while it is set.
        let before = mint.requests().len();
        let error = client.resume(*unfinished, &list[..]).expect_err("still set").cause;
        assert!(matches!(error, QueryError::Fetch(FetchError::Aborted)), "{error:?}");
        let options = RestoreOptions { fallback: Fallback::Always, ..conversation::PLAIN };
        let error = client.restore(&keyset(), &list[..], &options).expect_err("still set");
        assert!(matches!(error.cause, QueryError::Fetch(FetchError::Aborted)), "{error:?}");
        // It does not say that all was shown.
        assert!(error.unfinished.is_none());
        assert_eq!(mint.requests().len(), before);
    }
}
