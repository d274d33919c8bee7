//! What an earlier process published, compared with what the store has now: a filter never claims less than the one before
//! it.

use std::collections::BTreeSet;
use std::sync::Arc;

use nutfilter_cashu::{FilterResponse, KeysetId, NoteKind};
use nutfilter_objects::{Object, Refused, Table};

use crate::sets::Sets;
use crate::status::parse_path;

/// A filter of an earlier process.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) keyset: KeysetId,
    pub(crate) kind: NoteKind,
    content: PublishedContent,
}

#[derive(Debug)]
enum PublishedContent {
    /// One that is served.
    Object(Arc<Object>),
    /// One that may not be served. What can be read of it was published all the same.
    Refused(Refused),
    /// One that only the list of keysets tells of.
    Gone,
}

/// What a comparison finds.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// The date of the published filter.
    pub(crate) date: u64,
    /// The number of its items.
    pub(crate) items: u64,
    /// The number of its values that no hash of the keyset has.
    pub(crate) gone: u64,
    /// Hashes of other keysets that have the other values. They belong to this keyset's filters, too.
    pub(crate) elsewhere: Vec<u64>,
    /// Whether other keysets have so many notes that such a value may be there by chance.
    pub(crate) too_small_to_tell: bool,
}

/// One value in so many may be found in another keyset by chance.
const CHANCE: u128 = 1_000;

impl Published {
    /// All filters that are in the table at a start, and one of each keyset that was `listed` with them and has none.
    pub(crate) fn all(table: &Table, listed: impl Iterator<Item = KeysetId>) -> Vec<Self> {
        let new = |path: &str, content| {
            let (kind, id) = parse_path(path)?;
            Some(Self { keyset: KeysetId::parse(id).ok()?, kind, content })
        };
        let objects = table.objects().into_iter();
        let served = objects
            .filter_map(|object| new(object.path(), PublishedContent::Object(object.clone())));
        let refused = table.refused().iter();
        let refused =
            refused.filter_map(|file| new(&file.object, PublishedContent::Refused(file.clone())));
        let mut all: Vec<Self> = served.chain(refused).collect();
        let found: BTreeSet<KeysetId> = all.iter().map(|one| one.keyset.clone()).collect();
        let gone = listed.filter(|keyset| !found.contains(keyset));
        all.extend(gone.map(|keyset| Self {
            keyset,
            kind: NoteKind::Spent,
            content: PublishedContent::Gone,
        }));
        all
    }

    /// Whether each value of the filter belongs to a hash of the sets. `None` if the filter cannot be read.
    ///
    /// # Cost
    ///
    /// One pass over the filter and the set, which maps each hash as the filter did. While it runs, the filter's text is in
    /// memory.
    pub(crate) fn compare(&self, sets: &Sets) -> Option<Comparison> {
        let texts = match &self.content {
            PublishedContent::Object(object) => vec![text_of(object)?],
            PublishedContent::Refused(file) => file.read(),
            PublishedContent::Gone => return None,
        };
        let (date, filter) = texts.into_iter().find_map(|text| {
            let response = FilterResponse::from_json(text).ok()?;
            Some((response.timestamp, response.into_filter().ok()?))
        })?;
        let map = |hash: u64| {
            // A product of 64 bits each is at least 2^64 times too large.
            u64::try_from((u128::from(hash) * u128::from(filter.range())) >> 64).unwrap_or(u64::MAX)
        };
        let own = sets.by_keyset.get(&self.keyset);
        let mut mapped = own
            .map_or(&sets.orphans, |set| &set.hashes)
            .as_slice()
            .iter()
            .map(|&hash| map(hash))
            .peekable();
        let missing: Vec<u64> = filter
            .values()
            .filter(|&value| {
                while mapped.next_if(|&other| other < value).is_some() {}
                mapped.peek() != Some(&value)
            })
            .collect();
        let mut comparison = Comparison {
            date,
            items: filter.n().into(),
            gone: missing.len() as u64,
            ..Comparison::default()
        };
        let others = || sets.by_keyset.iter().filter(|(keyset, _)| **keyset != self.keyset);
        let notes: usize = others().map(|(_, set)| set.hashes.len()).sum();
        comparison.too_small_to_tell = notes as u128 * CHANCE >= u128::from(filter.range());
        if !comparison.too_small_to_tell {
            let is_missing = |hash: &u64| missing.binary_search(&map(*hash)).is_ok();
            for (_, set) in others() {
                let hashes = set.hashes.as_slice();
                // Many may be missing beside thousands of small keysets, and few beside a large one.
                if hashes.len() < missing.len() {
                    comparison.elsewhere.extend(hashes.iter().copied().filter(is_missing));
                    continue;
                }
                for &value in &missing {
                    let first = hashes.partition_point(|&hash| map(hash) < value);
                    let found = hashes[first..].iter().take_while(|&&hash| map(hash) == value);
                    comparison.elsewhere.extend(found);
                }
            }
            comparison.elsewhere.sort_unstable();
            let is_elsewhere = |value: &&u64| {
                comparison.elsewhere.binary_search_by_key(*value, |&hash| map(hash)).is_ok()
            };
            comparison.gone -= missing.iter().filter(is_elsewhere).count() as u64;
        }
        Some(comparison)
    }
}

/// The bytes of an object.
pub(crate) fn text_of(object: &Object) -> Option<Vec<u8>> {
    object.open(false).ok()?.read().ok()
}
