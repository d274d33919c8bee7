//! The objects that the service would serve.

use std::time::Duration;

use nutfilter_mint::{Body, NoteKind, Snapshot};

use crate::Object;

const JSON: &str = "application/json";

/// What is published of a snapshot in addition to its filters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rules {
    /// How long caches may keep an object.
    pub max_age: Duration,
    /// Whether the list of keysets is published.
    pub keysets: bool,
    /// The mint's info, and its date in Unix seconds.
    pub info: Option<(Body, u64)>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(60),
            keysets: true,
            info: None,
        }
    }
}

impl Rules {
    /// Sets how long caches may keep an object.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// Sets whether the list of keysets is published.
    #[must_use]
    pub fn keysets(mut self, keysets: bool) -> Self {
        self.keysets = keysets;
        self
    }

    /// Publishes the mint's info with this date, in Unix seconds.
    #[must_use]
    pub fn info(mut self, info: Body, date: u64) -> Self {
        self.info = Some((info, date));
        self
    }
}

/// The objects of a snapshot: the filters as JSON, then the list of keysets, which names them, then the info.
///
/// The list is left out while one of its keysets lacks a filter.
#[must_use]
pub fn objects(snapshot: &Snapshot, rules: &Rules) -> Vec<Object> {
    let mut objects = vec![];
    let mut add = |path: String, body: &Body, date: u64| {
        match Object::replaceable(path, JSON, body.clone(), date, rules.max_age) {
            Ok(object) => objects.push(object),
            // Some ids from before versions existed, which contain slashes.
            Err(error) => tracing::warn!(%error, "this filter is only served by the service"),
        }
    };
    for keyset in snapshot.keysets() {
        for kind in NoteKind::ALL {
            if let Some(filter) = keyset.filter(kind) {
                let path = format!("v1/filter/{kind}/{}", keyset.info.id.as_str());
                add(path, filter.json(), filter.timestamp());
            }
        }
    }
    if rules.keysets && snapshot.is_complete() {
        let body = snapshot.keysets_body();
        add("v1/keysets".to_owned(), body, snapshot.refreshed_at());
    } else if rules.keysets {
        tracing::warn!("not publishing the list of keysets: one of them has no filter yet");
    }
    if let Some((info, date)) = &rules.info {
        add("v1/info".to_owned(), info, *date);
    }
    objects
}
