//! A connection for one reading.
//!
//! Each call connects anew. That costs some milliseconds a minute; in return nothing of ours is open at the mint's
//! server between readings, and a server that was restarted, moved or given another password needs no care.
//!
//! Everything happens in one transaction, `REPEATABLE READ, READ ONLY`: one state of the database, no lock that a
//! writer waits for. What is set, is set for this transaction alone (`SET LOCAL`): behind a pooler of connections
//! a setting of the session, and `default_transaction_read_only` above all, would be left to whoever comes next,
//! which might be the mint.

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

/// So many times the URL's `connect_timeout` it may take to try all hosts, agree on TLS and be let in.
const LOGIN_FACTOR: u32 = 3;

/// How long one statement may take, at the server: a count or a copy of hundreds of millions of rows.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30 * 60);

/// How long it is waited for what the server should have ended itself.
const GRACE: Duration = Duration::from_secs(15);

/// How long the goodbye may take.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// `lock_timeout`: the one lock that ours waits for is that of somebody who alters the table.
const BEGIN: &str = "
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL lock_timeout = '10s';
    SET LOCAL idle_in_transaction_session_timeout = '5min';
    SET LOCAL row_security = off;
    SET LOCAL client_encoding = 'UTF8';
    SET LOCAL standard_conforming_strings = on;";

/// So many bytes of a copy are gathered before its rows are looked at.
const GATHERED: usize = 256 << 10;

/// The first version that has `pg_current_snapshot`.
const OLDEST_VERSION: u32 = 13_00_00;

/// A transaction that sees one state of the database.
pub(super) struct Session<'u> {
    url: &'u PostgresUrl,
    /// `None` when it is over.
    runtime: Option<Runtime>,
    client: Client,
    connection: Option<JoinHandle<Result<(), Error>>>,
}

/// A row as text; `None` for null.
pub(super) type TextRow = Vec<Option<String>>;

impl<'u> Session<'u> {
    /// Connects and begins.
    pub(super) fn begin(url: &'u PostgresUrl) -> Result<Self, SourceError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| SourceError::Other(error.into()))?;
        let (client, connection) = match login(url, &runtime) {
            Ok(pair) => pair,
            Err(error) => {
                // A name that does not resolve may keep a thread busy: nobody waits for it.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let mut session = Self {
            url,
            runtime: Some(runtime),
            client,
            connection: Some(connection),
        };
        let limit = STATEMENT_LIMIT.as_millis();
        let begin = format!(
            "{BEGIN} SET LOCAL statement_timeout = {limit}; SELECT current_setting('server_version_num')"
        );
        let version = session.value("beginning", &begin)?;
        match version.parse::<u32>() {
            Ok(number) if number >= OLDEST_VERSION => Ok(session),
            _ => Err(SourceError::PostgresVersion {
                database: url.to_string(),
                found: version,
            }),
        }
    }

    /// The rows of some statements.
    pub(super) fn rows(
        &mut self,
        doing: &'static str,
        sql: &str,
    ) -> Result<Vec<TextRow>, SourceError> {
        let answer = run(
            self.runtime.as_ref(),
            STATEMENT_LIMIT + GRACE,
            self.client.simple_query(sql),
        );
        let messages = self.checked(doing, answer)?;
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

    /// The only value of the only row; empty if it is null or there is none.
    pub(super) fn value(&mut self, doing: &'static str, sql: &str) -> Result<String, SourceError> {
        let rows = self.rows(doing, sql)?;
        let value = rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next());
        Ok(value.flatten().unwrap_or_default())
    }

    /// Begins to copy rows of `N` columns out.
    pub(super) fn copy<const N: usize>(
        &mut self,
        doing: &'static str,
        table: &'static str,
        sql: &str,
    ) -> Result<Copy<'_, 'u, N>, SourceError> {
        let answer = run(
            self.runtime.as_ref(),
            STATEMENT_LIMIT + GRACE,
            self.client.copy_out(sql),
        );
        let stream = Box::pin(self.checked(doing, answer)?);
        Ok(Copy {
            session: self,
            stream,
            rows: BinaryCopy::new(),
            doing,
            table,
        })
    }

    /// Ends the transaction and says goodbye. What was read is good whether that succeeds or not.
    pub(super) fn finish(self) {
        let commit = self.client.simple_query("COMMIT");
        run(self.runtime.as_ref(), GOODBYE_LIMIT, commit);
    }

    /// What came of waiting, with the database in the error.
    fn checked<T>(
        &mut self,
        doing: &'static str,
        answer: Option<Result<T, Error>>,
    ) -> Result<T, SourceError> {
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(self.failed(doing, error)),
            None => Err(timeout(self.url, doing, STATEMENT_LIMIT + GRACE)),
        }
    }

    fn failed(&mut self, doing: &'static str, error: Error) -> SourceError {
        // That the connection is closed is all that a statement learns; the connection knows why.
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

/// Whatever is still going on is dropped: the socket closes, and the server rolls back.
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
    // Zero is libpq's word for no limit, and every wait of ours has one.
    let one = url.config.get_connect_timeout().copied();
    let one = one
        .filter(|limit| !limit.is_zero())
        .unwrap_or(CONNECT_TIMEOUT);
    LOGIN_FACTOR * one.min(CONNECT_TIMEOUT * LOGIN_FACTOR)
}

fn timeout(url: &PostgresUrl, doing: &'static str, limit: Duration) -> SourceError {
    SourceError::PostgresTimeout {
        database: url.to_string(),
        doing,
        seconds: limit.as_secs(),
    }
}

/// Waits for something, and not longer than that.
fn run<T>(runtime: Option<&Runtime>, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    runtime?.block_on(async { tokio::time::timeout(limit, work).await.ok() })
}

/// Rows that are being copied out.
pub(super) struct Copy<'s, 'u, const N: usize> {
    session: &'s mut Session<'u>,
    stream: Pin<Box<CopyOutStream>>,
    rows: BinaryCopy<N>,
    doing: &'static str,
    table: &'static str,
}

impl<const N: usize> Copy<'_, '_, N> {
    /// Hands over all rows, each to `take`, which is called outside of the runtime and may block.
    pub(super) fn for_each(
        mut self,
        mut take: impl FnMut([Option<&[u8]>; N]) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let table = self.table;
        let malformed = |reason| SourceError::MalformedCopy { table, reason };
        loop {
            let more = self.gather()?;
            while let Some(row) = self.rows.next_row().map_err(malformed)? {
                take(row)?;
            }
            if !more {
                return self.rows.finish().map_err(malformed);
            }
        }
    }

    /// Waits for the next pieces. Says whether there may be more.
    fn gather(&mut self) -> Result<bool, SourceError> {
        let (stream, rows) = (&mut self.stream, &mut self.rows);
        let work = async {
            let mut gathered = 0;
            while gathered < GATHERED {
                match stream.next().await {
                    Some(piece) => {
                        let piece = piece?;
                        gathered += piece.len();
                        rows.feed(&piece);
                    }
                    None => return Ok(false),
                }
            }
            Ok(true)
        };
        let answer = run(self.session.runtime.as_ref(), STATEMENT_LIMIT + GRACE, work);
        self.session.checked(self.doing, answer)
    }
}
