//! Other structures for the same task: Elias-Fano and VFilter (sux), binary fuse (xorf) and Bloom (fastbloom) filters, and
//! the standard library's set of hashes. No protocol serves them to wallets; they show the cost of a look-up, a build and a
//! bit in other designs.
//!
//! All of them hash items with fastmurmur3. Elias-Fano stores the mapped values and so has the filter's false-positive
//! rate; the others have rates of their own, which the record contains.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{Ordering, fence};

use dsi_progress_logger::no_logging;
use fastbloom::BloomFilter;
use mem_dbg::{MemSize, SizeFlags};
use nutfilter::Params;
use nutfilter_benchmarks::rows::{
    BLOCKS, WINDOW, block_scripts, next_window, scan as scan_of, targets,
};
use nutfilter_benchmarks::{Contender, Fixture, Group};
use nutfilter_reference as reference;
use sux::bits::BitFieldVec;
use sux::dict::VFilter;
use sux::dict::elias_fano::{EfDict, EliasFanoBuilder};
use sux::func::VBuilder;
use sux::traits::indexed_dict::IndexedDict;
use sux::traits::{TryIntoUnaligned, Unaligned};
use xorf::{BinaryFuse16, BinaryFuse32};

use super::sorts_and_hashes::fastmurmur3;

/// One structure.
trait Structure: Send + Sized {
    const NAME: &'static str;

    /// From the unsorted hashes of distinct items.
    fn make(hashes: Vec<u64>) -> Self;

    fn contains(&self, item: &[u8; 33]) -> bool;

    fn bits(&self) -> usize;

    fn rate(&self) -> f64;
}

/// Elias-Fano over the mapped values, with its select structure.
struct EliasFano {
    dict: EfDict<u64>,
    range: u64,
}

impl EliasFano {
    fn of(values: &[u64], range: u64) -> Self {
        let mut builder = EliasFanoBuilder::new(values.len(), range);
        for &value in values {
            builder.push(value);
        }
        let dict = builder.build_with_dict();
        Self { dict, range }
    }
}

impl Structure for EliasFano {
    const NAME: &'static str = "sux-elias-fano";

    fn make(mut hashes: Vec<u64>) -> Self {
        let range = hashes.len() as u64 * Params::default().m();
        for hash in &mut hashes {
            *hash = reference::map(*hash, range);
        }
        hashes.sort_unstable();
        Self::of(&hashes, range)
    }

    fn contains(&self, item: &[u8; 33]) -> bool {
        let value = reference::map(fastmurmur3(item), self.range);
        self.dict.contains(value)
    }

    fn bits(&self) -> usize {
        self.dict.mem_size(SizeFlags::default()) * 8
    }

    fn rate(&self) -> f64 {
        Params::default().false_positive_rate()
    }
}

macro_rules! fuse {
    ($fuse:ty, $name:literal, $width:literal) => {
        impl Structure for $fuse {
            const NAME: &'static str = $name;

            fn make(hashes: Vec<u64>) -> Self {
                Self::try_from(hashes).expect("no two items collide")
            }

            fn contains(&self, item: &[u8; 33]) -> bool {
                xorf::Filter::contains(self, &fastmurmur3(item))
            }

            fn bits(&self) -> usize {
                self.fingerprints.len() * $width
            }

            fn rate(&self) -> f64 {
                0.5_f64.powi($width)
            }
        }
    };
}

fuse!(BinaryFuse16, "xorf-binary-fuse-16", 16);
fuse!(BinaryFuse32, "xorf-binary-fuse-32", 32);

/// The static filter nearest to ours in size: binary fuse with fingerprints of any width. Reading them unaligned is faster.
type VFilter20 = VFilter<u64, Unaligned<BitFieldVec<Box<[u64]>>>>;

/// The smallest width whose rate is not above ours.
const VFILTER_BITS: usize = 20;

impl Structure for VFilter20 {
    const NAME: &'static str = "sux-vfilter-20";

