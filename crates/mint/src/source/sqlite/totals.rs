//! Compares the mint's own totals with the notes that were read.

use std::collections::BTreeMap;

use crate::KeysetId;
use crate::source::SourceError;

pub(super) fn keyset_of(id: &[u8]) -> Option<KeysetId> {
    KeysetId::parse(core::str::from_utf8(id).ok()?).ok()
}

/// Checks that the mint's totals grew by the sum of the amounts that were read.
pub(super) fn check_totals(
    before: &BTreeMap<String, i64>,
    now: &BTreeMap<String, i64>,
    sums: &BTreeMap<KeysetId, i64>,
) -> Result<(), SourceError> {
    // Ids may be spelled in several ways, here as well as in the notes.
    let mut unexplained: BTreeMap<KeysetId, i64> = BTreeMap::new();
    let mut add = |id: &str, sum: i64| {
        if let Ok(keyset) = KeysetId::parse(id) {
            let entry = unexplained.entry(keyset).or_default();
            *entry = entry.wrapping_add(sum);
        }
    };
    now.iter().for_each(|(id, &sum)| add(id, sum));
    before
        .iter()
        .for_each(|(id, &sum)| add(id, sum.wrapping_neg()));
    for (keyset, sum) in sums {
        let entry = unexplained.entry(keyset.clone()).or_default();
        *entry = entry.wrapping_sub(*sum);
    }
    match unexplained.iter().find(|&(_, &sum)| sum != 0) {
        None => Ok(()),
        Some((keyset, sum)) => Err(SourceError::rescan(format!(
            "the mint's total of keyset {keyset} grew by {sum} more than its notes"
        ))),
    }
}
