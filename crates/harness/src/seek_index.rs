//! Any bytes as a seek index: an error, or an index that answers like the filter itself.

use arbitrary::Arbitrary;
use nutfilter::{
    Filter, ItemHash, Level, Nut23, Nut25, Params, SeekIndex, SortedHashes, Step, Unhashed,
};

use crate::{STRATEGIES, params_from};

/// A filter, and changes to the bytes of its index.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// P, brought into range by [`params_from`].
    pub p: u8,
    /// M: the low 16 bits count.
    pub m: u16,
    /// The set.
    pub hashes: Vec<u64>,
    /// How many items an entry stands for.
    pub step: u8,
    /// Bytes to change: where, and what is exclusive-ored in.
    pub changes: Vec<(u16, u8)>,
    /// How many bytes are cut off.
    pub cut: u8,
    /// Bytes that nobody made an index of.
    pub junk: &'a [u8],
}

impl Case<'_> {
    /// Damages an index and asks through it.
    ///
    /// # Panics
    ///
    /// Where a damaged index is accepted and gives another answer than the filter.
    pub fn check(&self) {
        let params = params_from(self.p, u32::from(self.m));
        // Runs of 64 ones on average: long enough to matter, short enough to fuzz.
        let m = params.m().min(64 << params.p());
        let params = Params::new(params.p(), m).expect("within the limits");
        let filter = SortedHashes::<Nut25>::from_hashes(self.hashes.clone())
            .encode(params)
            .expect("a small set");
        let filter = filter.with_hasher(Unhashed);
        let made = SeekIndex::build(&filter, Step::Items(u32::from(self.step)));
        let bytes = made.to_bytes();
        assert_eq!(
            SeekIndex::from_bytes(&bytes).as_ref(),
            Ok(&made),
            "{self:?}"
        );

        let mut damaged = bytes.clone();
        for &(at, change) in &self.changes {
            let at = usize::from(at) % damaged.len();
            damaged[at] ^= change;
        }
        damaged.truncate(damaged.len() - usize::from(self.cut).min(damaged.len()));

        let targets: Vec<u64> = filter
            .values()
            .flat_map(|value| [value, value + 1])
            .chain([0, filter.range(), u64::MAX])
            .collect();
        let expected = filter.matches_values(&targets);
        for bytes in [&bytes, &damaged, self.junk] {
            let Ok(index) = SeekIndex::from_bytes(bytes) else {
                continue;
            };
            for (level, filter) in at_all_levels(&filter) {
                let Ok(indexed) = filter.with_index(&index) else {
                    continue;
                };
                for strategy in STRATEGIES {
                    let answers = indexed.matches_values_by(strategy, &targets);
                    assert_eq!(answers, expected, "{level}, {strategy:?}: {self:?}");
                }
                for (&target, &answer) in targets.iter().zip(&expected) {
                    assert_eq!(indexed.contains_value(target), answer, "{level}: {self:?}");
                }
            }
        }
        // With a right checksum the damage gets in. Then answers may be wrong, but there has to be one for
        // each target, and nothing beyond the filter is read.
        if let Some((body, checksum)) = damaged.split_last_chunk_mut::<8>() {
            *checksum = Nut23.hash(body).to_le_bytes();
            let forged = SeekIndex::from_bytes(&damaged);
            for (_, filter) in at_all_levels(&filter) {
                let Ok(index) = &forged else { continue };
                let Ok(indexed) = filter.with_index(index) else {
                    continue;
                };
                for strategy in STRATEGIES {
                    let answers = indexed.matches_values_by(strategy, &targets);
                    assert_eq!(answers.len(), targets.len());
                }
                let _ = indexed.match_any_values(&targets);
                for &target in &targets {
                    let _ = indexed.contains_value(target);
                }
            }
        }
        let indexed = filter.with_index(&made).expect("its own index");
        assert_eq!(indexed.matches_values(&targets), expected, "{self:?}");
    }
}

fn at_all_levels<'f>(
    filter: &'f Filter<'f, Unhashed>,
) -> impl Iterator<Item = (Level, Filter<'f, Unhashed>)> {
    Level::available().map(|level| (level, filter.clone().with_level(level)))
}
