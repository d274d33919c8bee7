//! [`Bookmark`]: how far a sequence was tested, and what it looked like.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use data_encoding::BASE64;
use nutfilter_cashu::state_filters::manifest::{Hash, hash};
use nutfilter_cashu::state_filters::{Block, Event, Manifest, StateFilterError};
use serde::{Deserialize, Serialize};

use super::{FollowError, SequenceFormat};
use crate::client::MintClient;

/// How far a sequence was tested. It holds the last manifest, or the intervals and hashes of the sealed blocks, and so
/// notices later changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bookmark {
    version: u32,
    mint: String,
    kind: String,
    candidates: String,
    /// What matched and need not be reported again, by the first 8 bytes of the element in hex.
    #[serde(default)]
    pub(super) reported: BTreeMap<String, Reported>,
    #[serde(flatten)]
    position: Position,
}

/// An element that matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reported {
    /// The height of the open block in which it matched.
    #[serde(default)]
    pub(super) open: Option<u64>,
    /// Whether the mint confirmed it, so that it cannot change again.
    #[serde(default)]
    pub(super) settled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "lowercase")]
pub(super) enum Position {
    /// The bytes of the last manifest. Everything before its end was tested.
    Segments { manifest: String },
    /// The sealed blocks, all of which were tested.
    Blocks {
        blocks: Vec<SeenBlock>,
        #[serde(default)]
        open: Option<OpenBlock>,
    },
}

/// A sealed block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeenBlock {
    pub(super) start: u64,
    pub(super) end: u64,
    /// In hex; missing if the block was not downloaded.
    pub(super) sha256: Option<String>,
}

/// The open block as it was read last. The sealed one must have all its bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenBlock {
    pub(super) height: u64,
    /// The bitmap, in base64.
    pub(super) bits: String,
}

impl OpenBlock {
    pub(super) fn block(&self) -> Result<Block, StateFilterError> {
        Block::from_bytes(BASE64.decode(self.bits.as_bytes()).unwrap_or_default())
    }
}

const VERSION: u32 = 1;

impl Bookmark {
    pub(super) fn new(
        client: &MintClient,
        kind: Event,
        candidates: String,
        position: Position,
    ) -> Self {
        Self {
            version: VERSION,
            mint: client.base_url().to_owned(),
            kind: kind.as_str().to_owned(),
            candidates,
            reported: BTreeMap::new(),
            position,
        }
    }

    /// Reads the bookmark of this kind in a directory, if it exists.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is damaged.
    pub fn load(directory: &Path, kind: Event) -> Result<Option<Self>, FollowError> {
        let path = path(directory, kind);
        let json = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| FollowError::bookmark(&path, error))?,
        };
        let damaged = |why: &str| {
            let why = format!("damaged bookmark ({why}); delete it to start again");
            FollowError::bookmark(&path, why)
        };
        let bookmark: Self =
            serde_json::from_slice(&json).map_err(|error| damaged(&error.to_string()))?;
        if bookmark.version != VERSION {
            return Err(damaged("unknown version"));
        }
        // `store` names the file by it.
        if bookmark.kind != kind.as_str() {
            return Err(damaged("of another kind than its name"));
        }
        if let Some((Err(error), _)) = bookmark.manifest() {
            return Err(damaged(&error.to_string()));
        }
        if let Some(open) = bookmark.open_block()
            && let Err(error) = open.block()
        {
            return Err(damaged(&error.to_string()));
        }
        Ok(Some(bookmark))
    }

    /// Writes the bookmark into a directory, which is created if necessary. The file is replaced atomically.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn store(&self, directory: &Path) -> Result<(), FollowError> {
        let path = directory.join(format!("{}.json", self.kind));
        let write = || {
            fs::create_dir_all(directory)?;
            // A process of its own name each: two may follow with one bookmark.
            let new = directory.join(format!(".{}-{}.new", self.kind, std::process::id()));
            nutfilter_files::replace(&path, &new, &serde_json::to_vec(self)?)
        };
        write().map_err(|error: io::Error| FollowError::bookmark(&path, error))
    }

    /// Blocks or segments.
    #[must_use]
    pub fn format(&self) -> SequenceFormat {
        match self.position {
            Position::Segments { .. } => SequenceFormat::Segments,
            Position::Blocks { .. } => SequenceFormat::Blocks,
        }
    }

    pub(super) fn candidates(&self) -> &str {
        &self.candidates
    }

    /// The last manifest and the hash of its bytes.
    pub(super) fn manifest(&self) -> Option<(Result<Manifest, FollowError>, Hash)> {
        match &self.position {
            Position::Segments { manifest } => {
                let json = manifest.as_bytes();
                let parsed = Manifest::from_json(json).map_err(FollowError::from);
                Some((parsed, hash(json)))
            }
            Position::Blocks { .. } => None,
        }
    }

    pub(super) fn blocks(&self) -> &[SeenBlock] {
        match &self.position {
            Position::Segments { .. } => &[],
            Position::Blocks { blocks, .. } => blocks,
        }
    }

    pub(super) fn open_block(&self) -> Option<&OpenBlock> {
        match &self.position {
            Position::Segments { .. } => None,
            Position::Blocks { open, .. } => open.as_ref(),
        }
    }

    /// Checks that the bookmark is of this mint, kind and format.
    pub(super) fn check_origin(
        &self,
        client: &MintClient,
        kind: Event,
        format: Option<SequenceFormat>,
    ) -> Result<(), FollowError> {
        let name = |format| match format {
            SequenceFormat::Segments => "segments",
            SequenceFormat::Blocks => "blocks",
        };
        for (what, bookmark, asked) in [
            ("mint", &*self.mint, client.base_url()),
            ("kind", &*self.kind, kind.as_str()),
            (
                "format",
                name(self.format()),
                name(format.unwrap_or_else(|| self.format())),
            ),
        ] {
            if bookmark != asked {
                return Err(FollowError::Bookmark(format!(
                    "the bookmark is of {what} {bookmark}, not {asked}; use another directory"
                )));
            }
        }
        Ok(())
    }
}

fn path(directory: &Path, kind: Event) -> std::path::PathBuf {
    directory.join(format!("{kind}.json"))
}
