//! Items of any length, at any address, in batches of any size: every level gives the same hashes as the `murmur3`
//! and `siphasher` crates.

use core::num::NonZeroUsize;

use arbitrary::Arbitrary;
use nutfilter::internals::{SimdLevel, map_all_at};
use nutfilter::{ItemHash, Nut23, Nut25, SipHash, SortedHashes, map_to_range};
use nutfilter_cashu::Nut25EmptyTail;
use nutfilter_reference::{Profile, murmur3_32};

use crate::{is_long, levels_of, seeded};

/// The hash, and the items as runs of one length.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// The hash (modulo 4), and whether the number of items is known (the fifth bit).
    pub profile: u8,
    /// The level; 255 in a long input for all levels and all checks.
    pub level: u8,
    /// The offset of the first item from an address that is a multiple of 16 (modulo 16).
    pub offset: u8,
    /// The number of places for hashes, relative to the number of items.
    pub places: i8,
    /// F, for mapping the hashes.
    pub range: u64,
    /// The key, if the hash has one.
    pub key: [u64; 2],
    /// The items.
    pub runs: [Run; 3],
    /// The contents of the items, repeated.
    pub bytes: &'a [u8],
}

/// Items of one length, one after another.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Run {
    /// The length of an item: see [`Run::width`].
    pub width: u8,
    /// The number of items: see [`Run::count`].
    pub count: u8,
}

/// Lengths with their own code path, and the lengths next to them.
const WIDTHS: [usize; 32] = [
    33, 33, 33, 33, 33, 33, 33, 33, 0, 7, 8, 15, 16, 17, 20, 31, 32, 48, 63, 64, 65, 66, 96, 100,
    127, 128, 255, 256, 257, 1024, 1025, 8193,
];

/// Maximum size of a run, in bytes: more shows nothing new.
const MOST_BYTES: usize = 9000;

/// Maximum size of all runs of a small input: some more points than the widest kernel hashes at once.
const MOST_BYTES_OF_SMALL: usize = 640;

impl Run {
    /// Values up to 223 are lengths in bytes. The others stand for special lengths.
    pub fn width(self) -> usize {
        match self.width {
            width @ 0..=223 => usize::from(width),
            width => WIDTHS[usize::from(width - 224)],
        }
    }

    /// Usually few items; up to 255 for some runs, more than the widest kernel takes at once. Few long items, and
    /// none if there is no room for one.
    pub fn count(self, most_bytes: usize) -> usize {
        let count = match self.count {
            count @ 0..=223 => usize::from(count % 16),
            count => usize::from(count - 224) * 8 + 7,
        };
        match self.width() {
            0 => count,
            width => count.min(most_bytes / width),
        }
    }
}

