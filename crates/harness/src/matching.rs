//! Any set against any targets: every way to ask gives the reference's answers.

use arbitrary::Arbitrary;
use nutfilter::{
    Filter, ItemHash, Level, Nut23, Nut25, SeekIndex, SipHash, SortedHashes, Step, map_to_range,
};
use nutfilter_reference::Profile;

use crate::{STRATEGIES, params_from};

/// A set, targets, and how to hash, code and index.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    /// Which profile (modulo 3).
    pub profile: u8,
    /// P, brought into range by [`params_from`].
    pub p: u8,
    /// M, brought into range likewise and kept small enough to code in little space.
    pub m: u32,
    /// The set.
    pub items: Vec<Vec<u8>>,
    /// What is looked for, beside the items themselves.
    pub strangers: Vec<Vec<u8>>,
    /// How many items an entry of the index stands for.
    pub step: u8,
}

impl Case {
    /// Builds, asks in every way, compares.
    ///
    /// # Panics
    ///
    /// Where an answer differs.
    pub fn check(&self) {
        let (k0, k1) = (u64::from(self.m), u64::from(self.p));
        match self.profile % 3 {
            0 => self.check_with(Nut25, Profile::Nut25),
            1 => self.check_with(Nut23, Profile::Nut23),
            _ => self.check_with(SipHash::new(k0, k1), Profile::Bip158 { k0, k1 }),
        }
    }

    fn check_with<H: ItemHash>(&self, hasher: H, profile: Profile) {
        // With M up to 2^(P + 8) a code is at most a few hundred bits long on average.
        let most = 1_u64 << (u32::from(self.p % 33) + 8).min(32);
        let params = params_from(self.p, (u64::from(self.m) % most) as u32);
        let (p, m) = (params.p(), params.m());
        let n = self.items.len() as u64;

        let filter = SortedHashes::from_items_with(hasher, &self.items)
            .encode(params)
            .expect("a small set");
        let bytes = nutfilter_reference::build(profile, &self.items, p, m);
        assert_eq!(filter.bytes(), bytes, "{self:?}");

        let targets: Vec<&[u8]> = self
            .strangers
            .iter()
            .chain(&self.items)
            .map(Vec::as_slice)
            .collect();
        let expected = nutfilter_reference::matches(&bytes, n, p, m, profile, &targets)
            .expect("the reference reads what it wrote");
        let any = expected.contains(&true);
        let values: Vec<u64> = targets
            .iter()
            .map(|target| map_to_range(filter.hasher().hash(target), filter.range()))
            .collect();
        for level in Level::available() {
            let filter = filter.clone().with_level(level);
            assert_eq!(filter.matches(&targets), expected, "{level}: {self:?}");
            let admitted = Filter::admit_with(filter.hasher().clone(), &bytes, n, params)
                .expect("a filter that was just made")
                .with_level(level);
            let answers = admitted.matches(&targets);
            assert_eq!(answers.as_ref(), Ok(&expected), "{level}: {self:?}");
            for strategy in STRATEGIES {
                let context = (level, strategy, self);
                let answers = filter.matches_values_by(strategy, &values);
                assert_eq!(answers, expected, "{context:?}");
                let answers = admitted.matches_values_by(strategy, &values);
                assert_eq!(answers.as_ref(), Ok(&expected), "{context:?}");
            }
            for step in [Step::Items(u32::from(self.step)), Step::Entries(32)] {
                let index = SeekIndex::build(&filter, step);
                let indexed = filter.with_index(&index).expect("built for this filter");
                let context = (level, step, self);
                assert_eq!(indexed.matches(&targets), expected, "{context:?}");
                assert_eq!(indexed.match_any(&targets), any, "{context:?}");
                for strategy in STRATEGIES {
                    let answers = indexed.matches_values_by(strategy, &values);
                    assert_eq!(answers, expected, "{strategy:?}, {context:?}");
                }
                for (target, &answer) in targets.iter().zip(&expected) {
                    assert_eq!(indexed.contains(target), answer, "{context:?}");
                }
            }
        }
        for (at, &answer) in expected.iter().enumerate() {
            assert_eq!(filter.contains(targets[at]), answer, "{self:?}");
            let any = expected[..at].contains(&true);
            assert_eq!(filter.match_any(&targets[..at]), any, "{self:?}");
        }
    }
}
