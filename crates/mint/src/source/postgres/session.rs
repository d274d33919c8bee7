//! A connection for one reading.
//!
//! Each call opens a new connection, which costs some milliseconds a minute. In return, no connection stays open at the
//! mint's server between readings, and a server that was restarted, moved or given another password needs no special case.
//! Each time all hosts are asked who they are: one address may lead to another server than before, too.
//!
//! Everything runs in one transaction, `READ COMMITTED, READ ONLY`. Settings apply to it only (`SET LOCAL`): behind a
//! connection pooler, a setting of the session would be inherited by the next client, which might be the mint.

use core::future::Future;
use core::time::Duration;
use std::time::Instant;

use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::binary_copy::BinaryCopyOutStream;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls;
use super::url::{PostgresUrl, name};
use crate::source::{Result, SourceError};

/// Factor of the URL's `connect_timeout` for trying all hosts, the TLS handshake and the login.
const LOGIN_FACTOR: u32 = 3;

/// Time limit of one statement: a copy of hundreds of millions of rows. The server's own limit ends before.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30 * 60 + 15);

/// The step in which a server that is away is noticed.
const CONNECTING: &str = "connecting";

/// Time limit for closing the connection.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// Why a server in recovery is refused.
pub(super) const STANDBY: &str = "the server is a standby, whose notes may be older than the mint's; give the address of the \
    primary, or several hosts with target_session_attrs=read-write";

/// Begins a transaction, after the search path is set. The answer is the version, if it is too old (the first one with
/// `pg_current_snapshot` is 13), and whether this is a standby, which may show an earlier state than the mint's.
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
    SELECT CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 < 130000
        THEN pg_catalog.current_setting('server_version') END, pg_catalog.pg_is_in_recovery()";

/// Text that is later for a server that started later.
pub(super) const START: &str = "pg_catalog.to_char(pg_catalog.timezone('UTC', pg_catalog.pg_postmaster_start_time()), \
    'YYYY-MM-DD HH24:MI:SS.US')";

/// Selects who a server that accepts writes is, with [`START`]: the identifier of its database system, its timeline as 8 hex digits,
/// and for how many milliseconds it has run.
const WHO: &str = "system_identifier, pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8),
    (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - pg_catalog.pg_postmaster_start_time()) * 1000)::bigint
    FROM pg_catalog.pg_control_system()";

/// Rows of a copy that are taken from the connection at once.
const ROWS: usize = 4096;

/// The way to the mint's server.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) url: PostgresUrl,
    /// The last server of each database system so far: start, identifier and timeline. The last system is the present one.
    known: Vec<Who>,
    /// When the present system was last reached.
    reached: Option<Instant>,
    /// The version of the pgpool-II at this address, once asked; the inner one is `None` for Postgres itself.
    router: Option<Option<String>>,
}

impl Link {
    pub(super) fn new(url: PostgresUrl) -> Self {
        Self { url, known: vec![], reached: None, router: None }
    }

    /// Adds to an error that may come from it that statements pass through pgpool-II.
    pub(super) fn explain(&mut self, error: SourceError) -> SourceError {
        match &error {
            SourceError::Schema(_) => {}
            SourceError::Postgres { source, .. } if source.is_closed() => {}
            _ => return error,
        }
        if self.router.is_none() {
            self.router = self.ask_router().ok();
        }
        match &self.router {
            Some(Some(version)) => SourceError::Schema(format!(
                "{error} (pgpool-II {version} is at this address and sends statements to several servers; give the address \
                 of the primary itself)"
            )),
            _ => error,
        }
    }

    /// Outside of a transaction, as an error would end it.
    fn ask_router(&self) -> Result<Option<String>> {
        let (server, client, _) = Server::login(&self.url, &mut vec![], None)?;
        let shown = client.simple_query("SHOW pool_version");
        match server.wait("asking for pgpool-II", GOODBYE_LIMIT, async { Ok(shown.await) })? {
            Ok(messages) => Ok(texts(messages).pop().and_then(|mut row| row[0].take())),
            Err(_) => Ok(None),
        }
    }
}

