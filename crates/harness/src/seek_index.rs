//! Any bytes as a seek index: an error, or an index that gives the same answers as the filter.

use arbitrary::Arbitrary;
use nutfilter::{
    IndexInterval, IndexedFilter, ItemHash, Nut23, Params, RawValues, SeekIndex, SortedHashes,
};

use crate::cost::{Budget, within};
use crate::recipe::{self, SMALL};
use crate::{STRATEGIES, levels, params_from};

/// A filter, and changes to the bytes of its index.
///
/// A fuzzer's input is 7 bytes, followed by the changes and the set.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// Selects the checks: see [`Case::check`].
    pub how: u8,
    /// P, brought into range by [`params_from`].
    pub p: u8,
    /// M: only these 16 bits are used.
    pub m: u16,
    /// How many items an entry covers.
    pub step: u8,
    /// How many bytes are cut off.
    pub cut: u8,
    /// The number of changes (modulo 8), of [`CHANGE`] bytes each. The higher bits select how targets are looked
    /// up: see [`Case::check`].
    pub changes: u8,
    /// The changes and the set; or arbitrary bytes in place of an index, and the set.
    pub bytes: &'a [u8],
}

/// Bytes before the changes in an input.
const HEADER: usize = 7;

/// The place of a changed byte (16 bits: a fraction of the length), and the value to exclusive-or.
pub const CHANGE: usize = 3;

/// The largest set: slightly more than fills the lanes of the widest kernel.
const MOST_ITEMS: usize = 6_000;

/// The number of ways to look up targets.
const WAYS: u8 = 5;

/// The header of an index, which identifies its filter, and its checksum.
const IDENTITY: usize = 64;
const CHECKSUM: usize = 8;

