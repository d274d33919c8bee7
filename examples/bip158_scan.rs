//! Finds the blocks that concern a wallet, on all cores:
//! `cargo run --release --features bitcoin,parallel --example bip158_scan -- SCRIPTS < FILTERS`.
//!
//! SCRIPTS has one script per line, in hex. FILTERS has a block hash and the block's basic filter per line, both in
//! hex. Bitcoin Core with `blockfilterindex=1` writes them like this:
//!
//! ```sh
//! for height in $(seq 800000 800999); do
//!     hash=$(bitcoin-cli getblockhash "$height")
//!     echo "$hash $(bitcoin-cli getblockfilter "$hash" | jq -r .filter)"
//! done > FILTERS
//! ```

use std::error::Error;
use std::io::stdin;

use bitcoin::BlockHash;
use bitcoin::hex::{DisplayHex, FromHex};
use nutfilter::bip158::Watchlist;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: bip158_scan SCRIPTS < FILTERS")?;
    let scripts = std::fs::read_to_string(path)?;
    let scripts = scripts.lines().map(Vec::from_hex);
    let watchlist = scripts.collect::<Result<Watchlist, _>>()?;

    // A line that cannot be read ends the scan.
    let mut failure = None;
    let mut blocks = 0;
    let filters = stdin().lines().map_while(|line| {
        let filter = line.map_err(Into::into).and_then(|line| parse(&line));
        blocks += usize::from(filter.is_ok());
        filter.map_err(|error| failure = Some(error)).ok()
    });
    let mut matches = 0;
    for found in watchlist.par_scan(filters) {
        let found = found?;
        matches += 1;
        println!("{}", found.block);
        for script in found.scripts {
            println!("    {}", script.as_hex());
        }
    }
    if let Some(error) = failure {
        return Err(format!("line {} of the filters: {error}", blocks + 1).into());
    }
    eprintln!(
        "{matches} of {blocks} blocks match {} scripts",
        watchlist.len()
    );
    Ok(())
}

fn parse(line: &str) -> Result<(BlockHash, Vec<u8>), Box<dyn Error>> {
    let (hash, filter) = line
        .split_once(' ')
        .ok_or("expected a block hash and a filter")?;
    Ok((hash.parse()?, Vec::from_hex(filter)?))
}
