//! Databases of both mints on the test server.

use core::ops::ControlFlow;
use std::collections::{BTreeMap, BTreeSet};

use nutfilter_mint::source::{
    DatabaseLocation, ItemBatch, ItemSink, MintSource, PostgresSource, Reading, SourceError,
};
use nutfilter_mint::{KeysetId, MintType, NoteKind};

use crate::cluster::{Cluster, Writer};
use crate::sql::{Dialect, tables};

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
    POSTGRES.insert(
        mint,
        kind,
        keyset,
        &POSTGRES.item(mint, &item(index)),
        state,
    )
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
        Some(Self {
            mint,
            url,
            name,
            writer,
        })
    }

    pub(crate) fn another_writer(&self) -> Writer {
        Writer::connect(&self.url)
    }

    /// Adds a note that counts.
    pub(crate) fn add(&self, kind: NoteKind, index: u8) {
        self.writer.run(&insert(self.mint, kind, V1, index, true));
    }

    /// Opens it as the service does, which detects the mint itself.
    pub(crate) fn source(&self) -> PostgresSource {
        let source = open(&self.url, None).unwrap();
        assert_eq!(source.mint(), self.mint.as_str());
        source
    }
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

/// What a reading passed on.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) items: BTreeMap<Option<KeysetId>, BTreeSet<Vec<u8>>>,
    pub(crate) bad: Vec<String>,
}

impl Found {
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

impl ItemSink for Found {
    fn items(&mut self, keyset: Option<&KeysetId>, items: &ItemBatch) -> ControlFlow<()> {
        let known = self.items.entry(keyset.cloned()).or_default();
        known.extend(items.items().map(<[u8]>::to_vec));
        ControlFlow::Continue(())
    }

    fn bad_row(&mut self, _: Option<&KeysetId>, error: SourceError) -> ControlFlow<()> {
        self.bad.push(error.to_string());
        ControlFlow::Continue(())
    }
}

/// Reads. Returns what was found.
pub(crate) fn read(
    source: &mut impl MintSource,
    kind: NoteKind,
    whole: bool,
) -> Result<(Found, Reading), SourceError> {
    let mut found = Found::default();
    let reading = source.read(kind, whole, &mut found)?;
    Ok((found, reading))
}
