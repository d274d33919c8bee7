//! Targets that are odd: repeated, colliding, empty, none. At every level, with and without an index, validated before or
//! in the same pass. `matching::Case` of the harness and `tests/cost.rs` look values up by every strategy.

use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, IndexInterval, ItemHash, Nut25, Params, SortedHashes, map_to_range};

/// Of sizes that go through the serial scan, and through lanes.
const SIZES: [u32; 3] = [2, 300, 20_000];

/// The answers about `items`, which have to be the same at every level, with and without an index.
fn answers(filter: &Filter, items: &[&[u8]]) -> Vec<bool> {
    let answers = filter.matches(items);
    for level in SimdLevel::available() {
        let filter = filter.clone().with_level(level);
        assert_eq!(filter.matches(items), answers, "{level}");
        assert_eq!(filter.match_any(items), answers.contains(&true), "{level}");
        let admitted = Filter::check_length(filter.bytes(), filter.n().into(), filter.params());
        let admitted = admitted.expect("a filter").with_level(level);
        assert_eq!(admitted.matches(items).as_ref(), Ok(&answers), "{level}");
        for (item, &answer) in items.iter().zip(&answers) {
            assert_eq!(filter.contains(item), answer, "{level}");
        }
        let indexed = filter.into_indexed(IndexInterval::Items(16));
        assert_eq!(indexed.matches(items), answers, "{level}, indexed");
        assert_eq!(indexed.match_any(items), answers.contains(&true));
    }
    answers
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
        }
    }
}

#[test]
fn empty_set_matches_nothing() {
    assert_eq!(answers(&numbered(0), &[b"", b"a", b""]), [false; 3]);
}