    fn make(hashes: Vec<u64>) -> Self {
        type Aligned = VFilter<u64, BitFieldVec<Box<[u64]>>>;
        let one = VBuilder::default().max_num_threads(1);
        let set = Aligned::try_par_new_with_builder(&hashes, VFILTER_BITS, one, no_logging![]);
        let set = set.expect("no two items collide").try_into_unaligned();
        set.expect("fields of 20 bits can be read unaligned")
    }

    fn contains(&self, item: &[u8; 33]) -> bool {
        VFilter::contains(self, fastmurmur3(item))
    }

    fn bits(&self) -> usize {
        self.mem_size(SizeFlags::default()) * 8
    }

    fn rate(&self) -> f64 {
        0.5_f64.powi(VFILTER_BITS as i32)
    }
}

/// A Bloom filter with our false-positive rate.
struct Bloom {
    filter: BloomFilter,
    n: usize,
}

impl Structure for Bloom {
    const NAME: &'static str = "fastbloom-same-rate";

    fn make(hashes: Vec<u64>) -> Self {
        let n = hashes.len();
        let filter = BloomFilter::with_false_pos(Params::default().false_positive_rate());
        let mut filter = filter.seed(&1).expected_items(n);
        for hash in hashes {
            filter.insert_hash(hash);
        }
        Self { filter, n }
    }

    fn contains(&self, item: &[u8; 33]) -> bool {
        self.filter.contains_hash(fastmurmur3(item))
    }

    fn bits(&self) -> usize {
        self.filter.num_bits()
    }

    fn rate(&self) -> f64 {
        self.filter.expected_false_pos(self.n)
    }
}

/// A hash is its own hash.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type HashSet64 = HashSet<u64, BuildHasherDefault<IdentityHasher>>;

impl Structure for HashSet64 {
    const NAME: &'static str = "std-hash-set";

    fn make(hashes: Vec<u64>) -> Self {
        hashes.into_iter().collect()
    }

    fn contains(&self, item: &[u8; 33]) -> bool {
        HashSet::contains(self, &fastmurmur3(item))
    }

    /// Seven of eight buckets can be used, and each has another byte.
    fn bits(&self) -> usize {
        self.capacity().next_power_of_two() * 72
    }

    fn rate(&self) -> f64 {
        self.len() as f64 * 0.5_f64.powi(64)
    }
}

/// Calls a function for each structure.
macro_rules! each_structure {
    ($work:ident, $group:expr, $fixture:expr) => {
        $work::<EliasFano>($group, $fixture);
        $work::<BinaryFuse16>($group, $fixture);
        $work::<BinaryFuse32>($group, $fixture);
        $work::<VFilter20>($group, $fixture);
        $work::<HashSet64>($group, $fixture);
        $work::<Bloom>($group, $fixture);
    };
}

fn hashes(fixture: &Fixture) -> Vec<u64> {
    fixture.items.iter().map(fastmurmur3).collect()
}

/// Whether all members are found, and non-members at most as often as the rate allows.
fn is_right<S: Structure>(set: &S, fixture: &Fixture) -> bool {
    let members = &fixture.items[..fixture.items.len().min(WINDOW)];
    let non_members = fixture.non_members.iter();
    let found = non_members.filter(|item| set.contains(item)).count() as f64;
    let expected = set.rate() * fixture.non_members.len() as f64;
    members.iter().all(|item| set.contains(item)) && found < expected + 6.0 * expected.sqrt() + 3.0
}

fn bits_per_item<S: Structure>(set: &S, fixture: &Fixture) -> f64 {
    set.bits() as f64 / fixture.n() as f64
}

/// From items in memory.
pub(super) fn build<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    each_structure!(build_one, group, fixture);
}

fn build_one<'a, S: Structure + 'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let mut measured = None;
    let right = |set: &S| {
        measured = Some((bits_per_item(set, fixture), set.rate()));
        is_right(set, fixture)
    };
    let row = group.add(Contender::other_format(S::NAME), || S::make(hashes(fixture)), right);
    if let (Some(row), Some((bits, rate))) = (row, measured) {
        row.structure(bits, rate);
    }
}

/// Looks up the targets one by one.
pub(super) fn ask<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    each_structure!(ask_one, group, fixture);
}

