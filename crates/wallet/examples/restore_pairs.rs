//! Restores the notes of one keyset: `restore_pairs MINT KEYSET < PAIRS`. Each line is `B_<TAB>Y` in hex; prints the outcome
//! and `B_` of each.

use std::error::Error;
use std::io::stdin;

use nutfilter_wallet::{MintClient, Policy, RestoreOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mint, keyset] = arguments.as_slice() else {
        return Err("give the URL of a mint and the id of a keyset".into());
    };
    let mut pairs = Vec::new();
    for line in stdin().lines() {
        let line = line?;
        let (message, y) = line.split_once('\t').ok_or("a line without a tab")?;
        pairs.push((const_hex::decode(message)?, const_hex::decode(y)?));
    }
    let client = MintClient::new(mint, Policy::default())?;
    let restored = client.restore(&keyset.parse()?, &pairs, &RestoreOptions::default())?;
    for ((message, _), outcome) in pairs.iter().zip(&restored.outcomes) {
        println!("{}\t{}", outcome.word(), const_hex::encode(message));
    }
    eprintln!("next counter: {}", restored.next_counter());
    Ok(())
}
