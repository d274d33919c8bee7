//! Any set of hashes with any parameters: compares the encoding with the reference's, and decodes it.

use arbitrary::Arbitrary;
use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, Nut25, Params, SortedHashes, map_to_range};

use crate::recipe::{self, SMALL};
use crate::{levels, params_from};

/// Hashes in any order, and parameters.
///
/// A fuzzer's input is 9 bytes, followed by the hashes.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// Selects the checks: see [`Case::check`].
    pub how: u8,
    /// P, brought into range by [`params_from`].
    pub p: u8,
    /// M, also brought into range.
    pub m: u32,
    /// Where the set is split in two before a merge joins it, in 256ths.
    pub cut: u8,
    /// Whether the merge encodes in the same pass (even).
    pub apart: u8,
    /// What is done with the filter: see [`Case::check`].
    pub then: u8,
    /// The set: see [`recipe::hashes`].
    pub bytes: &'a [u8],
}

/// Bytes before the hashes in an input.
const HEADER: usize = 9;

/// The largest filters that are made. The reference is slow because it writes bit by bit, and long runs test no
/// more than shorter ones.
const MOST_BITS: u128 = 1 << 13;
const MOST_BITS_LONG: u128 = 1 << 18;

impl Case<'_> {
    /// Encodes and compares with the reference, at one level, in one way and with one use of the result, so that a
    /// small input takes only microseconds.
    ///
    /// | bits of `how` | |
    /// |---|---|
    /// | 0, 1 | how many bytes make a hash |
    /// | 2 | whether M may be far above 2^P |
    /// | 3 | in an input that is not [`SMALL`]: whether the bytes begin with a recipe |
    /// | 4, 5 | the level; 3: all levels, in an input that is not [`SMALL`] |
    /// | 6, 7 | 1: merged from two sets; otherwise at once |
    ///
    /// `then` modulo 4: nothing; decode it; build it from its values; both.
    pub fn check(&self) {
        let params = self.params();
        let large = self.bytes.len() + HEADER > SMALL;
        let long = self.how & 8 != 0 && large;
        let most_bits = if long { MOST_BITS_LONG } else { MOST_BITS };
        let most = most_bits / u128::from(params.p() + 3);
        let hashes = recipe::hashes(self.how, self.bytes, long, most as usize);
        let range = params.range(hashes.len() as u32);
        let mut sorted = hashes.clone();
        sorted.sort_unstable();
        let values: Vec<u64> = sorted.iter().map(|&h| map_to_range(h, range)).collect();
        if bits_of(&values, params) > most_bits {
            return;
        }
        let expected = nutfilter_reference::encode_values(&values, params.p());
        for level in levels(self.how >> 4 & 3, large) {
            let filter = self.encoded(level, &hashes, &sorted, params);
            assert!(filter.bytes() == expected, "{level}: {self:?}");
            assert_eq!(filter.n() as usize, values.len(), "{level}: {self:?}");
            if self.then % 2 == 1 {
                let parsed = Filter::check_length(filter.bytes(), values.len() as u64, params)
                    .and_then(|admitted| admitted.with_level(level).validate());
                assert!(parsed.is_ok_and(|parsed| parsed == filter), "{level}: {self:?}");
            }
        }
        let len = expected.len() as u64;
        let n = values.len() as u32;
        assert!(params.min_bytes(n) <= len, "{self:?}");
        assert!(len <= params.max_bytes(n), "{self:?}");
        if self.then & 2 != 0 {
            let filter = Filter::from_values(&values, params).expect("as above");
            assert!(filter.bytes() == expected, "by value: {self:?}");
            assert!(filter.values().eq(values), "{self:?}");
        }
    }

    fn params(&self) -> Params {
        let params = params_from(self.p, self.m);
        if self.how & 4 != 0 {
            return params;
        }
        let most = (64 << params.p()).min(u64::from(u32::MAX));
        Params::new(params.p(), params.m().min(most)).expect("within the limits")
    }

    /// The filter, encoded in one of the ways.
    fn encoded(
        &self,
        level: SimdLevel,
        hashes: &[u64],
        sorted: &[u64],
        params: Params,
    ) -> Filter<Vec<u8>, Nut25> {
        let set = |part: &[u64]| SortedHashes::builder(Nut25).with_level(level).sort(part.to_vec());
        let filter = if self.how >> 6 == 1 {
            let (left, right) = hashes.split_at(hashes.len() * usize::from(self.cut) / 256);
            let (mut grown, right) = (set(left), set(right));
            if self.apart & 1 == 0 {
                let filter = grown.merge_and_encode(&right, params);
                assert!(grown.as_slice() == sorted, "{level}: {self:?}");
                filter
            } else {
                grown.merge(&right).expect("one hasher");
                assert!(grown.as_slice() == sorted, "{level}: {self:?}");
                grown.encode(params)
            }
        } else {
            let set = set(hashes);
            assert!(set.as_slice() == sorted, "{level}: {self:?}");
            set.encode(params)
        };
        filter.unwrap_or_else(|error| panic!("{error}, {level}: {self:?}"))
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
