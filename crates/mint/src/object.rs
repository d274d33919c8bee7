//! Objects: the finished bytes at a path. HTTP and publishing know nothing else of filters, keysets and sequences.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use nutfilter_sequence::SealedFile;

use crate::body::Body;
use crate::succession::Succession;

/// What is answered at a path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Object {
    /// The path, without a leading slash.
    pub path: Arc<str>,
    /// The media type.
    pub media_type: &'static str,
    /// The bytes.
    pub content: Content,
    /// When they were made, in Unix seconds; `None` if they never change.
    pub date: Option<u64>,
    /// How long caches may keep it.
    pub cache: Cache,
    /// For a list of other objects: which published lists it may replace. Other objects may replace an older one.
    pub succession: Option<Succession>,
}

/// The bytes of an object.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory, or in a mapped file.
    Body(Body),
    /// A file that never changes.
    File(SealedFile),
}

/// How long caches may keep an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// The next refresh may replace it.
    UntilRefresh,
    /// This many seconds. A published copy is replaced only when it is that old.
    Seconds(u64),
    /// It never changes.
    Forever,
}

impl Cache {
    /// The value of `Cache-Control`, with this time until the next refresh, in seconds.
    #[must_use]
    pub fn control(self, until_refresh: u64) -> String {
        match self {
            Cache::UntilRefresh => format!("public, max-age={until_refresh}"),
            Cache::Seconds(seconds) => format!("public, max-age={seconds}"),
            Cache::Forever => "public, max-age=31536000, immutable".to_owned(),
        }
    }
}

/// Why there is no object at a path. No text repeats request data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Missing {
    /// The keyset id is invalid. No mint can know it, so the code is that of an unknown keyset.
    #[error("invalid keyset id")]
    InvalidKeysetId,
    /// The mint has no such keyset.
    #[error("keyset is not known")]
    UnknownKeyset,
    /// The sequence of state filters has no such block, segment or manifest.
    #[error("no such block, segment or manifest")]
    UnknownObject,
    /// This kind of event has no state filters here.
    #[error("no state filters of this kind")]
    UnknownKind,
    /// Not built yet.
    #[error("not built yet")]
    NotBuilt,
    /// There is nothing at this path.
    #[error("path not found")]
    UnknownPath,
    /// Its file cannot be read, or is damaged.
    #[error("internal error")]
    Damaged,
}

impl Missing {
    /// The `code` of the response, as NUT-00 and the draft on state filters define it; 0 where they define none.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Missing::InvalidKeysetId | Missing::UnknownKeyset => 12_001,
            Missing::UnknownObject => 40_001,
            Missing::UnknownKind => 40_002,
            _ => 0,
        }
    }
}

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

impl Object {
    /// JSON that the next refresh may change.
    #[must_use]
    pub fn json(path: impl Into<Arc<str>>, body: Body, date: u64) -> Self {
        Self {
            path: path.into(),
            media_type: JSON,
            content: Content::Body(body),
            date: Some(date),
            cache: Cache::UntilRefresh,
            succession: None,
        }
    }

    /// Bytes that are replaced when they are this many seconds old.
    pub(crate) fn copy(path: impl Into<Arc<str>>, body: Body, date: u64, seconds: u64) -> Self {
        Self {
            media_type: BYTES,
            cache: Cache::Seconds(seconds),
            ..Self::json(path, body, date)
        }
    }

    /// A file that never changes: a manifest, or bytes.
    pub(crate) fn sealed(path: impl Into<Arc<str>>, file: SealedFile, is_json: bool) -> Self {
        Self {
            path: path.into(),
            media_type: if is_json { JSON } else { BYTES },
            content: Content::File(file),
            date: None,
            cache: Cache::Forever,
            succession: None,
        }
    }

    /// The SHA-256 of the bytes, in hex.
    #[must_use]
    pub fn digest(&self) -> String {
        HEXLOWER.encode(match &self.content {
            Content::Body(body) => body.sha256(),
            Content::File(file) => &file.sha256,
        })
    }

    /// The strong entity tag of the bytes, or of the bytes in gzip.
    #[must_use]
    pub fn etag(&self, gzip: bool) -> String {
        let suffix = if gzip { "-gzip" } else { "" };
        format!("\"{}{suffix}\"", self.digest())
    }

    /// The bytes.
    ///
    /// # Errors
    ///
    /// Their file cannot be read, or is damaged.
    pub fn read(&self) -> Result<Bytes, nutfilter_sequence::Error> {
        match &self.content {
            Content::Body(body) => Ok(body.bytes().clone()),
            Content::File(file) => file.read().map(Bytes::from),
        }
    }
}

/// Objects by path. Those that are published are in an order in which each comes after those that it names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    published: Arc<[Object]>,
    by_path: HashMap<Arc<str>, Object>,
    latest: u64,
}

impl Objects {
    /// `served` are objects that are served and not published, and `latest` is the latest Unix second that they speak of.
    pub(crate) fn new(published: Vec<Object>, served: Vec<Object>, latest: u64) -> Self {
        let all = published.iter().chain(&served);
        Self {
            by_path: all.map(|one| (one.path.clone(), one.clone())).collect(),
            published: published.into(),
            latest,
        }
    }

    pub(crate) fn published(&self) -> Arc<[Object]> {
        self.published.clone()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Object> {
        self.by_path.get(path)
    }

    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }
}
