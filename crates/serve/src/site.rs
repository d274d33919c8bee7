//! What a server answers from.

use axum::http::HeaderMap;
use nutfilter_objects::{Object, Table};

/// The objects, and what else a server has to know of them. It is asked by many threads for each request, so nothing here
/// may block or take long.
pub trait Site: Send + Sync + 'static {
    /// The objects with paths such as this one.
    fn table(&self, path: &str) -> &Table;

    /// Why a request is refused by its headers, before its path is looked up.
    fn refusal(&self, path: &str, headers: &HeaderMap) -> Option<Refusal> {
        let _ = (path, headers);
        None
    }

    /// Whether an object may be given out now. Otherwise the answer is 503.
    fn may_send(&self, object: &Object) -> bool {
        let _ = object;
        true
    }

    /// The path of the object that `path` means, percent-decoded and without a leading slash; `None` if it is this path.
    fn canonical(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }

    /// Why there is no object at a path.
    fn missing(&self, path: &str) -> Refusal {
        let _ = path;
        Refusal::not_found()
    }

    /// Whether requests should be sent here; otherwise the reason.
    fn ready(&self) -> Result<(), String>;

    /// The status, as JSON.
    fn health(&self) -> String;

    /// The metrics in the text format of Prometheus; `None` if there is no such path.
    fn metrics(&self) -> Option<String> {
        None
    }

    /// The kind of a path, for the metrics: one of a few words.
    fn label(&self, path: &str) -> &'static str {
        let _ = path;
        "other"
    }

    /// How long caches may keep the object at a path, in seconds. With 0 they ask each time whether it is still the same.
    fn max_age(&self, path: &str) -> u64 {
        let _ = path;
        60
    }
}

/// An answer without an object, in the form of every Cashu mint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The `code` of the response (NUT-00); 0 where it defines none.
    pub code: u32,
    /// The text. It must not repeat the request.
    pub detail: String,
}

impl Refusal {
    /// There is nothing at this path.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(404, "path not found")
    }

    /// A refusal with code 0.
    #[must_use]
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        Self { status, code: 0, detail: detail.into() }
    }
}