/// A transaction.
pub(super) struct Session<'u> {
    server: Server<'u>,
    client: Client,
    /// The start of the server that was chosen; `None` if the only one does not tell who it is.
    start: Option<String>,
}

/// A row as text; `None` for null.
pub(super) type TextRow = Vec<Option<String>>;

impl<'u> Session<'u> {
    /// Connects and begins the transaction.
    pub(super) fn begin(link: &'u mut Link) -> Result<Self> {
        let url = &link.url;
        let since = link.reached.map(|reached| reached.elapsed());
        let (server, client, start) = Server::login(url, &mut link.known, since)?;
        link.reached = Some(Instant::now());
        let mut session = Self { server, client, start };
        let schema = url.schema.as_deref().map_or_else(String::new, |schema| {
            let schema = schema.replace('"', "\"\"");
            format!("SET LOCAL search_path = \"{schema}\";")
        });
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {schema} {BEGIN}");
        match session.rows("beginning", &begin)?.pop().as_deref() {
            Some([None, Some(standby)]) if standby == "f" => Ok(session),
            Some([Some(version), _]) => Err(SourceError::schema(
                url,
                format!("unsupported Postgres version {version}; 13 or later is required"),
            )),
            Some(_) => Err(SourceError::schema(url, STANDBY)),
            None => Err(SourceError::schema(url, "the server does not answer")),
        }
    }

    pub(super) fn url(&self) -> &'u PostgresUrl {
        self.server.url
    }

    /// The start of the server that was chosen; `None` if the only one does not tell who it is.
    pub(super) fn start(&self) -> Option<&str> {
        self.start.as_deref()
    }

    /// The rows of some statements.
    pub(super) fn rows(&mut self, doing: &'static str, sql: &str) -> Result<Vec<TextRow>> {
        let messages = self.server.wait(doing, STATEMENT_LIMIT, self.client.simple_query(sql))?;
        Ok(texts(messages))
    }

    /// Copies rows of two columns of text or bytes and one id of a transaction, and passes each to `take`, which may block.
    pub(super) fn copy(
        &mut self,
        doing: &'static str,
        sql: &str,
        mut take: impl FnMut(Option<&[u8]>, Option<&[u8]>, Option<u32>) -> Result<()>,
    ) -> Result<()> {
        let server = &self.server;
        let stream = server.wait(doing, STATEMENT_LIMIT, self.client.copy_out(sql))?;
        // In binary format, text is its bytes, and an id is a number like an oid.
        let stream = BinaryCopyOutStream::new(stream, &[Type::BYTEA, Type::BYTEA, Type::OID]);
        let mut pieces = Box::pin(stream.try_ready_chunks(ROWS).map_err(|error| error.1));
        while let Some(rows) = server.wait(doing, STATEMENT_LIMIT, pieces.try_next())? {
            for row in rows {
                let columns = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
                let (keyset, item, wrote) =
                    columns().map_err(|error| server.failed(doing, error))?;
                take(keyset, item, wrote)?;
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

/// The rows of an answer.
fn texts(messages: Vec<SimpleQueryMessage>) -> Vec<TextRow> {
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let column = |column| row.get(column).map(str::to_owned);
            Some((0..row.len()).map(column).collect())
        }
        _ => None,
    });
    rows.collect()
}

