//! The small parts of the public interface that no larger test has reason to touch: a hash of one's own, what
//! values tell of themselves, the words of errors.

use nutfilter::internals::{SimdLevel, Strategy};
use nutfilter::{
    Filter, IndexInterval, ItemHash, Params, RawValues, ResidentFilter, SipHash, SortedHashes,
    bip158,
};

/// FNV-1a: a hash that knows no kernels.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fnv;

impl ItemHash for Fnv {
    fn hash(&self, item: &[u8]) -> u64 {
        item.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

#[test]
fn own_hasher_needs_one_function() {
    let items: Vec<[u8; 33]> = (0..200_u8).map(|i| [i; 33]).collect();
    let mut hashes: Vec<u64> = items.iter().map(|item| Fnv.hash(item)).collect();
    hashes.sort_unstable();
    for level in SimdLevel::available() {
        let set = SortedHashes::builder(Fnv).with_level(level).hash_items(&items);
        assert_eq!(set.as_slice(), hashes, "{level}");
        let records =
            SortedHashes::builder(Fnv).with_level(level).hash_records(items.as_flattened(), 33);
        assert_eq!(records.as_ref(), Ok(&set), "{level}");
        let filter = set.with_level(level).encode(Params::default()).unwrap();
        assert_eq!(filter.matches(&items), [true; 200], "{level}");
        assert!(!filter.contains(b"a non-member"), "{level}");
    }
}

#[test]
fn index_and_filter_fit_in_one_owned_value() {
    use std::sync::Arc;
    let items: Vec<[u8; 4]> = (0..1000_u32).map(u32::to_le_bytes).collect();
    let made = SortedHashes::from_items(&items).encode(Params::default()).unwrap();
    let shared: Arc<[u8]> = made.bytes().into();
    let filter = Filter::parse(Arc::clone(&shared), 1000, Params::default()).unwrap();
    assert_eq!(filter, made);
    let indexed = filter.into_indexed(IndexInterval::Items(64));
    let found = std::thread::spawn(move || (indexed.matches(&items), indexed));
    let (found, indexed) = found.join().unwrap();
    assert_eq!(found, [true; 1000]);
    assert!(Arc::ptr_eq(&indexed.into_filter().into_bytes(), &shared));
}

#[test]
fn errors_have_a_class() {
    use nutfilter::error::{BuildErrorKind, ParamsErrorKind, ResidentErrorKind};
    assert_eq!(Params::new(33, 1).unwrap_err().kind(), ParamsErrorKind::RemainderBits);
    assert_eq!(Params::new(0, 0).unwrap_err().kind(), ParamsErrorKind::InverseRate);
    assert_eq!(Params::for_rate(2.0).unwrap_err().kind(), ParamsErrorKind::Rate);
    let error = Filter::from_values(&[2, 1], Params::default()).unwrap_err();
    assert_eq!(error.kind(), BuildErrorKind::Unsorted);
    let error = Filter::from_values(&[u64::MAX], Params::default()).unwrap_err();
    assert_eq!(error.kind(), BuildErrorKind::OutOfRange);
    let error = SortedHashes::from_records(&[1; 34], 33).unwrap_err();
    assert_eq!(error.kind(), BuildErrorKind::IncompleteInput);
    let error = ResidentFilter::from_bytes([0; 100]).unwrap_err();
    assert_eq!(error.kind(), ResidentErrorKind::NotResident);
}

#[test]
fn debug_output_is_short_and_hides_keys() {
    let items: Vec<[u8; 4]> = (0..1000_u32).map(u32::to_le_bytes).collect();
    let set = SortedHashes::from_items(&items);
    let filter = set.encode(Params::default()).unwrap();
    let response = nutfilter_cashu::FilterResponse::new(&filter, 1);
    let list = bip158::Watchlist::from_iter(&items);
    let values: [(&str, &dyn std::fmt::Debug); 5] = [
        ("len: 1000", &set),
        ("n: 1000", &filter),
        ("n: 1000", &filter.clone().into_indexed(IndexInterval::default())),
        ("n: 1000", &response),
        ("len: 1000", &list),
    ];
    for (part, value) in values {
        let text = format!("{value:?}");
        assert!(text.contains(part) && text.len() < 500, "{text}");
    }
    assert_eq!(format!("{:?}", SipHash::new(1, 2)), "SipHash { .. }");
}

#[test]
fn equality_compares_bytes_n_parameters_and_hasher() {
    let params = Params::new(10, 1 << 10).unwrap();
    let key = SipHash::new(1, 2);
    let set = SortedHashes::builder(key).hash_items((0..100_u8).map(|i| [i; 33]));
    let bytes = set.encode(params).unwrap().into_bytes();
    let admitted =
        |key, bytes: Vec<u8>, n, params| Filter::check_length_with(key, bytes, n, params).unwrap();
    let one = admitted(key, bytes.clone(), 100, params);
    assert_eq!(one, one.clone().with_level(SimdLevel::SCALAR));
    let mut others = vec![
        admitted(SipHash::new(2, 1), bytes.clone(), 100, params),
        admitted(key, bytes.clone(), 101, params),
        admitted(key, bytes.clone(), 100, Params::new(10, 1 << 11).unwrap()),
    ];
    let mut bytes = bytes;
    bytes[1] ^= 1;
    others.push(admitted(key, bytes, 100, params));
    for other in others {
        assert_ne!(one, other);
    }
}

#[test]
fn out_of_range_error_names_item_and_range() {
    let params = Params::new(0, 3).unwrap();
    // F = 6: six ones are beyond it, five are not.
    let refused = |byte: u8| Filter::parse_with(RawValues, vec![byte], 2, params).unwrap_err();
    let first = refused(0b1111_1100).to_string();
    assert_eq!(first, "item 0 lies beyond the range of 6 values");
    let second = refused(0b1111_1010).to_string();
    assert_eq!(second, "item 1 lies beyond the range of 6 values");
    assert!(Filter::parse_with(RawValues, vec![0b1111_1000], 2, params).is_ok());
}

#[test]
fn targets_wider_than_a_word_are_found() {
    // F above 2^47 and more than 2^16 targets: a value and a place take more than 64 bits.
    let params = Params::new(31, u64::from(u32::MAX)).unwrap();
    let hashes: Vec<u64> =
        (1..=70_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let filter = SortedHashes::from_hashes(hashes).encode(params).unwrap();
    let filter = filter.with_hasher(RawValues);
    let targets: Vec<u64> = filter.values().flat_map(|value| [value, value + 1]).collect();
    let members: std::collections::HashSet<u64> = filter.values().collect();
    let expected: Vec<bool> = targets.iter().map(|target| members.contains(target)).collect();
    assert!(expected.contains(&false));
    for level in SimdLevel::available() {
        let filter = filter.clone().with_level(level);
        let answers = filter.matches_values_by(Strategy::Merge, &targets);
        assert!(answers == expected, "{level}");
    }
}

#[test]
fn large_batches_are_planned() {
    // Many targets are worth reading the whole filter, a few are not.
    let hashes = (1..=100_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let filter = SortedHashes::from_hashes(hashes.collect()).encode(Params::default()).unwrap();
    let indexed = filter.clone().into_indexed(IndexInterval::Items(128));
    assert_eq!(indexed.planned(2), Strategy::Lookup);
    assert_eq!(indexed.planned(1 << 20), Strategy::Bitmap);
    assert_eq!(filter.planned(1 << 20), Strategy::Bitmap);
}

#[test]
fn expected_size_is_the_mean_and_at_most_the_maximum() {
    assert_eq!(Params::CASHU.expected_bytes(1_000_000), 2_631_549);
    // Codes of three bits on average, 9 in all; but three values below 6 take 8 bits at most.
    let params = Params::new(0, 2).unwrap();
    assert!((params.bits_per_item() - 3.0).abs() < 1e-9);
    assert_eq!((params.expected_bytes(3), params.max_bytes(3)), (1, 1));
}
