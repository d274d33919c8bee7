//! What requests for state filters are answered from.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use nutfilter_cashu::state_filters::Event;
use nutfilter_sequence::{Error, SealedFile, View};

use crate::body::Body;

/// A body, and the same in gzip if that is shorter.
#[derive(Clone, Debug)]
pub(crate) struct Compressible {
    pub(crate) plain: Body,
    pub(crate) gzip: Option<Body>,
}

impl Compressible {
    fn new(bytes: &[u8]) -> Self {
        let compress = || -> io::Result<Vec<u8>> {
            let mut encoder = GzEncoder::new(vec![], Compression::default());
            encoder.write_all(bytes)?;
            encoder.finish()
        };
        let gzip = compress().ok().filter(|gzip| gzip.len() < bytes.len());
        Self {
            plain: Body::from_bytes(bytes.to_vec()),
            gzip: gzip.map(Body::from_bytes),
        }
    }
}

/// A copy of the open block, which is served until the next one is due.
#[derive(Clone, Debug)]
pub struct OpenBlock {
    height: u64,
    /// The Unix second of the copy.
    copied: u64,
    body: Arc<Compressible>,
}

impl OpenBlock {
    pub(crate) fn new(height: u64, bytes: &[u8], now: u64) -> Self {
        Self {
            height,
            copied: now,
            body: Arc::new(Compressible::new(bytes)),
        }
    }

    /// The height.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.height
    }

    /// When it was copied, in Unix seconds.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// The bitmap.
    #[must_use]
    pub fn body(&self) -> &Body {
        &self.body.plain
    }

    /// Whether it need not be replaced yet. If the clock was set back, it is replaced.
    pub(crate) fn is_current(&self, height: u64, interval: u64, now: u64) -> bool {
        let age = now.checked_sub(self.copied);
        self.height == height && age.is_some_and(|age| age < interval)
    }
}

/// A block of the draft.
#[derive(Clone, Debug)]
pub(crate) enum BlockBody {
    Sealed(SealedFile),
    /// With the seconds for which it may be cached.
    Open(Arc<Compressible>, u64),
}

/// The state filters of one kind of event, as they are served at one moment.
#[derive(Debug)]
pub struct StateFilters {
    view: View,
    manifest: Option<Compressible>,
    info: Option<Compressible>,
    open: Option<OpenBlock>,
    open_interval: Option<u64>,
}

impl StateFilters {
    pub(crate) fn new(view: View, open_interval: Option<u64>, open: Option<OpenBlock>) -> Self {
        let info = view.block_info(open_interval);
        Self {
            manifest: view
                .manifest()
                .map(|(_, bytes, _)| Compressible::new(bytes)),
            info: info.map(|info| Compressible::new(&info.to_json())),
            view,
            open,
            open_interval,
        }
    }

    /// The files of manifests, segments and sealed blocks.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The draft's list of blocks, as JSON; `None` if the kind has no blocks.
    #[must_use]
    pub fn block_info(&self) -> Option<&Body> {
        Some(&self.info.as_ref()?.plain)
    }

    /// The served copy of the open block and the seconds between two copies; `None` if it is not served.
    #[must_use]
    pub fn open_block(&self) -> Option<(&OpenBlock, u64)> {
        self.open.as_ref().zip(self.open_interval)
    }

    /// The current manifest; `None` before the first reading.
    pub(crate) fn manifest(&self) -> Option<&Compressible> {
        self.manifest.as_ref()
    }

    /// The draft's info document; `None` if the kind has no blocks.
    pub(crate) fn info(&self) -> Option<&Compressible> {
        self.info.as_ref()
    }

    pub(crate) fn block(&self, height: u64) -> Option<BlockBody> {
        if let Some(file) = self.view.sealed_block(height) {
            return Some(BlockBody::Sealed(file));
        }
        let (open, interval) = self.open_block()?;
        (open.height == height).then(|| BlockBody::Open(Arc::clone(&open.body), interval))
    }
}

/// What is served of each published kind. Clones are handles to the same table.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceTable(Arc<RwLock<HashMap<Event, Arc<StateFilters>>>>, Checked);

/// The files that were checked. They never change, so each is checked once by a process.
#[derive(Clone, Debug, Default)]
struct Checked(Arc<RwLock<HashSet<PathBuf>>>);

/// More files than a sequence lists in ten years. The rest is checked again.
const MAX_CHECKED: usize = 20_000;

impl SequenceTable {
    /// The tag of a file: its SHA-256.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is damaged.
    pub(crate) fn tag(&self, file: &SealedFile) -> Result<String, Error> {
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
        Ok(format!("\"{}\"", HEXLOWER.encode(&file.sha256)))
    }

    /// Serves this, or the kind no more.
    pub(crate) fn publish(&self, event: Event, served: Option<StateFilters>) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match served {
            Some(served) => table.insert(event, Arc::new(served)),
            None => table.remove(&event),
        };
    }

    /// The latest second that what is published begins before, or a block begins at.
    pub(crate) fn latest(&self) -> u64 {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let latest = table.values().map(|served| served.view.latest());
        latest.max().unwrap_or(0)
    }

    pub(crate) fn get(&self, event: Event) -> Option<Arc<StateFilters>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.get(&event).cloned()
    }
}
