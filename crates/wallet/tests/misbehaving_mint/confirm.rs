//! NUT-07 with an honest mint: what it is asked, and what it never sees.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use crate::conversation::*;
use crate::*;
use nutfilter_wallet::{Confirmation, Confirmed, QueryError};

fn batches_of(batch: usize) -> Policy {
    policy!(batch: NonZeroUsize::new(batch).expect("not 0"))
}

fn honest_mint() -> Loopback {
    mint(|ys| states(honest_states(&ys)))
}

#[test]
fn items_get_answers_in_order_and_absent_ones_stay_hidden() {
    let mint = honest_mint();
    // Alternate spent and unspent notes, and repeat one of the spent notes.
    let mut items: Vec<_> = (0..50).flat_map(|i| [note(i), note(i + SPENT)]).collect();
    items.push(note(7));
    let (client, matches) = matches_of(&mint, NoteKind::Spent, Policy::default(), &items);
    assert_eq!(matches.items().len(), 50);

    let absent = Confirmed::Absent {
        as_of: matches.as_of(),
    };
    let mut wanted: Vec<_> = (0..50).flat_map(|_| [Confirmed::Spent, absent]).collect();
    wanted.push(Confirmed::Spent);
    assert_eq!(client.confirm(&matches).expect("answers"), wanted);
}

#[test]
fn pending_and_unspent_are_taken_from_the_mint() {
    // For this mint, Y 3 is a chance match; one among 10 is accepted.
    let mint = mint(|ys| {
        let mut all = honest_states(&ys);
        for state in &mut all {
            if state["Y"] == hex(&note(2)).as_str() {
                state["state"] = "PENDING".into();
            }
            if state["Y"] == hex(&note(3)).as_str() {
                state["state"] = "UNSPENT".into();
            }
        }
        // The order does not matter, because each state names its point.
        all.reverse();
        states(all)
    });
    let items = notes(0..10);
    let (client, matches) = matches_of(&mint, NoteKind::Spent, Policy::default(), &items);
    let mut wanted = vec![Confirmed::Spent; 10];
    wanted[2] = Confirmed::Pending;
    wanted[3] = Confirmed::Unspent;
    assert_eq!(client.confirm(&matches).expect("answers"), wanted);
}

#[test]
fn requests_hold_each_match_once_and_nothing_else() {
    let items = notes(SPENT - 100..SPENT + 200);
    let matching: BTreeSet<_> = (SPENT - 100..SPENT).map(|i| hex(&note(i))).collect();
    for (batch, last) in [(1, 1), (16, 4), (64, 36), (100, 100), (500, 100)] {
        let mint = honest_mint();
        let (client, matches) = matches_of(&mint, NoteKind::Spent, batches_of(batch), &items);
        client.confirm(&matches).expect("answers");

        let requests: Vec<_> = posts(&mint).iter().map(|request| asked(request)).collect();
        assert_eq!(requests.len(), 100_usize.div_ceil(batch), "{batch}");
        assert_eq!(requests.last().map(Vec::len), Some(last), "{batch}");
        let mut all = requests.concat();
        assert_eq!(all.len(), 100, "a point was asked twice");
        all.sort_unstable();
        assert!(all.iter().eq(&matching));
        // The request that fetched the filter reveals none of them.
        let mut requests = mint.requests();
        requests.retain(|head| head.starts_with("GET "));
        assert_eq!(requests.len(), 1);
        assert!(items.iter().all(|y| !requests[0].contains(&hex(y))));
    }
}

#[test]
fn requests_hide_the_order_of_the_wallets_notes() {
    let mint = honest_mint();
    let items = notes(0..60);
    let in_order: Vec<_> = items.iter().map(|item| hex(item)).collect();
    let (client, matches) = matches_of(&mint, NoteKind::Spent, batches_of(30), &items);
    client.confirm(&matches).expect("answers");
    client.confirm(&matches).expect("answers");
    let orders: Vec<_> = posts(&mint).iter().map(|request| asked(request)).collect();
    assert_eq!(orders.len(), 4);
    for order in &orders {
        assert_eq!(order.len(), 30);
        assert_mixed(order, &in_order);
    }
    assert_ne!(orders[0], orders[2]);
}

#[test]
fn confirmation_requests_do_not_identify_the_wallet() {
    let mint = honest_mint();
    let items = notes(0..1);
    let (client, matches) = matches_of(&mint, NoteKind::Spent, Policy::default(), &items);
    client.confirm(&matches).expect("answers");
    let post = &posts(&mint)[0];
    let (head, _) = post.split_once("\r\n\r\n").expect("a head");
    let (line, headers) = head.split_once("\r\n").expect("a request line");
    assert_eq!(line, "POST /v1/checkstate HTTP/1.1");
    let names = header_names(headers);
    let wanted = [
        "accept",
        "accept-encoding",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    ];
    assert_eq!(names, wanted);
}

