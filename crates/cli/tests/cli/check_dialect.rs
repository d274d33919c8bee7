//! Filters that were made with a hash other than the one used for the look-up.

use nutfilter::{ItemHash, Nut23, Nut25, Params, SortedHashes};
use nutfilter_cashu::{FilterResponse, Nut25EmptyTail};

use crate::asking_mint::{Mint, TIMESTAMP};
use crate::nutfilter::{Place, Ran, assert_contains, item, lines};

/// With this many items, another second half of the hash loses 95 % of the members.
const SPENT: u32 = 100_000;

fn filter<H: ItemHash + Default>(items: u32) -> String {
    let hashes = SortedHashes::builder(H::default()).hash_items((0..items).map(item));
    let filter = hashes.encode(Params::CASHU).expect("a filter");
    FilterResponse::new(&filter, TIMESTAMP).to_json()
}

/// Runs `check FILE`, `check --mint`, `check --mint --confirm` and `restore` with these items.
fn ask_each_way(filter: &str, items: &str, args: &str) -> [Ran; 4] {
    let (place, body) = (Place::new(), filter.to_owned());
    let mint = Mint::answering(move |_| ("200 OK", body.clone()));
    place.write("filter.json", filter);
    let file = format!("check filter.json - {args}");
    let confirm = format!("{args} --confirm");
    let ran = [
        place.run_with(file, items.as_bytes()),
        mint.run("check", items, args),
        mint.run("check", items, &confirm),
        mint.run("restore", items, args),
    ];
    assert_eq!(mint.posts().len(), 0, "items were sent to the mint");
    ran
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
        for ran in ask_each_way(&filter, &lines(0..2_000), args) {
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
    let ran = mint.run("check", &lines(900..2_000), "--count --expected 1000");
    let wanted = "only 100 of 1100 items match, expected 1000";
    assert_contains(&ran.stderr, wanted);
    assert_eq!(ran.text(), "maybe\t100\nabsent\t1000\n");
    let ran = mint.run("check", &lines(900..2_000), "--count --expected 150");
    assert!(!ran.stderr.contains("expected"), "{}", ran.stderr);
}

#[test]
fn absent_is_unknown_while_the_hash_is_in_doubt() {
    // 3 of 1,000 items match by the other hash only: too many for chance, too few to be certain.
    let other = filter::<Nut23>(3);
    for ran in &ask_each_way(&other, &lines(0..1_000), "--count")[..2] {
        assert_contains(&ran.stderr, "nut23");
        let counts = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(counts, "maybe\t0\nabsent\t0\nunknown\t1000\n");
    }
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
        let ran = place.run_with("check filter.json - --count", lines(0..2_000).as_bytes());
        let counts = format!("maybe\t{matched}\nabsent\t{}\n", 2_000 - matched);
        assert_eq!(String::from_utf8_lossy(&ran.stdout), counts);
        assert!(!ran.stderr.contains("made with"), "{}", ran.stderr);
    }
}
