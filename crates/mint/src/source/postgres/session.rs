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
use tokio_postgres::config::SslMode;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

use super::stream::Connector;
use super::tls;
use super::url::{CONNECT_TIMEOUT, PostgresUrl};
use crate::source::{Result, SourceError};

/// Factor of the URL's `connect_timeout` for trying all hosts, the TLS handshake and the login.
const LOGIN_FACTOR: u32 = 3;

/// The longest `connect_timeout` that is used for this.
const MAX_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit of one statement at the server: a copy of hundreds of millions of rows.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Extra time to wait for something that the server should have ended itself.
const GRACE: Duration = Duration::from_secs(15);

/// Time limit for closing the connection.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// About `lock_timeout`: this transaction waits only for the lock of a command that alters the table.
/// Compiling a query (`jit`) takes longer than it saves. A scan in parallel is worth it, as few rows are passed on.
const BEGIN: &str = "
    BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
    SET LOCAL lock_timeout = '10s';
    SET LOCAL idle_in_transaction_session_timeout = '5min';
    SET LOCAL row_security = off;
    SET LOCAL jit = off;
    SET LOCAL client_encoding = 'UTF8';
    SET LOCAL standard_conforming_strings = on;
    SET LOCAL parallel_setup_cost = 0;
    SET LOCAL parallel_tuple_cost = 0;";

/// Rows of a copy that are taken from the connection at once.
const ROWS: usize = 4096;

/// A transaction.
pub(super) struct Session<'u> {
    pub(super) url: &'u PostgresUrl,
    runtime: Blocking,
    client: Client,
}

/// A row as text; `None` for null.
pub(super) type TextRow = Vec<Option<String>>;

impl<'u> Session<'u> {
    /// Connects and begins the transaction. A standby is refused: it may show an earlier state than the mint's.
    pub(super) fn begin(url: &'u PostgresUrl) -> Result<Self> {
        let runtime = Blocking::new()?;
        let one = url.config.get_connect_timeout();
        let limit = LOGIN_FACTOR * *one.unwrap_or(&CONNECT_TIMEOUT).min(&MAX_CONNECT_TIMEOUT);
        let tls = match url.config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(tls::connector(url)?),
        };
        let client = runtime.wait(url, "connecting", limit, login(&url.config, tls))?;
        let mut session = Self {
            url,
            runtime,
            client,
        };
        let schema = url.schema.as_deref().map_or_else(String::new, |schema| {
            let schema = schema.replace('"', "\"\"");
            format!("SET LOCAL search_path = \"{schema}\";")
        });
        let limit = STATEMENT_LIMIT.as_millis();
        // The first version with `pg_current_snapshot` is 13.
        let begin = format!(
            "{BEGIN} {schema} SET LOCAL statement_timeout = {limit};
             SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 130000,
                 pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('server_version')"
        );
        let row = session.rows("beginning", &begin)?.pop().unwrap_or_default();
        let row: Vec<&str> = row.iter().flatten().map(String::as_str).collect();
        let reason = match row[..] {
            ["t", "f", _] => return Ok(session),
            ["f", _, version] => {
                &format!("unsupported Postgres version {version}; 13 or later is required")
            }
            _ => {
                "the server is a standby, whose notes may be older than the mint's; give the address of the primary, or \
                 several hosts with target_session_attrs=read-write"
            }
        };
        Err(SourceError::Schema(format!("{url}: {reason}")))
    }

    /// The rows of some statements.
    pub(super) fn rows(&mut self, doing: &'static str, sql: &str) -> Result<Vec<TextRow>> {
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

    /// Copies rows of two columns of text or bytes and one number, and passes each to `take`, which may block.
    pub(super) fn copy(
        &mut self,
        doing: &'static str,
        sql: &str,
        mut take: impl FnMut(Option<&[u8]>, Option<&[u8]>, Option<i32>) -> Result<()>,
    ) -> Result<()> {
        let stream = self.wait(doing, self.client.copy_out(sql))?;
        // In binary format, text is its bytes.
        let stream = BinaryCopyOutStream::new(stream, &[Type::BYTEA, Type::BYTEA, Type::INT4]);
        let mut pieces = Box::pin(stream.try_ready_chunks(ROWS).map_err(|error| error.1));
        while let Some(rows) = self.wait(doing, pieces.try_next())? {
            for row in rows {
                let columns = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
                let (keyset, item, counts) = columns().map_err(|e| failed(self.url, doing, e))?;
                take(keyset, item, counts)?;
            }
        }
        Ok(())
    }

    /// Ends the transaction and closes the connection. What was read is valid even if this fails.
    pub(super) fn finish(self) {
        let commit = self.client.simple_query("COMMIT");
        let _ = self.runtime.wait(self.url, "ending", GOODBYE_LIMIT, commit);
    }

    fn wait<T>(
        &self,
        doing: &'static str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T> {
        let limit = STATEMENT_LIMIT + GRACE;
        self.runtime.wait(self.url, doing, limit, work)
    }
}

async fn login(config: &Config, tls: Option<Connector>) -> Result<Client, Error> {
    let Some(tls) = tls else {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        return Ok(client);
    };
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Waits on this thread; `None` once it is dropped.
struct Blocking(Option<Runtime>);

impl Blocking {
    fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| SourceError::Other(error.into()))?;
        Ok(Self(Some(runtime)))
    }

    /// Waits for an answer of the server, but not longer than `limit`.
    fn wait<T>(
        &self,
        url: &PostgresUrl,
        doing: &'static str,
        limit: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T> {
        let timed = async { tokio::time::timeout(limit, work).await.ok() };
        match self.0.as_ref().and_then(|runtime| runtime.block_on(timed)) {
            Some(answer) => answer.map_err(|error| failed(url, doing, error)),
            None => {
                let seconds = limit.as_secs();
                let error = format!("{url}: {doing}: timed out after {seconds} s");
                Err(SourceError::Other(error.into()))
            }
        }
    }
}

/// Name resolution may keep a thread busy; it is not waited for. The socket is closed, and the server rolls back.
impl Drop for Blocking {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn failed(url: &PostgresUrl, doing: &'static str, source: Error) -> SourceError {
    SourceError::Postgres {
        database: url.to_string(),
        doing,
        source,
    }
}
