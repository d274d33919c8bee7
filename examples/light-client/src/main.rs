//! A light client that receives filters over Bitcoin's network protocol with the crate bip157 (kyoto), and finds the payments
//! of a wallet with nutfilter. It follows the chain through reorganisations until it is stopped.
//!
//!     cargo run -- PEER...       # regtest peers, as 127.0.0.1:18444
//!
//! bip157 checks each filter against the filter headers that its peers agree on, and drops a peer that sends another one.
//! The wallet is a toy: its addresses are numbers, and it looks for five more than the last one that was paid.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bip157::chain::{BlockHeaderChanges, ChainState};
use bip157::{Builder, Client, Event, HashCheckpoint, Network, Requester, TrustedPeer};
use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Block, BlockHash, OutPoint, ScriptBuf, TxOut, WPubkeyHash};
use nutfilter::bip158::{ScanPlan, ScanStep, Scratch};

type Error = Box<dyn std::error::Error>;

const GAP: u32 = 5;

/// Filters that are tested together.
const BATCH: usize = 128;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let peers = std::env::args().skip(1).map(|peer| peer.parse());
    let peers: Vec<SocketAddr> = peers.collect::<Result<_, _>>()?;
    let (node, client) = Builder::new(Network::Regtest)
        .chain_state(ChainState::Checkpoint(HashCheckpoint::from_genesis(
            Network::Regtest,
        )))
        .required_peers(1) // the others replace a peer that is dropped
        // It forgets a peer that it tried, even one that was only slow.
        .add_peers(
            [&peers[..]; 5]
                .concat()
                .into_iter()
                .map(TrustedPeer::from_socket_addr),
        )
        .whitelist_only()
        .build();
    tokio::spawn(node.run());
    let Client {
        requester,
        info_rx: _info,
        mut warn_rx,
        mut event_rx,
    } = client;
    let mut wallet = Wallet::new();
    loop {
        tokio::select! {
            event = event_rx.recv() => match event.ok_or("the node stopped")? {
                Event::IndexedFilter(filter) => {
                    wallet.filters.insert(filter.height(), (filter.block_hash(), filter.into_contents()));
                }
                Event::ChainUpdate(BlockHeaderChanges::Reorganized { reorganized, .. }) => {
                    if let Some(first) = reorganized.iter().map(|header| header.height).min() {
                        println!("reorganised from height {first}");
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
    /// By height.
    filters: BTreeMap<u32, (BlockHash, Vec<u8>)>,
    /// The scripts and heights that remain to be tested, and the blocks that remain to be applied.
    plan: ScanPlan,
    /// The blocks that remain to be applied, by height. A wallet with little memory downloads them again.
    blocks: BTreeMap<u32, Block>,
    scripts: Vec<ScriptBuf>,
    scratch: Scratch,
    /// What was received: the value, and the heights where it was received and spent.
    coins: BTreeMap<OutPoint, (u64, u32, Option<u32>)>,
    decoded: u64,
}

impl Wallet {
    fn new() -> Self {
        let mut wallet = Self {
            filters: BTreeMap::new(),
            plan: ScanPlan::new(1),
            blocks: BTreeMap::new(),
            scripts: Vec::new(),
            scratch: Scratch::new(),
            coins: BTreeMap::new(),
            decoded: 0,
        };
        wallet.reveal(GAP);
        wallet
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
        self.filters.split_off(&height);
        self.blocks.split_off(&height);
        self.plan.rewind(height);
        self.coins.retain(|_, (_, received, _)| *received < height);
        for (_, _, spent) in self.coins.values_mut() {
            *spent = spent.filter(|&spent| spent < height);
        }
    }

    /// Tests what remains to be tested in the filters that are here, downloads the blocks that match, and applies them.
    async fn scan(&mut self, requester: &Requester) -> Result<(), Error> {
        let end = self
            .filters
            .last_key_value()
            .map_or(0, |(height, _)| height + 1);
        while let Some(step) = self.plan.next(end) {
            match step {
                ScanStep::Test { heights, scripts } => {
                    // Several are decoded side by side. A height that is missing ends the batch.
                    let first = heights[0].start;
                    let heights = heights.into_iter().flatten();
                    let here = heights.map_while(|height| self.filters.get(&height));
                    let batch: Vec<_> = here
                        .take(BATCH)
                        .map(|(hash, filter)| (*hash, filter))
                        .collect();
                    if batch.is_empty() {
                        return Err(format!("no filter at height {first}").into());
                    }
                    self.decoded += batch.len() as u64;
                    let mut matching = Vec::new();
                    for found in scripts.scan(&mut self.scratch, &batch) {
                        let hash = found.map_err(|error| error.fault)?.block;
                        let place = batch.iter().position(|(block, _)| *block == hash);
                        matching
                            .push((first + place.expect("as it was given") as u32, hash));
                    }
                    let end = first + batch.len() as u32;
                    // Nothing is recorded before the blocks are here.
                    for &(height, hash) in &matching {
                        let block = requester.get_block(hash).await?.block;
                        self.blocks.insert(height, block);
                    }
                    self.plan
                        .advance(end, matching.iter().map(|(height, _)| *height));
                    for (height, _) in matching {
                        self.reveal_after(height);
                    }
                }
                ScanStep::Apply(height) => {
                    self.apply(height);
                    self.plan.applied(height);
                }
            }
        }
        Ok(())
    }

    /// The number of the address that an output pays.
    fn address(&self, output: &TxOut) -> Option<usize> {
        let mut scripts = self.scripts.iter();
        scripts.position(|script| *script == output.script_pubkey)
    }

    /// Reveals the addresses after those that the block pays.
    fn reveal_after(&mut self, height: u32) {
        let transactions = self.blocks[&height].txdata.iter();
        let outputs = transactions.flat_map(|transaction| &transaction.output);
        let last = outputs.filter_map(|output| self.address(output)).max();
        if let Some(last) = last {
            self.reveal(last as u32 + 1 + GAP);
        }
    }

    fn apply(&mut self, height: u32) {
        let block = self.blocks.remove(&height);
        let block = block.expect("kept since its filter matched");
        for transaction in &block.txdata {
            for input in &transaction.input {
                if let Some((_, _, spent)) = self.coins.get_mut(&input.previous_output) {
                    *spent = Some(height);
                }
            }
            for (vout, output) in (0..).zip(&transaction.output) {
                let Some(number) = self.address(output) else {
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