impl Case<'_> {
    /// Damages an index and looks up targets through it.
    ///
    /// | bits of `how` | |
    /// |---|---|
    /// | 0, 1 | how many bytes make a hash |
    /// | 2 | whether places are counted from the end of the index's header, where its entries are |
    /// | 3 | in an input that is not [`SMALL`]: whether the set begins with a recipe |
    /// | 4, 5 | the level; 3: all levels, in an input that is not [`SMALL`] |
    /// | 6, 7 | damage; damage with a valid checksum; junk; junk after a valid header, with a valid checksum |
    ///
    /// `changes` without its lowest three bits, modulo 8: one of the [`STRATEGIES`], whether any target is found,
    /// or one target after another; 7: all of these, in an input that is not [`SMALL`].
    ///
    /// # Panics
    ///
    /// If a damaged index is accepted and gives another answer than the filter.
    pub fn check(&self) {
        let changes = usize::from(self.changes % 8) * CHANGE;
        let (changes, set) = self.bytes.split_at(changes.min(self.bytes.len()));
        let (junk, set) = match self.how >> 7 {
            0 => (&[][..], set),
            _ => set.split_at(set.len() / 2),
        };
        let large = self.bytes.len() + HEADER > SMALL;
        let long = self.how & 8 != 0 && large;
        let hashes = recipe::hashes(self.how, set, long, MOST_ITEMS);
        let filter = SortedHashes::from_hashes(hashes)
            .encode(self.params())
            .expect("a small set");
        let filter = filter.with_hasher(RawValues);
        let made = SeekIndex::build(&filter, IndexInterval::Items(u32::from(self.step)));
        let bytes = made.to_bytes();

        let mut damaged = bytes.clone();
        if self.how >> 7 == 1 {
            damaged = junk.to_vec();
        }
        if self.how >> 6 == 3 {
            damaged = [&bytes[..IDENTITY], junk, &[0; CHECKSUM]].concat();
        }
        let from = if self.how & 4 == 0 { 0 } else { IDENTITY };
        damage(changes, from, self.cut, &mut damaged);
        let forged = self.how & 0x40 != 0;
        if forged && let Some((body, checksum)) = damaged.split_last_chunk_mut::<8>() {
            *checksum = Nut23.hash(body).to_le_bytes();
        }
        // An undamaged index must be equal to the original, and give the same answers as the filter.
        let read = SeekIndex::from_bytes(&damaged);
        if damaged == bytes {
            assert_eq!(read.as_ref(), Ok(&made), "{self:?}");
        } else if let Ok(read) = &read {
            assert!(
                read.to_bytes() == damaged,
                "two forms of one index: {self:?}"
            );
        }
        let Ok(index) = read else {
            return;
        };
        let values: Vec<u64> = filter.values().collect();
        let targets = targets(&values, filter.range());
        let expected: Vec<bool> = targets
            .iter()
            .map(|target| values.binary_search(target).is_ok())
            .collect();
        let ways = match self.changes >> 3 & 7 {
            7 if large => 0..WAYS,
            way => way % WAYS..way % WAYS + 1,
        };
        for level in levels(self.how >> 4 & 3, large) {
            let filter = filter.clone().with_level(level);
            if let Ok(indexed) = filter.with_index(&index) {
                // With a forged checksum, answers may be wrong. But there must be one for each target, and nothing
                // outside the filter may be read.
                let right = !forged || damaged == bytes;
                let budget = right.then(|| Budget::of_indexed(&indexed, &index));
                for way in ways.clone() {
                    // One way may use two batches.
                    let allowed = budget.map_or(u64::MAX, |b| 2 * b.allowed(targets.len()));
                    within(allowed, self, || {
                        self.ask(way, &indexed, &targets, right.then_some(&expected));
                    });
                }
            }
        }
    }

    fn params(&self) -> Params {
        let params = params_from(self.p, u32::from(self.m));
        // Runs of 64 one-bits on average: long enough to matter, short enough to fuzz.
        let m = params.m().min(64 << params.p());
        Params::new(params.p(), m).expect("within the limits")
    }

    fn ask(
        &self,
        way: u8,
        indexed: &IndexedFilter<impl AsRef<[u8]>, RawValues>,
        targets: &[u64],
        expected: Option<&Vec<bool>>,
    ) {
        if let Some(&strategy) = STRATEGIES.get(usize::from(way)) {
            let answers = indexed.matches_values_by(strategy, targets);
            assert_eq!(answers.len(), targets.len(), "{strategy:?}: {self:?}");
            if let Some(expected) = expected {
                assert_eq!(answers, *expected, "{strategy:?}: {self:?}");
            }
            return;
        }
        if usize::from(way) == STRATEGIES.len() {
            let any = indexed.match_any_values(targets);
            let non_members: Vec<u64> = match expected {
                None => return,
                Some(expected) => {
                    assert_eq!(any, expected.contains(&true), "{self:?}");
                    let apart = targets.iter().zip(expected).filter(|(_, found)| !**found);
                    apart.map(|(target, _)| *target).collect()
                }
            };
            assert!(!indexed.match_any_values(&non_members), "{self:?}");
            return;
        }
        let apart = targets.len() / 16 + 1;
        for (at, &target) in targets.iter().enumerate().step_by(apart) {
            let answer = indexed.contains_value(target);
            if let Some(expected) = expected {
                assert_eq!(answer, expected[at], "{target}: {self:?}");
            }
        }
    }
}

/// Changes bytes from `from` on, and cuts some off the end.
pub(crate) fn damage(changes: &[u8], from: usize, cut: u8, bytes: &mut Vec<u8>) {
    for change in changes.chunks_exact(CHANGE) {
        let place = usize::from(u16::from_be_bytes([change[0], change[1]]));
        let len = bytes.len().saturating_sub(from);
        if let Some(byte) = bytes.get_mut(from + place * len / (1 << 16)) {
            *byte ^= change[2];
        }
    }
    bytes.truncate(bytes.len().saturating_sub(usize::from(cut)));
}

/// All values and their successors, and the ends of the range.
pub(crate) fn targets(values: &[u64], range: u64) -> Vec<u64> {
    let around = values.iter().flat_map(|value| [*value, value + 1]);
    around.chain([0, range, u64::MAX]).collect()
}
