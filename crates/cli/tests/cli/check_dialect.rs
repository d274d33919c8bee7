//! Filters that were made with a hash other than the one used for the look-up. The wallet crate tests which ones are found.

use std::ops::Range;

use nutfilter::{ItemHash, Nut23, Nut25, Params, SortedHashes};
use nutfilter_cashu::{FilterResponse, Nut25EmptyTail};

use crate::asking_mint::{Mint, TIMESTAMP, point, points};
use crate::nutfilter::{Place, assert_contains};

fn filter<H: ItemHash + Default>(items: usize) -> String {
    filter_of::<H>(0..items)
}

fn filter_of<H: ItemHash + Default>(items: Range<usize>) -> String {
    let hashes = SortedHashes::builder(H::default()).hash_items(items.map(point));
    let filter = hashes.encode(Params::CASHU).expect("a filter");
    FilterResponse::new(&filter, TIMESTAMP).to_json()
}

#[test]
fn answers_of_another_hash_are_refused_or_unknown() {
    let place = Place::new();
    for (filter, error) in [
        (filter::<Nut23>(1_000), Some("made with nut23, not nut25")),
        // Half of the members still match here.
        (filter::<Nut25EmptyTail>(10_000), Some("made with nut25-empty-tail, not nut25")),
        // 3 of 1,000 items match by the other hash only: too many for chance, too few to be certain.
        (filter::<Nut23>(3), None),
    ] {
        place.write("filter.json", &filter);
        let mint = Mint::answering(move |_| ("200 OK", filter.clone()));
        let items = points(0..1_000);
        for ran in [
            place.run_with("check filter.json - --count", items.as_bytes()),
            mint.run("check", &items, "--count"),
        ] {
            if let Some(error) = error {
                assert_contains(&ran.error_with(error), "of 1000 items match only");
                continue;
            }
            assert_contains(&ran.stderr, "nut23");
            let counts = String::from_utf8_lossy(&ran.stdout);
            assert_eq!(counts, "maybe\t0\nabsent\t0\nunknown\t1000\n");
        }
    }
}

#[test]
fn restore_asks_nothing_if_a_filter_has_another_hash() {
    let (messages, notes) = (points(0..1_000), points(5_000..6_000));
    let pairs = messages.lines().zip(notes.lines());
    let pairs: String = pairs.map(|(message, note)| format!("{message}\t{note}\n")).collect();
    let restore = |kind, other: String, good: String| {
        let mint = Mint::answering(move |request| match request.line.contains(kind) {
            true => ("200 OK", other.clone()),
            false => ("200 OK", good.clone()),
        });
        let ran = mint.run("restore", &pairs, "");
        assert_eq!(mint.posts().len(), 0);
        ran
    };
    for (kind, other, good) in [
        ("issued", filter::<Nut23>(1_000), filter::<Nut25>(0)),
        ("spent", filter_of::<Nut23>(5_000..6_000), filter::<Nut25>(500)),
    ] {
        restore(kind, other, good).error_with("made with nut23, not nut25");
    }
    // In doubt, nothing is called unused.
    let ran = restore("issued", filter::<Nut23>(3), filter::<Nut25>(0));
    assert_contains(&ran.stderr, "nut23");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(text.lines().count() == 1_000 && text.lines().all(|line| line.starts_with("unknown")));
}
