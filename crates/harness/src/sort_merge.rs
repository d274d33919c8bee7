//! Any number of hashes of any distribution: sorting and merging them in any order, at every level, gives the same
//! result as a general sort.

use arbitrary::Arbitrary;
use nutfilter::{ItemHash, Level, Params, SortedHashes, sort_in_passes};

use crate::{is_long, levels_of, params_from, seeded};

/// Three sets, and the order in which they are merged.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// P of the filter that is made with a merge, brought into range by [`params_from`].
    pub p: u8,
    /// M, brought into range likewise and kept small enough to code in little space.
    pub m: u32,
    /// Which two sets are merged first, and how; by the bits from the fifth on, how the sets are made.
    pub order: u8,
    /// What is done, and at which level; 255 for everything at every level: see [`Case::check`].
    pub way: u8,
    /// How many hashes the shapes stand for: see `Case::most`.
    pub scale: u8,
    /// Into how many parts each pass deals where there are enough hashes for passes, less 1.
    pub parts: [u8; 3],
    /// The pair of neighbours that is exchanged, to be found.
    pub exchanged: u16,
    /// The sets, but for what is in `hashes`.
    pub shapes: [Shape; 3],
    /// Hashes as they are, 8 bytes each, for the first set.
    pub hashes: &'a [u8],
}

/// Hashes by a rule.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Shape {
    /// Which rule (modulo 8).
    pub rule: u8,
    /// How many, before `Case::most`.
    pub size: u16,
    /// For those that look random.
    pub seed: u8,
    /// A number of the rule.
    pub at: u64,
}

/// An item that is its own hash.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Given;

