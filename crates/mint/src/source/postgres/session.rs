//! A connection for one reading.
//!
//! Each call opens a new connection, which costs some milliseconds a minute. In return, no connection stays open at the
//! mint's server between readings, and a server that was restarted, moved or given another password needs no special case.
//!
//! Everything runs in one transaction, `READ COMMITTED, READ ONLY`. Settings apply to it only (`SET LOCAL`): behind a
//! connection pooler, a setting of the session would be inherited by the next client, which might be the mint.

use core::future::Future;
use core::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::binary_copy::BinaryCopyOutStream;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use super::tls;
use super::url::PostgresUrl;
use crate::source::{Result, SourceError};

/// Factor of the URL's `connect_timeout` for trying all hosts, the TLS handshake and the login.
const LOGIN_FACTOR: u32 = 3;

/// Time limit of one statement: a copy of hundreds of millions of rows. The server's own limit ends before.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30 * 60 + 15);

/// Time limit for closing the connection.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// Begins a transaction, after the search path is set. The answer is null, or why the server is refused: the first version
/// with `pg_current_snapshot` is 13, and a standby may show an earlier state than the mint's.
///
/// About `lock_timeout`: this transaction waits only for the lock of a command that alters the table.
/// Compiling a query (`jit`) takes longer than it saves. A scan in parallel is worth it, as few rows are passed on.
const BEGIN: &str = "
    SET LOCAL statement_timeout = '30min';
    SET LOCAL lock_timeout = '10s';
    SET LOCAL idle_in_transaction_session_timeout = '5min';
    SET LOCAL row_security = off;
    SET LOCAL jit = off;
    SET LOCAL client_encoding = 'UTF8';
    SET LOCAL standard_conforming_strings = on;
    SET LOCAL parallel_setup_cost = 0;
    SET LOCAL parallel_tuple_cost = 0;
    SELECT CASE
        WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 < 130000 THEN 'unsupported Postgres version '
            || pg_catalog.current_setting('server_version') || '; 13 or later is required'
        WHEN pg_catalog.pg_is_in_recovery() THEN 'the server is a standby, whose notes may be older than the mint''s; give '
            'the address of the primary, or several hosts with target_session_attrs=read-write'
        END";

/// Rows of a copy that are taken from the connection at once.
const ROWS: usize = 4096;

/// A transaction.
pub(super) struct Session<'u> {
    server: Server<'u>,
    client: Client,
}

/// A row as text; `None` for null.
pub(super) type TextRow = Vec<Option<String>>;

impl<'u> Session<'u> {
    /// Connects and begins the transaction.
    pub(super) fn begin(url: &'u PostgresUrl) -> Result<Self> {
        let (server, client) = Server::login(url)?;
        let mut session = Self { server, client };
        let schema = url.schema.as_deref().map_or_else(String::new, |schema| {
            let schema = schema.replace('"', "\"\"");
            format!("SET LOCAL search_path = \"{schema}\";")
        });
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {schema} {BEGIN}");
        let rows = session.rows("beginning", &begin)?;
        match rows.first().and_then(|row| row.first()) {
            Some(None) => Ok(session),
            Some(Some(reason)) => Err(SourceError::schema(url, reason)),
            None => Err(SourceError::schema(url, "the server does not answer")),
        }
    }

    pub(super) fn url(&self) -> &'u PostgresUrl {
        self.server.url
    }

    /// The rows of some statements.
    pub(super) fn rows(&mut self, doing: &'static str, sql: &str) -> Result<Vec<TextRow>> {
        let messages = self
            .server
            .wait(doing, STATEMENT_LIMIT, self.client.simple_query(sql))?;
        let mut rows = vec![];
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                let column = |column| row.get(column).map(str::to_owned);
                rows.push((0..row.len()).map(column).collect());
            }
        }
        Ok(rows)
    }

    /// Copies rows of two columns of text or bytes and one number, and passes each to `take`, which may block.
    pub(super) fn copy(
        &mut self,
        doing: &'static str,
        sql: &str,
        mut take: impl FnMut(Option<&[u8]>, Option<&[u8]>, Option<i32>) -> Result<()>,
    ) -> Result<()> {
        let server = &self.server;
        let stream = server.wait(doing, STATEMENT_LIMIT, self.client.copy_out(sql))?;
        // In binary format, text is its bytes.
        let stream = BinaryCopyOutStream::new(stream, &[Type::BYTEA, Type::BYTEA, Type::INT4]);
        let mut pieces = Box::pin(stream.try_ready_chunks(ROWS).map_err(|error| error.1));
        while let Some(rows) = server.wait(doing, STATEMENT_LIMIT, pieces.try_next())? {
            for row in rows {
                let columns = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
                let (keyset, item, counts) =
                    columns().map_err(|error| server.failed(doing, error))?;
                take(keyset, item, counts)?;
            }
        }
        Ok(())
    }

    /// Ends the transaction and closes the connection. What was read is valid even if this fails.
    pub(super) fn finish(self) {
        let commit = self.client.simple_query("COMMIT");
        let _ = self.server.wait("ending", GOODBYE_LIMIT, commit);
    }
}

/// A server that is waited for.
struct Server<'u> {
    url: &'u PostgresUrl,
    /// `None` once this is dropped.
    runtime: Option<Runtime>,
}

impl<'u> Server<'u> {
    fn login(url: &'u PostgresUrl) -> Result<(Self, Client)> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = Some(runtime.map_err(|error| SourceError::Other(error.into()))?);
        let (server, tls) = (Self { url, runtime }, tls::connector(url)?);
        let one = url.config.get_connect_timeout();
        let limit = one.map_or(STATEMENT_LIMIT, |one| one.saturating_mul(LOGIN_FACTOR));
        let client = server.wait("connecting", limit, async {
            let (client, connection) = url.config.connect(tls).await?;
            tokio::spawn(connection);
            Ok(client)
        })?;
        Ok((server, client))
    }

    fn wait<T>(
        &self,
        doing: &'static str,
        limit: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T> {
        let timed = async { tokio::time::timeout(limit, work).await.ok() };
        let runtime = self.runtime.as_ref();
        match runtime.and_then(|runtime| runtime.block_on(timed)) {
            Some(answer) => answer.map_err(|error| self.failed(doing, error)),
            None => {
                let (url, seconds) = (self.url, limit.as_secs());
                let error = format!("{url}: {doing}: timed out after {seconds} s");
                Err(SourceError::Other(error.into()))
            }
        }
    }

    fn failed(&self, doing: &'static str, source: Error) -> SourceError {
        let database = self.url.to_string();
        SourceError::Postgres {
            database,
            doing,
            source,
        }
    }
}

/// Name resolution may keep a thread busy; it is not waited for. The socket is closed, and the server rolls back.
impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
