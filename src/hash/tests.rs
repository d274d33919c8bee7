use super::*;
use alloc::vec;
use alloc::vec::Vec;
use nutfilter_reference::Profile;

/// Bytes with a period that does not divide any power of two.
fn some_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i % 251) ^ (i / 251 * 7)) as u8).collect()
}

/// Calls `check` with each hasher and its reference.
fn each_hasher(mut check: impl FnMut(&dyn Fn(SimdLevel, Batch<'_>, &mut [u64]), Profile)) {
    check(&|level, batch, out| batch.hash(&Nut25, level, out), Profile::Nut25);
    check(&|level, batch, out| batch.hash(&Nut23, level, out), Profile::Nut23);
    let (k0, k1) = (0x0706_0504_0302_0100, 0xf00d);
    check(
        &|level, batch, out| batch.hash(&SipHash::new(k0, k1), level, out),
        Profile::Bip158 { k0, k1 },
    );
}

#[derive(Clone, Copy)]
enum Batch<'a> {
    Items(&'a [&'a [u8]]),
    Records(&'a [u8], usize),
}

impl Batch<'_> {
    fn hash<H: ItemHash>(self, hasher: &H, level: SimdLevel, out: &mut [u64]) {
        match self {
            Batch::Items(items) => hasher.hash_items_at(level, items, out),
            Batch::Records(records, width) => {
                let width = NonZeroUsize::new(width).unwrap();
                hasher.hash_records_at(level, records, width, out);
            }
        }
    }
}

/// The hashes of a batch; checks that nothing was written beyond the slots.
fn hashes_of(
    hash: &dyn Fn(SimdLevel, Batch<'_>, &mut [u64]),
    level: SimdLevel,
    batch: Batch<'_>,
    count: usize,
) -> Vec<u64> {
    let mut out = vec![7; count + 9];
    hash(level, batch, &mut out[..count]);
    assert_eq!(out[count..], [7; 9], "written beyond the places, {level}");
    out.truncate(count);
    out
}

#[test]
fn item_lengths_match_the_reference_at_every_level() {
    each_hasher(|hash, profile| {
        for width in (1..=100).chain([127, 128, 129, 255, 256, 257, 1000, 1031]) {
            // More than the widest kernel hashes at once, and from an unaligned address.
            let count = if width <= 100 { 150 } else { 40 };
            let bytes = some_bytes(count * width + 1);
            let records = &bytes[1..];
            let items: Vec<&[u8]> = records.chunks_exact(width).collect();
            let expected: Vec<u64> = items.iter().map(|item| profile.hash(item)).collect();
            for level in SimdLevel::available() {
                for batch in [Batch::Items(&items), Batch::Records(records, width)] {
                    let hashes = hashes_of(hash, level, batch, count);
                    assert!(hashes == expected, "{profile:?}, {level}, {width} bytes");
                }
            }
        }
    });
}

#[test]
fn batch_sizes_match_the_reference_at_every_level() {
    each_hasher(|hash, profile| {
        for width in [33, 48, 32, 20, 16, 7] {
            let bytes = some_bytes(600 * width);
            let items: Vec<&[u8]> = bytes.chunks_exact(width).collect();
            let expected: Vec<u64> = items.iter().map(|item| profile.hash(item)).collect();
            for level in SimdLevel::available() {
                for count in
                    (0..=4 * 16 + 1).chain([127, 128, 129, 143, 145, 255, 256, 300, 512, 600])
                {
                    // In an allocation of exactly that size, so that a memory checker detects a read past
                    // the end.
                    let records = bytes[..count * width].to_vec();
                    for batch in [Batch::Items(&items[..count]), Batch::Records(&records, width)] {
                        let hashes = hashes_of(hash, level, batch, count);
                        assert!(
                            hashes == expected[..count],
                            "{profile:?}, {level}, {count} of {width} bytes"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn records_over_1_mib_equal_single_items_at_every_level() {
    let width = (1 << 20) + 33;
    let records = some_bytes(17 * width);
    let expected: Vec<u64> = records.chunks_exact(width).map(|item| Nut25.hash(item)).collect();
    for level in SimdLevel::available() {
        let mut hashes = vec![0; 17];
        Batch::Records(&records, width).hash(&Nut25, level, &mut hashes);
        assert!(hashes == expected, "{level}");
    }
}

#[test]
fn mixed_lengths_match_the_reference_at_every_level() {
    let bytes = some_bytes(20_000);
    // Runs of 1 to 40 items of one length, including empty ones and ones longer than any buffer.
    let mut items: Vec<&[u8]> = Vec::new();
    let lengths = [33, 0, 22, 23, 25, 34, 33, 1, 48, 5000, 64, 65, 8, 33, 7, 600, 0, 33];
    for (run, len) in lengths.into_iter().cycle().take(120).enumerate() {
        for item in 0..run * 7 % 41 {
            items.push(&bytes[item + run..][..len]);
        }
    }
    each_hasher(|hash, profile| {
        let expected: Vec<u64> = items.iter().map(|item| profile.hash(item)).collect();
        for level in SimdLevel::available() {
            let hashes = hashes_of(hash, level, Batch::Items(&items), items.len());
            assert!(hashes == expected, "{profile:?}, {level}");
        }
    });
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

#[test]
fn mapping_equals_the_wide_product_at_every_level() {
    let mut hashes: Vec<u64> = vec![0, 1, 2, 4095, 4096, u64::MAX, u64::MAX - 1, u64::MAX << 12];
    hashes.extend((0..64).flat_map(|bit| [1_u64 << bit, (1_u64 << bit).wrapping_sub(1)]));
    let mut random = 1_u64;
    hashes.extend((0..500).map(|_| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        random ^ random >> 32
    }));
    let edge = 1 << 52;
    let ranges = [1, 2, 784_931, 784_931_000_000, 1 << 32, edge - 1, edge, edge + 1, u64::MAX];
    let ranges = ranges.into_iter().chain(hashes[136..236].iter().map(|hash| hash >> (hash % 64)));
    for f in ranges {
        for level in SimdLevel::available() {
            for count in [0, 1, 7, 8, 9, 31, 33, hashes.len()] {
                let mut values = hashes[..count].to_vec();
                map_all_at(level, &mut values, f);
                for (value, &hash) in values.iter().zip(&hashes) {
                    assert_eq!(*value, map_to_range(hash, f), "{hash} with F = {f}, {level}");
                }
            }
        }
    }
}

#[test]
fn map_stays_in_range_and_preserves_order() {
    for f in [1, 2, 784_931, (1 << 52) - 1, u64::MAX] {
        let edges = [0, 1, 2, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        let values = edges.map(|hash| map_to_range(hash, f));
        assert!(values.is_sorted() && values[5] < f, "F = {f}");
    }
    assert_eq!(map_to_range(u64::MAX, u64::MAX), u64::MAX - 1);
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