impl ItemHash for Given {
    fn hash(&self, item: &[u8]) -> u64 {
        item.first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

impl Shape {
    fn hashes(self, most: usize) -> Vec<u64> {
        let size = usize::from(self.size) % (most + 1);
        let numbers = seeded::numbers(self.seed.into()).take(size);
        let at = self.at;
        match self.rule % 8 {
            // Uniform, as hashes are.
            0 | 1 => numbers.collect(),
            // In one place, as somebody makes them who wants one bucket, leaf or cell to be full.
            2 => numbers
                .map(|hash| at.wrapping_add(hash >> (at % 64)))
                .collect(),
            3 => vec![at; size],
            // A few values.
            4 => numbers
                .map(|hash| at.rotate_left(hash as u32 % 8 * 8))
                .collect(),
            // Half uniform, half in one place.
            5 => numbers
                .map(|hash| if hash % 2 == 0 { hash } else { at ^ hash >> 44 })
                .collect(),
            // Up, and down, by a step.
            6 => (0..size as u64).map(|i| i.wrapping_mul(at)).collect(),
            _ => (0..size as u64)
                .rev()
                .map(|i| i.wrapping_mul(at >> 16))
                .collect(),
        }
    }
}

impl Case<'_> {
    /// Sorts, merges, encodes, and compares: one of these, or all of them if the way of a long input says so.
    ///
    /// # Panics
    ///
    /// Where what comes out is not sorted, or not what went in.
    pub fn check(&self) {
        let does = |what| self.all() || self.way >> 4 & 3 == what;
        if does(0) || does(3) {
            // One list is enough for these, and most of the work is in making it.
            let ones = match self.all() {
                true => 0..3,
                false => self.one()..self.one() + 1,
            };
            for list in ones.map(|at| self.list(at)) {
                let sorted = sorted(&list);
                if does(0) {
                    self.check_sort(&list, &sorted);
                }
                if does(3) {
                    self.check_order(&sorted);
                }
            }
        }
        if does(1) || does(2) {
            let lists = [0, 1, 2].map(|at| sorted(&self.list(at)));
            let expected = sorted(&lists.concat());
            if does(1) {
                self.check_merge(&lists, &expected);
            }
            if does(2) {
                self.check_encoding(&lists, &expected);
            }
        }
    }

    fn all(&self) -> bool {
        self.way == u8::MAX && is_long::<Self>(self.hashes)
    }

    fn levels(&self) -> impl Iterator<Item = Level> {
        levels_of(self.way & 15, self.all())
    }

    /// The list that is sorted, and the only one that may be at its full size.
    fn one(&self) -> usize {
        usize::from(self.way >> 6) % 3
    }

    fn list(&self, at: usize) -> Vec<u64> {
        let most = match at == self.one() || self.all() {
            true => self.most(),
            false => self.most().min(400),
        };
        let mut list = self.shapes[at].hashes(most);
        if at == 0 {
            let given = self.hashes.as_chunks::<8>().0.iter();
            list.extend(given.map(|word| u64::from_le_bytes(*word)));
        }
        list
    }

    /// How many hashes of a shape there are at most. Few for most cases: what sorts few is looked at often, and
    /// what sorts many now and then.
    fn most(&self) -> usize {
        match self.scale {
            252..=254 if is_long::<Self>(self.hashes) => 3000,
            // The plain code has its buckets from 8192 hashes on.
            255 if is_long::<Self>(self.hashes) => 10_000,
            _ => 24,
        }
    }

    fn check_sort(&self, hashes: &[u64], sorted: &[u64]) {
        let mut records = vec![0; hashes.len() * 8];
        for (record, hash) in records.as_chunks_mut::<8>().0.iter_mut().zip(hashes) {
            *record = hash.to_le_bytes();
        }
        let items = records.as_chunks::<8>().0;
        let parts = self.parts.map(|parts| u64::from(parts % 16) + 1);
        // Every leaf takes its time, however few hashes it has: no more of them than could be of use.
        let leaves = parts.iter().product::<u64>() as usize;
        let in_passes = leaves <= hashes.len() / 100;
        let set = |level| match self.order >> 4 & 7 {
            0 | 1 => SortedHashes::from_hashes_at(level, Given, hashes.to_vec()),
            2 => SortedHashes::from_items_at(level, Given, items),
            3 => SortedHashes::from_items_at(level, Given, items.iter().filter(|_| true)),
            4 | 5 => {
                let set = SortedHashes::from_records_at(level, Given, &records, 8);
                set.expect("whole records")
            }
            _ => {
                let dealt = in_passes.then(|| sort_in_passes(level, parts, hashes));
                let sorted = dealt.flatten().unwrap_or_else(|| sorted.to_vec());
                SortedHashes::from_sorted_hashes(Given, sorted).expect("sorted")
            }
        };
        for level in self.levels() {
            assert_eq!(set(level).as_slice(), sorted, "{level}: {self:?}");
        }
    }

    fn check_merge(&self, lists: &[Vec<u64>; 3], expected: &[u64]) {
        for level in self.levels() {
            let [a, b, c] = self.sets(lists, level);
            let merged = match self.order & 4 {
                0 => a.merge(b).and_then(|both| both.merge(c)),
                _ => b.merge(c).and_then(|both| a.merge(both)),
            };
            assert_eq!(
                merged.expect("one hasher").as_slice(),
                expected,
                "{level}: {self:?}"
            );
        }
    }

    fn check_encoding(&self, lists: &[Vec<u64>; 3], expected: &[u64]) {
        let params = self.params();
        let at_once = set(expected, Level::PORTABLE)
            .encode(params)
            .expect("a small set");
        for level in self.levels() {
            let [mut grown, b, c] = self.sets(lists, level);
            if self.order & 8 == 0 {
                grown.merge_and_encode(&b, params).expect("a small set");
            } else {
                grown = grown.merge(b).expect("one hasher");
            }
            let filter = grown.merge_and_encode(&c, params).expect("a small set");
            assert_eq!(grown.as_slice(), expected, "{level}: {self:?}");
            assert_eq!(filter, at_once, "{level}: {self:?}");
        }
    }

    /// The sets in the order in which they are put together.
    fn sets(&self, lists: &[Vec<u64>; 3], level: Level) -> [SortedHashes<Given>; 3] {
        let first = usize::from(self.order % 3);
        [0, 1, 2].map(|at| set(&lists[(first + at) % 3], level))
    }

    /// Codes of a few hundred bits at most, on average.
    fn params(&self) -> Params {
        let most = 1_u64 << (u32::from(self.p % 33) + 6).min(32);
        params_from(self.p, (u64::from(self.m) % most) as u32)
    }

    /// Hashes that are said to be sorted.
    fn check_order(&self, sorted: &[u64]) {
        let mut exchanged = sorted.to_vec();
        if sorted.len() > 1 {
            let at = usize::from(self.exchanged) % (sorted.len() - 1);
            exchanged.swap(at, at + 1);
        }
        let taken = SortedHashes::from_sorted_hashes(Given, exchanged.clone());
        match taken {
            Ok(set) => assert_eq!(set.into_hashes(), sorted, "{self:?}"),
            Err(error) => {
                assert!(exchanged != sorted, "{error}: {self:?}");
                let (at, _) = exchanged
                    .iter()
                    .zip(sorted)
                    .enumerate()
                    .find(|(_, (a, b))| a != b)
                    .expect("they differ");
                let item = (at + 1).to_string();
                assert!(error.to_string().contains(&item), "{error}: {self:?}");
            }
        }
    }
}

fn sorted(hashes: &[u64]) -> Vec<u64> {
    let mut sorted = hashes.to_vec();
    sorted.sort_unstable();
    sorted
}

fn set(sorted: &[u64], level: Level) -> SortedHashes<Given> {
    let set = SortedHashes::from_sorted_hashes(Given, sorted.to_vec());
    set.expect("a sorted list").with_level(level)
}
