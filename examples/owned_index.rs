//! A filter and an index that was read from disk, in one value that threads share:
//! `cargo run --example owned_index`.

use std::error::Error;
use std::sync::Arc;
use std::thread;

use nutfilter::{Filter, IndexInterval, IndexedFilter, Params, SeekIndex, SortedHashes};

/// What a server keeps. Cloning it copies neither the filter nor the index.
#[derive(Clone)]
struct SpentNotes {
    indexed: IndexedFilter<Arc<[u8]>>,
}

impl SpentNotes {
    fn load(filter: Arc<[u8]>, n: u64, index: &[u8]) -> Result<Self, Box<dyn Error>> {
        let filter = Filter::parse(filter, n, Params::default())?;
        let indexed = match filter.into_indexed_with(SeekIndex::from_bytes(index)?) {
            Ok(indexed) => indexed,
            // The index on disk belongs to an older filter. Build it again.
            Err(mismatch) => mismatch.filter.into_indexed(IndexInterval::default()),
        };
        Ok(Self { indexed })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let filter = SortedHashes::from_items((0..100_000_u32).map(u32::to_le_bytes))
        .encode(Params::default())?;
    let index = SeekIndex::build(&filter, IndexInterval::default()).to_bytes();
    let n = filter.n().into();

    let notes = SpentNotes::load(filter.into_bytes().into(), n, &index)?;
    let threads: Vec<_> = (0..4_u32)
        .map(|part| {
            let notes = notes.clone();
            thread::spawn(move || {
                let mine = part * 50_000..(part + 1) * 50_000;
                mine.filter(|i| notes.indexed.contains(i.to_le_bytes()))
                    .count()
            })
        })
        .collect();
    for thread in threads {
        println!("{} matches", thread.join().expect("a thread that ended"));
    }
    Ok(())
}
