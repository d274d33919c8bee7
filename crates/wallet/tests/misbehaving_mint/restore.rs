//! A restore at an honest mint: what it returns, and what the mint never sees. And at one that fails halfway: nothing
//! that was answered is lost.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Value, json as value};

use crate::conversation::*;
use crate::*;
use nutfilter_wallet::{
    AnswerFault, Fallback, MintInfo, Outcome, QueryError, Restore, RestoreOptions, Warning,
};

fn paths(mint: &Loopback) -> Vec<String> {
    let requests = mint.requests();
    let path = |request: &String| request.split(' ').nth(1).unwrap_or_default().to_owned();
    requests.iter().map(path).collect()
}

#[test]
fn restore_shows_live_messages_only_shuffled() {
    let mint = honest_mint();
    let restored = restore(&mint, ALL, &PLAIN).expect("an honest mint");
    assert_honest(&restored);
    assert_eq!(restored.next_counter(), LIVE.end as u32 + 40);
    assert!(restored.warnings.is_empty());
    let chance = restored.chance.expect("live notes").to_string();
    assert_eq!(chance, "1 in 4,300 that one of 180 live notes was taken for spent");

    let filters = NoteKind::ALL.map(|kind| format!("/v1/filter/{kind}/{KEYSET}"));
    let [spent, issued] = &filters;
    let asked_first = [spent, issued, "/v1/info", "/v1/keysets"];
    let wanted = [&asked_first[..], &["/v1/restore"; 2]].concat();
    assert_eq!(paths(&mint), wanted);
    let posts = posts(&mint);
    let sent: Vec<_> = posts.iter().map(|post| asked(post)).collect();
    assert_eq!([sent[0].len(), sent[1].len()], [100, 80]);
    let all: BTreeSet<_> = sent.concat().into_iter().collect();
    assert_eq!(all, LIVE.map(|i| hex(&point(i))).collect());
    assert_mixed(&sent[0]);
    assert_mixed(&sent[1]);
    let (_, body) = posts[0].split_once("\r\n\r\n").expect("a head");
    let body: Value = serde_json::from_str(body).expect("JSON");
    let output = value!({"amount": 0, "id": KEYSET, "B_": sent[0][0]});
    assert_eq!(body["outputs"][0], output);
    // Another restore has another order.
    restore(&mint, ALL, &PLAIN).expect("an honest mint");
    let again = &self::posts(&mint)[2];
    assert_ne!(asked(again), sent[0]);
}

#[test]
fn confirmed_restore_asks_about_the_spent_ones_after_the_live_ones() {
    // Two spent notes are not spent for this mint: the filter matched them by chance. A third one is pending.
    let mint = mint(|request| {
        let mut answer = honest_answer(request);
        for state in answer["states"].as_array_mut().into_iter().flatten() {
            let number = number(state["Y"].as_str().expect("text"));
            let new = ["UNSPENT", "UNSPENT", "PENDING"].get(number);
            state["state"] = (*new.unwrap_or(&"SPENT")).into();
        }
        json(answer.to_string())
    });
    let restored = restore(&mint, ALL, &CONFIRM).expect("an honest mint");
    let words: Vec<_> = restored.outcomes.iter().map(Outcome::word).collect();
    assert_eq!(words[..4], ["live", "live", "pending", "spent"]);
    assert_eq!(counts(&restored)["live"], LIVE.len() + 2);
    assert_eq!(restored.chance, None);
    let counters = vec![2];
    assert_eq!(restored.warnings, [Warning::Pending { counters }]);
    let posts: Vec<_> = posts(&mint).iter().map(|post| asked(post)).collect();
    let lens: Vec<_> = posts.iter().map(Vec::len).collect();
    assert_eq!(lens, [100, 80, 100, 20, 2]);
    let ys: BTreeSet<_> = posts[2..4].concat().into_iter().collect();
    assert_eq!(ys, SPENT.map(|i| hex(&point(ALL.end + i))).collect());
    assert_mixed(&posts[2]);
}

