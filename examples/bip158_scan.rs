//! Finds the blocks that concern a wallet, on all cores:
//! `cargo run --release --features bitcoin,parallel --example bip158_scan -- SCRIPTS < FILTERS`, or
//! `... -- SCRIPTS DIRECTORY`.
//!
//! SCRIPTS has one script per line, in hex. DIRECTORY has a file per block: its name is the block hash, and its content
//! is the block's basic filter. FILTERS has a block hash and the filter per line, both in hex. Bitcoin Core with
//! `blockfilterindex=1` writes them like this:
//!
//! ```sh
//! for height in $(seq 800000 800999); do
//!     hash=$(bitcoin-cli getblockhash "$height")
//!     echo "$hash $(bitcoin-cli getblockfilter "$hash" | jq -r .filter)"
//! done > FILTERS
//! ```

use std::error::Error;
use std::io::stdin;
use std::path::Path;

use bitcoin::BlockHash;
use bitcoin::hex::{DisplayHex, FromHex};
use nutfilter::bip158::Watchlist;

/// A block and its filter.
type Filter = (BlockHash, Vec<u8>);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let scripts = arguments
        .next()
        .ok_or("usage: bip158_scan SCRIPTS DIRECTORY, or bip158_scan SCRIPTS < FILTERS")?;
    let at = |error: &dyn Error| format!("{scripts}: {error}");
    let text = std::fs::read_to_string(&scripts).map_err(|error| at(&error))?;
    let watchlist = text.lines().map(Vec::from_hex);
    let watchlist = watchlist.collect::<Result<Watchlist, _>>();
    let watchlist = watchlist.map_err(|error| at(&error))?;

    let filters: Box<dyn Iterator<Item = Result<Filter, Box<dyn Error>>>> = match arguments.next() {
        Some(directory) => {
            let files = std::fs::read_dir(&directory);
            let files = files.map_err(|error| format!("{directory}: {error}"))?;
            Box::new(files.map(|file| read(&file?.path())))
        }
        None => Box::new(stdin().lines().map(|line| parse(&line?))),
    };
    // A filter that cannot be read ends the scan.
    let mut failure = None;
    let mut blocks = 0;
    let filters = filters.map_while(|filter| {
        blocks += usize::from(filter.is_ok());
        filter.map_err(|error| failure = Some(error)).ok()
    });
    let (mut matches, mut invalid) = (0, 0);
    for found in watchlist.par_scan(filters) {
        match found {
            Ok(found) => {
                matches += 1;
                println!("{}", found.block);
                for script in found.scripts {
                    println!("    {}", script.as_hex());
                }
            }
            // Ask another peer for this filter; the others are usable.
            Err(error) => {
                invalid += 1;
                eprintln!("{error}: {}", error.fault);
            }
        }
    }
    if let Some(error) = failure {
        return Err(format!("filter {}: {error}", blocks + 1).into());
    }
    eprintln!(
        "{matches} of {blocks} blocks match {} scripts",
        watchlist.len()
    );
    if invalid > 0 {
        return Err(format!("{invalid} invalid filters").into());
    }
    Ok(())
}

fn read(path: &Path) -> Result<Filter, Box<dyn Error>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let hash = name
        .parse()
        .map_err(|_| format!("'{}' is not named after a block hash", path.display()))?;
    let filter = std::fs::read(path);
    let filter = filter.map_err(|error| format!("'{}': {error}", path.display()))?;
    Ok((hash, filter))
}

fn parse(line: &str) -> Result<Filter, Box<dyn Error>> {
    let (hash, filter) = line
        .split_once(' ')
        .ok_or("expected a block hash and a filter")?;
    Ok((hash.parse()?, Vec::from_hex(filter)?))
}
