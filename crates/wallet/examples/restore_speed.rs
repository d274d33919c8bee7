//! The CPU time of a restore from a seed, without a network: 16,000 counters, of which 29 are live and the others spent.
//!
//! ```sh
//! cargo run --release -p nutfilter-wallet --features cashu --example restore_speed
//! ```

use cashu::{Amount, Keys, PublicKey};
use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_wallet::cashu::{Note, Seed, SeedPoints};
use nutfilter_wallet::{
    FetchContext, FilterSource, KeysetId, MintFilter, NoteKind, Points, Policy, Restore,
    RestoreOptions,
};
use serde_json::{Value, json};

type Error = Box<dyn std::error::Error + Send + Sync>;

const COUNTERS: u32 = 16_000;
const LIVE: u32 = 29;

/// The mint's key is 1, so a message is its own signature.
const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

fn main() -> Result<(), Error> {
    let seed = Seed::from([7; 64]);
    for id in
        ["009a1f293253e41e", "012e23479a0029432eaad0d2040c09be53bab592d5cbf1d55e0dd26c9495951b30"]
    {
        let keyset: KeysetId = id.parse()?;
        let mut points = SeedPoints::new(&seed, &keyset)?;
        let all: Vec<_> = (0..COUNTERS).collect();
        let spent = points.ys(0..COUNTERS - LIVE)?;
        let spent = filter(&keyset, NoteKind::Spent, spent)?;
        let issued = filter(&keyset, NoteKind::Issued, points.messages(&all)?)?;
        let start = cpu()?;
        let notes = restore(&seed, &keyset, [&spent, &issued])?;
        let milliseconds = (cpu()? - start) / 1_000_000;
        assert_eq!(notes, LIVE as usize);
        println!("keyset {}: {notes} of {COUNTERS} notes in {milliseconds} ms", &id[..2]);
    }
    Ok(())
}

fn restore(
    seed: &Seed,
    keyset: &KeysetId,
    [spent, issued]: [&MintFilter; 2],
) -> Result<usize, Error> {
    let keys = Keys::new([(Amount::from(1), KEY.parse::<PublicKey>()?)].into());
    let mut points = SeedPoints::new(seed, keyset)?;
    let (options, policy) = (RestoreOptions::default(), Policy::default());
    let mut restore = Restore::new(keyset, &mut points, spent, issued, &options, &policy)?;
    while let Some((_, body)) = restore.request() {
        let body: Value = serde_json::from_str(&body)?;
        let outputs = body["outputs"].as_array().ok_or("no outputs")?;
        let sign = |one: &Value| json!({"id": keyset.as_str(), "amount": 1, "C_": one["B_"]});
        let signatures: Vec<_> = outputs.iter().map(sign).collect();
        let answer = json!({"outputs": outputs, "signatures": signatures}).to_string();
        restore.answer(200, None, answer.as_bytes(), 0)?;
    }
    let restored = restore.finish()?;
    let notes = restored.live().map(|(counter, one)| Note::unblind(&points, counter, one, &keys));
    Ok(notes.collect::<Result<Vec<_>, _>>()?.len())
}

fn filter(keyset: &KeysetId, kind: NoteKind, items: Vec<Vec<u8>>) -> Result<MintFilter, Error> {
    let filter = SortedHashes::from_items(items).encode(Params::CASHU)?;
    let source =
        FilterSource { mint: "https://mint.example".to_owned(), keyset: keyset.clone(), kind };
    let body = FilterResponse::new(&filter, 0).to_json().into_bytes();
    let filter = Policy::default().accept(200, body, source, FetchContext::now(None));
    Ok(filter?)
}

/// The time that this thread was on a CPU, in nanoseconds.
fn cpu() -> Result<u64, Error> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().ok_or("no time")?.parse()?)
}
