//! Filters that were made with a hash other than the one used for the look-up.

use nutfilter::{ItemHash, Nut23, Nut25, Params, SortedHashes};
use nutfilter_cashu::{FilterResponse, Nut25EmptyTail};

use crate::asking_mint::{Mint, TIMESTAMP, point, points};
use crate::nutfilter::{Place, Ran, assert_contains};

/// With this many items, another second half of the hash loses 95 % of the members.
const SPENT: usize = 100_000;

fn filter<H: ItemHash + Default>(items: usize) -> String {
    let hashes = SortedHashes::builder(H::default()).hash_items((0..items).map(point));
    let filter = hashes.encode(Params::CASHU).expect("a filter");
    FilterResponse::new(&filter, TIMESTAMP).to_json()
}

/// Runs `check FILE` and `check --mint` with these items.
fn ask_each_way(filter: &str, items: &str, args: &str) -> [Ran; 2] {
    let (place, body) = (Place::new(), filter.to_owned());
    let mint = Mint::answering(move |_| ("200 OK", body.clone()));
    place.write("filter.json", filter);
    let file = format!("check filter.json - {args}");
    [
        place.run_with(file, items.as_bytes()),
        mint.run("check", items, args),
    ]
}

#[test]
fn filter_of_another_dialect_is_rejected() {
    for (filter, args, wanted) in [
        (
            filter::<Nut25EmptyTail>(SPENT),
            "--count",
            "made with nut25-empty-tail, not nut25",
        ),
        (
            filter::<Nut23>(SPENT),
            "--count",
            "made with nut23, not nut25",
        ),
        (
            filter::<Nut25>(SPENT),
            "--count --profile nut23",
            "made with nut25, not nut23",
        ),
        // Half of the members still match here.
        (
            filter::<Nut25EmptyTail>(10_000),
            "--count",
            "made with nut25-empty-tail, not nut25",
        ),
    ] {
        for ran in ask_each_way(&filter, &points(0..2_000), args) {
            let error = ran.error_with(wanted);
            assert_contains(&error, "of 2000 items match only");
        }
    }
}

#[test]
fn far_fewer_matches_than_expected_are_a_warning() {
    let body = filter::<Nut25>(1_000);
    let mint = Mint::answering(move |_| ("200 OK", body.clone()));
    // 100 of the 1,100 items are spent.
    let ran = mint.run("check", &points(900..2_000), "--count --expected 1000");
    let wanted = "only 100 of 1100 items match, expected 1000";
    assert_contains(&ran.stderr, wanted);
    assert_eq!(ran.text(), "maybe\t100\nabsent\t1000\n");
    let ran = mint.run("check", &points(900..2_000), "--count --expected 150");
    assert!(!ran.stderr.contains("expected"), "{}", ran.stderr);
}

#[test]
fn absent_is_unknown_while_the_hash_is_in_doubt() {
    // 3 of 1,000 items match by the other hash only: too many for chance, too few to be certain.
    let other = filter::<Nut23>(3);
    for ran in ask_each_way(&other, &points(0..1_000), "--count") {
        assert_contains(&ran.stderr, "nut23");
        let counts = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(counts, "maybe\t0\nabsent\t0\nunknown\t1000\n");
    }
}

#[test]
fn restore_asks_nothing_if_a_filter_has_another_hash() {
    let items = points(0..1_000);
    let pairs: String = items
        .lines()
        .map(|item| format!("{item}\t{item}\n"))
        .collect();
    for kind in ["issued", "spent"] {
        let [other, good] = [filter::<Nut23>(SPENT), filter::<Nut25>(500)];
        let mint = Mint::answering(move |request| match request.line.contains(kind) {
            true => ("200 OK", other.clone()),
            false => ("200 OK", good.clone()),
        });
        mint.run("restore", &pairs, "")
            .error_with("made with nut23, not nut25");
        assert_eq!(mint.posts().len(), 0);
    }
    // In doubt, nothing is called unused.
    let [other, none] = [filter::<Nut23>(3), filter::<Nut25>(0)];
    let mint = Mint::answering(move |request| match request.line.contains("issued") {
        true => ("200 OK", other.clone()),
        false => ("200 OK", none.clone()),
    });
    let ran = mint.run("restore", &pairs, "");
    assert_contains(&ran.stderr, "nut23");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(text.lines().count() == 1_000 && text.lines().all(|line| line.starts_with("unknown")));
}

#[test]
fn honest_and_small_filters_raise_no_alarm() {
    let place = Place::new();
    // With 10 items the two dialects are almost equal.
    for (filter, matched) in [
        (filter::<Nut25>(SPENT), 2_000),
        (filter::<Nut25EmptyTail>(10), 10),
        (filter::<Nut25>(0), 0),
    ] {
        place.write("filter.json", filter);
        let ran = place.run_with("check filter.json - --count", points(0..2_000).as_bytes());
        let counts = format!("maybe\t{matched}\nabsent\t{}\n", 2_000 - matched);
        assert_eq!(String::from_utf8_lossy(&ran.stdout), counts);
        assert!(!ran.stderr.contains("made with"), "{}", ran.stderr);
    }
}
