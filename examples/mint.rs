//! A mint publishes the filter of its spent notes, and later that of a grown set: `cargo run --example mint`.

use nutfilter::{Filter, Params, SortedHashes};
use nutfilter_cashu::{FilterResponse, KeysetId, NoteKind, endpoint_path};

/// Stands for a point of the database.
fn point(i: u32) -> [u8; 33] {
    let mut point = [2; 33];
    point[29..].copy_from_slice(&i.to_be_bytes());
    point
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keyset: KeysetId = "009a1f293253e41e".parse()?;
    println!("GET {}", endpoint_path(&keyset, NoteKind::Spent));

    // At the start: hash and sort all notes. Keep the set, not the filter.
    let mut spent = SortedHashes::from_items((0..100_000).map(point));
    println!(
        "{}",
        published(&spent.encode(Params::default())?, 1_767_225_600)
    );

    // Later: merge the new notes and encode again, in one pass.
    let new = SortedHashes::from_items((100_000..105_000).map(point));
    let filter = spent.merge_and_encode(&new, Params::default())?;
    println!("{}", published(&filter, 1_767_225_660));
    Ok(())
}

fn published(filter: &Filter, timestamp: u64) -> String {
    let json = FilterResponse::new(filter, timestamp).to_json();
    format!(
        "{} notes, {} bytes: {}...",
        filter.n(),
        json.len(),
        &json[..60]
    )
}
