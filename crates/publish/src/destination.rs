//! Writes objects to a store, in order and without undoing what other publishers did.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nutfilter_mint::{Cache, Object, Succession};
use percent_encoding::percent_decode_str;

use crate::directory::Directory;
use crate::{DestinationError, Found, PublishError, Put, Store, Version};

/// How often an object is tried before other publishers win.
pub(crate) const ATTEMPTS: u32 = 8;

/// An object dated later than this many seconds from now was published with a wrong clock, and is replaced. Wallets
/// reject such a filter.
const MAX_AHEAD: u64 = 300;

/// Publications after which it is forgotten that an object was published.
const FORGET: u64 = 100;

/// Where objects are published.
pub struct Destination {
    store: Box<dyn Store>,
    max_age: u64,
    /// Objects of sequences that this process found or wrote, by path. They need no query. With their digest and the number
    /// of the last publication that had them.
    known: HashMap<Arc<str>, (String, u64)>,
    publications: u64,
}

/// Result of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Number of objects written.
    pub written: usize,
    /// Number of bytes written.
    pub bytes: u64,
    /// Number of objects that were there already.
    pub unchanged: usize,
    /// Paths at which another publisher has a later object.
    pub superseded: Vec<String>,
}

impl Report {
    /// Adds the result of another publication.
    pub fn merge(&mut self, other: Self) {
        self.written += other.written;
        self.bytes += other.bytes;
        self.unchanged += other.unchanged;
        self.superseded.extend(other.superseded);
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination").finish_non_exhaustive()
    }
}

