//! A small mint that reports every transition of its proofs, quotes and signatures, and a wallet that follows it.
//!
//!     cargo run -p nutfilter-mint --example reporting_mint
//!
//! Triggers of the mint's database write each transition to a table in the same transaction: the outbox. After the commit, the
//! outbox is reported and emptied. So a transition is reported at least once, also if the mint ends at any moment.
//! Only the records of a mint are here: points are made up, and nobody pays.

use std::error::Error;

use axum::Router;
use axum::routing::get;
use nutfilter_mint::source::{
    ItemBatch, ItemSink, KeysetInfo, Keysets, MintSource, Reading, SourceError, Watermark,
};
use nutfilter_mint::{
    DataDirectory, Event, EventFeed, FilterService, NoteKind, Refresher, RefresherOptions,
    StateFilterOptions,
};
use nutfilter_serve::{Limits, Listener};
use nutfilter_wallet::follow::{Follower, Progress};
use nutfilter_wallet::{MintClient, Policy};
use rusqlite::Connection;

type Result<T = ()> = core::result::Result<T, Box<dyn Error>>;

/// A proof is in its table from the first time that a wallet shows it. New quotes are not reported, only their changes.
const SCHEMA: &str = "
CREATE TABLE proof (id BLOB PRIMARY KEY, state TEXT);
CREATE TABLE signature (id BLOB PRIMARY KEY, state TEXT);
CREATE TABLE mint_quote (id BLOB PRIMARY KEY, state TEXT);
CREATE TABLE melt_quote (id BLOB PRIMARY KEY, state TEXT);
CREATE TABLE outbox (number INTEGER PRIMARY KEY, kind TEXT, state TEXT, id BLOB);
CREATE TRIGGER shown AFTER INSERT ON proof BEGIN
    INSERT INTO outbox VALUES (NULL, 'proof_state', NEW.state, NEW.id); END;
CREATE TRIGGER proof AFTER UPDATE ON proof BEGIN
    INSERT INTO outbox VALUES (NULL, 'proof_state', NEW.state, NEW.id); END;
CREATE TRIGGER signed AFTER INSERT ON signature BEGIN
    INSERT INTO outbox VALUES (NULL, 'blind_signature', '', NEW.id); END;
CREATE TRIGGER minting AFTER UPDATE ON mint_quote BEGIN
    INSERT INTO outbox VALUES (NULL, 'mint_quote', '', NEW.id); END;
CREATE TRIGGER melting AFTER UPDATE ON melt_quote BEGIN
    INSERT INTO outbox VALUES (NULL, 'melt_quote', NEW.state, NEW.id); END;
";

const KEYSET: &str = "009a1f293253e41e";

/// A step, and the row of a table that gets a state in it.
type Change<'a> = (&'a str, &'a str, &'a [u8], &'a str);

struct Mint {
    database: Connection,
    events: EventFeed,
}

impl Mint {
    /// Makes changes in one transaction, and reports them.
    fn change(&mut self, changes: &[Change<'_>]) -> Result {
        let transaction = self.database.transaction()?;
        for (_, table, id, state) in changes {
            let sql =
                format!("INSERT INTO {table} VALUES (?1, ?2) ON CONFLICT DO UPDATE SET state = ?2");
            transaction.execute(&sql, (id, state))?;
        }
        transaction.commit()?;
        self.report()
    }

    /// Reports the outbox. A mint does so at its start as well.
    fn report(&self) -> Result {
        let mut outbox = self
            .database
            .prepare("SELECT number, kind, state, id FROM outbox ORDER BY number")?;
        let mut rows = outbox.query(())?;
        while let Some(row) = rows.next()? {
            let (number, kind, state, id): (i64, String, String, Vec<u8>) = row.try_into()?;
            let event = Event::from_name(&kind).ok_or("an unknown kind")?;
            self.events.report(event, &state, &[&id])?;
            self.database
                .execute("DELETE FROM outbox WHERE number = ?", [number])?;
        }
        Ok(())
    }
}

/// The mint's records for the filters of spent and issued notes.
struct Records(Connection);

impl MintSource for Records {
    fn mint(&self) -> &str {
        "reporting-mint"
    }

    fn keysets(&mut self) -> core::result::Result<Keysets, SourceError> {
        let keyset = KEYSET.parse().map_err(other)?;
        Ok(Keysets::of([KeysetInfo::new(keyset)]))
    }

