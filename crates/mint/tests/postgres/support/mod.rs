//! Databases of both mints on the test server, and what a refresher keeps of their notes.

mod cluster;
#[path = "../../mint/support/rows.rs"]
mod rows;
#[path = "../../mint/support/tables.rs"]
mod tables;

use std::time::Duration;

use nutfilter_mint::source::{
    DatabaseLocation, MintSource, PostgresSource, Reading, SourceError, Watermark,
};
use nutfilter_mint::{MintType, NoteKind};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

use crate::history::{NewItems, count_of};

pub(crate) use cluster::Cluster;
pub(crate) use rows::{delete, flip, table};
pub(crate) use tables::tables;

pub(crate) const V1: &str = "009a1f293253e41e";
/// A legacy id without a version.
pub(crate) const LEGACY: &str = "I2yN+iR/fkzT";

const SIGNED_AT: &str = "now()";

fn bytes(hex: &str) -> String {
    format!("'\\x{hex}'")
}

pub(crate) fn insert_keyset(mint: MintType, id: &str) -> String {
    rows::keyset(mint, id, "sat", true, 100)
}

/// Inserts a note that counts, or, if `member` is false, one that does not count yet. nutshell's spent notes always
/// count.
pub(crate) fn insert_member(
    mint: MintType,
    kind: NoteKind,
    keyset: &str,
    item: &[u8],
    member: bool,
) -> String {
    rows::insert(mint, kind, keyset, item, 1, rows::state(item, member))
}

/// A connection that may write, like the mint's own.
pub(crate) struct Writer {
    runtime: Runtime,
    client: Client,
}

impl Writer {
    pub(crate) fn connect(url: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        Self { runtime, client }
    }

    pub(crate) fn try_run(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        let work = self.client.simple_query(sql);
        let limit = Duration::from_secs(60);
        self.runtime
            .block_on(async { tokio::time::timeout(limit, work).await })
            .expect("a statement of a test takes no minute")
    }

    #[track_caller]
    pub(crate) fn run(&self, sql: &str) {
        if let Err(error) = self.try_run(sql) {
            panic!("{sql}: {:?}", error.as_db_error());
        }
    }

    /// The first column of all rows.
    #[track_caller]
    pub(crate) fn column(&self, sql: &str) -> Vec<String> {
        let messages = self.try_run(sql).unwrap();
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        rows.collect()
    }
}

/// A mint's database.
pub(crate) struct MintDatabase {
    pub(crate) mint: MintType,
    pub(crate) cluster: &'static Cluster,
    pub(crate) name: String,
    pub(crate) writer: Writer,
}

impl MintDatabase {
    /// An empty database with the mint's tables; `None` without Postgres.
    pub(crate) fn new(mint: MintType) -> Option<Self> {
        let database = Self::bare(mint)?;
        database.writer.run(tables(mint));
        Some(database)
    }

    /// An empty database without tables.
    pub(crate) fn bare(mint: MintType) -> Option<Self> {
        let cluster = Cluster::shared()?;
        let name = Cluster::fresh_name();
        Writer::connect(&cluster.url("postgres")).run(&format!("CREATE DATABASE {name}"));
        let writer = Writer::connect(&cluster.url(&name));
        Some(Self {
            mint,
            cluster,
            name,
            writer,
        })
    }

    pub(crate) fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    pub(crate) fn another_writer(&self) -> Writer {
        Writer::connect(&self.url())
    }

    /// Opens it as the service does, which detects the mint itself.
    pub(crate) fn source(&self) -> PostgresSource {
        let source = open(&self.url(), None).unwrap();
        assert_eq!(source.mint_type(), self.mint);
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

/// Reads. Returns the number of items, and the errors of unreadable rows.
pub(crate) fn read(
    source: &mut impl MintSource,
    kind: NoteKind,
    since: Option<&Watermark>,
) -> Result<(u64, Vec<String>, Reading), SourceError> {
    let mut new = NewItems::default();
    source.verify_next();
    let reading = source.read(kind, since, &mut new)?;
    Ok((count_of(&new.items), new.bad, reading))
}

/// Why a reading fails.
#[track_caller]
pub(crate) fn refusal(
    source: &mut impl MintSource,
    kind: NoteKind,
    since: Option<&Watermark>,
) -> String {
    let read = read(source, kind, since);
    read.map(drop).unwrap_err().to_string()
}
