//! The fastest crates combined: what an expert who needs speed would write today. This is the main comparison.
//!
//! Codes: dsi-bitstream. It ends a run of zeros with a one, so it reads and writes our bits inverted. The bits are
//! inverted and laid out as words before the clock starts, and its output is inverted after the clock stops; ours read
//! and write the bytes themselves. Hashes: mur3 for NUT-25, fastmurmur3 for NUT-23, siphasher for BIP158. Sort: turbosort or voracious.
//! Input is not checked, except where the group is about checks.

use std::mem;

use dsi_bitstream::prelude::{
    BE, BufBitReader, BufBitWriter, MemWordReader, MemWordWriterVec, RiceRead, RiceWrite,
};
use nutfilter::Params;
use nutfilter_benchmarks::record::BEST_OF_CRATES;
use nutfilter_benchmarks::rows::{NEW, Stream, new_hashes, stream, targets};
use nutfilter_benchmarks::{Contender, Fixture, Group};
use nutfilter_reference as reference;

use super::sorts_and_hashes::{fastest_sort, fastmurmur3, mur3_crate, profile_of, siphasher};

const WHO: Contender = Contender::peer(BEST_OF_CRATES);

type Reader<'w> = BufBitReader<BE, MemWordReader<u32, &'w [u32], true>>;

/// Inverted words in the order in which dsi-bitstream reads them.
fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        !u32::from_ne_bytes(word)
    };
    bytes.chunks(4).map(word).collect()
}

fn reader(words: &[u32]) -> Reader<'_> {
    BufBitReader::new(MemWordReader::new_inf(words))
}

/// A mask of the remainder's bits.
fn remainder(p: usize) -> u64 {
    (1 << p) - 1
}

/// The next difference. The reader continues with zeros after the end, so it cannot fail.
#[inline(always)]
fn next(reader: &mut Reader<'_>, p: usize) -> u64 {
    let Ok(inverted) = reader.read_rice(p);
    inverted ^ remainder(p)
}

/// The codes of the differences of `values`, as inverted words.
pub(super) fn write(values: impl ExactSizeIterator<Item = u64>, p: usize) -> Vec<u64> {
    let room = values.len() * (p + 3) / 64 + 1;
    let backend = MemWordWriterVec::new(Vec::with_capacity(room));
    let mut writer = BufBitWriter::<BE, _>::new(backend);
    let mut last = 0;
    for value in values {
        let written = writer.write_rice((value - last) ^ remainder(p), p);
        written.expect("a vector grows");
        last = value;
    }
    let backend = writer.into_inner().expect("a vector grows");
    backend.into_inner()
}

/// Whether the words are these bytes, inverted. Padding is zeros in both.
fn hold(words: &[u64], bytes: &[u8]) -> bool {
    let mut written: Vec<u8> = words.iter().flat_map(|word| (!word).to_ne_bytes()).collect();
    let rest = written.split_off(bytes.len().min(written.len()));
    let (Some(end), Some(expected)) = (written.pop(), bytes.last()) else {
        return bytes.is_empty() && rest.is_empty();
    };
    // Padding is zeros in `bytes`, so ones here.
    let padding = end ^ expected;
    written == bytes[..bytes.len() - 1]
        && padding & (padding.wrapping_add(1)) == 0
        && rest.iter().all(|&byte| byte == 0xff)
}

/// Validation: reads all values and checks that the last one is in range.
pub(super) fn decode<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let n = fixture.n();
    let stream = stream(fixture, &group.task);
    let Stream { params, bytes, .. } = &stream;
    let (p, range, words) = (params.p() as usize, n * params.m(), words(bytes));
    let decode = move || {
        let mut reader = reader(&words);
        let last = (0..n).fold(0, |value: u64, _| value.wrapping_add(next(&mut reader, p)));
        (last < range).then_some(last)
    };
    group.add(WHO, decode, |last| *last == stream.values.last().copied());
}

