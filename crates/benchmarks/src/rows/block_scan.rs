//! Matching a wallet's scripts against the filters of Bitcoin blocks.

use nutfilter::bip158::{HeaderChain, Scratch, Watchlist, filter_hash};
use nutfilter::internals::SimdLevel;
use nutfilter::{Params, SipHash};
use nutfilter_reference::{self as reference, Profile, generate_items};

use crate::fixture::{Fixture, SEED, Size};
use crate::{Contender, Group};

/// Blocks per call. Each has a filter of its own, because a processor learns the branches of a single one.
pub const BLOCKS: usize = 20;

/// Blocks have at most about this many items.
pub(super) const LARGEST_BLOCK: u64 = 20_000;

/// A block's filter.
pub struct Block {
    /// The key of the hash.
    pub key: (u64, u64),
    /// The items.
    pub n: u64,
    /// The coded set.
    pub coded: Vec<u8>,
    /// The coded set with its count.
    pub serialized: Vec<u8>,
}

/// Blocks, the scripts of a task of the stage `scan`, and the blocks that match.
pub struct Scan {
    /// [`BLOCKS`] blocks.
    pub blocks: Vec<Block>,
    /// What is looked for.
    pub scripts: Vec<Vec<u8>>,
    /// Whether each block matches.
    pub expected: Vec<bool>,
}

/// Scripts of 22 bytes (P2WPKH); or with `mixed` also of 23, 25 and 34 bytes (P2SH, P2PKH, P2TR).
fn scripts(count: u64, seed: u64, mixed: bool) -> Vec<Vec<u8>> {
    let lengths = if mixed { &[22, 25, 23, 34][..] } else { &[22] };
    let script = |item: [u8; 33]| {
        let length = lengths[usize::from(item[32]) % lengths.len()];
        item.into_iter().rev().cycle().take(length).collect()
    };
    generate_items(count, seed).into_iter().map(script).collect()
}

/// The scripts of a block, which is numbered from 1.
pub fn block_scripts(fixture: &Fixture, number: usize) -> Vec<Vec<u8>> {
    scripts(fixture.n(), SEED + number as u64, true)
}

/// The data of a task such as `20k-mixed`, with blocks of the fixture's size.
pub fn scan(fixture: &Fixture, task: &str) -> Scan {
    let (count, kind) = task.split_once('-').expect("a number and a kind");
    let count: Size = count.parse().expect("a number");
    let scripts_wanted = scripts(count.n, SEED, kind == "mixed");
    let (p, m) = (Params::default().p(), Params::default().m());
    let mut blocks = Vec::new();
    let mut expected = Vec::new();
    for number in 1..=BLOCKS {
        let key = (number as u64, SEED);
        let profile = Profile::Bip158 { k0: key.0, k1: key.1 };
        let items = block_scripts(fixture, number);
        let coded = reference::build(profile, &items, p, m);
        let n = fixture.n();
        let any = reference::match_any(&coded, n, p, m, profile, &scripts_wanted);
        expected.push(any.expect("a valid filter"));
        blocks.push(Block { key, n, serialized: reference::serialize_bip158(n, &coded), coded });
    }
    Scan { blocks, scripts: scripts_wanted, expected }
}

/// A list that was made before, and its memory.
pub(super) fn watchlist<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let scan = std::sync::Arc::new(scan(fixture, &group.task));
    let list: std::sync::Arc<Watchlist> = std::sync::Arc::new(scan.scripts.iter().collect());
    for level in SimdLevel::available() {
        let (asked, list) = (scan.clone(), list.clone());
        let mut scratch = Scratch::new().with_level(level);
        let ask = move || -> Vec<bool> {
            let blocks = asked.blocks.iter();
            let any = blocks.map(|block| {
                let key = SipHash::new(block.key.0, block.key.1);
                list.match_any(&mut scratch, key, &block.serialized)
            });
            any.collect::<Result<_, _>>().expect("valid filters")
        };
        group.add(Contender::Ours(level), ask, |found| *found == scan.expected);
    }
}

/// How often a verified scan meets each block: it takes filters by the hundred.
pub(super) const ROUNDS: usize = 5;

/// The heights, keys and filters of a verified scan.
pub fn heights(scan: &Scan) -> Vec<(u32, SipHash, &[u8])> {
    let blocks = scan.blocks.iter().cycle().take(ROUNDS * BLOCKS);
    let key = |block: &Block| SipHash::new(block.key.0, block.key.1);
    let at = |(height, block)| (height, key(block), &block.serialized[..]);
    (0..).zip(blocks).map(at).collect()
}

/// The filter headers that commit to the filters of a verified scan, from height 0 on.
pub fn chain(scan: &Scan) -> HeaderChain {
    let mut chain = HeaderChain::new(0, [0; 32]);
    let hashes = heights(scan).into_iter().map(|(.., filter)| filter_hash(filter));
    chain.extend_from([0; 32], hashes).expect("connected");
    chain
}

/// What a light client does: verifies each filter against its filter header, then looks for its scripts.
pub(super) fn verified<'a>(group: &mut Group<'a>, fixture: &'a Fixture) {
    let scan = std::sync::Arc::new(scan(fixture, &group.task));
    for level in SimdLevel::available() {
        let (asked, chain) = (scan.clone(), chain(&scan));
        let list: Watchlist = scan.scripts.iter().collect();
        let mut scratch = Scratch::new().with_level(level);
        let ask = move || {
            let mut any = vec![false; ROUNDS * BLOCKS];
            for found in list.scan_verified(&mut scratch, &chain, &heights(&asked)) {
                any[found.expect("a valid filter").block.0 as usize] = true;
            }
            any
        };
        group.add(Contender::Ours(level), ask, |any| {
            any.chunks(BLOCKS).all(|any| any == scan.expected)
        });
    }
}
