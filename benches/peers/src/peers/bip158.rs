//! rust-bitcoin's `bip158`, which reads and writes bit by bit through `Read` and `Write`, and its fork golomb-coded-set.
//! (The crate bitcoin-bip158 0.0.0 is empty.)

use bitcoin::bip158::{BitStreamReader, BlockFilter, GcsFilterReader, GcsFilterWriter};
use golomb_coded_set::{GCSFilterReader, SipHasher24Builder};
use nutfilter::Params;
use nutfilter_benchmarks::rows::{
    BIP158_KEY, BLOCKS, Block, chain, heights, scan as scan_of, targets,
};
use nutfilter_benchmarks::{Fixture, Group, Who};
use nutfilter_reference as reference;

use super::is_small;

const RUST_BITCOIN: Who = Who::peer("rust-bitcoin");
const GOLOMB_CODED_SET: Who = Who::peer("golomb-coded-set");
const P: u8 = 19;

fn key() -> (u64, u64, reference::Profile) {
    let (k0, k1) = BIP158_KEY;
    (k0, k1, reference::Profile::Bip158 { k0, k1 })
}

/// Reads a code as the library does. Its function is private, its bit reader is not.
#[inline(always)]
fn rice<E>(mut bits: impl FnMut(u8) -> Result<u64, E>) -> Result<u64, E> {
    let mut quotient = 0;
    while bits(1)? == 1 {
        quotient += 1;
    }
    Ok((quotient << P) + bits(P)?)
}

/// The values, one after another.
pub(super) fn decode<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    if group.task != "fold" || !is_small(fixture) {
        return;
    }
    let expected = fixture.sum();
    let sum = || {
        let mut bytes = fixture.bytes.as_slice();
        let mut reader = BitStreamReader::new(&mut bytes);
        sum(fixture.n(), || {
            rice(|count| reader.read(count)).expect("in memory")
        })
    };
    group.add(RUST_BITCOIN, sum, |&sum| sum == expected);
}

fn sum(n: u64, mut next: impl FnMut() -> u64) -> u64 {
    let (mut value, mut sum) = (0_u64, 0_u64);
    for _ in 0..n {
        value += next();
        sum = sum.wrapping_add(value);
    }
    sum
}

/// It first copies the items into a set, which takes most of the time.
pub(super) fn build<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    if !is_small(fixture) {
        return;
    }
    let (k0, k1, profile) = key();
    let expected = reference::build(profile, &fixture.items, u32::from(P), Params::default().m());
    let build = move || {
        let mut bytes = Vec::new();
        let mut writer = GcsFilterWriter::new(&mut bytes, k0, k1, Params::default().m(), P);
        fixture
            .items
            .iter()
            .for_each(|item| writer.add_element(item));
        writer.finish().expect("a vector grows");
        bytes
    };
    // With the count in front.
    let counted = reference::serialize_bip158(fixture.n(), &expected);
    group.add(RUST_BITCOIN, build, |bytes| *bytes == counted);
}

/// Whether any target matches. The library does not tell which.
pub(super) fn match_any<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    if !is_small(fixture) {
        return;
    }
    let (k0, k1, profile) = key();
    let items = targets(fixture, &group.task).items;
    let (n, m) = (fixture.n(), Params::default().m());
    let bytes = reference::build(profile, &fixture.items, u32::from(P), m);
    let any = |items: &[[u8; 33]]| {
        reference::match_any(&bytes, n, u32::from(P), m, profile, items).expect("a valid filter")
    };
    let expected = any(items);
    let member = &fixture.items[fixture.items.len() / 2..][..1];
    assert!(any(member));

    let counted = reference::serialize_bip158(n, &bytes);
    let ask = move |items: &[[u8; 33]]| {
        let reader = GcsFilterReader::new(k0, k1, m, P);
        let items = items.iter().map(<[u8; 33]>::as_slice);
        reader
            .match_any(&mut counted.as_slice(), items)
            .expect("a valid filter")
    };
    let finds = ask(member);
    group.add(
        RUST_BITCOIN,
        move || ask(items),
        |&found| found == expected && finds,
    );
}

/// Whether any of a wallet's scripts matches, for each of a few blocks.
pub(super) fn scan<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let scan = std::sync::Arc::new(scan_of(fixture, &group.task));
    let m = Params::default().m();
    let rust_bitcoin = move |block: &Block, scripts: &[Vec<u8>]| {
        let reader = GcsFilterReader::new(block.key.0, block.key.1, m, P);
        let scripts = scripts.iter().map(Vec::as_slice);
        reader.match_any(&mut block.serialized.as_slice(), scripts)
    };
    if group.task.ends_with("-verified") {
        let (asked, chain) = (scan.clone(), chain(&scan));
        let ask = move || {
            let verify = |&(height, _, filter): &(u32, _, &[u8])| {
                let before = height.checked_sub(1).map_or([0; 32].into(), |height| {
                    chain.header(height).expect("a header")
                });
                let header = BlockFilter::new(filter).filter_header(&before.into());
                assert_eq!(Some(header.into()), chain.header(height));
                rust_bitcoin(&asked.blocks[height as usize % BLOCKS], &asked.scripts)
                    .expect("a valid filter")
            };
            heights(&asked).iter().map(verify).collect::<Vec<bool>>()
        };
        let right = |any: &Vec<bool>| any.chunks(BLOCKS).all(|any| any == scan.expected);
        group.add(RUST_BITCOIN, ask, right);
        return;
    }
    let asked = scan.clone();
    let ask = move || -> Vec<bool> {
        let any = asked
            .blocks
            .iter()
            .map(|block| rust_bitcoin(block, &asked.scripts));
        any.collect::<Result<_, _>>().expect("valid filters")
    };
    group.add(RUST_BITCOIN, ask, |found| *found == scan.expected);

    // It wants the count in eight bytes.
    let counted = |block: &Block| [&block.n.to_le_bytes()[..], &block.coded].concat();
    let counted: Vec<Vec<u8>> = scan.blocks.iter().map(counted).collect();
    let asked = scan.clone();
    let ask = move || -> Vec<bool> {
        let any = asked.blocks.iter().zip(&counted).map(|(block, bytes)| {
            let key = SipHasher24Builder::new(block.key.0, block.key.1);
            let reader = GCSFilterReader::new(key, m, P);
            let mut scripts = asked.scripts.iter().map(Vec::as_slice);
            reader.match_any(&mut bytes.as_slice(), &mut scripts)
        });
        any.collect::<Result<_, _>>().expect("valid filters")
    };
    group.add(GOLOMB_CODED_SET, ask, |found| *found == scan.expected);
}
