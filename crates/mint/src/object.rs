//! Objects: the finished bytes at a path. HTTP knows nothing else of filters, keysets and sequences.

use std::path::PathBuf;

use http::HeaderValue;
use nutfilter_sequence::SealedFile;
use percent_encoding::percent_decode_str;

use crate::body::Body;
use crate::service::FilterService;
use crate::state_filters::{BlockBody, Compressible};
use crate::{Event, KeysetId, NoteKind};

/// What is answered at a path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Object {
    /// The media type.
    pub media_type: &'static str,
    /// The bytes.
    pub content: Content,
    /// When they were made, in Unix seconds, if readers may rely on it.
    pub modified: Option<u64>,
    /// How long caches may keep them.
    pub cache: Cache,
}

/// The bytes of an object.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory, or in a mapped file. The second body is the same in gzip.
    Body(Body, Option<Body>),
    /// A file that never changes, and its entity tag.
    File(PathBuf, HeaderValue),
}

/// How long caches may keep an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// The next refresh may replace it.
    UntilRefresh,
    /// This many seconds.
    Seconds(u64),
    /// It never changes.
    Forever,
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

impl FilterService {
    /// The object at a path, without a leading slash. Only keyset ids may be percent-encoded.
    ///
    /// # Errors
    ///
    /// If nothing is served at the path.
    pub fn object(&self, path: &str) -> Result<Object, Missing> {
        let parts: Vec<&str> = path.splitn(4, '/').collect();
        match parts[..] {
            ["v1", "keysets"] => {
                let snapshot = self.snapshot().ok_or(Missing::NotBuilt)?;
                let body = snapshot.keysets_body().clone();
                let content = Content::Body(body, None);
                Ok(Object::json(content, Some(snapshot.refreshed_at())))
            }
            ["v1", "filter", "spent", id] => self.filter(NoteKind::Spent, id),
            ["v1", "filter", "issued", id] => self.filter(NoteKind::Issued, id),
            ["v1", "filters", what, rest] => self.state_filter(what, rest),
            _ => Err(Missing::UnknownPath),
        }
    }

    fn filter(&self, kind: NoteKind, id: &str) -> Result<Object, Missing> {
        let id = percent_decode_str(id).decode_utf8();
        let id = id.map_err(|_| Missing::InvalidKeysetId)?;
        let id = KeysetId::parse(&id).map_err(|_| Missing::InvalidKeysetId)?;
        let snapshot = self.snapshot().ok_or(Missing::NotBuilt)?;
        let keyset = snapshot.keyset(&id).ok_or(Missing::UnknownKeyset)?;
        let filter = keyset.filter(kind).ok_or(Missing::NotBuilt)?;
        let content = Content::Body(filter.json().clone(), filter.gzip().cloned());
        Ok(Object::json(content, Some(filter.timestamp())))
    }

    fn state_filter(&self, what: &str, rest: &str) -> Result<Object, Missing> {
        let (kind, name) = match rest.split_once('/') {
            Some((kind, name)) => (kind, Some(name)),
            None => (rest, None),
        };
        let known = matches!(
            (what, name.is_some()),
            ("manifest" | "info", false) | ("manifests" | "segments" | "blocks", true)
        );
        if !known || name.is_some_and(|name| name.contains('/')) {
            return Err(Missing::UnknownPath);
        }
        let served = Event::from_name(kind).and_then(|kind| self.state_filters(kind));
        let served = served.ok_or(Missing::UnknownKind)?;
        let name = name.unwrap_or_default();
        let file = |media_type, file: Option<SealedFile>| {
            let file = file.ok_or(Missing::UnknownObject)?;
            self.sealed(media_type, file)
        };
        match what {
            "manifest" => {
                let manifest = served.manifest().ok_or(Missing::NotBuilt)?;
                Ok(Object::json(compressible(manifest), None))
            }
            "info" => {
                let info = served.info().ok_or(Missing::UnknownKind)?;
                Ok(Object::json(compressible(info), None))
            }
            "manifests" => file(
                JSON,
                number(name).and_then(|number| served.view().old_manifest(number)),
            ),
            "segments" => {
                let interval = name.split_once('-');
                let interval =
                    interval.and_then(|(start, end)| Some((number(start)?, number(end)?)));
                file(
                    BYTES,
                    interval.and_then(|(start, end)| served.view().segment(start, end)),
                )
            }
            _ if served.info().is_none() => Err(Missing::UnknownKind),
            _ => match number(name).and_then(|height| served.block(height)) {
                Some(BlockBody::Open(block, seconds)) => Ok(Object {
                    media_type: BYTES,
                    content: compressible(&block),
                    modified: None,
                    cache: Cache::Seconds(seconds),
                }),
                Some(BlockBody::Sealed(block)) => file(BYTES, Some(block)),
                None => Err(Missing::UnknownObject),
            },
        }
    }

    fn sealed(&self, media_type: &'static str, file: SealedFile) -> Result<Object, Missing> {
        let tag = self.sequences().tag(&file).map_err(|error| {
            tracing::error!(path = %file.path.display(), %error, "could not serve a published file");
            Missing::Damaged
        })?;
        let tag = HeaderValue::try_from(tag).map_err(|_| Missing::Damaged)?;
        Ok(Object {
            media_type,
            content: Content::File(file.path, tag),
            modified: None,
            cache: Cache::Forever,
        })
    }
}

impl Object {
    /// JSON that the next refresh may change.
    #[must_use]
    pub fn json(content: Content, modified: Option<u64>) -> Self {
        Self {
            media_type: JSON,
            content,
            modified,
            cache: Cache::UntilRefresh,
        }
    }
}

fn compressible(body: &Compressible) -> Content {
    Content::Body(body.plain.clone(), body.gzip.clone())
}

/// A number as this service writes it, so that each object has one URL.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}