/// The sum of the values, or a vector of them.
pub(super) fn values<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let (n, p) = (fixture.n(), Params::default().p() as usize);
    let words = words(&fixture.bytes);
    if group.task != "to-vec" {
        let sum = move || {
            let mut reader = reader(&words);
            let (mut value, mut sum) = (0_u64, 0_u64);
            for _ in 0..n {
                value = value.wrapping_add(next(&mut reader, p));
                sum = sum.wrapping_add(value);
            }
            sum
        };
        group.add(WHO, sum, |&sum| sum == fixture.sum());
        return;
    }
    let collect = move |values: &mut Vec<u64>| {
        values.clear();
        let mut reader = reader(&words);
        values.extend((0..n).scan(0_u64, |value, _| {
            *value = value.wrapping_add(next(&mut reader, p));
            Some(*value)
        }));
    };
    let right = |values: &Vec<u64>, (): &()| *values == fixture.values;
    group.add_with(WHO, Vec::new(), |_| (), collect, right);
}

/// Maps, takes differences and encodes.
pub(super) fn encode<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let (range, p) = default_range(fixture.n());
    let map = move |&hash| reference::map(hash, range);
    let encode = move || write(fixture.hashes.iter().map(map), p);
    group.add(WHO, encode, |words| hold(words, &fixture.bytes));
}

pub(super) fn default_range(n: u64) -> (u64, usize) {
    (n * Params::default().m(), Params::default().p() as usize)
}

/// Hashes and maps in one pass, sorts and encodes.
pub(super) fn build<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let profile = profile_of(&group.task);
    // Monomorphic calls, not through a pointer.
    match group.task.as_str() {
        "nut25" => build_with(group, fixture, mur3_crate, profile),
        "nut23" => build_with(group, fixture, fastmurmur3, profile),
        _ => build_with(group, fixture, siphasher, profile),
    }
}

fn build_with<'a>(
    group: &mut Group<'a>,
    fixture: &'a Fixture,
    hash: impl Fn(&[u8; 33]) -> u64 + Send + 'a,
    profile: reference::Profile,
) {
    let (range, p) = default_range(fixture.n());
    let build = move || {
        let map = |item: &[u8; 33]| reference::map(hash(item), range);
        let mut values: Vec<u64> = fixture.items.iter().map(map).collect();
        fastest_sort(&mut values);
        write(values.iter().copied(), p)
    };
    let params = Params::default();
    let expected = reference::build(profile, &fixture.items, params.p(), params.m());
    group.add(WHO, build, |words| hold(words, &expected));
}

/// Appends the new hashes, sorts with the stable sort (which detects sorted runs), and encodes.
pub(super) fn increment<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let new = new_hashes();
    let (range, p) = default_range(fixture.n() + new.len() as u64);
    let mut all = [fixture.hashes.as_slice(), &new].concat();
    all.sort_unstable();
    let values: Vec<u64> = all.iter().map(|&hash| reference::map(hash, range)).collect();
    let expected = reference::encode_values(&values, p as u32);
    group.add_with(
        WHO,
        (new, Vec::new()),
        |(_, set)| {
            set.clear();
            set.reserve(fixture.hashes.len() + NEW as usize);
            set.extend_from_slice(&fixture.hashes);
        },
        move |(new, set)| {
            let (mut new, mut set) = (new.clone(), mem::take(set));
            fastest_sort(&mut new);
            set.extend_from_slice(&new);
            set.sort();
            let words = write(set.iter().map(|&hash| reference::map(hash, range)), p);
            (set, words)
        },
        |_, (set, words)| *set == all && hold(words, &expected),
    );
}

/// Hashes and sorts the targets, and merges them with the values while decoding, up to the largest target.
pub(super) fn ask<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let asked = targets(fixture, &group.task);
    let (n, words) = (fixture.n(), words(&fixture.bytes));
    let (range, p) = default_range(n);
    // A target and its place in one word, which the radix sort takes.
    let place_bits = asked.items.len().ilog2() + 1;
    assert!(range <= u64::MAX >> place_bits);
    let ask = move || {
        let map = |(place, item)| {
            let target = reference::map(mur3_crate(item), range);
            target << place_bits | place
        };
        let mut targets: Vec<u64> = (0..).zip(asked.items).map(map).collect();
        fastest_sort(&mut targets);
        let mut found = vec![false; targets.len()];
        let mut reader = reader(&words);
        let (mut value, mut left) = (next(&mut reader, p), n - 1);
        for word in targets {
            let target = word >> place_bits;
            while value < target && left > 0 {
                value += next(&mut reader, p);
                left -= 1;
            }
            found[(word - (target << place_bits)) as usize] = value == target;
        }
        found
    };
    group.add(WHO, ask, |found| *found == asked.expected);
}
