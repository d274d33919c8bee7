//! The objects of a sequence.

use std::sync::Arc;

use nutfilter_cashu::state_filters::SequencePath;
use nutfilter_cashu::state_filters::manifest::KEPT_MANIFESTS;
use nutfilter_sequence::View;

use crate::body::Body;
use crate::object::{Object, Objects};
use crate::succession::Succession;

/// A copy of the open block, which is served until the next one is due.
#[derive(Clone, Debug)]
pub(super) struct OpenBlock {
    height: u64,
    /// The Unix second of the copy.
    copied: u64,
    body: Body,
}

impl OpenBlock {
    pub(super) fn new(height: u64, bytes: &[u8], now: u64) -> Self {
        Self {
            height,
            copied: now,
            body: Body::compressed(bytes.to_vec()),
        }
    }

    /// Whether it need not be replaced yet. If the clock was set back, it is replaced.
    pub(super) fn is_current(&self, height: u64, interval: u64, now: u64) -> bool {
        let age = now.checked_sub(self.copied);
        self.height == height && age.is_some_and(|age| age < interval)
    }
}

/// The objects of a sequence; none before its first reading. `open` is a copy of the open block, and the seconds between
/// two copies.
pub(super) fn of(view: View, open: Option<(OpenBlock, u64)>) -> Objects {
    let latest = view.latest();
    let Some((manifest, bytes, _)) = view.manifest() else {
        return Objects::new(vec![], vec![], latest);
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
    Objects::new(published, served, latest)
}

/// The path of an object, without the leading slash.
fn relative(path: SequencePath) -> String {
    path.to_string().split_off(1)
}
