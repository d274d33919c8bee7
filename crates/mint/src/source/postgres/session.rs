//! A connection for one reading.
//!
//! Each call opens a new connection, which costs some milliseconds a minute. In return, no connection stays open at
//! the mint's server between readings. A server that was restarted, moved or given another password needs no
//! special case.
//!
//! Everything runs in one transaction with `REPEATABLE READ, READ ONLY`: it sees one state of the database and
//! holds no lock that a writer waits for. Settings apply to this transaction only (`SET LOCAL`). Behind a
//! connection pooler, a setting of the session would be inherited by the next client, which might be the mint. This
//! would be harmful above all for `default_transaction_read_only`.

use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use futures_util::StreamExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, CopyOutStream, Error, NoTls, SimpleQueryMessage};

use super::copy::BinaryCopy;
use super::tls;
use super::url::{CONNECT_TIMEOUT, PostgresUrl};
use crate::source::SourceError;

/// Factor of the URL's `connect_timeout` for trying all hosts, the TLS handshake and the login.
const LOGIN_FACTOR: u32 = 3;

/// Time limit of one statement at the server: a count or a copy of hundreds of millions of rows.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Extra time to wait for something that the server should have ended itself.
const GRACE: Duration = Duration::from_secs(15);

/// Time limit for closing the connection.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// About `lock_timeout`: this transaction waits only for the lock of a command that alters the table.
/// Compiling a query (`jit`) takes longer than it saves.
const BEGIN: &str = "
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL lock_timeout = '10s';
    SET LOCAL idle_in_transaction_session_timeout = '5min';
    SET LOCAL row_security = off;
    SET LOCAL jit = off;
    SET LOCAL client_encoding = 'UTF8';
    SET LOCAL standard_conforming_strings = on;";

/// Lets the server scan a large table with as many processes as it permits. Without this it expects to pass many rows
/// between them.
const FEW_ROWS: &str = "SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0";

/// Bytes of a copy that are collected before its rows are parsed.
const GATHERED: usize = 256 << 10;

/// The first version with `pg_current_snapshot`.
const OLDEST_VERSION: u32 = 13_00_00;

/// The first version that looks up values of a list (`ANY`) by hash.
const LISTING_VERSION: u32 = 14_00_00;

/// A transaction that sees one state of the database.
pub(super) struct Session<'u> {
    url: &'u PostgresUrl,
    /// `None` once the session has ended.
    runtime: Option<Runtime>,
    client: Client,
    connection: Cell<Option<JoinHandle<Result<(), Error>>>>,
    /// The server's version.
    version: u32,
}

/// A row as text; `None` for null.
pub(super) type TextRow = Vec<Option<String>>;