#[test]
fn nothing_is_sent_without_a_match() {
    let mint = honest_mint();
    let items = notes(SPENT..SPENT + 100);
    let (client, matches) = matches_of(&mint, NoteKind::Spent, Policy::default(), &items);
    let as_of = matches.as_of();
    assert_eq!(
        client.confirm(&matches).expect("answers"),
        vec![Confirmed::Absent { as_of }; 100]
    );
    assert_eq!(posts(&mint), [] as [&str; 0]);
}

#[test]
fn limits_are_checked_before_anything_is_sent() {
    let items = notes(0..10);
    let refused = |policy: Policy, items: &[[u8; 33]], kind| {
        let mint = honest_mint();
        let (client, matches) = matches_of(&mint, kind, policy, items);
        let error = client.confirm(&matches).expect_err("a limit");
        assert_eq!(posts(&mint), [] as [&str; 0], "{error}");
        error
    };
    let nine = policy!(max_revealed: 9);
    let error = refused(nine.clone(), &items, NoteKind::Spent);
    assert!(
        matches!(
            error,
            QueryError::TooMany {
                matches: 10,
                max: 9
            }
        ),
        "{error}"
    );
    // The matches of a filter of issued notes are not `Y`s.
    let error = refused(Policy::default(), &items, NoteKind::Issued);
    assert!(matches!(error, QueryError::OtherSource(_)), "{error}");

    // Duplicates count once.
    let mint = honest_mint();
    let repeated: Vec<_> = notes(0..9).into_iter().cycle().take(90).collect();
    let (client, matches) = matches_of(&mint, NoteKind::Spent, nine, &repeated);
    assert_eq!(client.confirm(&matches).expect("answers").len(), 90);

    // Another mint than the one that served the filter.
    let other = honest_mint();
    let client = MintClient::new(&other.url(), Policy::default()).expect("a good URL");
    let error = client
        .confirm(&matches)
        .expect_err("another mint's matches");
    assert!(matches!(error, QueryError::OtherSource(_)), "{error}");
    assert_eq!(other.requests(), [] as [&str; 0]);
}

#[test]
fn matches_that_are_not_points_are_not_sent() {
    let off_curve = (0..=u8::MAX)
        .map(|x| [[2].as_slice(), &[x; 32]].concat())
        .find(|point| secp256k1::PublicKey::from_slice(point).is_err())
        .expect("every other number is off the curve");
    let off_bls = vec![0x97; 48];
    for item in [off_curve, off_bls] {
        let hashes = SortedHashes::from_items([&item]);
        let filter = hashes.encode(Params::CASHU).expect("a filter");
        let body = FilterResponse::new(&filter, now()).to_json();
        let policy = Policy::default();
        let moment = nutfilter_wallet::FetchContext::now(None);
        let filter: MintFilter = policy
            .accept(200, body.into_bytes(), moment)
            .expect("a filter");
        let items = [item];
        let matches = filter.matches(&items, None).expect("a match");
        let confirmation = Confirmation::new(&matches, &policy);
        assert_failed!(confirmation, QueryError::NotAPoint { place: 0 });
    }
}

#[test]
fn request_is_the_same_until_it_is_answered() {
    let mint = honest_mint();
    let items = notes(0..100);
    let (client, matches) = matches_of(&mint, NoteKind::Spent, Policy::default(), &items);
    let mut confirmation = Confirmation::new(&matches, client.policy()).expect("matches");
    let first = confirmation.request().expect("a request");
    assert_eq!(confirmation.request(), Some(first.clone()));

    let ys = asked(&format!("\r\n\r\n{first}"));
    let answer = serde_json::json!({ "states": honest_states(&ys) }).to_string();
    confirmation
        .answer(200, answer.as_bytes())
        .expect("a good answer");
    let second = confirmation.request().expect("another request");
    assert_ne!(first, second);
    // Finish too early, then pass the answer to another request.
    let unfinished = confirmation.finish();
    assert_failed!(unfinished, QueryError::Unfinished { requests: 1 });
    let mut confirmation = Confirmation::new(&matches, client.policy()).expect("matches");
    assert!(confirmation.answer(200, answer.as_bytes()).is_err());
    assert_eq!(confirmation.request(), None);
    assert!(confirmation.answer(200, answer.as_bytes()).is_err());
    assert!(confirmation.finish().is_err());
}

#[test]
fn too_many_matches_for_the_records_are_never_sent() {
    let mint = honest_mint();
    let items = notes(0..SPENT);
    let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
    let filter = client.fetch(&keyset(), NoteKind::Spent).expect("a filter");
    // 300 matches where 10 are expected: there is no `Matches`, so there is nothing to send.
    let refused = filter.matches(&items, Some(10));
    assert_failed!(
        refused.map(|matches| matches.items().len()),
        CheckError::TooManyMatches {
            matches: 300,
            expected: 10,
            ..
        }
    );
    assert_eq!(posts(&mint), [] as [&str; 0]);
}