    /// Reads everything each time. A mint with many notes would return a watermark, and read what came after it.
    fn read(
        &mut self,
        kind: NoteKind,
        _: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> core::result::Result<Reading, SourceError> {
        let select = match kind {
            NoteKind::Spent => "SELECT id FROM proof WHERE state = 'SPENT'",
            NoteKind::Issued => "SELECT id FROM signature",
        };
        let mut notes = ItemBatch::new();
        let mut statement = self.0.prepare(select).map_err(other)?;
        let ids = statement.query_map((), |row| row.get::<_, Vec<u8>>(0));
        for id in ids.map_err(other)? {
            notes.push(&id.map_err(other)?);
        }
        match sink
            .items(&KEYSET.parse().map_err(other)?, &notes)
            .is_break()
        {
            true => Err(SourceError::Stopped),
            false => Ok(Reading::whole(notes.len() as u64)),
        }
    }
}

fn other(error: impl Error + Send + Sync + 'static) -> SourceError {
    SourceError::Other(error.into())
}

fn main() -> Result {
    for event in run()? {
        println!("{event}");
    }
    Ok(())
}

/// Returns the events that the wallet saw, by refresh.
fn run() -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let mut options = StateFilterOptions::new(&[]);
    options.reported = Event::ALL.to_vec();
    let path = directory.path().join("mint.sqlite3");
    let database = Connection::open(&path)?;
    database.execute_batch(SCHEMA)?;
    let source = Records(Connection::open(&path)?);
    let service = FilterService::default();
    let refresher_options = RefresherOptions {
        data_directory: Some(DataDirectory::open(directory.path().join("filters"))?),
        state_filters: Some(options.clone()),
        ..RefresherOptions::default()
    };
    let mut refresher = Refresher::with_options(source, service.clone(), refresher_options)?;
    let mut mint = Mint {
        database,
        events: refresher.event_feed(),
    };

    // The mint's routes: here only its info, which announces the state filters.
    let entries = [
        ("XX", options.draft_info()),
        ("segments", options.segments_info()),
    ];
    let entries = entries.map(|(key, value)| format!("{key:?}:{}", value.unwrap_or_default()));
    let info = format!(r#"{{"nuts":{{{}}}}}"#, entries.join(","));
    let router = Router::new().route("/v1/info", get(|| async { info }));
    let router = router.merge(nutfilter_serve::filter_router(service));
    let runtime = tokio::runtime::Runtime::new()?;
    let listener = runtime.block_on(Listener::tcp("127.0.0.1:0"))?;
    let url = listener.to_string();
    let never = core::future::pending();
    runtime.spawn(nutfilter_serve::serve(
        vec![listener],
        router,
        Limits::default(),
        never,
    ));

    // The wallet knows its quotes, blinded messages and proofs.
    let point = |i| [&[2][..], &[i; 32]].concat();
    let (outputs, proofs) = ([point(2), point(3)], [point(4), point(5)]);
    let client = MintClient::new(&url, Policy::default())?;
    let mut wallet = vec![];
    for (event, ids) in [
        (Event::MintQuote, vec![b"in".to_vec()]),
        (Event::MeltQuote, vec![b"out".to_vec()]),
        (Event::BlindSignature, outputs.to_vec()),
        (Event::ProofState, proofs.to_vec()),
    ] {
        let follower = Follower::new(client.clone(), event, event.states(), &ids)?;
        wallet.push((event, follower, Progress::default()));
    }
    let mut seen = vec![];
    let ([b1, b2], [y1, y2]) = (&outputs, &proofs);
    let steps: [Change<'_>; 13] = [
        ("paid", "mint_quote", b"in", "UNPAID"),
        ("paid", "mint_quote", b"in", "PAID"),
        ("minted", "mint_quote", b"in", "ISSUED"),
        ("minted", "signature", b1, ""),
        ("swapped", "proof", y1, "SPENT"),
        ("swapped", "signature", b2, ""),
        ("melting", "melt_quote", b"out", "UNPAID"),
        ("melting", "melt_quote", b"out", "PENDING"),
        ("melting", "proof", y2, "PENDING"),
        ("failed", "melt_quote", b"out", "UNPAID"),
        ("failed", "proof", y2, "UNSPENT"),
        ("melted", "melt_quote", b"out", "PAID"),
        ("melted", "proof", y2, "SPENT"),
    ];
    for changes in steps.chunk_by(|a, b| a.0 == b.0) {
        let step = changes[0].0;
        mint.change(changes)?;
        refresher.refresh()?;
        for (event, follower, progress) in &mut wallet {
            let plan = follower.plan(None, None, progress.bookmark.as_ref())?;
            *progress = follower.run(&plan, progress.clone(), None, &mut |found| {
                seen.push(format!(
                    "{step}: {event} {} {}",
                    found.candidate, found.state
                ));
            })?;
        }
    }
    Ok(seen)
}

#[test]
fn wallet_sees_every_transition() {
    let expected = "paid: mint_quote 0 |minted: mint_quote 0 |minted: blind_signature 0 |swapped: blind_signature 1 |\
        swapped: proof_state 0 SPENT|melting: melt_quote 0 PENDING|melting: proof_state 1 PENDING|\
        failed: melt_quote 0 UNPAID|failed: proof_state 1 UNSPENT|melted: melt_quote 0 PAID|melted: proof_state 1 SPENT";
    assert_eq!(run().unwrap().join("|"), expected);
}
