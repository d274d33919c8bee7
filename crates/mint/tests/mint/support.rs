//! Databases of both mints on SQLite, and the expected filters.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nutfilter_mint::source::{DatabaseLocation, MintSource, SourceError, SqliteSource};
use nutfilter_mint::{
    KeysetId, MintType, Monitor, NoteKind, RefreshOptions, RefreshReport, Refresher,
};
use nutfilter_objects::Table;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::found::Found;
use crate::sql::{self, Dialect};

pub(crate) const V1: &str = "009a1f293253e41e";
pub(crate) const V2: &str = "01c9c20fb8b348b389e296227c6cc7a63f77354b7388c720dbba6218f720f9b785";
pub(crate) const V3: &str = "0277354b7388c720dbba6218f720f9b785c9c20fb8b348b389e296227c6cc7a63f";
/// A legacy id without a version, with both characters that cause trouble in URLs.
pub(crate) const LEGACY: &str = "I2yN+iR/fkzT";

const SQLITE: Dialect = Dialect("x'", "'");

/// `count` different items of a length; each `stream` gives different ones.
pub(crate) fn items(stream: u64, count: usize, length: usize) -> Vec<Vec<u8>> {
    let item = |index: u64| {
        // An xorshift generator. The index in front guarantees different items.
        let mut state = (stream << 40 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut bytes = (stream << 40 | index).to_be_bytes().to_vec();
        while bytes.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_be_bytes());
        }
        bytes.truncate(length);
        // The first byte of a compressed point of either curve.
        bytes[0] = if length == 48 { 0x80 } else { 2 };
        bytes
    };
    (0..count as u64).map(item).collect()
}

/// A mint's database in its own directory.
pub(crate) struct MintDatabase {
    pub(crate) mint: MintType,
    pub(crate) path: PathBuf,
    directory: TempDir,
}

impl MintDatabase {
    /// An empty database in WAL mode, like those of both mints. It is closed when this returns.
    pub(crate) fn new(mint: MintType) -> Self {
        Self::named(mint, "mint.db")
    }

    /// An empty database with the active keyset [`V1`].
    pub(crate) fn with_keyset(mint: MintType) -> Self {
        let database = Self::new(mint);
        database.add_keyset(V1, "sat", true, 0);
        database
    }

    pub(crate) fn named(mint: MintType, name: impl AsRef<Path>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Self { mint, path: directory.path().join(name), directory };
        database.execute(&format!(
            "PRAGMA synchronous = OFF; PRAGMA journal_mode = WAL; {}",
            tables(mint)
        ));
        database
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A connection that may write, like the mint's own.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    /// A mint that runs: it has the database open, so the log stays.
    pub(crate) fn running(&self) -> Connection {
        let mint = self.connect();
        mint.execute_batch("PRAGMA user_version = 1").unwrap();
        mint
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.connect().execute_batch(sql).unwrap();
    }

    pub(crate) fn add_keyset(&self, id: &str, unit: &str, active: bool, fee: i64) {
        self.execute(&sql::keyset(self.mint, id, unit, active, fee));
    }

    /// Adds notes that count.
    pub(crate) fn add(&self, kind: NoteKind, keyset: &str, items: &[Vec<u8>]) {
        self.execute(&self.insert(kind, keyset, items, "SPENT"));
    }

    /// SQL that adds notes in a state.
    pub(crate) fn insert(
        &self,
        kind: NoteKind,
        keyset: &str,
        items: &[Vec<u8>],
        state: &str,
    ) -> String {
        let row = |item: &Vec<u8>| {
            let item = SQLITE.item(self.mint, item);
            SQLITE.insert(self.mint, kind, keyset, &item, state)
        };
        let rows: String = items.iter().map(row).collect();
        format!("BEGIN; {rows} COMMIT;")
    }

    /// Adds a note that counts, whose item is this SQL expression.
    pub(crate) fn add_row(&self, kind: NoteKind, keyset: &str, item: &str) {
        self.execute(&SQLITE.insert(self.mint, kind, keyset, item, "SPENT"));
    }

    /// Makes all pending notes count.
    pub(crate) fn flip(&self, kind: NoteKind) {
        self.execute(&SQLITE.flip(self.mint, kind));
    }

    pub(crate) fn location(&self) -> DatabaseLocation {
        DatabaseLocation::from(self.path.as_path())
    }

    /// Opens it as the service does, which detects the mint itself.
    pub(crate) fn source(&self) -> SqliteSource {
        let source = SqliteSource::open(&self.location(), None).unwrap();
        assert_eq!(source.mint(), self.mint.as_str());
        source
    }

    pub(crate) fn refresher(&self) -> Refresher {
        let monitor = Monitor::new(Arc::new(Table::in_memory()));
        Refresher::new(self.source(), monitor, RefreshOptions::default())
    }

    /// A refresher that has refreshed once.
    #[track_caller]
    pub(crate) fn refreshed(&self) -> Refresher {
        let mut refresher = self.refresher();
        refresh(&mut refresher);
        refresher
    }

    /// The names of all files in the database's directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// The tables of a mint on SQLite. Rows get the time at which they are created.
pub(crate) fn tables(mint: MintType) -> String {
    let now = "DEFAULT (unixepoch())";
    sql::tables(mint)
        .replace("BYTEA", "BLOB")
        .replace("BIGINT", "INTEGER")
        .replace("created TIMESTAMP", &format!("created TIMESTAMP {now}"))
        .replace("created_time INTEGER NOT NULL DEFAULT 0", &format!("created_time INTEGER {now}"))
}

/// Reads everything. The first bad row is an error. Returns the number of items.
pub(crate) fn read_whole(
    mut source: impl MintSource,
    kind: NoteKind,
    mut found: Found<'_>,
) -> Result<usize, SourceError> {
    source.read(kind, true, &mut found)?;
    let bad = found.bad.into_iter().next();
    bad.map_or(Ok(found.passed), |(_, error)| Err(error))
}

/// Refreshes, which must succeed.
#[track_caller]
pub(crate) fn refresh(refresher: &mut Refresher) -> RefreshReport {
    let report = refresher.refresh(false).unwrap();
    assert!(report.is_complete(), "{:?}", report.failures);
    report
}

/// The JSON of a served object.
pub(crate) fn body(refresher: &Refresher, path: &str) -> Option<Vec<u8>> {
    let opened = refresher.monitor().table().open(path, false).unwrap();
    opened.map(|(_, opened)| opened.read().unwrap())
}

/// Compares a served filter, byte for byte, with what the reference implementation makes of these items.
#[track_caller]
pub(crate) fn assert_served(
    refresher: &Refresher,
    kind: NoteKind,
    keyset: &str,
    items: &[Vec<u8>],
) {
    let id = KeysetId::parse(keyset).unwrap().canonical();
    let body = body(refresher, &format!("v1/filter/{kind}/{id}")).expect("a filter");
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let profile = nutfilter_reference::Profile::Nut25;
    let expected = nutfilter_reference::build(profile, items, 19, 784_931);
    assert_eq!(body["n"], items.len());
    assert_eq!((&body["p"], &body["m"]), (&19.into(), &784_931.into()));
    assert!(body["content"] == STANDARD.encode(expected));
    assert!(body["timestamp"].is_u64());
    assert_eq!(body.as_object().unwrap().len(), 5);
}
