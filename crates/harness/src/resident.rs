//! A set as a resident filter, and any bytes as one: an error, or a filter that answers without a panic.

use arbitrary::Arbitrary;
use nutfilter::error::ResidentErrorKind;
use nutfilter::internals::SimdLevel;
use nutfilter::{ItemHash, Nut23, Params, RawValues, ResidentFilter, SortedHashes};

use crate::levels;
use crate::recipe::{self, SMALL};

/// A set, and changes to the bytes of its resident filter.
///
/// A fuzzer's input is 5 bytes, followed by the changes and the set.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case<'a> {
    /// Selects the checks: see [`Case::check`].
    pub how: u8,
    /// M, up to 2^20.
    pub m: u16,
    /// How many bytes are cut off.
    pub cut: u8,
    /// The number of changes (modulo 8), of three bytes each: a place (16 bits: a fraction of
    /// the length), and the value to exclusive-or.
    pub changes: u8,
    /// The changes and the set.
    pub bytes: &'a [u8],
}

/// Bytes before the changes in an input.
const HEADER: usize = 5;

/// The length of a change.
const CHANGE: usize = 3;

/// The largest set: some hundred lines.
const MOST_ITEMS: usize = 6_000;

impl Case<'_> {
    /// Looks up targets in the resident filter of a set, and in damaged bytes of it.
    ///
    /// | bits of `how` | |
    /// |---|---|
    /// | 0, 1 | how many bytes make a hash |
    /// | 3 | in an input that is not [`SMALL`]: whether the set begins with a recipe |
    /// | 4, 5 | the level; 3: all levels, in an input that is not [`SMALL`] |
    /// | 6 | whether damaged bytes get a valid checksum |
    pub fn check(&self) {
        let changes = usize::from(self.changes % 8) * CHANGE;
        let (changes, set) = self.bytes.split_at(changes.min(self.bytes.len()));
        let large = self.bytes.len() + HEADER > SMALL;
        let hashes = recipe::hashes(self.how, set, self.how & 8 != 0 && large, MOST_ITEMS);
        let m = u64::from(self.m) * 16 + 1;
        let params = Params::with_best_p(m).expect("a valid M");
        let filter = SortedHashes::from_hashes(hashes).encode(params);
        let made = filter.expect("a small set");
        let filter = made.with_hasher(RawValues);
        let values: Vec<u64> = filter.values().collect();
        let targets = targets(&values, filter.range());
        let is_member = |target: &u64| values.binary_search(target).is_ok();
        let expected: Vec<bool> = targets.iter().map(is_member).collect();
        let portable = filter.clone().with_level(SimdLevel::SCALAR).to_resident();
        for level in levels(self.how >> 4 & 3, large) {
            let resident = match filter.clone().with_level(level).to_resident() {
                Ok(resident) => resident,
                Err(error) => {
                    assert_eq!(error.kind(), ResidentErrorKind::Unsuitable, "{self:?}");
                    assert!(values.len() > 1024 && portable.is_err(), "{self:?}");
                    continue;
                }
            };
            let bytes = portable.as_ref().map(|portable| portable.bytes());
            assert_eq!(bytes, Ok(resident.bytes()), "{level}: {self:?}");
            assert!(resident.matches_values(&targets) == expected, "{level}: {self:?}");
            for (target, &expected) in targets.iter().zip(&expected) {
                let found = resident.contains_value(*target);
                assert_eq!(found, expected, "{target}, {level}: {self:?}");
            }
            let read = ResidentFilter::from_bytes_with(RawValues, resident.bytes());
            assert!(read.is_ok(), "{level}: {self:?}");

            let mut damaged = resident.bytes().to_vec();
            damage(changes, self.cut, &mut damaged);
            let body = damaged.len().saturating_sub(8);
            if self.how & 0x40 != 0 && body > 0 {
                let checksum = Nut23.hash(&damaged[..body]).to_le_bytes();
                damaged[body..].copy_from_slice(&checksum);
            }
            if let Ok(read) = ResidentFilter::from_bytes_with(RawValues, damaged) {
                let read = read.with_level(level);
                let found = read.matches_values(&targets);
                let one_by_one = targets.iter().map(|&target| read.contains_value(target));
                assert!(one_by_one.eq(found.iter().copied()), "{level}: {self:?}");
                let any = read.match_any_values(&targets);
                assert_eq!(any, found.contains(&true), "{level}: {self:?}");
            }
        }
    }
}

/// Changes bytes, and cuts some off the end.
fn damage(changes: &[u8], cut: u8, bytes: &mut Vec<u8>) {
    for change in changes.chunks_exact(CHANGE) {
        let place = usize::from(u16::from_be_bytes([change[0], change[1]]));
        let at = place * bytes.len() / (1 << 16);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= change[2];
        }
    }
    bytes.truncate(bytes.len().saturating_sub(usize::from(cut)));
}

/// All values and their successors, and the ends of the range.
fn targets(values: &[u64], range: u64) -> Vec<u64> {
    let around = values.iter().flat_map(|value| [*value, value + 1]);
    around.chain([0, range, u64::MAX]).collect()
}