impl Destination {
    /// Opens a directory (a path or `file://`), which is created if it is missing. With the feature `object-store`
    /// also `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` and `az://CONTAINER/PREFIX`. Their credentials and endpoints
    /// come from the environment: the variables that begin with `AWS_`, `GOOGLE_` and `AZURE_`.
    ///
    /// # Errors
    ///
    /// If the destination is invalid or not supported by this build, or if the directory cannot be created.
    pub fn open(destination: &str) -> Result<Self, DestinationError> {
        let (scheme, rest) = match destination.split_once("://") {
            // A drive letter is not a scheme.
            Some((scheme, rest)) if scheme.len() > 1 => (scheme, rest),
            _ => return Ok(Self::new(Directory::open(destination.as_ref())?)),
        };
        match scheme {
            "file" => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                let path = percent_decode_str(path).decode_utf8();
                let path = path.map_err(DestinationError::url)?;
                if !path.starts_with('/') {
                    return Err(DestinationError::url("file:// needs an absolute path"));
                }
                Ok(Self::new(Directory::open(path.as_ref().as_ref())?))
            }
            "s3" | "s3a" | "gs" | "az" | "abfs" | "abfss" => cloud(scheme, destination),
            _ => Err(DestinationError::Scheme(scheme.to_owned())),
        }
    }

    /// Publishes to a store of any kind.
    pub fn new(store: impl Store + 'static) -> Self {
        Self {
            store: Box::new(store),
            max_age: 60,
            known: HashMap::new(),
            publications: 0,
        }
    }

    /// Sets how long caches may keep an object that the next refresh may replace. The default is a minute.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age.as_secs();
        self
    }

    /// Publishes objects in their order: each comes after those that it names. An unchanged one costs one query at most.
    ///
    /// # Errors
    ///
    /// The first failure. All objects before it are published, and none after it. Nothing is published if a list may not
    /// replace the published one.
    ///
    /// # Cost
    ///
    /// Memory: the largest new object.
    pub fn publish(&mut self, objects: &[Object]) -> Result<Report, PublishError> {
        let locked = self.store.lock();
        let _lock = locked.map_err(|source| PublishError::Store { path: None, source })?;
        self.publications += 1;
        for object in objects {
            if let Some(succession) = &object.succession
                && !self.is_known(object)
            {
                self.read(object, succession)?;
            }
        }
        let mut report = Report::default();
        for object in objects {
            if !is_plain(&object.path) {
                // Some ids from before versions existed contain slashes.
                tracing::warn!(path = %object.path, "this object is only served by the service");
                continue;
            }
            if !self.is_known(object) {
                self.publish_one(object, &mut report)?;
            }
            if object.succession.is_some() || object.cache != Cache::UntilRefresh {
                let known = (object.digest(), self.publications);
                self.known.insert(object.path.clone(), known);
            }
        }
        let oldest = self.publications.saturating_sub(FORGET);
        self.known.retain(|_, (_, last)| *last >= oldest);
        Ok(report)
    }

    fn is_known(&self, object: &Object) -> bool {
        let known = self.known.get(&object.path);
        known.is_some_and(|(digest, _)| *digest == object.digest())
    }

    /// The version of the published list that this one may replace, and whether both are the same.
    fn read(
        &mut self,
        object: &Object,
        succession: &Succession,
    ) -> Result<Option<(Version, bool)>, PublishError> {
        let read = self.store.read(&object.path);
        let read = read.map_err(|source| PublishError::at(&object.path, source))?;
        let Some((bytes, version)) = read else {
            return Ok(None);
        };
        succession
            .check(&bytes)
            .map_err(|source| PublishError::Succession {
                path: object.path.to_string(),
                source,
            })?;
        let is_same = object.read().map_err(PublishError::File)? == bytes;
        Ok(Some((version, is_same)))
    }

    fn publish_one(&mut self, object: &Object, report: &mut Report) -> Result<(), PublishError> {
        let failed = |source| PublishError::at(&object.path, source);
        for _ in 0..ATTEMPTS {
            let found = match &object.succession {
                Some(succession) => self.read(object, succession)?,
                None => match self.store.find(object).map_err(failed)? {
                    Some(found) if found.is_same => Some((found.version, true)),
                    Some(found) if !self.may_replace(object, &found) => {
                        match object.cache {
                            Cache::Seconds(_) => report.unchanged += 1,
                            _ => report.superseded.push(object.path.to_string()),
                        }
                        return Ok(());
                    }
                    found => found.map(|found| (found.version, false)),
                },
            };
            if let Some((_, true)) = found {
                report.unchanged += 1;
                return Ok(());
            }
            let (bytes, over) = (
                object.read().map_err(PublishError::File)?,
                found.map(|(v, _)| v),
            );
            let (length, cache) = (bytes.len() as u64, object.cache.control(self.max_age));
            let put = self.store.put(object, bytes, &cache, over.as_ref());
            if put.map_err(failed)? == Put::Written {
                report.written += 1;
                report.bytes += length;
                return Ok(());
            }
        }
        Err(PublishError::Contended(object.path.to_string()))
    }

    /// Whether an object may replace another one, which has other bytes.
    fn may_replace(&self, object: &Object, found: &Found) -> bool {
        let path = &*object.path;
        match (object.cache, object.date) {
            // The list that names it allows only these bytes. The others are a copy of the open block, or damage.
            (Cache::Forever, _) | (_, None) => {
                if !self.known.contains_key(path) {
                    tracing::warn!(path, "replacing other bytes at the path of a sealed object");
                }
                true
            }
            (Cache::Seconds(interval), Some(date)) => {
                let age = date.checked_sub(found.date);
                age.is_none_or(|age| age >= interval)
            }
            (Cache::UntilRefresh, Some(date)) => {
                let is_wrong = found.date > now() + MAX_AHEAD;
                if is_wrong {
                    let date = found.date;
                    tracing::warn!(
                        path,
                        date,
                        "replacing an object that is dated in the future"
                    );
                }
                is_wrong || found.date <= date
            }
        }
    }
}

/// Whether a reader's URL, a file and a key with this path mean the same object.
fn is_plain(path: &str) -> bool {
    path.split('/').all(|segment| {
        !segment.is_empty()
            && !segment.starts_with('.')
            && !segment.contains(|c: char| c.is_control() || c == '\\')
    })
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

#[cfg(feature = "object-store")]
fn cloud(_: &str, destination: &str) -> Result<Destination, DestinationError> {
    let store = crate::object_store::Bucket::open(destination)?;
    Ok(Destination::new(store))
}

#[cfg(not(feature = "object-store"))]
fn cloud(scheme: &str, _: &str) -> Result<Destination, DestinationError> {
    Err(DestinationError::NotBuiltIn(scheme.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_must_be_plain_and_relative() {
        for path in ["v1/keysets", "v1/filter/spent/I2yN+iRYfk/T", "a.json"] {
            assert!(is_plain(path), "{path}");
        }
        for path in [
            "", "/a", "a/", "a//b", "a/../b", ".", ".hidden", "a\\b", "a\0",
        ] {
            assert!(!is_plain(path), "{path}");
        }
    }
}
