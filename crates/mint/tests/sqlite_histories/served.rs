//! What a filter that is served lacks, for the histories of both databases.

use nutfilter_cashu::FilterResponse;
use nutfilter_mint::{NoteKind, Refresher};
use nutfilter_objects::Opened;

/// Of `items`, the number that the served filter of `kind` and `keyset` does not match.
pub(crate) fn missing(
    refresher: &Refresher,
    kind: usize,
    keyset: &str,
    items: &[Vec<u8>],
) -> usize {
    let path = format!("v1/filter/{}/{keyset}", NoteKind::ALL[kind]);
    let opened = refresher.monitor().table().open(&path, false).unwrap();
    let Some((_, Opened::Memory(json))) = opened else {
        panic!("{path} is not served");
    };
    let response = FilterResponse::from_json(&json[..]).unwrap();
    let matches = response.into_filter().unwrap().matches(items);
    matches.iter().filter(|is_there| !**is_there).count()
}