impl<'u> Session<'u> {
    /// Connects and begins the transaction.
    pub(super) fn begin(url: &'u PostgresUrl) -> Result<Self, SourceError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| SourceError::Other(error.into()))?;
        let (client, connection) = match login(url, &runtime) {
            Ok(pair) => pair,
            Err(error) => {
                // Name resolution may keep a thread busy; do not wait for it.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let mut session = Self {
            url,
            runtime: Some(runtime),
            client,
            connection: Cell::new(Some(connection)),
            version: 0,
        };
        let limit = STATEMENT_LIMIT.as_millis();
        let begin = format!(
            "{BEGIN} SET LOCAL statement_timeout = {limit}; SELECT current_setting('server_version_num')"
        );
        let version = session.value("beginning", &begin)?;
        match version.parse::<u32>() {
            Ok(number) if number >= OLDEST_VERSION => {
                session.version = number;
                Ok(session)
            }
            _ => Err(SourceError::Schema(format!(
                "{url}: unsupported Postgres version {version}; 13 or later is required"
            ))),
        }
    }

    /// Whether a comparison with a list of values takes the same time for a list of any length.
    pub(super) fn lists_quickly(&self) -> bool {
        self.version >= LISTING_VERSION
    }

    /// The rows of some statements.
    pub(super) fn rows(
        &mut self,
        doing: &'static str,
        sql: &str,
    ) -> Result<Vec<TextRow>, SourceError> {
        let messages = self.wait(doing, self.client.simple_query(sql))?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(
                (0..row.len())
                    .map(|column| row.try_get(column).ok().flatten().map(str::to_owned))
                    .collect(),
            ),
            _ => None,
        });
        Ok(rows.collect())
    }

    /// The only value of the only row; empty if the value is null or there are no rows.
    pub(super) fn value(&mut self, doing: &'static str, sql: &str) -> Result<String, SourceError> {
        let rows = self.rows(doing, sql)?;
        let value = rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next());
        Ok(value.flatten().unwrap_or_default())
    }

    /// Announces that the next queries return a small part of a table.
    pub(super) fn expect_few_rows(&mut self) -> Result<(), SourceError> {
        self.rows("planning in parallel", FEW_ROWS).map(drop)
    }

    /// Copies rows of `N` columns out, and passes each to `take`, which is called outside of the runtime and may block.
    pub(super) fn copy<const N: usize>(
        &mut self,
        doing: &'static str,
        table: &'static str,
        sql: &str,
        mut take: impl FnMut([Option<&[u8]>; N]) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let stream = self.wait(doing, self.client.copy_out(sql))?;
        let mut stream = Box::pin(stream);
        let mut rows = BinaryCopy::new();
        let malformed = |reason: String| SourceError::malformed(table, &reason);
        loop {
            let more = self.wait(doing, gather(&mut stream, &mut rows))?;
            while let Some(row) = rows.next_row().map_err(malformed)? {
                take(row)?;
            }
            if !more {
                return rows.finish().map_err(malformed);
            }
        }
    }

    /// Ends the transaction and closes the connection. What was read is valid even if this fails.
    pub(super) fn finish(self) {
        let commit = self.client.simple_query("COMMIT");
        run(self.runtime.as_ref(), GOODBYE_LIMIT, commit);
    }

    /// Waits for an answer of the server. The error names the database.
    fn wait<T>(
        &self,
        doing: &'static str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, SourceError> {
        let limit = STATEMENT_LIMIT + GRACE;
        match run(self.runtime.as_ref(), limit, work) {
            Some(answer) => answer.map_err(|error| self.failed(doing, error)),
            None => Err(timeout(self.url, doing, limit)),
        }
    }

    fn failed(&self, doing: &'static str, error: Error) -> SourceError {
        // A statement only learns that the connection is closed. The connection knows why.
        let reason = match self.connection.take() {
            Some(connection) if error.is_closed() => {
                run(self.runtime.as_ref(), GOODBYE_LIMIT, connection)
            }
            _ => None,
        };
        let source = match reason {
            Some(Ok(Err(reason))) => reason,
            _ => error,
        };
        SourceError::Postgres {
            database: self.url.to_string(),
            doing,
            source,
        }
    }
}

/// Drops everything in progress: the socket is closed, and the server rolls back.
impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

type Connected = (Client, JoinHandle<Result<(), Error>>);

fn login(url: &PostgresUrl, runtime: &Runtime) -> Result<Connected, SourceError> {
    let doing = "connecting";
    let config = &url.config;
    let limit = login_limit(url);
    let answer = if config.get_ssl_mode() == SslMode::Disable {
        run(Some(runtime), limit, async {
            let (client, connection) = config.connect(NoTls).await?;
            Ok((client, tokio::spawn(connection)))
        })
    } else {
        let connector = tls::connector(url)?;
        run(Some(runtime), limit, async {
            let (client, connection) = config.connect(connector).await?;
            Ok((client, tokio::spawn(connection)))
        })
    };
    match answer {
        Some(Ok(connected)) => Ok(connected),
        Some(Err(source)) => Err(SourceError::Postgres {
            database: url.to_string(),
            doing,
            source,
        }),
        None => Err(timeout(url, doing, limit)),
    }
}

fn login_limit(url: &PostgresUrl) -> Duration {
    // In libpq, zero means no limit. Here every wait has a limit.
    let one = url.config.get_connect_timeout().copied();
    let one = one
        .filter(|limit| !limit.is_zero())
        .unwrap_or(CONNECT_TIMEOUT);
    LOGIN_FACTOR * one.min(CONNECT_TIMEOUT * LOGIN_FACTOR)
}

fn timeout(url: &PostgresUrl, doing: &'static str, limit: Duration) -> SourceError {
    let seconds = limit.as_secs();
    SourceError::Other(format!("{url}: {doing}: timed out after {seconds} s").into())
}

/// Waits for `work`, but not longer than `limit`.
fn run<T>(runtime: Option<&Runtime>, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    runtime?.block_on(async { tokio::time::timeout(limit, work).await.ok() })
}

/// Waits for the next pieces of a copy. Returns whether there may be more.
async fn gather<const N: usize>(
    stream: &mut Pin<Box<CopyOutStream>>,
    rows: &mut BinaryCopy<N>,
) -> Result<bool, Error> {
    let mut gathered = 0;
    while gathered < GATHERED {
        let Some(piece) = stream.next().await else {
            return Ok(false);
        };
        let piece = piece?;
        gathered += piece.len();
        rows.feed(&piece);
    }
    Ok(true)
}
