//! A site of a few pages.

use std::sync::{Arc, Mutex};

use axum::http::HeaderMap;
use nutfilter_objects::{Object, Table};
use nutfilter_serve::{Refusal, Site};
use tempfile::TempDir;

pub(crate) const PAGE: &str = "/v1/page/one";

/// Unix seconds of 2026-01-01.
pub(crate) const DATE: u64 = 1_767_225_600;

const JSON: &str = "application/json";

/// More than the buffers of a connection hold.
pub(crate) const LARGE: usize = 16 << 20;

#[derive(Clone)]
pub(crate) struct TestSite {
    pub(crate) table: Arc<Table>,
    /// Removed with the last clone.
    pub(crate) directory: Option<Arc<TempDir>>,
    pub(crate) ready: Arc<Mutex<Result<(), String>>>,
    pub(crate) metrics: Option<&'static str>,
    pub(crate) max_age: u64,
}

impl TestSite {
    pub(crate) fn in_memory() -> Self {
        Self::of(Table::in_memory(), None)
    }

    pub(crate) fn in_directory() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::in_directory(directory.path(), 0o644, |_, _| {
            unreachable!("the directory is empty")
        })
        .unwrap();
        Self::of(table, Some(Arc::new(directory)))
    }

    pub(crate) fn in_both_places() -> [Self; 2] {
        [Self::in_memory(), Self::in_directory()]
    }

    fn of(table: Table, directory: Option<Arc<TempDir>>) -> Self {
        let site = Self {
            table: Arc::new(table),
            directory,
            ready: Arc::new(Mutex::new(Ok(()))),
            metrics: None,
            max_age: 60,
        };
        site.put(PAGE, page(5_000));
        site
    }

    pub(crate) fn put(&self, path: &str, bytes: Vec<u8>) {
        let path = path.trim_start_matches('/');
        self.table.put(path, JSON, DATE, |out| out.write_all(&bytes)).unwrap();
    }

    /// Adds [`LARGE`] bytes at `/large`.
    pub(crate) fn with_large(self) -> Self {
        self.put("/large", vec![b'x'; LARGE]);
        self
    }
}

/// JSON with so many uniform hex digits.
pub(crate) fn page(digits: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let digits: String = (0..digits)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from_digit((state >> 60) as u32, 16).unwrap()
        })
        .collect();
    format!("{{\"digits\":\"{digits}\"}}").into_bytes()
}

impl Site for TestSite {
    fn table(&self, _: &str) -> &Table {
        &self.table
    }

    fn refusal(&self, _: &str, headers: &HeaderMap) -> Option<Refusal> {
        headers.get("via").map(|_| Refusal::new(508, "a loop"))
    }

    fn may_send(&self, object: &Object) -> bool {
        !object.path().starts_with("later/")
    }

    fn canonical(&self, path: &str) -> Option<String> {
        assert_ne!(path, "panic", "as it was told to");
        Some(path.to_ascii_lowercase())
    }

    fn missing(&self, path: &str) -> Refusal {
        match path.starts_with("v1/page/") {
            true => Refusal { status: 400, code: 12_001, detail: "page is not known".to_owned() },
            false => Refusal::not_found(),
        }
    }

    fn ready(&self) -> Result<(), String> {
        self.ready.lock().unwrap().clone()
    }

    fn health(&self) -> String {
        "{\"status\":\"ok\"}".to_owned()
    }

    fn metrics(&self) -> Option<String> {
        self.metrics.map(str::to_owned)
    }

    fn label(&self, path: &str) -> &'static str {
        match path.starts_with("v1/page/") {
            true => "page",
            false => "other",
        }
    }

    fn max_age(&self, _: &str) -> u64 {
        self.max_age
    }
}
