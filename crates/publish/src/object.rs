//! What is published: bytes, where they go, and how readers may cache them.

use std::time::Duration;

use nutfilter_mint::Body;

/// How long caches may keep an object that never changes: a year, which is in effect forever.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// One object of a publication.
#[derive(Clone, Debug)]
pub struct Object {
    path: String,
    body: Body,
    media_type: &'static str,
    replacement: Replacement,
    max_age: Duration,
}

/// Whether an object may replace another one at its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replacement {
    /// The path never gets other bytes.
    Never,
    /// It replaces one that is not dated later.
    NotLater {
        /// Its date, in Unix seconds.
        date: u64,
    },
}

impl Object {
    /// Creates an object whose path never gets other bytes.
    ///
    /// # Errors
    ///
    /// If the path is not a plain relative path.
    pub fn immutable(
        path: impl Into<String>,
        media_type: &'static str,
        body: Body,
    ) -> Result<Self, InvalidPath> {
        Self::new(path.into(), media_type, body, Replacement::Never, FOREVER)
    }

    /// Creates an object that replaces one that is not dated later. Caches may keep it for `max_age`.
    ///
    /// # Errors
    ///
    /// As [`immutable`](Self::immutable).
    pub fn replaceable(
        path: impl Into<String>,
        media_type: &'static str,
        body: Body,
        date: u64,
        max_age: Duration,
    ) -> Result<Self, InvalidPath> {
        let replacement = Replacement::NotLater { date };
        Self::new(path.into(), media_type, body, replacement, max_age)
    }

    fn new(
        path: String,
        media_type: &'static str,
        body: Body,
        replacement: Replacement,
        max_age: Duration,
    ) -> Result<Self, InvalidPath> {
        // A reader's URL, a file and a key must mean the same object.
        let is_plain = |segment: &str| {
            !segment.is_empty()
                && !segment.starts_with('.')
                && !segment.contains(|c: char| c.is_control() || c == '\\')
        };
        if !path.split('/').all(is_plain) {
            return Err(InvalidPath { path });
        }
        Ok(Self {
            path,
            body,
            media_type,
            replacement,
            max_age,
        })
    }

    /// The path below the destination, without a leading slash.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The bytes.
    #[must_use]
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The media type (`Content-Type`).
    #[must_use]
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// Whether it may replace another object.
    #[must_use]
    pub fn replacement(&self) -> Replacement {
        self.replacement
    }

    /// The date of a replaceable object, in Unix seconds.
    #[must_use]
    pub fn date(&self) -> Option<u64> {
        match self.replacement {
            Replacement::Never => None,
            Replacement::NotLater { date } => Some(date),
        }
    }

    /// The value of `Cache-Control`.
    #[must_use]
    pub fn cache_control(&self) -> String {
        let immutable = match self.replacement {
            Replacement::Never => ", immutable",
            Replacement::NotLater { .. } => "",
        };
        format!("public, max-age={}{immutable}", self.max_age.as_secs())
    }

    /// The SHA-256 of the bytes, in hex.
    #[must_use]
    pub fn digest(&self) -> &str {
        let tag = self.body.etag().to_str().unwrap_or_default();
        tag.trim_matches('"')
    }
}

/// A path that cannot be that of an object: it has an empty segment, or one that begins with a dot, or a character that
/// cannot be in a file name everywhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid object path {path:?}")]
pub struct InvalidPath {
    path: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_must_be_plain_and_relative() {
        let object = |path: &str| Object::immutable(path, "text/plain", Body::from_bytes("x"));
        for path in ["v1/keysets", "v1/filter/spent/I2yN+iRYfk/T", "a.json"] {
            assert!(object(path).is_ok(), "{path}");
        }
        for path in [
            "", "/a", "a/", "a//b", "a/../b", ".", ".hidden", "a\\b", "a\0",
        ] {
            assert!(object(path).is_err(), "{path}");
        }
    }

    #[test]
    fn digest_is_the_sha_256() {
        let object = Object::immutable("a", "text/plain", Body::from_bytes("abc")).unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(object.digest(), expected);
        assert_eq!(
            object.cache_control(),
            "public, max-age=31536000, immutable"
        );
    }
}