/// A mint that answers the requests of these numbers (from 0) otherwise.
fn failing(fails: impl Fn(usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> Loopback {
    let number = Mutex::new(0);
    mint(move |request| {
        let mut number = number.lock().expect("no panic");
        *number += 1;
        fails(*number - 1).unwrap_or_else(|| honest_reply(request))
    })
}

/// Checks that there were two requests, and that the second was sent once more.
fn assert_second_is_repeated(mint: &Loopback) {
    let posts = posts(mint);
    assert_eq!((posts.len(), &posts[1]), (3, &posts[2]));
}

#[test]
fn after_429_the_same_body_is_sent_when_the_mint_says() {
    let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(2));
    let mint = failing(move |number| {
        let headers = [("Retry-After", soon.as_str())];
        (number == 1).then(|| response("429 Slow down", &headers, ""))
    });
    let restored = restore(&mint, ALL, &PLAIN).expect("an honest mint");
    assert_honest(&restored);
    assert_second_is_repeated(&mint);
    // Without a time the wallet is silent for nutshell's minute, which each refused request begins again.
    for (header, seconds) in [(None, 61), (Some("99999999999999999999"), 999_999_999)] {
        let mint = failing(move |_| {
            let headers: Vec<_> = header.map(|value| ("Retry-After", value)).into_iter().collect();
            Some(response("429 Slow down", &headers, ""))
        });
        let options = RestoreOptions { time_limit: Duration::from_secs(60), ..PLAIN };
        let error = restore(&mint, ALL, &options).expect_err("a long wait").cause;
        let wait = Duration::from_secs(seconds);
        assert_failed!(Err::<(), _>(error), QueryError::RateLimited { wait: w } if w == wait);
        assert_eq!(posts(&mint).len(), 1);
    }
}

#[test]
fn wait_beyond_the_time_limit_is_an_error_that_resumes() {
    let mint = failing(|number| {
        let headers = [("Retry-After", "601")];
        (number == 1).then(|| response("429 Slow down", &headers, ""))
    });
    let error = restore(&mint, ALL, &PLAIN).expect_err("a long wait");
    let wait = Duration::from_secs(601);
    assert!(matches!(error.cause, QueryError::RateLimited { wait: w } if w == wait));
    let unfinished = error.unfinished.expect("one answered batch");
    let so_far = unfinished.so_far();
    let counts = counts(&so_far);
    assert_eq!((counts["live"], counts["open"]), (100, 80));
    assert_eq!(so_far.next_counter(), LIVE.end as u32 + 40);
    let restored = resume(&mint, *unfinished).expect("an honest mint");
    assert_honest(&restored);
    assert_second_is_repeated(&mint);
    // No time at all: nothing is sent.
    let mint = honest_mint();
    let options = RestoreOptions { time_limit: Duration::ZERO, ..PLAIN };
    let error = restore(&mint, LIVE, &options).expect_err("no time");
    assert!(matches!(error.cause, QueryError::OutOfTime { .. }));
    assert_eq!(posts(&mint).len(), 0);
}

#[test]
fn broken_connection_repeats_the_body_once() {
    let cut = || b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec();
    for broken in [Vec::new, cut] {
        let mint = failing(move |number| (number == 1).then(broken));
        let restored = restore(&mint, ALL, &PLAIN).expect("an honest mint");
        assert_honest(&restored);
        assert_second_is_repeated(&mint);
    }
    let mint = failing(|number| (1..3).contains(&number).then(Vec::new));
    let error = restore(&mint, ALL, &PLAIN).expect_err("broken twice");
    assert_failed!(Err::<(), _>(error.cause), QueryError::Fetch(_));
    let unfinished = error.unfinished.expect("one answered batch");
    assert_honest(&resume(&mint, *unfinished).expect("an honest mint"));
    let posts = posts(&mint);
    assert_eq!(posts.len(), 4);
    assert!(posts[2..].iter().all(|post| *post == posts[1]));
}

/// A mint that refuses requests with any of these candidates.
fn refusing(numbers: &'static [usize]) -> Loopback {
    mint(move |request| {
        let asked = asked(request);
        match asked.iter().any(|point| numbers.contains(&number(point))) {
            true => response("400 No", &[], r#"{"detail":"amount 0","code":11006}"#),
            false => honest_reply(request),
        }
    })
}

#[test]
fn refused_messages_are_found_by_halving_and_skipped() {
    let mint = refusing(&[5, 150, 299]);
    for (options, refused) in [(PLAIN, &[150, 299][..]), (CONFIRM, &[5, 150, 299])] {
        let before = posts(&mint).len();
        let restored = restore(&mint, ALL, &options).expect("all but a few");
        for (number, outcome) in restored.outcomes.iter().enumerate() {
            assert_eq!(outcome.word() == "refused", refused.contains(&number));
            if let Outcome::Refused(error) = outcome {
                assert_eq!((error.status, error.code), (400, Some(11006)));
            }
        }
        let live = refused.iter().filter(|number| LIVE.contains(number));
        assert_eq!(counts(&restored)["live"], LIVE.len() - live.count());
        // Each is found in two requests for each halving.
        assert!(posts(&mint).len() - before <= 4 + refused.len() * 14);
    }
}

#[test]
fn more_than_ten_refusals_end_the_restore() {
    let mint = mint(|_| response("400 No", &[], ""));
    let error = restore(&mint, LIVE, &PLAIN).expect_err("refusals");
    assert_eq!(error.to_string(), "HTTP status 400");
    let unfinished = error.unfinished.expect("a restore");
    let refused = counts(&unfinished.so_far())["refused"] as u64;
    assert_eq!(refused, crate::limits::default("max_refused"));
    assert_eq!(unfinished.request(), None);
    let error = resume(&mint, *unfinished).expect_err("it is over");
    assert_failed!(Err::<(), _>(error.cause), QueryError::Unfinished { left: 170 });
}

#[test]
fn mint_without_filters_is_sent_nothing_if_never_allowed() {
    const NEVER: RestoreOptions = RestoreOptions { fallback: Fallback::Never, ..PLAIN };
    let keysets = json(format!(
        r#"{{"keysets":[{{"id":"{KEYSET}","unit":"sat"}},{{"id":"00ffd48b8f5ecf80","unit":"usd"}}]}}"#
    ));
    let unknown = r#"{"detail":"keyset is not known","code":12001}"#;
    let none = "the mint has no filters of this keyset";
    let others =
        "the mint does not have this keyset; it has 009a1f293253e41e (sat), 00ffd48b8f5ecf80 (usd)";
    for (status, body, id, wanted) in [
        ("404 No", r#"{"detail":"Not Found"}"#, KEYSET, none),
        ("405 No", "", KEYSET, none),
        ("404 No", "", "009a1f293253e41f", others),
        ("400 No", unknown, "009a1f293253e41f", others),
        (
            "400 No",
            unknown,
            KEYSET,
            r#"the mint returned error "keyset is not known" (code 12001, HTTP 400)"#,
        ),
    ] {
        let (answer, list) = (response(status, &[], body), keysets.clone());
        let mint = start(move |request, stream| {
            stream.write_all(if request.contains("keysets") { &list } else { &answer })
        });
        let id = KeysetId::parse(id).expect("an ID");
        let error = client(&mint).restore(&id, &candidates(ALL)[..], &NEVER);
        let error = error.expect_err("no filters");
        assert_eq!(error.to_string(), wanted);
        let is_right = match error.cause {
            QueryError::Fetch(FetchError::NoFilters) => wanted.contains("no filters"),
            QueryError::Fetch(FetchError::UnknownKeyset { keysets }) => keysets.len() == 2,
            QueryError::Fetch(FetchError::Refused(RejectReason::Mint(_))) => true,
            _ => false,
        };
        assert!(is_right && error.unfinished.is_none());
        assert_eq!(mint.requests().len(), 3);
    }
    // A list that does not come, or without end, says nothing.
    for list in ["", r#"{"keysets":[]}"#, r#"{"keysets":17}"#] {
        let mint = start(move |request, stream| match request.contains("keysets") {
            true => stream.write_all(&json(list)),
            false => stream.write_all(&response("404 Not Found", &[], "")),
        });
        let error = restore(&mint, ALL, &PLAIN).expect_err("no filters");
        assert_failed!(Err::<(), _>(error.cause), QueryError::Fetch(FetchError::NoFilters));
    }
}

/// A restore of all candidates, with the honest filters.
pub(crate) fn offline() -> Restore {
    let time = now();
    let [issued, spent] =
        [NoteKind::Issued, NoteKind::Spent].map(|kind| accepted(&filter(kind, time), kind, false));
    let (all, policy) = (candidates(ALL), Policy::default());
    let restore = Restore::new(&keyset(), &all[..], &spent, &issued, &PLAIN, &policy);
    restore.expect("plausible filters")
}

#[test]
fn filters_of_another_origin_are_refused() {
    let mint = honest_mint();
    let client = client(&mint);
    let [spent, issued] =
        NoteKind::ALL.map(|kind| client.fetch(&keyset(), kind).expect("a filter"));
    let new = |keyset: &KeysetId, issued, spent| {
        let policy = client.policy();
        Restore::new(keyset, &candidates(ALL)[..], spent, issued, &PLAIN, policy)
    };
    let other = KeysetId::parse("00ffd48b8f5ecf80").expect("a keyset id");
    assert_failed!(new(&other, &issued, &spent), QueryError::OtherSource(_));
    assert_failed!(new(&keyset(), &spent, &issued), QueryError::OtherSource(_));
    let elsewhere = honest_mint();
    let restore = new(&keyset(), &issued, &spent).expect("a restore");
    let error = resume(&elsewhere, restore).expect_err("another mint");
    assert_failed!(Err::<(), _>(error.cause), QueryError::OtherSource(_));
    let theirs = self::client(&elsewhere).fetch(&keyset(), NoteKind::Spent);
    let mixed = new(&keyset(), &issued, &theirs.expect("a filter"));
    assert_failed!(mixed, QueryError::OtherSource(_));
    assert_eq!(posts(&elsewhere).len() + posts(&mint).len(), 0);
}

#[test]
fn request_is_the_same_until_it_is_answered() {
    let mut restore = offline();
    assert!(restore.wants_info());
    restore.set_info(&MintInfo::parse(br#"{"max_array_length":90}"#).expect("an info"));
    assert!(!restore.wants_info());
    let answer = |restore: &Restore| {
        let (path, body) = restore.request().expect("a request");
        honest_answer(&format!("POST {path}\r\n\r\n{body}")).to_string()
    };
    let first = restore.request();
    assert_eq!(restore.request(), first);
    let answered = answer(&restore);
    restore.answer(200, None, answered.as_bytes(), now()).expect("an answer");
    assert_ne!(restore.request(), first);
    // The first answer again: its points are not those of the second request.
    let second = restore.request();
    let error = restore.answer(200, None, answered.as_bytes(), now());
    assert_failed!(error, QueryError::Answer(AnswerFault::NotAsked));
    assert_failed!(restore.finish(), QueryError::Unfinished { left: 90 });
    assert_eq!(restore.request(), second);
    let answered = answer(&restore);
    restore.answer(200, None, answered.as_bytes(), now()).expect("an answer");
    assert_honest(&restore.finish().expect("all answered"));
    assert_failed!(
        restore.answer(200, None, answered.as_bytes(), now()),
        QueryError::Unfinished { .. }
    );
}
