//! Objects: the finished bytes at a path. HTTP and publishing know nothing else of filters and keysets.

use std::collections::HashMap;
use std::sync::Arc;

use crate::body::Body;

/// What is answered at a path. The next refresh may replace it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Object {
    /// The path, without a leading slash.
    pub path: Arc<str>,
    /// The media type.
    pub media_type: &'static str,
    /// The bytes, in memory or in a mapped file.
    pub body: Body,
    /// When they were made, in Unix seconds.
    pub date: u64,
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
    /// Not built yet.
    #[error("not built yet")]
    NotBuilt,
    /// There is nothing at this path.
    #[error("path not found")]
    UnknownPath,
}

impl Missing {
    /// The `code` of the response, as NUT-00 defines it; 0 where it defines none.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Missing::InvalidKeysetId | Missing::UnknownKeyset => 12_001,
            _ => 0,
        }
    }
}

impl Object {
    /// JSON.
    #[must_use]
    pub fn json(path: impl Into<Arc<str>>, body: Body, date: u64) -> Self {
        Self {
            path: path.into(),
            media_type: "application/json",
            body,
            date,
        }
    }

    /// The SHA-256 of the bytes, in hex.
    #[must_use]
    pub fn digest(&self) -> String {
        const_hex::encode(self.body.sha256())
    }

    /// The strong entity tag of the bytes, or of the bytes in gzip.
    #[must_use]
    pub fn etag(&self, gzip: bool) -> String {
        let suffix = if gzip { "-gzip" } else { "" };
        format!("\"{}{suffix}\"", self.digest())
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
}
