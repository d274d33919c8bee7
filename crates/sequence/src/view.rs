//! [`View`]: what a sequence publishes at one moment.

use std::path::PathBuf;
use std::sync::Arc;

use nutfilter_cashu::state_filters::manifest::Hash;
use nutfilter_cashu::state_filters::{BlockInfo, BlockInterval, Event, Manifest, ManifestSegment};

use crate::blocks::SealedBlock;
use crate::files::SealedFile;
use crate::sequence::{manifest_path, segment_file};

/// What a sequence publishes at one moment. It does not change when the sequence does.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) directory: PathBuf,
    pub(crate) manifest: Option<(Arc<Manifest>, Arc<[u8]>, Hash)>,
    /// The SHA-256 of the manifests before that, the newest first.
    pub(crate) older: Arc<[Hash]>,
    /// Segments that just left the manifest.
    pub(crate) unlisted: Arc<[ManifestSegment]>,
    pub(crate) blocks: Option<BlocksView>,
    pub(crate) kind: Event,
}

#[derive(Clone, Debug)]
pub(crate) struct BlocksView {
    pub(crate) width: u32,
    pub(crate) timeout: u64,
    pub(crate) sealed: Arc<[SealedBlock]>,
    pub(crate) opened: u64,
}

impl View {
    /// The kind of the events.
    #[must_use]
    pub fn kind(&self) -> Event {
        self.kind
    }

    /// The current manifest, its bytes and their SHA-256; `None` before the first batch.
    #[must_use]
    pub fn manifest(&self) -> Option<(&Manifest, &Arc<[u8]>, &Hash)> {
        let (manifest, bytes, sha256) = self.manifest.as_ref()?;
        Some((manifest, bytes, sha256))
    }

    /// The file of the manifest with this number, if it is still served.
    #[must_use]
    pub fn old_manifest(&self, number: u64) -> Option<SealedFile> {
        let (manifest, _, sha256) = self.manifest.as_ref()?;
        let age = usize::try_from(manifest.number.checked_sub(number)?).ok()?;
        let sha256 = *[*sha256].iter().chain(&*self.older).nth(age)?;
        let path = manifest_path(&self.directory, number);
        Some(SealedFile { path, sha256 })
    }

    /// The file of a segment that is listed, or was listed some minutes ago.
    #[must_use]
    pub fn segment(&self, start: u64, end: u64) -> Option<SealedFile> {
        let (manifest, ..) = self.manifest.as_ref()?;
        let mut served = manifest.segments.iter().chain(&*self.unlisted);
        let segment = served.find(|segment| (segment.start, segment.end) == (start, end))?;
        Some(segment_file(&self.directory, segment))
    }

    /// The intervals of segments that left the manifest some minutes ago.
    pub fn unlisted(&self) -> impl Iterator<Item = (u64, u64)> {
        self.unlisted.iter().map(|one| (one.start, one.end))
    }

    /// The draft's info document, with this interval; `None` if the sequence has no blocks.
    #[must_use]
    pub fn block_info(&self, open_interval: Option<u64>) -> Option<BlockInfo> {
        let blocks = self.blocks.as_ref()?;
        let sealed = blocks.sealed.iter().map(|block| BlockInterval {
            start: block.start,
            end: Some(block.end),
        });
        let open = BlockInterval {
            start: blocks.opened,
            end: None,
        };
        Some(BlockInfo {
            b: blocks.width,
            timeout: blocks.timeout,
            open_interval,
            blocks: sealed.chain([open]).collect(),
        })
    }

    /// The height of the open block; `None` if the sequence has no blocks.
    #[must_use]
    pub fn open_height(&self) -> Option<u64> {
        Some(self.blocks.as_ref()?.sealed.len() as u64)
    }

    /// The file of a sealed block.
    #[must_use]
    pub fn sealed_block(&self, height: u64) -> Option<SealedFile> {
        let blocks = self.blocks.as_ref()?;
        let block = *blocks.sealed.get(usize::try_from(height).ok()?)?;
        Some(block.file(&self.directory.join("blocks"), height))
    }

    /// The Unix second at which the last segment ends or the open block begins, whichever is later; 0 before the first.
    #[must_use]
    pub fn latest(&self) -> u64 {
        let end = self.manifest.as_ref().map(|(manifest, ..)| manifest.end());
        let opened = self.blocks.as_ref().map(|blocks| blocks.opened);
        end.max(opened).unwrap_or(0)
    }
}
