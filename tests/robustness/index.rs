//! Indexes that are damaged, or of another filter.

use nutfilter::error::SeekIndexErrorKind;
use nutfilter::{Filter, IndexInterval, Params, SeekIndex, SortedHashes};

use crate::allocations::{FIXED, peak_of};

fn filter(items: u32, seed: u32) -> Filter {
    let items = (0..items).map(|i| (i + seed).to_le_bytes());
    let set = SortedHashes::from_items(items);
    set.encode(Params::CASHU).expect("a filter")
}

/// What was read of `bytes`, and what it took to read them.
fn read(bytes: &[u8]) -> Option<SeekIndex> {
    let (index, peak) = peak_of(|| SeekIndex::from_bytes(bytes).ok());
    assert!(
        peak <= 2 * bytes.len() + FIXED,
        "{peak} bytes for {}",
        bytes.len()
    );
    index
}

#[test]
fn truncated_or_flipped_index_is_rejected() {
    let filter = filter(300, 0);
    let whole = SeekIndex::build(&filter, IndexInterval::Items(8)).to_bytes();
    assert!(read(&whole).is_some());
    for len in 0..whole.len() {
        assert!(read(&whole[..len]).is_none(), "{len} bytes");
    }
    assert!(read(&[&whole[..], &[0]].concat()).is_none());
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes).is_none(), "bit {bit}");
    }
}

#[test]
fn index_with_false_counts_is_refused_before_allocating() {
    let whole = SeekIndex::build(&filter(300, 0), IndexInterval::Items(8)).to_bytes();
    // N, the length of the filter, how many lines, how many gaps.
    for (at, width) in [(12, 4), (24, 8), (40, 8), (48, 8)] {
        for value in [0, 1, u64::from(u32::MAX), 1 << 40, u64::MAX] {
            let mut bytes = whole.clone();
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            let changed = bytes != whole;
            assert_eq!(read(&bytes).is_none(), changed, "{value} at {at}");
        }
    }
}

#[test]
fn index_of_another_filter_is_rejected() {
    let (own, other) = (filter(300, 0), filter(300, 1));
    let hashes = SortedHashes::from_items((0..300_u32).map(u32::to_le_bytes));
    let coarser = hashes.encode(Params::new(18, 784_931).expect("parameters"));
    let rarer = hashes.encode(Params::new(19, 784_932).expect("parameters"));
    let index = SeekIndex::build(&own, IndexInterval::Items(8));
    for other in [
        &other,
        &filter(299, 0),
        &filter(301, 0),
        &filter(0, 0),
        &coarser.expect("a filter"),
        &rarer.expect("a filter"),
    ] {
        let error = other.with_index(&index).expect_err("another filter");
        assert_eq!(
            error.kind(),
            SeekIndexErrorKind::OtherFilter,
            "N {}",
            other.n()
        );
    }
}
