//! Any bytes as a seek index: an error, or an index that answers like the filter itself.

use arbitrary::Arbitrary;
use nutfilter::{
    Filter, IndexedFilter, ItemHash, Nut23, Nut25, Params, SeekIndex, SortedHashes, Step, Unhashed,
};

use crate::recipe::{self, SMALL};
use crate::{STRATEGIES, levels, params_from};

/// A filter, and changes to the bytes of its index.
///
/// As input of a fuzzer these are 7 bytes, the changes behind them, and the set.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// What is made of the rest: see [`Case::check`].
    pub how: u8,
    /// P, brought into range by [`params_from`].
    pub p: u8,
    /// M: these 16 bits count.
    pub m: u16,
    /// How many items an entry stands for.
    pub step: u8,
    /// How many bytes are cut off.
    pub cut: u8,
    /// How many changes there are (modulo 8), of [`CHANGE`] bytes each.
    pub changes: u8,
    /// The changes, and the set; or what nobody made an index of, and the set.
    pub bytes: &'a [u8],
}

/// What lies before the changes in an input.
const HEADER: usize = 7;

/// Where a byte is changed (16 bits: a fraction of the length), and what is exclusive-ored in.
pub const CHANGE: usize = 3;

/// The largest set: a little above what fills the lanes of the widest kernel.
const MOST_ITEMS: usize = 6_000;

/// The header of an index, which says whose it is, and its checksum.
const IDENTITY: usize = 56;
const CHECKSUM: usize = 8;

impl Case<'_> {
    /// Damages an index and asks through it.
    ///
    /// | bits of `how` | |
    /// |---|---|
    /// | 0, 1 | how many bytes are a hash |
    /// | 2 | whether places are counted from the end of the index's header, where its entries are |
    /// | 3 | with more than a [`SMALL`] input: whether the set begins with a recipe |
    /// | 4, 5 | the level; 3: all |
    /// | 6, 7 | damage; damage with a right checksum; junk; junk behind a right header, with a right checksum |
    ///
    /// # Panics
    ///
    /// Where a damaged index is accepted and gives another answer than the filter.
    pub fn check(&self) {
        let changes = usize::from(self.changes % 8) * CHANGE;
        let (changes, set) = self.bytes.split_at(changes.min(self.bytes.len()));
        let (junk, set) = match self.how >> 7 {
            0 => (&[][..], set),
            _ => set.split_at(set.len() / 2),
        };
        let long = self.how & 8 != 0 && self.bytes.len() + HEADER > SMALL;
        let hashes = recipe::hashes(self.how, set, long, MOST_ITEMS);
        let filter = SortedHashes::<Nut25>::from_hashes(hashes)
            .encode(self.params())
            .expect("a small set");
        let filter = filter.with_hasher(Unhashed);
        let made = SeekIndex::build(&filter, Step::Items(u32::from(self.step)));
        let bytes = made.to_bytes();

        let targets = targets(&filter);
        let expected = filter.matches_values(&targets);
        let mut damaged = bytes.clone();
        if self.how >> 7 == 1 {
            damaged = junk.to_vec();
        }
        if self.how >> 6 == 3 {
            damaged = [&bytes[..IDENTITY], junk, &[0; CHECKSUM]].concat();
        }
        self.damage(changes, &mut damaged);
        let forged = self.how & 0x40 != 0;
        if forged && let Some((body, checksum)) = damaged.split_last_chunk_mut::<8>() {
            *checksum = Nut23.hash(body).to_le_bytes();
        }
        // Undamaged, it is the index that was made, and answers as the filter does.
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
        for level in levels(self.how >> 4 & 3) {
            let filter = filter.clone().with_level(level);
            if let Ok(indexed) = filter.with_index(&index) {
                // Where somebody made the checksum right, answers may be wrong, but there has to be one for
                // each target, and nothing beyond the filter is read.
                let right = !forged || damaged == bytes;
                self.ask(&indexed, &targets, right.then_some(&expected));
            }
        }
    }

    fn params(&self) -> Params {
        let params = params_from(self.p, u32::from(self.m));
        // Runs of 64 ones on average: long enough to matter, short enough to fuzz.
        let m = params.m().min(64 << params.p());
        Params::new(params.p(), m).expect("within the limits")
    }

    fn damage(&self, changes: &[u8], bytes: &mut Vec<u8>) {
        for change in changes.chunks_exact(CHANGE) {
            let place = usize::from(u16::from_be_bytes([change[0], change[1]]));
            let from = if self.how & 4 == 0 { 0 } else { IDENTITY };
            let len = bytes.len().saturating_sub(from);
            if let Some(byte) = bytes.get_mut(from + place * len / (1 << 16)) {
                *byte ^= change[2];
            }
        }
        bytes.truncate(bytes.len().saturating_sub(usize::from(self.cut)));
    }

    fn ask(
        &self,
        indexed: &IndexedFilter<'_, Unhashed>,
        targets: &[u64],
        expected: Option<&Vec<bool>>,
    ) {
        let any = indexed.match_any_values(targets);
        for strategy in STRATEGIES {
            let answers = indexed.matches_values_by(strategy, targets);
            assert_eq!(answers.len(), targets.len(), "{strategy:?}: {self:?}");
            if let Some(expected) = expected {
                assert_eq!(answers, *expected, "{strategy:?}: {self:?}");
                assert_eq!(any, expected.contains(&true), "{self:?}");
            }
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

/// All values and what comes behind them, and the ends of the range.
fn targets(filter: &Filter<'_, Unhashed>) -> Vec<u64> {
    let values = filter.values().flat_map(|value| [value, value + 1]);
    values.chain([0, filter.range(), u64::MAX]).collect()
}