async fn connect(config: &Config, tls: MakeRustlsConnect) -> Result<Client, Error> {
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Connects to a host, and asks who it is.
async fn ask(
    config: &Config,
    tls: MakeRustlsConnect,
) -> Result<(Client, Result<TextRow, Error>), Error> {
    let client = connect(config, tls).await?;
    let who = client.simple_query(&format!("SELECT {START}, {WHO}")).await;
    let who = who.map(|who| texts(who).into_iter().flatten().collect());
    Ok((client, who))
}

/// Start, identifier of the database system, timeline, and for how many milliseconds it has run.
type Who = [String; 4];

/// The one of the servers that accept writes which the mint uses, and its start; or why that cannot be told. A server that was
/// promoted has a higher timeline than the one that it followed. `since` is the time since the last choice.
fn choose<C>(
    writers: Vec<(String, C, TextRow)>,
    known: &mut Vec<Who>,
    since: Option<Duration>,
) -> Result<Option<(C, String)>, String> {
    let mut found = vec![];
    for (host, client, who) in writers {
        let who = who.into_iter().collect::<Option<Vec<_>>>();
        let who = who.and_then(|who| Who::try_from(who).ok());
        let who = who.ok_or_else(|| format!("host {host} did not identify itself"))?;
        found.push((host, client, who));
    }
    let different = |found: &[(String, C, Who)], field: usize| {
        let (first, _, who) = found.first()?;
        let (other, ..) = found.iter().find(|(.., other)| other[field] != who[field])?;
        Some(format!("hosts {first} and {other}"))
    };
    if let Some(hosts) = different(&found, SYSTEM) {
        return Err(format!(
            "{hosts} are primaries of different database systems; give only hosts of the mint's"
        ));
    }
    let highest = found.iter().map(|(.., who)| who[TIMELINE].clone()).max();
    found.retain(|(.., who)| Some(&who[TIMELINE]) == highest.as_ref());
    if let Some(hosts) = different(&found, START_OF) {
        return Err(format!(
            "{hosts} both accept writes on the same timeline; stop the one that the mint does not write to, or remove it \
             from the URL"
        ));
    }
    let Some((host, client, who)) = found.pop() else {
        return Ok(None);
    };
    let [start, system, timeline, ran] = &who;
    let last = known.iter().position(|last| last[SYSTEM] == *system);
    if let Some(at) = last {
        let (is_former, last) = (at + 1 < known.len(), &mut known[at]);
        if is_former || last[TIMELINE] > *timeline {
            return Err(format!(
                "host {host} (timeline {timeline}) is the primary from before a failover or an upgrade; start the present one, or \
                 restart this service if an older copy was restored"
            ));
        }
        // One that started since then did not run beside the last one. Its start is earlier if its clock was set back.
        let is_new = since.zip(ran.parse().ok().map(Duration::from_millis));
        let is_new =
            is_new.is_some_and(|(since, ran)| ran < since) && !last[START_OF].starts_with(SEVERAL);
        if last[TIMELINE] == *timeline && last[START_OF] > *start && !is_new {
            // Nobody knows which of them the mint uses. It sorts behind all other starts.
            if !last[START_OF].starts_with(SEVERAL) {
                last[START_OF].insert_str(0, SEVERAL);
            }
            return Err(format!(
                "host {host} leads to several servers on the same timeline, which started at {start} and {}; stop those that the mint \
                 does not write to, then restart this service",
                last[START_OF].trim_start_matches(SEVERAL)
            ));
        }
    }
    last.map(|_| known.pop());
    let start = start.clone();
    known.push(who);
    Ok(Some((client, start)))
}

/// Begins the start of a server that is not the only one.
const SEVERAL: &str = "~";
const START_OF: usize = 0;
const SYSTEM: usize = 1;
const TIMELINE: usize = 2;

/// A server that is waited for.
struct Server<'u> {
    url: &'u PostgresUrl,
    /// `None` once this is dropped.
    runtime: Option<Runtime>,
}

