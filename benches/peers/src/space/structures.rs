//! The structures, built from hashes of distinct items and looked up by hash.

use fastbloom::BloomFilter;
use mem_dbg::{MemSize, SizeFlags};
use nutfilter::{Filter, Nut23, Params, SortedHashes, map_to_range};
use sux::dict::elias_fano::EliasFanoBuilder;
use sux::traits::indexed_dict::IndexedDict;
use xorf::{BinaryFuse8, BinaryFuse16, BinaryFuse32};

use super::odds::Odds;
use crate::peers::{Structure as _, VFILTER_BITS, VFilter20};

/// Counts the hashes that a structure reports as present.
pub(crate) type Found = dyn Fn(&[u64]) -> u64;

/// One structure.
pub(crate) struct Structure {
    pub(crate) kind: &'static str,
    pub(crate) parameters: String,
    pub(crate) bits: u64,
    pub(crate) odds: Odds,
    pub(crate) found: Box<Found>,
}

fn how_many<'h>(hashes: &'h [u64], contains: impl Fn(u64) -> bool + 'h) -> u64 {
    hashes.iter().filter(|&&hash| contains(hash)).count() as u64
}

fn named(params: Params) -> String {
    format!("P = {}, M = {}", params.p(), params.m())
}

/// A filter marks one cell of its range per item.
fn odds_of_values(n: u64, params: Params) -> Odds {
    Odds::of_cells(n, 1, n * params.m())
}

fn mapped(hashes: &[u64], range: u64) -> Vec<u64> {
    let values = hashes.iter().map(|&hash| map_to_range(hash, range));
    values.collect()
}

/// Ours.
pub(crate) fn gcs(hashes: &[u64], params: Params) -> Structure {
    let set = SortedHashes::builder(Nut23).sort(hashes.to_vec());
    let filter = set.encode(params).expect("a filter of so many");
    let (bits, n) = (filter.bytes().len() as u64 * 8, u64::from(filter.n()));
    // As received.
    let filter = Filter::parse_with(Nut23, filter.into_bytes(), n, params).expect("a valid filter");
    Structure {
        kind: "gcs",
        parameters: named(params),
        bits,
        odds: odds_of_values(n, params),
        found: Box::new(move |hashes| {
            let answers = filter.matches_values(&mapped(hashes, filter.range()));
            answers.iter().filter(|&&maybe| maybe).count() as u64
        }),
    }
}

/// Elias-Fano over the same values, with its select structure.
pub(crate) fn elias_fano(hashes: &[u64], params: Params) -> Structure {
    let n = hashes.len() as u64;
    let range = n * params.m();
    let mut values = mapped(hashes, range);
    values.sort_unstable();
    let mut builder = EliasFanoBuilder::new(values.len(), range);
    for value in values {
        builder.push(value);
    }
    let dict = builder.build_with_dict();
    Structure {
        kind: "elias-fano",
        parameters: format!("M = {}", params.m()),
        bits: dict.mem_size(SizeFlags::default()) as u64 * 8,
        odds: odds_of_values(n, params),
        found: Box::new(move |hashes| {
            how_many(&mapped(hashes, range), |value| dict.contains(value))
        }),
    }
}

/// fastbloom's, with this many bits (rounded up to words) and `k` probes.
pub(crate) fn bloom(hashes: &[u64], bits: f64, k: u32) -> Structure {
    let filter = BloomFilter::with_num_bits(bits.ceil() as usize);
    let mut filter = filter.seed(&1).hashes(k);
    for &hash in hashes {
        filter.insert_hash(hash);
    }
    let bits = filter.num_bits() as u64;
    Structure {
        kind: "bloom",
        parameters: format!("k = {k}"),
        bits,
        odds: Odds::of_cells(hashes.len() as u64, k, bits),
        found: Box::new(move |hashes| how_many(hashes, |hash| filter.contains_hash(hash))),
    }
}

/// sux's static filter with fingerprints of the width that is timed.
pub(crate) fn vfilter(hashes: &[u64]) -> Structure {
    let set = VFilter20::make(hashes.to_vec());
    Structure {
        kind: "vfilter",
        parameters: format!("fingerprints of {} bits", VFILTER_BITS),
        bits: set.bits() as u64,
        odds: Odds::fixed(set.rate()),
        found: Box::new(move |hashes| how_many(hashes, |hash| VFilter20::contains(&set, hash))),
    }
}

/// xorf's, with fingerprints of 8, 16 and 32 bits.
pub(crate) fn binary_fuses(hashes: &[u64]) -> [Structure; 3] {
    macro_rules! fuse {
        ($kind:literal, $structure:ty, $width:literal) => {{
            let set = <$structure>::try_from(hashes).expect("no two items collide");
            Structure {
                kind: $kind,
                parameters: concat!("fingerprints of ", $width, " bits").to_owned(),
                bits: set.fingerprints.len() as u64 * $width,
                odds: Odds::fixed(0.5_f64.powi($width)),
                found: Box::new(move |hashes| {
                    how_many(hashes, |hash| xorf::Filter::contains(&set, &hash))
                }),
            }
        }};
    }
    [
        fuse!("binary-fuse-8", BinaryFuse8, 8),
        fuse!("binary-fuse-16", BinaryFuse16, 16),
        fuse!("binary-fuse-32", BinaryFuse32, 32),
    ]
}
