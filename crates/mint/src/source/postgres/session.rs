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
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

use super::tls;
use super::url::{CONNECT_TIMEOUT, PostgresUrl};
use crate::source::SourceError;

/// Factor of the URL's `connect_timeout` for trying all hosts, the TLS handshake and the login.
const LOGIN_FACTOR: u32 = 3;

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

/// The first version with `pg_current_snapshot`.
const OLDEST_VERSION: u32 = 13_00_00;

/// A transaction.
pub(super) struct Session<'u> {
    url: &'u PostgresUrl,
    /// `None` once the session has ended.
    runtime: Option<Runtime>,
    client: Client,
}

/// A row as text; `None` for null.
pub(super) type TextRow = Vec<Option<String>>;

impl<'u> Session<'u> {
    /// Connects and begins the transaction. A standby is refused: it may show an earlier state than the mint's.
    pub(super) fn begin(url: &'u PostgresUrl) -> Result<Self, SourceError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| SourceError::Other(error.into()))?;
        let client = match login(url, &runtime) {
            Ok(client) => client,
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
        };
        let schema = url.schema.as_deref().map_or_else(String::new, |schema| {
            format!(
                "SET LOCAL search_path = \"{}\";",
                schema.replace('"', "\"\"")
            )
        });
        let begin = format!(
            "{BEGIN} {schema} SET LOCAL statement_timeout = {};
             SELECT current_setting('server_version_num'), pg_catalog.pg_is_in_recovery()",
            STATEMENT_LIMIT.as_millis()
        );
        let row = session.rows("beginning", &begin)?.pop().unwrap_or_default();
        let mut values = row.into_iter().map(Option::unwrap_or_default);
        let (version, standby) = (
            values.next().unwrap_or_default(),
            values.next().unwrap_or_default(),
        );
        let refused = |reason: String| Err(SourceError::Schema(format!("{url}: {reason}")));
        if !version
            .parse::<u32>()
            .is_ok_and(|number| number >= OLDEST_VERSION)
        {
            return refused(format!(
                "unsupported Postgres version {version}; 13 or later is required"
            ));
        }
        if standby != "f" {
            let cure = "give the address of the primary, or several hosts with target_session_attrs=read-write";
            return refused(format!(
                "the server is a standby, whose notes may be older than the mint's; {cure}"
            ));
        }
        Ok(session)
    }

    pub(super) fn url(&self) -> &'u PostgresUrl {
        self.url
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

    /// Copies rows of two columns of text or bytes and one number, and passes each to `take`, which may block.
    pub(super) fn copy(
        &mut self,
        doing: &'static str,
        sql: &str,
        mut take: impl FnMut(Option<&[u8]>, Option<&[u8]>, Option<i32>) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let stream = self.wait(doing, self.client.copy_out(sql))?;
        // In binary format, text is its bytes.
        let stream = BinaryCopyOutStream::new(stream, &[Type::BYTEA, Type::BYTEA, Type::INT4]);
        let mut pieces = Box::pin(stream.try_ready_chunks(ROWS).map_err(|error| error.1));
        while let Some(rows) = self.wait(doing, pieces.try_next())? {
            for row in rows {
                let failed = |source| self.failed(doing, source);
                let item = row.try_get(1).map_err(failed)?;
                take(
                    row.try_get(0).map_err(failed)?,
                    item,
                    row.try_get(2).map_err(failed)?,
                )?;
            }
        }
        Ok(())
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

    fn failed(&self, doing: &'static str, source: Error) -> SourceError {
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

fn login(url: &PostgresUrl, runtime: &Runtime) -> Result<Client, SourceError> {
    let doing = "connecting";
    let config = &url.config;
    // In libpq, zero means no limit. Here every wait has a limit.
    let one = config
        .get_connect_timeout()
        .filter(|limit| !limit.is_zero());
    let limit = LOGIN_FACTOR
        * *one
            .unwrap_or(&CONNECT_TIMEOUT)
            .min(&(CONNECT_TIMEOUT * LOGIN_FACTOR));
    let answer = if config.get_ssl_mode() == SslMode::Disable {
        run(Some(runtime), limit, async {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            Ok(client)
        })
    } else {
        let connector = tls::connector(url)?;
        run(Some(runtime), limit, async {
            let (client, connection) = config.connect(connector).await?;
            tokio::spawn(connection);
            Ok(client)
        })
    };
    match answer {
        Some(Ok(client)) => Ok(client),
        Some(Err(source)) => Err(SourceError::Postgres {
            database: url.to_string(),
            doing,
            source,
        }),
        None => Err(timeout(url, doing, limit)),
    }
}

fn timeout(url: &PostgresUrl, doing: &'static str, limit: Duration) -> SourceError {
    let seconds = limit.as_secs();
    SourceError::Other(format!("{url}: {doing}: timed out after {seconds} s").into())
}

/// Waits for `work`, but not longer than `limit`.
fn run<T>(runtime: Option<&Runtime>, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    runtime?.block_on(async { tokio::time::timeout(limit, work).await.ok() })
}
