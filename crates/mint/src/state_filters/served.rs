//! What requests for state filters are answered from.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use nutfilter_cashu::state_filters::Event;
use nutfilter_cashu::state_filters::manifest::Hash;
use nutfilter_sequence::View;
use sha2::{Digest, Sha256};

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

/// A file that never changes, and its SHA-256 as far as it was published.
#[derive(Clone, Debug)]
pub(crate) struct SealedFile {
    pub(crate) path: PathBuf,
    pub(crate) sha256: Option<Hash>,
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

    /// The manifest with this number. The current one has its own path, and can be had here too.
    pub(crate) fn old_manifest(&self, number: u64) -> Option<SealedFile> {
        Some(SealedFile {
            path: self.view.old_manifest(number)?,
            sha256: None,
        })
    }

    pub(crate) fn segment(&self, start: u64, end: u64) -> Option<SealedFile> {
        let (path, segment) = self.view.segment(start, end)?;
        let sha256 = Some(segment.sha256);
        Some(SealedFile { path, sha256 })
    }

    /// The draft's info document; `None` if the kind has no blocks.
    pub(crate) fn info(&self) -> Option<&Compressible> {
        self.info.as_ref()
    }

    pub(crate) fn block(&self, height: u64) -> Option<BlockBody> {
        if let Some((path, _)) = self.view.sealed_block(height) {
            let sha256 = None;
            return Some(BlockBody::Sealed(SealedFile { path, sha256 }));
        }
        let (open, interval) = self.open_block()?;
        (open.height == height).then(|| BlockBody::Open(Arc::clone(&open.body), interval))
    }
}

/// What is served of each published kind. Clones are handles to the same table.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceTable(Arc<RwLock<HashMap<Event, Arc<StateFilters>>>>, Digests);

/// The SHA-256 of each file that was served. Files never change, so each is hashed once.
#[derive(Clone, Debug, Default)]
struct Digests(Arc<RwLock<HashMap<PathBuf, Hash>>>);

/// More files than a sequence lists in ten years. The rest is hashed again.
const MAX_DIGESTS: usize = 20_000;

impl SequenceTable {
    /// The SHA-256 of a file, as its tag.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is not what was published: [`io::ErrorKind::InvalidData`].
    pub(crate) fn tag(&self, file: &SealedFile) -> io::Result<String> {
        let Digests(digests) = &self.1;
        // The lock is free again before the file is hashed.
        let known = {
            let digests = digests.read().unwrap_or_else(PoisonError::into_inner);
            digests.get(&file.path).copied()
        };
        let sha256 = match known {
            Some(sha256) => sha256,
            None => {
                let mut digest = Sha256::new();
                let mut content = BufReader::with_capacity(64 << 10, File::open(&file.path)?);
                loop {
                    let piece = content.fill_buf()?;
                    let read = piece.len();
                    if read == 0 {
                        break;
                    }
                    digest.update(piece);
                    content.consume(read);
                }
                let sha256: Hash = digest.finalize().into();
                if file.sha256.is_some_and(|published| published != sha256) {
                    let damaged = "damaged: it has another SHA-256 than the manifest";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, damaged));
                }
                let mut digests = digests.write().unwrap_or_else(PoisonError::into_inner);
                if digests.len() >= MAX_DIGESTS {
                    digests.clear();
                }
                digests.insert(file.path.clone(), sha256);
                sha256
            }
        };
        Ok(format!("\"{}\"", HEXLOWER.encode(&sha256)))
    }

    pub(crate) fn publish(&self, event: Event, served: StateFilters) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(event, Arc::new(served));
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
