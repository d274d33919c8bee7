//! A light client that receives filters over Bitcoin's network protocol with the crate bip157 (kyoto), and finds the payments
//! of a wallet with nutfilter. It follows the chain through reorganisations until it is stopped.
//!
//!     cargo run -- STATE PEER...       # a file, and regtest peers, as 127.0.0.1:18444
//!
//! It may be killed at any time: after each step it keeps its state, and goes on from there, whatever happened to the chain meanwhile.
//! bip157 checks each filter against the filter headers that its peers agree on, and drops a peer that sends another one.
//! The wallet is a toy: its addresses are numbers, and it looks for five more than the last one that was paid.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{env, fs};

use bip157::chain::{BlockHeaderChanges, ChainState};
use bip157::{Builder, Client, Event, HashCheckpoint, Network, Requester, TrustedPeer};
use bitcoin::hashes::{Hash, sha256};
use bitcoin::hex::{DisplayHex as _, FromHex as _};
use bitcoin::{Block, BlockHash, OutPoint, ScriptBuf, WPubkeyHash};
use nutfilter::SipHash;
use nutfilter::bip158::{ScanPlan, ScanStep, Scratch};

type Error = Box<dyn std::error::Error>;

const GAP: u32 = 5;

/// Filters that are tested together.
const BATCH: usize = 128;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = env::args().skip(1);
    let mut wallet = Wallet::read(arguments.next().ok_or("no file for the state")?.into())?;
    let peers = arguments.map(|peer| peer.parse());
    let peers: Vec<SocketAddr> = peers.collect::<Result<_, _>>()?;
    let (node, client) = Builder::new(Network::Regtest)
        .chain_state(ChainState::Checkpoint(HashCheckpoint::from_genesis(Network::Regtest)))
        .required_peers(1) // the others replace a peer that is dropped
        // It forgets a peer that it tried, even one that was only slow.
        .add_peers([&peers[..]; 5].concat().into_iter().map(TrustedPeer::from_socket_addr))
        .whitelist_only()
        .build();
    tokio::spawn(node.run());
    let Client { requester, info_rx: _info, mut warn_rx, mut event_rx } = client;
    loop {
        tokio::select! {
            event = event_rx.recv() => match event.ok_or("the node stopped")? {
                Event::IndexedFilter(filter) => {
                    wallet.filters.insert(filter.height(), (filter.block_hash(), filter.into_contents()));
                }
                Event::ChainUpdate(BlockHeaderChanges::Reorganized { reorganized, .. }) => {
                    if let Some(first) = reorganized.iter().map(|header| header.height).min() {
                        wallet.filters.split_off(&first);
                        wallet.forget(first);
                    }
                }
                Event::ChainUpdate(_) => (),
                Event::FiltersSynced(update) => {
                    wallet.scan(&requester).await?;
                    println!("balance {} at {}, {} filters decoded", wallet.balance(), update.tip().height, wallet.decoded);
                }
            },
            Some(warning) = warn_rx.recv() => eprintln!("{warning}"),
        }
    }
}

struct Wallet {
    /// Where all but the filters are kept.
    path: PathBuf,
    /// By height.
    filters: BTreeMap<u32, (BlockHash, Vec<u8>)>,
    /// The blocks whose filters were there when the state was kept.
    known: BTreeMap<u32, BlockHash>,
    /// The scripts and heights that remain to be tested, and the blocks that remain to be applied.
    plan: ScanPlan,
    scripts: Vec<ScriptBuf>,
    scratch: Scratch,
    /// What was received: the value, and the heights where it was received and spent.
    coins: BTreeMap<OutPoint, (u64, u32, Option<u32>)>,
    decoded: u64,
}

impl Wallet {
    fn read(path: PathBuf) -> Result<Self, Error> {
        let mut wallet = Self {
            filters: BTreeMap::new(),
            known: BTreeMap::new(),
            plan: ScanPlan::new(1),
            scripts: Vec::new(),
            scratch: Scratch::new(),
            coins: BTreeMap::new(),
            decoded: 0,
            path,
        };
        let mut revealed = GAP;
        if wallet.path.exists() {
            for line in fs::read_to_string(&wallet.path)?.lines() {
                match line.split(' ').collect::<Vec<_>>()[..] {
                    ["plan", hex] => wallet.plan = ScanPlan::from_bytes(&Vec::from_hex(hex)?)?,
                    ["revealed", count] => revealed = count.parse()?,
                    ["block", height, hash] => {
                        _ = wallet.known.insert(height.parse()?, hash.parse()?)
                    }
                    ["coin", coin, value, received, spent] => {
                        let known = (value.parse()?, received.parse()?, spent.parse().ok());
                        wallet.coins.insert(coin.parse()?, known);
                    }
                    _ => return Err(format!("unknown line in the state: {line}").into()),
                }
            }
        }
        wallet.reveal(revealed);
        Ok(wallet)
    }