impl<'u> Server<'u> {
    /// Connects to the mint's primary. Also returns the start of that server.
    fn login(
        url: &'u PostgresUrl,
        known: &mut Vec<Who>,
        since: Option<Duration>,
    ) -> Result<(Self, Client, Option<String>)> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = Some(runtime.map_err(|error| SourceError::Other(error.into()))?);
        let (server, tls) = (Self { url, runtime }, tls::connector(url)?);
        let one = url.servers[0].get_connect_timeout();
        let limit = one.map_or(STATEMENT_LIMIT, |one| one.saturating_mul(LOGIN_FACTOR));
        let is_only = url.servers.len() == 1;
        let answers = join_all(url.servers.iter().map(|config| {
            let asked = ask(config, tls.clone());
            async { (name(config), tokio::time::timeout(limit, asked).await) }
        }));
        let answers = server.wait(CONNECTING, limit * 2, async { Ok(answers.await) })?;
        let (mut writers, mut error) = (vec![], None);
        for (host, answer) in answers {
            match answer {
                Ok(Ok((client, Ok(who)))) => writers.push((host, client, who)),
                // It may be a standby, as the next statement tells, or lack the function.
                Ok(Ok((client, Err(failed)))) if is_only && failed.as_db_error().is_some() => {
                    return Ok((server, client, None));
                }
                Ok(Ok((_, Err(failed))))
                    if failed.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) =>
                {
                    let reason = format!(
                        "the role cannot identify host {host}; GRANT EXECUTE ON FUNCTION pg_control_system() TO the role"
                    );
                    return Err(SourceError::schema(url, reason));
                }
                Ok(Ok((_, Err(failed))) | Err(failed)) => {
                    error = Some(server.failed(CONNECTING, failed));
                }
                Err(_) => {}
            }
        }
        match choose(writers, known, since) {
            Ok(Some((client, start))) => Ok((server, client, Some(start))),
            Ok(None) => Err(error.unwrap_or_else(|| server.late(CONNECTING, limit))),
            Err(reason) => Err(SourceError::schema(url, reason)),
        }
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
            None => Err(self.late(doing, limit)),
        }
    }

    fn late(&self, doing: &'static str, limit: Duration) -> SourceError {
        let (url, seconds) = (self.url, limit.as_secs());
        SourceError::Other(format!("{url}: {doing}: timed out after {seconds} s").into())
    }

    fn failed(&self, doing: &'static str, source: Error) -> SourceError {
        let database = self.url.to_string();
        SourceError::Postgres { database, doing, source }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_is_chosen_by_system_and_timeline() {
        let who = |who: &str| {
            let who = who.to_owned() + " 9999";
            who.split(' ').map(|field| Some(field.to_owned())).collect()
        };
        let mut known = vec![];
        for (writers, chosen) in [
            (&[][..], Ok(None)),
            (&["a 7 1"], Ok(Some((0, "a")))),
            (&["a 7 1", "b 7 2"], Ok(Some((1, "b")))),
            (&["b 7 2", "a 7 1"], Ok(Some((0, "b")))),
            // Two names of one server.
            (&["b 7 2", "b 7 2"], Ok(Some((1, "b")))),
            (&["a 7 1", "x 7 1", "b 7 2"], Ok(Some((2, "b")))),
            (&["b 7 2", "c 7 2", "a 7 1"], Err("h0 and h1 both accept writes")),
            (&["b 7 2", "d 8 1"], Err("h0 and h1 are primaries of different")),
            (&["a 7 1"], Err("h0 (timeline 1) is the primary from before")),
            (&["c 7 2"], Ok(Some((0, "c")))),
            // Others of the same timeline, behind the same address.
            (&["e 7 2"], Ok(Some((0, "e")))),
            (&["b 7 2"], Err("on the same timeline, which started at b and e")),
            (&["e 7 2"], Err("which started at e and e")),
            // A new cluster, as pg_upgrade makes it.
            (&["d 8 1"], Ok(Some((0, "d")))),
            (&["c 7 2"], Err("from before a failover or an upgrade")),
            (&["8"], Err("did not identify itself")),
        ] {
            let named = writers.iter().enumerate();
            let named = named.map(|(at, of)| (format!("h{at}"), at, who(of))).collect();
            match (choose(named, &mut known, None), chosen) {
                (Ok(found), Ok(chosen)) => {
                    let found = found.as_ref().map(|(at, start)| (*at, start.as_str()));
                    assert_eq!(found, chosen, "{writers:?}");
                }
                (Err(reason), Err(said)) => assert!(reason.contains(said), "{reason}"),
                (found, _) => panic!("{writers:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn server_with_earlier_start_is_chosen_if_it_restarted() {
        let mut known = vec![];
        for (start, ran, is_chosen) in
            [("c", "9999", true), ("b", "2999", true), ("a", "3000", false), ("a", "1", false)]
        {
            let who = [start, "7", "1", ran].map(|field| Some(field.to_owned())).into();
            let since = Some(Duration::from_secs(3));
            let chosen = choose(vec![(String::new(), (), who)], &mut known, since);
            assert_eq!(chosen.is_ok(), is_chosen, "{start} {ran}");
        }
    }
}
