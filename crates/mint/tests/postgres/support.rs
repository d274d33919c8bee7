//! Databases of both mints on the test server.

use std::collections::BTreeSet;

use nutfilter_mint::source::{DatabaseLocation, MintSource, PostgresSource, Reading, SourceError};
use nutfilter_mint::{MintType, NoteKind};

use crate::cluster::{Cluster, Writer};
use crate::found::Found;
use crate::sql::{Dialect, tables, tables_of_notes};

pub(crate) const V1: &str = "009a1f293253e41e";
/// A legacy id without a version.
pub(crate) const LEGACY: &str = "I2yN+iR/fkzT";

pub(crate) const POSTGRES: Dialect = Dialect("'\\x", "'");

/// SQL that inserts a note that counts, or one that does not count yet. nutshell's spent notes always count.
pub(crate) fn insert(
    mint: MintType,
    kind: NoteKind,
    keyset: &str,
    index: u8,
    counts: bool,
) -> String {
    let state = if counts { "SPENT" } else { "PENDING" };
    POSTGRES.insert(mint, kind, keyset, &POSTGRES.item(mint, &item(index)), state)
}

/// A mint's database.
pub(crate) struct MintDatabase {
    pub(crate) mint: MintType,
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) writer: Writer,
}

impl MintDatabase {
    /// An empty database with the mint's tables; `None` without Postgres.
    pub(crate) fn new(mint: MintType) -> Option<Self> {
        Self::on(Cluster::shared()?, mint)
    }

    pub(crate) fn on(cluster: &Cluster, mint: MintType) -> Option<Self> {
        let name = Cluster::fresh_name();
        Writer::connect(&cluster.url("postgres")).run(&format!("CREATE DATABASE {name}"));
        let url = cluster.url(&name);
        let writer = Writer::connect(&url);
        writer.run(tables(mint));
        Some(Self { mint, url, name, writer })
    }

    pub(crate) fn run(&self, sql: &str) {
        self.writer.run(sql);
    }

    pub(crate) fn another_writer(&self) -> Writer {
        Writer::connect(&self.url)
    }

    /// Adds a note that counts.
    pub(crate) fn add(&self, kind: NoteKind, index: u8) {
        self.run(&insert(self.mint, kind, V1, index, true));
    }

    /// Opens it as the service does, which detects the mint itself.
    pub(crate) fn source(&self) -> PostgresSource {
        let source = open(&self.url, None).unwrap();
        assert_eq!(source.mint(), self.mint.as_str());
        source
    }
}

/// A CDK mint's database.
pub(crate) fn cdk() -> Option<MintDatabase> {
    MintDatabase::new(MintType::Cdk)
}

/// The databases of both mints; none without Postgres.
pub(crate) fn both() -> impl Iterator<Item = MintDatabase> {
    MintType::ALL.into_iter().filter_map(MintDatabase::new)
}

/// A database for each table of notes; none without Postgres.
pub(crate) fn each_table() -> impl Iterator<Item = (MintDatabase, MintType, NoteKind)> {
    tables_of_notes().filter_map(|(mint, kind)| Some((MintDatabase::new(mint)?, mint, kind)))
}

/// It is an error that says this.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T, SourceError>, said: &str) {
    let error = result.err().expect("an error").to_string();
    assert!(error.contains(said), "{error}");
}

pub(crate) fn open(url: &str, mint: Option<MintType>) -> Result<PostgresSource, SourceError> {
    PostgresSource::open(&DatabaseLocation::parse(url)?, mint)
}

/// The item `index`.
pub(crate) fn item(index: u8) -> Vec<u8> {
    let mut item = vec![2; 33];
    item[32] = index;
    item
}

impl Found<'_> {
    pub(crate) fn count(&self) -> usize {
        self.items.values().map(BTreeSet::len).sum()
    }

    /// Reads more. Returns whether everything was read, and the number of items that are new here.
    #[track_caller]
    pub(crate) fn read(&mut self, source: &mut impl MintSource, kind: NoteKind) -> (bool, usize) {
        let before = self.count();
        let reading = source.read(kind, false, self).unwrap();
        (reading.is_whole(), self.count() - before)
    }
}

/// Reads. Returns what was found.
pub(crate) fn read(
    source: &mut impl MintSource,
    kind: NoteKind,
    whole: bool,
) -> Result<(Found<'static>, Reading), SourceError> {
    let mut found = Found::default();
    let reading = source.read(kind, whole, &mut found)?;
    Ok((found, reading))
}