    /// Keeps the state. A crash leaves the old file or the new one.
    fn keep(&mut self) -> Result<(), Error> {
        let hashes = self.filters.iter().map(|(&height, (hash, _))| (height, *hash));
        self.known = hashes.collect();
        let plan = self.plan.to_bytes().to_lower_hex_string();
        let mut text = format!("plan {plan}\nrevealed {}\n", self.scripts.len());
        for (height, hash) in &self.known {
            writeln!(text, "block {height} {hash}")?;
        }
        for (coin, (value, received, spent)) in &self.coins {
            let spent = spent.map_or("-".to_owned(), |height| height.to_string());
            writeln!(text, "coin {coin} {value} {received} {spent}")?;
        }
        let new = self.path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, &self.path)?;
        println!("kept");
        Ok(())
    }

    /// Makes sure that there are `count` scripts.
    fn reveal(&mut self, count: u32) {
        for number in self.scripts.len() as u32..count {
            let hash = sha256::Hash::hash(&number.to_be_bytes());
            let key = WPubkeyHash::from_slice(&hash[..20]).expect("20 bytes");
            let script = ScriptBuf::new_p2wpkh(&key);
            self.plan.insert(script.as_bytes());
            self.scripts.push(script);
        }
    }

    /// Forgets the blocks from `height` on.
    fn forget(&mut self, height: u32) {
        println!("reorganised from height {height}");
        self.known.split_off(&height);
        self.plan.rewind(height);
        self.coins.retain(|_, (_, received, _)| *received < height);
        for (_, _, spent) in self.coins.values_mut() {
            *spent = spent.filter(|&spent| spent < height);
        }
    }

    /// Tests what remains to be tested in the filters that are here, downloads the blocks that match, and applies them.
    async fn scan(&mut self, requester: &Requester) -> Result<(), Error> {
        let hash = |height: &u32| self.filters.get(height).map(|(hash, _)| *hash);
        let mut known = self.known.iter();
        if let Some((&height, _)) = known.find(|(height, known)| hash(height) != Some(**known)) {
            self.forget(height);
        }
        let end = self.filters.last_key_value().map_or(0, |(height, _)| height + 1);
        while let Some(step) = self.plan.next(end) {
            match step {
                ScanStep::Test { heights, scripts } => {
                    // Several are decoded side by side. A height that is missing ends the batch.
                    let first = heights[0].start;
                    let heights = heights.into_iter().flatten();
                    let here =
                        heights.map_while(|height| Some((height, self.filters.get(&height)?)));
                    let batch: Vec<_> = here
                        .take(BATCH)
                        .map(|(height, (hash, filter))| (Placed(height, *hash), filter))
                        .collect();
                    if batch.is_empty() {
                        return Err(format!("no filter at height {first}").into());
                    }
                    self.decoded += batch.len() as u64;
                    let (mut matching, mut last) = (Vec::new(), None);
                    for found in scripts.scan(&mut self.scratch, &batch) {
                        let found = found.map_err(|error| error.fault)?;
                        matching.push(found.block.0);
                        let numbers =
                            found.scripts.iter().map(|script| number_of(&self.scripts, script));
                        last = last.max(numbers.max().flatten());
                    }
                    self.plan.advance(first + batch.len() as u32, matching);
                    if let Some(last) = last {
                        self.reveal(last as u32 + 1 + GAP);
                    }
                }
                ScanStep::Apply(height) => {
                    let (hash, _) = self.filters[&height];
                    let block = requester.get_block(hash).await?.block;
                    self.apply(height, &block);
                    self.plan.applied(height);
                }
            }
            self.keep()?;
        }
        Ok(())
    }

    fn apply(&mut self, height: u32, block: &Block) {
        for transaction in &block.txdata {
            for input in &transaction.input {
                if let Some((_, _, spent)) = self.coins.get_mut(&input.previous_output) {
                    *spent = Some(height);
                }
            }
            for (vout, output) in (0..).zip(&transaction.output) {
                let Some(number) = number_of(&self.scripts, output.script_pubkey.as_bytes()) else {
                    continue;
                };
                let coin = OutPoint::new(transaction.compute_txid(), vout);
                let value = output.value.to_sat();
                self.coins.entry(coin).or_insert_with(|| {
                    println!("payment of {value} to address {number} at height {height}");
                    (value, height, None)
                });
            }
        }
    }

    fn balance(&self) -> u64 {
        let unspent = self.coins.values().filter(|(_, _, spent)| spent.is_none());
        unspent.map(|(value, _, _)| value).sum()
    }
}

/// The number of an address.
fn number_of(scripts: &[ScriptBuf], script: &[u8]) -> Option<usize> {
    scripts.iter().position(|known| known.as_bytes() == script)
}

/// A block of a scan, with its height.
#[derive(Clone, Copy)]
struct Placed(u32, BlockHash);

impl From<Placed> for SipHash {
    fn from(block: Placed) -> Self {
        block.1.into()
    }
}
