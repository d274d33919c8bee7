//! Writes objects to a store, in order and without undoing what other publishers did.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::time::{SystemTime, UNIX_EPOCH};

use nutfilter_mint::Event;
use percent_encoding::percent_decode_str;

use crate::directory::Directory;
use crate::state_filters::PublishedSequence;
use crate::{DestinationError, Found, Object, PublishError, Put, Replacement, Store};

/// How often an object is tried before other publishers win.
pub(crate) const ATTEMPTS: u32 = 8;

/// An object dated later than this many seconds from now was published with a wrong clock, and is replaced. Wallets
/// reject such a filter.
const MAX_AHEAD: u64 = 300;

/// Where objects are published.
pub struct Destination {
    pub(crate) store: Box<dyn Store>,
    pub(crate) sequences: HashMap<Event, PublishedSequence>,
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

    pub(crate) fn count(&mut self, object: &Object, outcome: Outcome) {
        match outcome {
            Outcome::Written => {
                self.written += 1;
                self.bytes += object.body().len() as u64;
            }
            Outcome::Unchanged => self.unchanged += 1,
            Outcome::Superseded => self.superseded.push(object.path().to_owned()),
        }
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
                let path = path.map_err(|error| DestinationError::Url {
                    reason: error.to_string(),
                })?;
                if !path.starts_with('/') {
                    let reason = "file:// needs an absolute path".to_owned();
                    return Err(DestinationError::Url { reason });
                }
                Ok(Self::new(Directory::open(path.as_ref().as_ref())?))
            }
            "s3" | "s3a" | "gs" | "az" | "abfs" | "abfss" => cloud(scheme, destination),
            _ => Err(DestinationError::Scheme {
                scheme: scheme.to_owned(),
            }),
        }
    }

    /// Publishes to a store of any kind.
    pub fn new(store: impl Store + 'static) -> Self {
        Self {
            store: Box::new(store),
            sequences: HashMap::new(),
        }
    }

    /// Publishes objects in their order. An unchanged one costs one query.
    ///
    /// # Errors
    ///
    /// The first failure. All objects before it are published, and none after it.
    pub fn publish(&mut self, objects: &[Object]) -> Result<Report, PublishError> {
        let _lock = self.lock()?;
        let mut report = Report::default();
        for object in objects {
            let outcome = self.publish_one(object, |found| match object.replacement() {
                Replacement::Never => Err(PublishError::Differs {
                    path: object.path().to_owned(),
                }),
                Replacement::NotLater { date } => {
                    let is_wrong = found.date > now() + MAX_AHEAD;
                    if is_wrong {
                        tracing::warn!(
                            path = object.path(),
                            date = found.date,
                            "replacing an object that is dated in the future"
                        );
                    }
                    Ok(is_wrong || found.date <= date)
                }
            })?;
            report.count(object, outcome);
        }
        Ok(report)
    }

    /// Keeps other publishers away, where replacing an object cannot be made conditional.
    pub(crate) fn lock(&mut self) -> Result<Option<File>, PublishError> {
        let locked = self.store.lock();
        locked.map_err(|source| PublishError::Store { path: None, source })
    }

    /// Publishes an object. If there is another one, `may_replace` decides.
    pub(crate) fn publish_one(
        &mut self,
        object: &Object,
        may_replace: impl Fn(&Found) -> Result<bool, PublishError>,
    ) -> Result<Outcome, PublishError> {
        let failed = |source| PublishError::at(object.path(), source);
        // Most immutable objects are new. Most others replace one.
        let mut put = match object.replacement() {
            Replacement::Never => self.store.put(object, None).map_err(failed)?,
            Replacement::NotLater { .. } => Put::Conflict,
        };
        for _ in 0..ATTEMPTS {
            if put == Put::Written {
                return Ok(Outcome::Written);
            }
            put = match self.store.find(object).map_err(failed)? {
                Some(found) if found.is_same => return Ok(Outcome::Unchanged),
                Some(found) if !may_replace(&found)? => return Ok(Outcome::Superseded),
                Some(found) => self
                    .store
                    .put(object, Some(&found.version))
                    .map_err(failed)?,
                None => self.store.put(object, None).map_err(failed)?,
            };
        }
        match put {
            Put::Written => Ok(Outcome::Written),
            Put::Conflict => Err(PublishError::contended(object.path())),
        }
    }
}

pub(crate) enum Outcome {
    Written,
    Unchanged,
    Superseded,
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
    Err(DestinationError::NotBuiltIn {
        scheme: scheme.to_owned(),
    })
}
