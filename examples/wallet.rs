//! A wallet tests its notes against a mint's filter without showing them to the mint: `cargo run --example wallet`.
//!
//! The crate `nutfilter-wallet` also fetches the filter and confirms the matches.

use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let json = answer_of_the_mint()?;

    // Reading checks the JSON and the length. `into_filter` validates every bit, so queries cannot fail.
    let response = FilterResponse::from_json(json.as_bytes())?;
    let as_of = response.timestamp;
    let filter = response.into_filter()?;

    let notes: Vec<[u8; 33]> = (0..40).map(|i| [i; 33]).collect();
    let matches = filter.matches(&notes);
    let to_confirm = matches.iter().filter(|&&maybe| maybe).count();
    println!(
        "{} of {} notes were certainly unspent at {as_of}; ask the mint about {to_confirm}",
        notes.len() - to_confirm,
        notes.len(),
    );
    Ok(())
}

fn answer_of_the_mint() -> Result<String, nutfilter::BuildError> {
    let spent = SortedHashes::from_items((30..200).map(|i| [i; 33]));
    Ok(FilterResponse::new(&spent.encode(Params::default())?, 1_767_225_600).to_json())
}
