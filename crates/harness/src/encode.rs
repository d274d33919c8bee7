//! Any set of hashes with any parameters: the reference's bytes, and back.

use arbitrary::Arbitrary;
use nutfilter::{Filter, Level, Nut25, Params, SortedHashes, Unhashed, map_to_range};

use crate::params_from;

/// Hashes, in any order, and parameters.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    /// P, brought into range by [`params_from`].
    pub p: u8,
    /// M, brought into range likewise.
    pub m: u32,
    /// The set.
    pub hashes: Vec<u64>,
    /// Where it is cut in two before it is put together by a merge.
    pub cut: usize,
}

/// The largest filter that is made in a check: 8 KiB. A reference that writes bit by bit takes its time,
/// and long runs show nothing that shorter ones do not.
const MOST_BITS: u128 = 1 << 16;

impl Case {
    /// Encodes, compares with the reference, and decodes again.
    ///
    /// # Panics
    ///
    /// Where something differs.
    pub fn check(&self) {
        let params = params_from(self.p, self.m);
        let range = params.range(self.hashes.len() as u32);
        let mut values: Vec<u64> = self
            .hashes
            .iter()
            .map(|&hash| map_to_range(hash, range))
            .collect();
        values.sort_unstable();
        if bits_of(&values, params) > MOST_BITS {
            return;
        }
        let expected = nutfilter_reference::encode_values(&values, params.p());

        let set = self.sorted();
        let filter = set.encode(params).expect("8 KiB at most");
        assert_eq!(filter.bytes(), expected, "{self:?}");
        for level in Level::available() {
            let at_level = set.clone().with_level(level).encode(params);
            assert_eq!(at_level.as_ref(), Ok(&filter), "{level}: {self:?}");
            let (left, right) = self.parts();
            let mut grown = left.with_level(level);
            let at_once = grown.merge_and_encode(&right, params);
            assert_eq!(at_once.as_ref(), Ok(&filter), "{level}: {self:?}");
            assert_eq!(grown, set, "{level}: {self:?}");
        }
        assert_eq!(filter.n() as usize, values.len());
        assert!(filter.bytes().len() as u64 >= params.min_bytes(filter.n()));
        assert!(filter.bytes().len() as u64 <= params.max_bytes(filter.n()));
        assert!(filter.values().eq(values.iter().copied()), "{self:?}");

        let parsed = Filter::<Nut25>::parse(filter.bytes(), values.len() as u64, params);
        assert_eq!(parsed.as_ref(), Ok(&filter), "{self:?}");
        let by_value = Filter::<Unhashed>::from_values(&values, params).expect("as above");
        assert_eq!(by_value.bytes(), expected, "{self:?}");
    }

    /// The set in two ways, which have to agree: at once, and merged from two.
    fn sorted(&self) -> SortedHashes<Nut25> {
        let at_once = SortedHashes::from_hashes(self.hashes.clone());
        let (left, right) = self.parts();
        assert_eq!(left.merge(right).as_ref(), Ok(&at_once), "{self:?}");
        at_once
    }

    /// The set in two parts.
    fn parts(&self) -> (SortedHashes<Nut25>, SortedHashes<Nut25>) {
        let (left, right) = self.hashes.split_at(self.cut % (self.hashes.len() + 1));
        let set = |part: &[u64]| SortedHashes::from_hashes(part.to_vec());
        (set(left), set(right))
    }
}

fn bits_of(values: &[u64], params: Params) -> u128 {
    let mut previous = 0;
    let mut bits = 0;
    for &value in values {
        bits += u128::from((value - previous) >> params.p()) + u128::from(params.p() + 1);
        previous = value;
    }
    bits
}
