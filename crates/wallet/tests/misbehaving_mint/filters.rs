//! Filters that are well-formed JSON but must be rejected or limited.

use crate::*;

#[test]
fn filter_that_matches_everything_is_rejected() {
    let hashes = SortedHashes::from_items((0..100).map(item));
    for (p, m) in [(0, 1), (19, 784_930)] {
        let filter = hashes
            .encode(Params::new(p, m).expect("good parameters"))
            .expect("a filter");
        let answer = json(FilterResponse::new(&filter, now()).to_json());
        assert_refused!(
            fetch_answer(answer.clone()),
            RejectReason::LowM { m: found, min: 784_931 } if found == m
        );
        let policy = Policy {
            min_m: m,
            min_p: p,
            ..Policy::default()
        };
        assert!(fetch_by(&Loopback::saying(answer), policy).is_ok());
    }
}

#[test]
fn p_outside_the_range_is_rejected_with_its_number() {
    let hashes = SortedHashes::from_items((0..3).map(item));
    for (p, max_p, accepted) in [
        (0, 32, false),
        (15, 32, false),
        (16, 32, true),
        (32, 32, true),
        (24, 24, true),
        (25, 24, false),
    ] {
        let params = Params::new(p, Params::CASHU.m()).expect("good parameters");
        let filter = hashes.encode(params).expect("a filter");
        let mint = Loopback::saying(json(FilterResponse::new(&filter, now()).to_json()));
        let policy = Policy {
            max_p,
            ..Policy::default()
        };
        let fetched = fetch_by(&mint, policy);
        if accepted {
            fetched.expect("a filter");
            continue;
        }
        let text = fetched
            .as_ref()
            .map(|_| ())
            .expect_err("refused")
            .to_string();
        assert_eq!(
            text,
            format!("filter has P = {p}, accepted are 16 to {max_p}")
        );
        assert_refused!(fetched, RejectReason::PRange { p: found, min: 16, .. } if found == p);
    }
}

#[test]
fn filter_more_than_five_minutes_ahead_is_rejected() {
    let ahead = |seconds| fetch_answer(json(honest(now() + seconds).to_json()));
    assert!(ahead(4 * 60).is_ok());
    assert_refused!(ahead(6 * 60), RejectReason::Future { .. });
    assert_refused!(
        fetch_answer(json(honest(u64::MAX).to_json())),
        RejectReason::Future { .. }
    );
}

#[test]
fn rolled_back_filter_returns_an_error() {
    let then = now() - 100;
    let mint = Loopback::saying(json(honest(then).to_json()));
    let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
    for (last_seen, rolled_back) in [(then - 1, false), (then, false), (then + 1, true)] {
        let filter = client
            .fetch_since(&keyset(), NoteKind::Spent, last_seen)
            .expect("a filter");
        assert_eq!(filter.rollback().is_some(), rolled_back);
        let answers = filter.check(&[item(0)]);
        if !rolled_back {
            assert_eq!(answers, Ok(vec![Answer::MaybePresent]));
            continue;
        }
        assert_eq!(
            answers,
            Err(CheckError::RolledBack {
                timestamp: then,
                last_seen
            })
        );
        assert!(filter.check_expecting(&[item(0)], 1).is_err());
        let absent = filter.accept_rollback().check(&[item(ITEMS)]);
        assert_eq!(absent, Ok(vec![Answer::Absent { as_of: then }]));
    }
}

#[test]
fn wrong_item_count_is_a_damaged_filter() {
    let with_n = |n| {
        let mut response = honest(now());
        response.n = n;
        fetch_answer(json(response.to_json()))
    };
    // One item less leaves bits over; one more needs more bits than there are. For larger differences the length
    // check fails.
    for (n, kinds) in [
        (
            ITEMS - 1,
            [DecodeErrorKind::TrailingData, DecodeErrorKind::Padding],
        ),
        (
            ITEMS + 1,
            [DecodeErrorKind::TooShort, DecodeErrorKind::Padding],
        ),
        (0, [DecodeErrorKind::TooLong; 2]),
        (1, [DecodeErrorKind::TooLong; 2]),
        (u32::MAX, [DecodeErrorKind::TooShort; 2]),
    ] {
        assert_refused!(with_n(n), RejectReason::Filter(error) if kinds.contains(&error.kind()));
    }
}

#[test]
fn far_more_matches_than_expected_are_an_error() {
    let filter = fetch_answer(json(honest(now()).to_json())).expect("a filter");
    let items: Vec<_> = (0..1_000).map(item).collect();
    // All 1,000 are spent. A wallet that expects 100 of them accepts up to ten times as many.
    assert!(filter.check_expecting(&items, 100).is_ok());
    assert_eq!(
        filter.check_expecting(&items, 99),
        Err(CheckError::TooManyMatches {
            matches: 1_000,
            lookups: 1_000,
            expected: 99,
            limit: 991
        })
    );
    // A wallet that expects no match allows for a few chance matches, whatever the factor.
    assert!(filter.check_expecting(&items[..1], 0).is_ok());
    assert!(filter.check_expecting(&items[..10], 0).is_err());
    let unspent: Vec<_> = (ITEMS..ITEMS + 1_000).map(item).collect();
    assert!(filter.check_expecting(&unspent, 0).is_ok());
}

#[test]
fn filter_of_zeros_matches_no_note() {
    // This filter is valid but wrong: "absent" is only as reliable as the mint, and it reveals nothing.
    let n = 8_000;
    let mut zeros = honest(now() - 10);
    zeros.n = n;
    zeros.content = vec![0; n as usize * 20 / 8];
    let mint = Loopback::saying(json(zeros.to_json()));
    let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
    let filter = client.fetch(&keyset(), NoteKind::Spent).expect("a filter");
    let items: Vec<_> = (0..2 * ITEMS).map(item).collect();
    let matches = filter.matches(&items, Some(0)).expect("believable");
    assert!(matches.items().is_empty());
    let absent = Answer::Absent {
        as_of: zeros.timestamp,
    };
    assert_eq!(
        matches.answers().collect::<Vec<_>>(),
        vec![absent; items.len()]
    );
    client.confirm(&matches).expect("nothing to ask");
    assert_eq!(mint.requests().len(), 1);
}

#[test]
fn matches_are_bound_to_the_requested_keyset_and_kind() {
    // A response does not name its keyset. With the filter of another keyset, non-members do not match. Matches
    // can be confirmed or restored only for the keyset and kind that was requested.
    let mint = Loopback::saying(json(honest(now()).to_json()));
    let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
    let filter = client.fetch(&keyset(), NoteKind::Issued).expect("a filter");
    let non_members: Vec<_> = (ITEMS..2 * ITEMS).map(item).collect();
    let matches = filter.matches(&non_members, Some(0)).expect("believable");
    assert!(matches.items().len() <= 1);
    let other = KeysetId::parse("00ffd48b8f5ecf80").expect("a keyset id");
    client
        .restore(&other, &matches)
        .expect_err("another keyset");
    client.confirm(&matches).expect_err("another kind");
    assert_eq!(mint.requests().len(), 1);
}
