//! Both sides of a restore: `cargo run --example restore`.
//!
//! A mint publishes a filter of its spent notes, and grows it; a wallet asks it about its own.

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use nutfilter::{Filter, IndexInterval, Nut25, Params, SeekIndex, SortedHashes};
use nutfilter_cashu::FilterResponse;

fn main() -> Result<(), Box<dyn Error>> {
    let note = |i: u32| {
        let mut point = [2; 33];
        point[29..].copy_from_slice(&i.to_be_bytes());
        point
    };

    // The mint, yesterday: 100,000 notes. Today: 5,000 more, for one linear pass.
    let yesterday = SortedHashes::<Nut25>::from_items((0..100_000).map(note));
    let today = yesterday.merge(SortedHashes::from_items((100_000..105_000).map(note)))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let json = FilterResponse::new(&today.encode(Params::default())?, now).to_json();
    println!("the mint serves {} bytes", json.len());

    // The wallet: 1,000 notes, of which every other one is spent.
    let response = FilterResponse::from_json(json.as_bytes())?;
    let as_of = response.timestamp;
    let filter: Filter<Nut25> = response.into_filter()?;
    let mine: Vec<_> = (0..1000)
        .map(|i| note(i * 105 + i % 2 * 1_000_000))
        .collect();
    let answers = filter.matches(&mine);
    let maybe = answers.iter().filter(|&&maybe| maybe).count();
    println!(
        "{maybe} of {} may be spent, the rest was not as of {as_of}",
        mine.len()
    );

    // The same through an index, which pays off for repeated queries.
    let index = SeekIndex::build(&filter, IndexInterval::Items(64));
    let indexed = filter.with_index(&index)?;
    assert_eq!(indexed.matches(&mine), answers);
    println!("the index takes {:.2} bits a note", index.bits_per_item());
    Ok(())
}
