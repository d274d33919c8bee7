//! The search: how far it goes, what it derives, and where the wallet goes on.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::conversation::*;
use crate::*;
use nutfilter_wallet::{
    Fallback, Outcome, Points, PointsError, QueryError, Restore, RestoreOptions,
};

/// The points of a wallet, in the form of points only, and what was derived.
#[derive(Default)]
struct TestPoints {
    ys: u32,
    messages: BTreeSet<u32>,
    fails: bool,
}

fn derive(kind: u8, counter: u32) -> Vec<u8> {
    [&[2, kind][..], &[0; 27], &counter.to_be_bytes()].concat()
}

impl Points for TestPoints {
    fn ys(&mut self, counters: Range<u32>) -> Result<Vec<Vec<u8>>, PointsError> {
        assert_eq!(counters.start, self.ys, "in order, and once");
        self.ys = counters.end;
        Ok(counters.map(|counter| derive(1, counter)).collect())
    }

    fn messages(&mut self, counters: &[u32]) -> Result<Vec<Vec<u8>>, PointsError> {
        for &counter in counters {
            assert!(self.messages.insert(counter), "{counter} twice");
        }
        match self.fails {
            true => Ok(vec![]),
            false => Ok(counters.iter().map(|&counter| derive(0, counter)).collect()),
        }
    }
}

/// Looks up a wallet with these counters spent, and these live.
fn search(
    points: &mut TestPoints,
    spent: Range<u32>,
    live: &[u32],
    options: &RestoreOptions,
) -> Result<Restore, QueryError> {
    let time = now();
    let issued = spent.clone().chain(live.iter().copied());
    let issued = filter_of(issued.map(|counter| derive(0, counter)), Params::CASHU, time);
    let spent = filter_of(spent.map(|counter| derive(1, counter)), Params::CASHU, time);
    let issued = accepted(&issued, NoteKind::Issued, false);
    let spent = accepted(&spent, NoteKind::Spent, false);
    Restore::new(&keyset(), points, &spent, &issued, options, &Policy::default())
}

#[test]
fn search_crosses_gaps_and_derives_messages_of_unspent_notes_only() {
    let late: Vec<u32> = (3_000..3_029).collect();
    for (spent, live, found, searched, next, messages) in [
        (0..0, &[][..], 0, 300, 40, 300),
        (0..0, &[0, 250], 2, 1_251, 291, 1_251),
        (0..0, &[1, 250, 600], 3, 1_601, 641, 1_601),
        (0..0, &[299], 1, 1_300, 340, 1_300),
        (0..0, &[300], 0, 300, 40, 300),
        (0..1, &[1_000], 1, 2_001, 1_041, 2_001),
        (0..1, &[1_001], 0, 1_001, 41, 1_001),
        // 64 spent notes are checked.
        (0..3_000, &late, 29, 4_029, 3_069, 1_029 + 64),
        (0..60, &[], 0, 1_060, 100, 1_060),
    ] {
        let mut points = TestPoints::default();
        let restore = search(&mut points, spent.clone(), live, &PLAIN).expect("a restore");
        let restored = restore.so_far();
        let is_open = |outcome: &&Outcome| **outcome == Outcome::Open;
        assert_eq!(restored.outcomes.iter().filter(is_open).count(), found, "{live:?}");
        assert_eq!((points.ys, restored.outcomes.len()), (searched, searched as usize), "{live:?}");
        assert_eq!(restored.next_counter(), next, "{live:?}");
        assert_eq!(points.messages.len(), messages, "{live:?}");
        assert!(restored.warnings.is_empty(), "{:?}", restored.warnings);
        // The highest ones, since an older `issued` lacks them.
        assert!(
            (spent.end.saturating_sub(32)..spent.end).all(|one| points.messages.contains(&one))
        );
    }
}

/// Looks up a wallet whose first counters are spent, in filters with these parameters.
fn search_at(params: Params, counters: u32) -> Result<Restore, QueryError> {
    let mut policy = Policy::default();
    (policy.min_m, policy.min_p) = (1, 0);
    let [issued, spent] = [NoteKind::Issued, NoteKind::Spent].map(|kind| {
        let number = u8::from(kind == NoteKind::Spent);
        let points = (0..counters).map(|counter| derive(number, counter));
        accepted_by(policy.clone(), &filter_of(points, params, now()), kind, false)
    });
    let mut points = TestPoints::default();
    Restore::new(&keyset(), &mut points, &spent, &issued, &PLAIN, &policy)
}

