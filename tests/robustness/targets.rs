//! Targets that are odd: repeated, colliding, empty, none. By every strategy, at every level, with and without an
//! index, validated before or in the same pass.

use nutfilter::internals::SimdLevel;
use nutfilter::{
    Filter, IndexInterval, ItemHash, Nut25, Params, RawValues, SeekIndex, SortedHashes,
    map_to_range,
};
use nutfilter_harness::STRATEGIES;

/// Of sizes that go through the serial scan, and through lanes.
const SIZES: [u32; 3] = [2, 300, 20_000];

/// The answers about `items` by every way, which have to be the same.
fn answers(filter: &Filter, items: &[&[u8]]) -> Vec<bool> {
    let range = filter.range();
    let values: Vec<u64> = items
        .iter()
        .map(|item| map_to_range(Nut25.hash(item), range))
        .collect();
    let answers = answers_about(filter, &values);
    for level in SimdLevel::available() {
        let filter = filter.clone().with_level(level);
        assert_eq!(filter.matches(items), answers, "{level}");
        assert_eq!(filter.match_any(items), answers.contains(&true), "{level}");
        let admitted = Filter::check_length(filter.bytes(), filter.n().into(), filter.params());
        let admitted = admitted.expect("a filter").with_level(level);
        assert_eq!(
            admitted.matches(items).expect("a filter"),
            answers,
            "{level}"
        );
        for (item, &answer) in items.iter().zip(&answers) {
            assert_eq!(filter.contains(item), answer, "{level}");
        }
        let indexed = filter.into_indexed(IndexInterval::Items(16));
        assert_eq!(indexed.matches(items), answers, "{level}, indexed");
        assert_eq!(indexed.match_any(items), answers.contains(&true));
    }
    answers
}

/// The same of values.
fn answers_about(filter: &Filter, values: &[u64]) -> Vec<bool> {
    let is_member = |value: &u64| filter.values().any(|other| other == *value);
    let expected: Vec<bool> = values.iter().map(is_member).collect();
    for level in SimdLevel::available() {
        let filter = filter.with_hasher(RawValues).with_level(level);
        let index = SeekIndex::build(&filter, IndexInterval::Items(16));
        let indexed = filter.with_index(&index).expect("its own index");
        let admitted = Filter::check_length_with(
            RawValues,
            filter.bytes(),
            filter.n().into(),
            filter.params(),
        );
        let admitted = admitted.expect("a filter").with_level(level);
        for strategy in STRATEGIES {
            let what = format!("{strategy:?} at {level}, {} items", filter.n());
            assert_eq!(
                filter.matches_values_by(strategy, values),
                expected,
                "{what}"
            );
            assert_eq!(
                indexed.matches_values_by(strategy, values),
                expected,
                "{what}"
            );
            let found = admitted.matches_values_by(strategy, values);
            assert_eq!(found.expect("a filter"), expected, "{what}");
        }
    }
    expected
}

fn filter_of(items: impl Iterator<Item = Vec<u8>>, params: Params) -> Filter {
    let set = SortedHashes::from_items(items.collect::<Vec<_>>());
    set.encode(params).expect("a filter")
}

fn numbered(n: u32) -> Filter {
    filter_of((0..n).map(|i| i.to_le_bytes().to_vec()), Params::CASHU)
}

#[test]
fn repeated_targets_get_an_answer_for_each_position() {
    for n in SIZES {
        let filter = numbered(n);
        let (member, non_member) = ((n - 1).to_le_bytes(), *b"not a member of the set");
        let targets = [&member[..], &non_member, &member, &member, &non_member];
        let expected = [true, false, true, true, false];
        assert_eq!(answers(&filter, &targets), expected, "{n} items");
        // So many that they are more than the items of a small set, and than a batch.
        let many: Vec<&[u8]> = targets.iter().copied().cycle().take(5 * 200).collect();
        assert_eq!(answers(&filter, &many), expected.repeat(200), "{n} items");
    }
}

#[test]
fn colliding_targets_are_both_answered() {
    // A range of one value: everything collides.
    let all = filter_of(
        [b"a".to_vec()].into_iter(),
        Params::new(0, 1).expect("parameters"),
    );
    assert_eq!(answers(&all, &[b"a", b"b", b"c"]), [true; 3]);
    // In a small range two non-members that collide with a member are found by looking.
    let params = Params::new(3, 8).expect("parameters");
    let filter = filter_of((0..4_u32).map(|i| i.to_le_bytes().to_vec()), params);
    let value_of = |item: &[u8]| map_to_range(Nut25.hash(item), filter.range());
    let member = 0_u32.to_le_bytes();
    let non_members: Vec<[u8; 4]> = (4..10_000_u32)
        .map(u32::to_le_bytes)
        .filter(|item| value_of(item) == value_of(&member))
        .take(2)
        .collect();
    let targets = [&non_members[0][..], &member, &non_members[1]];
    assert_eq!(answers(&filter, &targets), [true; 3]);
    // Values that the caller mapped, in and out of the set, next to each other.
    for n in SIZES {
        let filter = numbered(n);
        let value = filter.values().nth(n as usize / 2).expect("a value");
        answers_about(&filter, &[value, value, value + 1, value + 1, value]);
    }
}

#[test]
fn empty_target_is_hashed_and_no_targets_give_no_answers() {
    for n in SIZES {
        let without = numbered(n);
        let items = (1..n).map(|i| i.to_le_bytes().to_vec()).chain([Vec::new()]);
        let with = filter_of(items, Params::CASHU);
        assert_eq!(answers(&with, &[b""]), [true], "{n} items");
        assert_eq!(answers(&without, &[b""]), [false], "{n} items");
        assert_eq!(answers(&with, &[b"", &1_u32.to_le_bytes(), b""]), [true; 3]);
        for filter in [&with, &without] {
            assert!(answers(filter, &[]).is_empty());
            assert!(answers_about(filter, &[]).is_empty());
        }
    }
}

#[test]
fn values_beyond_the_range_never_match() {
    for n in SIZES {
        let filter = numbered(n);
        let range = filter.range();
        let found = answers_about(&filter, &[range - 1, range, range + 1, u64::MAX, 0]);
        assert_eq!(found[1..4], [false; 3], "{n} items");
    }
    // Of the empty set nothing is a member, however it is asked.
    let empty = numbered(0);
    assert_eq!(answers(&empty, &[b"", b"a", b""]), [false; 3]);
    assert_eq!(answers_about(&empty, &[0, 1, u64::MAX]), [false; 3]);
}
