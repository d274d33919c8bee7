//! Databases of both mints, a server for them, a client, and the expected answer.

mod colliding;
mod fakes;
pub(crate) mod history;
mod items;
mod rows;
// The tests of `nutfilter-serve` use the rest.
#[allow(dead_code)]
#[path = "../../../../serve/tests/serve/server.rs"]
mod server;
mod tables;

use core::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nutfilter_mint::source::{
    DatabaseLocation, ItemBatch, ItemSink, MintSource, SourceError, SqliteSource,
};
use nutfilter_mint::{
    FilterService, FinishedFilter, KeysetId, MintType, NoteKind, RefreshReport, Refresher,
    RefresherOptions,
};
use rusqlite::Connection;
use tempfile::TempDir;

pub(crate) use colliding::colliding_items;
pub(crate) use fakes::{Clock, FakeMint, PATIENCE, on_disk, one_keyset, pass_item, wait_until};
pub(crate) use items::{V1, items, keyset};
pub(crate) use rows::table;
pub(crate) use server::{Server, assert_refused, service_of};

pub(crate) const V2: &str = "01c9c20fb8b348b389e296227c6cc7a63f77354b7388c720dbba6218f720f9b785";
pub(crate) const V3: &str = "0277354b7388c720dbba6218f720f9b785c9c20fb8b348b389e296227c6cc7a63f";
/// A legacy id without a version, with both characters that cause trouble in URLs.
pub(crate) const LEGACY: &str = "I2yN+iR/fkzT";

const SIGNED_AT: &str = "(SELECT ifnull(max(signed_at), 0) + 1 FROM promises)";