/// With a small `M`, chance moves the end of a search on. It ends all the same, and says so.
#[test]
fn searches_end_at_any_rate_of_chance_matches() {
    for m in [64, 300, 5_000, 784_931] {
        let restore = search_at(Params::with_best_p(m).expect("an M"), 400);
        let restored = restore.expect("a restore").so_far();
        assert!(restored.next_counter() >= 440);
        let warnings: Vec<_> = restored.warnings.iter().map(ToString::to_string).collect();
        let is_cut = warnings.iter().any(|one| one.contains("small M"));
        let searched = restored.outcomes.len();
        if m > 22_000 {
            assert_eq!((searched, is_cut), (1_400, false), "{warnings:?}");
        } else {
            assert!((1_400..=12_000).contains(&searched), "{m}: {searched}");
        }
        assert_eq!(is_cut, searched > 10_000, "{m}: {searched}");
    }
    // Where everything may match, nothing is shown.
    let error = search_at(Params::new(0, 2).expect("an M"), 9).expect_err("half of all match");
    assert!(matches!(error, QueryError::Check(CheckError::TooManyMatches { .. })), "{error}");
}

#[test]
fn search_and_gap_are_the_callers() {
    let options = RestoreOptions { search: 10, gap: 7, ..PLAIN };
    for (live, searched, next) in [(&[9_u32, 19][..], 30, 27), (&[9, 20], 20, 17), (&[10], 10, 7)] {
        let mut points = TestPoints::default();
        let restore = search(&mut points, 0..0, live, &options).expect("a restore");
        let restored = restore.so_far();
        assert_eq!((points.ys, restored.next_counter(), restored.gap), (searched, next, 7));
    }
}

#[test]
fn points_that_are_missing_or_of_another_form_are_errors() {
    let mut points = TestPoints { fails: true, ..TestPoints::default() };
    let error = search(&mut points, 0..0, &[1], &PLAIN).expect_err("no messages");
    assert_eq!(
        error.to_string(),
        "could not derive the wallet's points: 0 points B_ for 256 counters"
    );
    struct Wrong;
    impl Points for Wrong {
        fn ys(&mut self, counters: Range<u32>) -> Result<Vec<Vec<u8>>, PointsError> {
            Ok(counters.map(|_| vec![7; 32]).collect())
        }
        fn messages(&mut self, _: &[u32]) -> Result<Vec<Vec<u8>>, PointsError> {
            Err("no seed".into())
        }
    }
    let time = now();
    let [issued, spent] =
        [NoteKind::Issued, NoteKind::Spent].map(|kind| accepted(&filter(kind, time), kind, false));
    let new = |points: &mut dyn Points| {
        Restore::new(&keyset(), points, &spent, &issued, &PLAIN, &Policy::default())
    };
    assert_failed!(new(&mut Wrong), QueryError::Check(CheckError::NotAPoint { bytes: 32, .. }));
}

#[test]
fn live_notes_given_twice_are_counted_and_shown_once() {
    let mut some = candidates(LIVE.start..LIVE.start + 30);
    some.extend(some.clone());
    let mint = honest_mint();
    let options = RestoreOptions { expected: Some(3), ..PLAIN };
    let restored =
        client(&mint).restore(&keyset(), &some[..], &options).expect("ten times as many");
    assert_eq!(restored.chance.map(|chance| chance.live), Some(30));
    assert_eq!(restored.live().count(), 60);
    assert_eq!(restored.outcomes[..30], restored.outcomes[30..]);
    assert_eq!(asked(&posts(&mint)[0]).len(), 30);
}

#[test]
fn counts_of_counters_above_the_last_one_show_nothing() {
    let last = (1 << 31) - 1;
    for (search, gap, wrong) in [
        (1 << 31, 40, Some("search")),
        (u32::MAX, 40, Some("search")),
        (300, 1 << 31, Some("gap")),
        (300, last, None),
    ] {
        let mint = honest_mint();
        let options = RestoreOptions { search, gap, fallback: Fallback::Always, ..PLAIN };
        let restored = client(&mint).restore(&keyset(), &candidates(LIVE)[..], &options);
        let Some(wrong) = wrong else {
            assert_eq!(restored.expect("a restore").next_counter(), last);
            continue;
        };
        let error = restored.expect_err("no such counter").cause;
        let is_named = |option: &str| option == wrong;
        assert!(
            matches!(error, QueryError::Check(CheckError::BadOption { option, .. }) if is_named(option))
        );
        assert!(mint.requests().is_empty());
    }
}
