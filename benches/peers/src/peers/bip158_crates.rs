//! rust-bitcoin's `bip158`, which reads bit by bit through `Read`. Its fork golomb-coded-set takes as
//! long.

use bitcoin::bip158::{BlockFilter, GcsFilterReader};
use nutfilter::Params;
use nutfilter_benchmarks::rows::{
    BIP158_KEY, BLOCKS, Block, chain, heights, scan as scan_of, targets,
};
use nutfilter_benchmarks::{Contender, Fixture, Group};
use nutfilter_reference as reference;

use super::is_small;

const RUST_BITCOIN: Contender = Contender::peer("rust-bitcoin");
const P: u8 = 19;

/// Whether any target matches. The library does not tell which.
pub(super) fn match_any<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    if !is_small(fixture) {
        return;
    }
    let (k0, k1) = BIP158_KEY;
    let profile = reference::Profile::Bip158 { k0, k1 };
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
        reader.match_any(&mut counted.as_slice(), items).expect("a valid filter")
    };
    let finds = ask(member);
    group.add(RUST_BITCOIN, move || ask(items), |&found| found == expected && finds);
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
                let before = height
                    .checked_sub(1)
                    .map_or([0; 32].into(), |height| chain.header(height).expect("a header"));
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
        let blocks = asked.blocks.iter();
        let any = blocks.map(|block| rust_bitcoin(block, &asked.scripts));
        any.collect::<Result<_, _>>().expect("valid filters")
    };
    group.add(RUST_BITCOIN, ask, |found| *found == scan.expected);
}