fn bytes(hex: &str) -> String {
    format!("x'{hex}'")
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

    pub(crate) fn named(mint: MintType, name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Self {
            mint,
            path: directory.path().join(name),
            directory,
        };
        let connection = database.connect();
        connection
            .execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = WAL;")
            .unwrap();
        connection.execute_batch(&database.tables()).unwrap();
        database
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn tables(&self) -> String {
        tables::tables(self.mint)
            .replace("BYTEA", "BLOB")
            .replace("BIGINT", "INTEGER")
    }

    /// A connection that may write, like the mint's own.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.connect().execute_batch(sql).unwrap();
    }

    pub(crate) fn add_keyset(&self, id: &str, unit: &str, active: bool, fee: i64) {
        self.execute(&rows::keyset(self.mint, id, unit, active, fee));
    }

    pub(crate) fn add_spent(&self, keyset: &str, items: &[Vec<u8>]) {
        self.add(NoteKind::Spent, keyset, items, "SPENT");
    }

    pub(crate) fn add_signed(&self, keyset: &str, items: &[Vec<u8>]) {
        self.add(NoteKind::Issued, keyset, items, "SPENT");
    }

    /// Adds blinded messages that wait for a signature.
    pub(crate) fn add_unsigned(&self, keyset: &str, items: &[Vec<u8>]) {
        self.add(NoteKind::Issued, keyset, items, "PENDING");
    }

    /// Adds proofs that are not spent; only CDK stores them.
    pub(crate) fn add_in_state(&self, keyset: &str, items: &[Vec<u8>], state: &str) {
        assert_eq!(self.mint, MintType::Cdk);
        self.add(NoteKind::Spent, keyset, items, state);
    }

    fn add(&self, kind: NoteKind, keyset: &str, items: &[Vec<u8>], state: &str) {
        let row = |item: &Vec<u8>| rows::insert(self.mint, kind, keyset, item, 1, state);
        let rows: String = items.iter().map(row).collect();
        self.execute(&format!("BEGIN; {rows} COMMIT;"));
    }

    /// Adds spent or signed notes as the mint does, including its own totals.
    pub(crate) fn insert(&self, kind: NoteKind, keyset: &'static str, items: &[Vec<u8>]) {
        let mut connection = self.connect();
        let transaction = connection.transaction().unwrap();
        for item in items {
            let note = history::Note {
                kind,
                keyset,
                item: item.clone(),
                amount: 1,
                counts: true,
            };
            self.happen(&transaction, &history::Event::Insert(note))
                .unwrap();
        }
        transaction.commit().unwrap();
    }

    /// Applies an event through the mint's own connection. CDK adds up the amounts.
    pub(crate) fn happen(
        &self,
        connection: &Connection,
        event: &history::Event,
    ) -> rusqlite::Result<()> {
        use history::Event;
        let mint = self.mint;
        let (note, mut sql) = match event {
            Event::Insert(note) => {
                let state = rows::state(&note.item, note.counts);
                let history::Note {
                    kind,
                    keyset,
                    item,
                    amount,
                    ..
                } = note;
                (
                    note,
                    rows::insert(mint, *kind, keyset, item, *amount, state),
                )
            }
            Event::Flip(note) => (note, rows::flip(mint, note.kind, &note.item)),
            Event::Delete(note) => (note, rows::delete(mint, note.kind, &note.item)),
            _ => return Ok(()),
        };
        if mint == MintType::Cdk && note.counts && !matches!(event, Event::Delete(_)) {
            let total = match note.kind {
                NoteKind::Spent => "total_redeemed",
                NoteKind::Issued => "total_issued",
            };
            sql += &format!(
                "INSERT INTO keyset_amounts (keyset_id, {total}) VALUES ('{}', {})
                 ON CONFLICT (keyset_id) DO UPDATE SET {total} = {total} + excluded.{total};",
                note.keyset, note.amount
            );
        }
        connection.execute_batch(&sql)?;
        assert!(mint != MintType::Nutshell || connection.changes() == 1);
        Ok(())
    }

    pub(crate) fn location(&self) -> DatabaseLocation {
        DatabaseLocation::from(self.path.as_path())
    }

    /// Opens it as the service does, which detects the mint itself.
    pub(crate) fn source(&self) -> SqliteSource {
        let source = SqliteSource::open(&self.location(), None).unwrap();
        assert_eq!(source.mint_type(), self.mint);
        source
    }

    pub(crate) fn refresher(&self) -> Refresher {
        self.refresher_with(RefresherOptions::default())
    }

    /// A refresher that has refreshed once.
    #[track_caller]
    pub(crate) fn refreshed(&self) -> Refresher {
        let mut refresher = self.refresher();
        refresh(&mut refresher);
        refresher
    }

    pub(crate) fn refresher_at(&self, clock: &Clock) -> Refresher {
        self.refresher_with(clock.options())
    }

    pub(crate) fn refresher_on_disk(&self, directory: &Path) -> Refresher {
        self.refresher_with(on_disk(directory))
    }

    pub(crate) fn refresher_with(&self, options: RefresherOptions) -> Refresher {
        Refresher::with_options(self.source(), FilterService::default(), options)
    }

    /// The names of all files in the database's directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Reads everything, and calls `each` after each batch. The first bad row is an error. Returns the total.
pub(crate) fn read_whole<S: MintSource>(
    mut source: S,
    kind: NoteKind,
    each: impl FnMut() -> ControlFlow<()>,
) -> Result<u64, SourceError> {
    struct Sink<F> {
        each: F,
        bad: Option<SourceError>,
    }
    impl<F: FnMut() -> ControlFlow<()>> ItemSink for Sink<F> {
        fn items(&mut self, _keyset: &KeysetId, _items: &ItemBatch) -> ControlFlow<()> {
            (self.each)()
        }

        fn bad_row(&mut self, _keyset: &KeysetId, error: SourceError) -> ControlFlow<()> {
            self.bad.get_or_insert(error);
            ControlFlow::Continue(())
        }
    }
    let mut sink = Sink { each, bad: None };
    let reading = source.read(kind, None, &mut sink)?;
    match sink.bad {
        Some(error) => Err(error),
        None => Ok(reading.total.expect("both mints are counted")),
    }
}

/// The `content` that a mint must serve for these items, by the reference implementation.
pub(crate) fn expected_content(items: &[Vec<u8>]) -> String {
    STANDARD.encode(nutfilter_reference::build(
        nutfilter_reference::Profile::Nut25,
        items,
        19,
        784_931,
    ))
}

/// The served filter of a kind of [`V1`].
pub(crate) fn served(service: &FilterService, kind: NoteKind) -> Option<Arc<FinishedFilter>> {
    service
        .snapshot()?
        .keyset(&keyset(V1))?
        .filter(kind)
        .cloned()
}

/// Compares the served filter of a kind of [`V1`] with the expected items.
#[track_caller]
pub(crate) fn assert_served(refresher: &Refresher, kind: NoteKind, items: &[Vec<u8>]) {
    let filter = served(refresher.service(), kind).unwrap();
    assert_filter_of(filter.json().bytes(), items);
}

/// Refreshes, which must succeed.
#[track_caller]
pub(crate) fn refresh(refresher: &mut Refresher) -> RefreshReport {
    let report = refresher.refresh().unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    report
}

/// All four tables of notes.
pub(crate) fn tables_of_notes() -> impl Iterator<Item = (MintType, NoteKind)> {
    let mints = MintType::ALL.into_iter();
    mints.flat_map(|mint| NoteKind::ALL.map(|kind| (mint, kind)))
}

/// Compares a response body with the expected items.
#[track_caller]
pub(crate) fn assert_filter_of(body: &[u8], items: &[Vec<u8>]) {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap();
    assert_eq!(body["n"], items.len());
    assert_eq!((&body["p"], &body["m"]), (&19.into(), &784_931.into()));
    assert_eq!(
        body["content"].as_str().unwrap(),
        expected_content(items),
        "n = {}",
        items.len()
    );
    assert!(body["timestamp"].is_u64());
    assert_eq!(body.as_object().unwrap().len(), 5);
}
