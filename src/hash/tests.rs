//! What the cases of `crates/harness` leave out: arrays, records above a megabyte, and what is ignored.

use super::*;
use alloc::vec;
use alloc::vec::Vec;
use nutfilter_reference::Profile;

/// Bytes with a period that does not divide any power of two.
fn some_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i % 251) ^ (i / 251 * 7)) as u8).collect()
}

#[test]
fn records_over_1_mib_equal_single_items_at_every_level() {
    let width = NonZeroUsize::new((1 << 20) + 33).unwrap();
    let records = some_bytes(17 * width.get());
    let expected: Vec<u64> = records.chunks_exact(width.get()).map(|r| Nut25.hash(r)).collect();
    for level in SimdLevel::available() {
        let mut hashes = vec![0; 17];
        Nut25.hash_records_at(level, &records, width, &mut hashes);
        assert!(hashes == expected, "{level}");
    }
}

/// Bytes in place, or elsewhere.
#[derive(Clone, Copy)]
struct Odd([u8; 8]);

impl AsRef<[u8]> for Odd {
    fn as_ref(&self) -> &[u8] {
        match self.0[0] {
            0 => b"elsewher",
            1 => &self.0[1..],
            _ => &self.0,
        }
    }
}

#[test]
fn arrays_match_the_reference_and_odd_items_do_too() {
    fn check<I: AsRef<[u8]>>(hasher: &impl ItemHash, profile: Profile, items: &[I]) {
        let expected: Vec<u64> = items.iter().map(|i| profile.hash(i.as_ref())).collect();
        for level in SimdLevel::available() {
            // One slot less, so one item is ignored.
            for slots in [items.len(), items.len().saturating_sub(1)] {
                let mut out = vec![7; slots + 1];
                hasher.hash_items_at(level, items, &mut out[..slots]);
                let what = (profile, level, size_of::<I>(), slots);
                assert!(out[..slots] == expected[..slots], "{what:?}");
                assert_eq!(out[slots], 7, "{what:?}");
            }
        }
    }
    fn check_all(hasher: &impl ItemHash, profile: Profile) {
        let bytes = some_bytes(48 * 300);
        for count in [0, 1, 7, 8, 9, 64, 300] {
            check(hasher, profile, &bytes.as_chunks::<33>().0[..count]);
            check(hasher, profile, &bytes.as_chunks::<48>().0[..count]);
            check(hasher, profile, &vec![[0_u8; 0]; count]);
            for odd in [0, 1, 2] {
                let eights = &bytes.as_chunks().0[..count];
                let mut items: Vec<Odd> = eights.iter().map(|b| Odd(*b)).collect();
                for item in &mut items {
                    item.0[0] |= 2;
                }
                if let Some(last) = items.last_mut() {
                    last.0[0] = odd;
                }
                check(hasher, profile, &items);
            }
        }
    }
    check_all(&Nut25, Profile::Nut25);
    check_all(&Nut23, Profile::Nut23);
    check_all(&SipHash::new(1, 2), Profile::Bip158 { k0: 1, k1: 2 });
}

/// Its own hash is the first byte.
#[derive(Clone, Debug, PartialEq)]
struct First;

impl ItemHash for First {
    fn hash(&self, item: &[u8]) -> u64 {
        item[0].into()
    }
}

#[test]
fn excess_records_and_slots_are_ignored() {
    let width = NonZeroUsize::new(33).unwrap();
    let bytes: Vec<u8> = (1..10).flat_map(|first| [first; 33]).collect();
    for (records, slots) in (0..9).flat_map(|records| (0..9).map(move |slots| (records, slots))) {
        let mut out = vec![0; slots];
        First.hash_records(&bytes[..records * 33], width, &mut out);
        let expected = (1..=slots as u64).map(|first| first * u64::from(first <= records as u64));
        assert!(out.iter().copied().eq(expected), "{records} records: {out:?}");
    }
}