impl Case<'_> {
    /// Hashes in every way and compares.
    pub fn check(&self) {
        let [k0, k1] = self.key;
        match self.profile % 4 {
            0 => self.check_with(&Nut25, |item| Profile::Nut25.hash(item)),
            1 => self.check_with(&Nut23, |item| Profile::Nut23.hash(item)),
            2 => {
                let profile = Profile::Bip158 { k0, k1 };
                self.check_with(&SipHash::new(k0, k1), |item| profile.hash(item));
            }
            _ => self.check_with(&Nut25EmptyTail, wrong_dialect),
        }
    }

    fn check_with<H: ItemHash>(&self, hasher: &H, oracle: impl Fn(&[u8]) -> u64) {
        // All data ends at the end of its allocation, so that reads beyond it are detected.
        let counts = self.counts();
        let runs = || self.runs.iter().map(|run| run.width()).zip(counts);
        let len: usize = runs().map(|(width, count)| width * count).sum();
        let memory = self.memory(len);
        let mut rest = &memory[memory.len() - len..];
        let mut items: Vec<&[u8]> = Vec::new();
        let mut expected = Vec::new();
        for (width, count) in runs() {
            let (records, others) = rest.split_at(width * count);
            rest = others;
            let first = items.len();
            items.extend((0..count).map(|at| &records[at * width..][..width]));
            expected.extend(items[first..].iter().map(|item| oracle(item)));
            if let Some(width) = NonZeroUsize::new(width) {
                self.check_records(hasher, records, width, &expected[first..]);
            }
        }
        self.check_items(hasher, &items, &expected);
        self.check_set(hasher, &items, &expected);
        for (item, &expected) in items.iter().zip(&expected) {
            assert_eq!(hasher.hash(item), expected, "{self:?}");
        }
        self.check_mapping(&mut expected);
    }

    fn all(&self) -> bool {
        self.level == u8::MAX && is_long::<Self>(self.bytes)
    }

    fn levels(&self) -> impl Iterator<Item = SimdLevel> {
        levels_of(self.level, self.all())
    }

    /// The number of items of each run.
    fn counts(&self) -> [usize; 3] {
        let long = is_long::<Self>(self.bytes);
        let mut room = MOST_BYTES_OF_SMALL;
        self.runs.map(|run| match long {
            true => run.count(MOST_BYTES),
            false => {
                let count = run.count(room);
                room -= count * run.width();
                count
            }
        })
    }

    fn check_items<H: ItemHash>(&self, hasher: &H, items: &[&[u8]], expected: &[u64]) {
        let places = items.len().saturating_add_signed(self.places.into());
        let hashed = places.min(items.len());
        let mut out = Vec::new();
        for level in self.levels() {
            out.clear();
            out.resize(places, !0);
            hasher.hash_items_at(level, items, &mut out);
            assert_eq!(out[..hashed], expected[..hashed], "{level}: {self:?}");
            assert!(out[hashed..].iter().all(|&place| place == !0), "{self:?}");
        }
    }

    /// The bytes of the items, preceded by other bytes so that the items begin at the offset.
    fn memory(&self, len: usize) -> Box<[u8]> {
        let mut memory = Vec::with_capacity(len + 16);
        memory.resize(usize::from(self.offset % 16), 0x5a);
        let end = memory.len() + len;
        while memory.len() < end {
            let from = memory.len();
            let room = end - from;
            memory.extend_from_slice(&self.bytes[..self.bytes.len().min(room)]);
            // Nothing to repeat, or not enough to tell one place from another.
            for number in seeded::numbers(from as u64).take(8) {
                let room = (end - memory.len()).min(8);
                memory.extend_from_slice(&number.to_le_bytes()[..room]);
            }
        }
        memory.into_boxed_slice()
    }

    /// Records, followed by some bytes that are too few for one more record.
    fn check_records<H: ItemHash>(
        &self,
        hasher: &H,
        records: &[u8],
        width: NonZeroUsize,
        expected: &[u64],
    ) {
        let cut = usize::from(self.places.unsigned_abs()) % width;
        let records = &records[..records.len() - cut.min(records.len())];
        let whole = records.len() / width;
        for level in self.levels() {
            let mut out = vec![!0; expected.len()];
            hasher.hash_records_at(level, records, width, &mut out);
            assert_eq!(out[..whole], expected[..whole], "records, {level}: {self:?}");
            assert!(out[whole..].iter().all(|&place| place == !0), "{self:?}");
        }
        let set = SortedHashes::builder(hasher.clone()).hash_records(records, width.get());
        assert_eq!(set.is_ok(), cut == 0 || records.is_empty(), "{self:?}");
        if let Ok(set) = set {
            let mut sorted = expected[..whole].to_vec();
            sorted.sort_unstable();
            assert_eq!(set.as_slice(), sorted, "{self:?}");
        }
    }

    /// The set of the items, whose number is known or not.
    fn check_set<H: ItemHash>(&self, hasher: &H, items: &[&[u8]], expected: &[u64]) {
        let mut sorted = expected.to_vec();
        sorted.sort_unstable();
        for level in self.levels() {
            let builder = SortedHashes::builder(hasher.clone()).with_level(level);
            let set = match self.profile & 16 {
                0 => builder.hash_items(items),
                _ => builder.hash_items(items.iter().filter(|_| true)),
            };
            assert_eq!(set.as_slice(), sorted, "{level}: {self:?}");
        }
    }

    fn check_mapping(&self, hashes: &mut [u64]) {
        let f = self.range;
        let mapped: Vec<u64> = hashes.iter().map(|&hash| mapped(hash, f)).collect();
        for (&hash, &value) in hashes.iter().zip(&mapped) {
            assert_eq!(map_to_range(hash, f), value, "{hash} of {f}");
        }
        for level in self.levels() {
            let mut hashes = hashes.to_vec();
            map_all_at(level, &mut hashes, f);
            assert_eq!(hashes, mapped, "{level}: {self:?}");
        }
    }
}

/// `hash * f / 2^64`, the high word of a 128-bit product, computed in parts that do not overflow.
fn mapped(hash: u64, f: u64) -> u64 {
    let (high, low) = (u128::from(hash >> 32), u128::from(hash & 0xffff_ffff));
    let sum = high * u128::from(f) + ((low * u128::from(f)) >> 32);
    (sum >> 32) as u64
}

fn wrong_dialect(item: &[u8]) -> u64 {
    let upper = murmur3_32(item, 0);
    u64::from(upper) << 32 | u64::from(murmur3_32(&[], upper))
}
