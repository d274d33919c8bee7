//! The served state: finished bodies, all made before the first request for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::body::Body;
use crate::finished_filter::FinishedFilter;
use crate::object::{Object, Objects};
use crate::source::KeysetInfo;
use crate::{KeysetId, NoteKind};

/// One keyset and its filters.
#[derive(Clone, Debug)]
pub struct KeysetEntry {
    /// The keyset.
    pub info: KeysetInfo,
    /// Filter of spent notes; `None` until its first successful build.
    pub spent: Option<Arc<FinishedFilter>>,
    /// Filter of issued notes; `None` until its first successful build.
    pub issued: Option<Arc<FinishedFilter>>,
}

impl KeysetEntry {
    /// The filter of one kind.
    #[must_use]
    pub fn filter(&self, kind: NoteKind) -> Option<&Arc<FinishedFilter>> {
        match kind {
            NoteKind::Spent => self.spent.as_ref(),
            NoteKind::Issued => self.issued.as_ref(),
        }
    }

    pub(crate) fn set(&mut self, kind: NoteKind, filter: Option<Arc<FinishedFilter>>) {
        match kind {
            NoteKind::Spent => self.spent = filter,
            NoteKind::Issued => self.issued = filter,
        }
    }
}

/// Everything that is served, as of one refresh. It is immutable: the next refresh makes a new one.
#[derive(Clone, Debug)]
pub struct Snapshot {
    keysets: BTreeMap<KeysetId, KeysetEntry>,
    list: Object,
    objects: Objects,
    refreshed_at: u64,
}

impl Snapshot {
    /// Creates a snapshot of these keysets. `refreshed_at` is the Unix second at which the refresh began.
    #[must_use]
    pub fn new(entries: Vec<KeysetEntry>, refreshed_at: u64) -> Self {
        let list = keysets_body(entries.iter().map(|entry| &entry.info));
        let keysets = entries
            .into_iter()
            .map(|entry| (entry.info.id.clone(), entry));
        let mut snapshot = Self {
            keysets: keysets.collect(),
            list: Object::json("v1/keysets", list, refreshed_at),
            objects: Objects::default(),
            refreshed_at,
        };
        snapshot.list_objects();
        snapshot
    }

    /// Filters are published before the list of keysets, which names them. While one is missing, the list is only served.
    fn list_objects(&mut self) {
        let filters = self.filters().filter_map(|(keyset, kind, filter)| {
            let (filter, path) = (filter?, format!("v1/filter/{kind}/{}", keyset.id));
            let (json, timestamp) = (filter.json().clone(), filter.timestamp());
            Some(Object::json(path, json, timestamp))
        });
        let (mut published, mut served) = (filters.collect::<Vec<_>>(), vec![]);
        let latest = published.iter().map(|filter| filter.date).max();
        match self.is_complete() {
            true => published.push(self.list.clone()),
            false => served.push(self.list.clone()),
        }
        self.objects = Objects::new(published, served, latest.unwrap_or(0));
    }

    fn filters(
        &self,
    ) -> impl Iterator<Item = (&KeysetInfo, NoteKind, Option<&Arc<FinishedFilter>>)> {
        self.keysets()
            .flat_map(|entry| NoteKind::ALL.map(|kind| (&entry.info, kind, entry.filter(kind))))
    }

    /// Returns a copy with one filter replaced, so that the old body can be freed before the next one is made.
    /// `None` if the keyset is unknown.
    #[must_use]
    pub fn with_filter(
        &self,
        keyset: &KeysetId,
        kind: NoteKind,
        filter: Arc<FinishedFilter>,
    ) -> Option<Self> {
        let mut changed = self.clone();
        changed.keysets.get_mut(keyset)?.set(kind, Some(filter));
        changed.list_objects();
        Some(changed)
    }

    /// Returns a copy without the filters whose timestamp is later than the Unix second `latest`.
    pub(crate) fn until(&self, latest: u64) -> Self {
        let mut changed = self.clone();
        for entry in changed.keysets.values_mut() {
            for filter in [&mut entry.spent, &mut entry.issued] {
                filter.take_if(|filter| filter.timestamp() > latest);
            }
        }
        changed.list_objects();
        changed
    }

    /// The latest timestamp of all filters; 0 if there are no filters.
    pub(crate) fn latest_timestamp(&self) -> u64 {
        self.objects.latest()
    }

    /// Whether each keyset has both of its filters.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.filters().all(|(.., filter)| filter.is_some())
    }

    /// Looks up a keyset. All spellings of an id are equal. `None` if the mint has no such keyset.
    #[must_use]
    pub fn keyset(&self, id: &KeysetId) -> Option<&KeysetEntry> {
        self.keysets.get(id)
    }

    /// All keysets, in the order of their ids.
    pub fn keysets(&self) -> impl ExactSizeIterator<Item = &KeysetEntry> {
        self.keysets.values()
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// When the refresh that made this snapshot began, in Unix seconds.
    #[must_use]
    pub fn refreshed_at(&self) -> u64 {
        self.refreshed_at
    }

    /// The number of items in the filters of one kind, over all keysets.
    #[must_use]
    pub fn items(&self, kind: NoteKind) -> u64 {
        self.keysets()
            .filter_map(|entry| entry.filter(kind))
            .map(|filter| u64::from(filter.n()))
            .sum()
    }
}

/// The list of keysets as NUT-02 JSON. A keyset that is known only from its notes has the unit `unknown`.
fn keysets_body<'a>(keysets: impl Iterator<Item = &'a KeysetInfo>) -> Body {
    let keysets: Vec<serde_json::Value> = keysets
        .map(|keyset| {
            serde_json::json!({
                "id": keyset.id.as_str(),
                "unit": keyset.unit.as_deref().unwrap_or("unknown"),
                "active": keyset.active,
                "input_fee_ppk": keyset.input_fee_ppk,
            })
        })
        .collect();
    Body::new(serde_json::json!({ "keysets": keysets }).to_string(), None)
}