fn ask_one<'a, S: Structure + 'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let asked = targets(fixture, &group.task);
    let set = S::make(hashes(fixture));
    let (bits, rate) = (bits_per_item(&set, fixture), set.rate());
    assert!(is_right(&set, fixture), "{}", S::NAME);
    let ask = move || {
        let found = asked.items.iter().map(|item| set.contains(item));
        found.collect::<Vec<bool>>()
    };
    // This structure may have other false positives than the filter, a few in either.
    let right = |found: &Vec<bool>| {
        let members = asked.expected.iter().zip(found);
        members.filter(|(expected, found)| found != expected).count() <= 5
    };
    if let Some(row) = group.add(Contender::other_format(S::NAME), ask, right) {
        row.structure(bits, rate);
    }
}

/// A binary fuse filter per block, as proposed for Bitcoin. Its hash needs no key of the block, so that a wallet's scripts
/// are hashed once, before the clock starts.
pub(super) fn scan<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    scan_one::<BinaryFuse16>(group, fixture, |set, hash| xorf::Filter::contains(set, &hash));
    scan_one::<BinaryFuse32>(group, fixture, |set, hash| xorf::Filter::contains(set, &hash));
}

fn scan_one<'a, S: Structure + 'a>(
    group: &mut Group<'a>,
    fixture: &'a Fixture,
    contains: fn(&S, u64) -> bool,
) {
    let scan = scan_of(fixture, &group.task);
    let hash = |script: &Vec<u8>| fastmurmur3::murmur3_x64_128(script, 0) as u64;
    let blocks = (1..=BLOCKS).map(|number| block_scripts(fixture, number));
    let sets: Vec<S> = blocks.map(|items| S::make(items.iter().map(hash).collect())).collect();
    let (bits, rate) = (bits_per_item(&sets[0], fixture), sets[0].rate());
    let scripts: Vec<u64> = scan.scripts.iter().map(hash).collect();
    let ask = move || -> Vec<bool> {
        let any = |set| scripts.iter().any(|&script| contains(set, script));
        sets.iter().map(any).collect()
    };
    // Blocks without a match may have false positives of their own.
    let right = |found: &Vec<bool>| found.len() == BLOCKS;
    if let Some(row) = group.add(Contender::other_format(S::NAME), ask, right) {
        row.structure(bits, rate);
    }
}

/// Look-ups as in our rows. There are no batches, so `batched` is the same as `throughput`.
pub(super) fn look_up<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    each_structure!(look_up_one, group, fixture);
}

fn look_up_one<'a, S: Structure + 'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let set = S::make(hashes(fixture));
    let (bits, rate) = (bits_per_item(&set, fixture), set.rate());
    assert!(is_right(&set, fixture), "{}", S::NAME);
    let is_latency = group.task.starts_with("latency");
    let look_up = move |at: &mut usize| {
        let window = next_window(fixture, at).iter();
        if is_latency {
            let found = window.filter(|item| {
                let found = set.contains(item);
                fence(Ordering::SeqCst);
                found
            });
            found.count()
        } else {
            window.filter(|item| set.contains(item)).count()
        }
    };
    let right = |_: &usize, &found: &usize| found <= 5;
    let who = Contender::other_format(S::NAME);
    if let Some(row) = group.add_with(who, 0, |_| (), look_up, right) {
        row.structure(bits, rate);
    }
}

/// All values in order, out of Elias-Fano.
pub(super) fn iterate<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let set = EliasFano::of(&fixture.values, fixture.n() * Params::default().m());
    let (bits, rate) = (bits_per_item(&set, fixture), set.rate());
    let who = Contender::other_format(EliasFano::NAME);
    let row = if group.task != "to-vec" {
        let sum = move || set.dict.iter().fold(0, u64::wrapping_add);
        group.add(who, sum, |&sum| sum == fixture.sum())
    } else {
        let collect = move |values: &mut Vec<u64>| {
            values.clear();
            values.extend(set.dict.iter());
        };
        let right = |values: &Vec<u64>, (): &()| *values == fixture.values;
        group.add_with(who, Vec::new(), |_| (), collect, right)
    };
    if let Some(row) = row {
        row.structure(bits, rate);
    }
}
