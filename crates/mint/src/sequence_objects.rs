//! The objects of a sequence.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use nutfilter_cashu::state_filters::manifest::KEPT_MANIFESTS;
use nutfilter_cashu::state_filters::{Event, SequencePath};
use nutfilter_sequence::{Error, SealedFile, View};

use crate::body::Body;
use crate::object::{Object, Objects};
use crate::succession::Succession;

/// A copy of the open block, which is served until the next one is due.
#[derive(Clone, Debug)]
pub(crate) struct OpenBlock {
    height: u64,
    /// The Unix second of the copy.
    copied: u64,
    body: Body,
}

impl OpenBlock {
    pub(crate) fn new(height: u64, bytes: &[u8], now: u64) -> Self {
        Self {
            height,
            copied: now,
            body: Body::compressed(bytes.to_vec()),
        }
    }

    /// Whether it need not be replaced yet. If the clock was set back, it is replaced.
    pub(crate) fn is_current(&self, height: u64, interval: u64, now: u64) -> bool {
        let age = now.checked_sub(self.copied);
        self.height == height && age.is_some_and(|age| age < interval)
    }
}

/// The state filters of one kind of event, as they are served at one moment.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) objects: Objects,
    /// The Unix second at which the last segment ends or the open block begins.
    latest: u64,
}

impl Served {
    /// Empty before the first reading. `open` is a copy of the open block, and the seconds between two copies.
    pub(crate) fn new(view: View, open: Option<(OpenBlock, u64)>) -> Self {
        let latest = view.latest();
        let Some((manifest, bytes, _)) = view.manifest() else {
            let objects = Objects::default();
            return Self { objects, latest };
        };
        let (kind, view) = (view.kind(), Arc::new(view.clone()));
        let list = |path, bytes: Vec<u8>, date, succession| Object {
            succession: Some(succession),
            ..Object::json(relative(path), Body::compressed(bytes), date)
        };
        let segment = |&(start, end): &(u64, u64)| {
            let path = relative(SequencePath::Segment(kind, start, end));
            Some(Object::sealed(path, view.segment(start, end)?, false))
        };
        let listed = manifest.segments.iter().map(|one| (one.start, one.end));
        let mut published: Vec<Object> = listed.filter_map(|one| segment(&one)).collect();
        let served = view.unlisted().filter_map(|one| segment(&one)).collect();
        let first = manifest.number.saturating_sub(KEPT_MANIFESTS);
        published.extend((first..=manifest.number).filter_map(|number| {
            let path = relative(SequencePath::OldManifest(kind, number));
            Some(Object::sealed(path, view.old_manifest(number)?, true))
        }));
        let path = SequencePath::Manifest(kind);
        let succession = Succession::Manifest(view.clone());
        published.push(list(path, bytes.to_vec(), manifest.time, succession));
        if let Some(info) = view.block_info(open.as_ref().map(|(_, interval)| *interval)) {
            published.extend((0..info.open_height()).filter_map(|height| {
                let path = relative(SequencePath::Block(kind, height));
                Some(Object::sealed(path, view.sealed_block(height)?, false))
            }));
            published.extend(open.map(|(open, interval)| {
                let path = relative(SequencePath::Block(kind, open.height));
                Object::copy(path, open.body, open.copied, interval)
            }));
            let opened = info.blocks.last().map_or(0, |open| open.start);
            let (path, json) = (SequencePath::BlockInfo(kind), info.to_json());
            published.push(list(path, json, opened, Succession::Blocks(info.into())));
        }
        let objects = Objects::new(published, served);
        Self { objects, latest }
    }
}

/// The path of an object, without the leading slash.
fn relative(path: SequencePath) -> String {
    path.to_string().split_off(1)
}

/// What is served of each published kind. Clones are handles to the same table.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceTable(Arc<RwLock<HashMap<Event, Arc<Served>>>>, Checked);

/// The files that were checked. They never change, so each is checked once by a process.
#[derive(Clone, Debug, Default)]
struct Checked(Arc<RwLock<HashSet<PathBuf>>>);

/// More files than a sequence lists in ten years. The rest is checked again.
const MAX_CHECKED: usize = 20_000;

impl SequenceTable {
    /// Checks a file before its first use.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is damaged.
    pub(crate) fn check(&self, file: &SealedFile) -> Result<(), Error> {
        let Checked(checked) = &self.1;
        // The lock is free again before the file is read.
        let is_checked = {
            let checked = checked.read().unwrap_or_else(PoisonError::into_inner);
            checked.contains(&file.path)
        };
        if !is_checked {
            file.check()?;
            let mut checked = checked.write().unwrap_or_else(PoisonError::into_inner);
            if checked.len() >= MAX_CHECKED {
                checked.clear();
            }
            checked.insert(file.path.clone());
        }
        Ok(())
    }

    /// Serves this, or the kind no more. Returns whether the kind was served before.
    pub(crate) fn replace(&self, event: Event, served: Option<Served>) -> bool {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match served {
            Some(served) => table.insert(event, Arc::new(served)),
            None => table.remove(&event),
        }
        .is_some()
    }

    /// The latest second that what is published begins before, or a block begins at.
    pub(crate) fn latest(&self) -> u64 {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let latest = table.values().map(|served| served.latest);
        latest.max().unwrap_or(0)
    }

    pub(crate) fn get(&self, event: Event) -> Option<Arc<Served>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.get(&event).cloned()
    }
}
