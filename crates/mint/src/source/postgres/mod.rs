//! The Postgres databases of both mints.
//!
//! Notes are read with binary `COPY`. New rows are found by the ids of the transactions that wrote them (`xmin`).
//! This needs no column of the mint's and no clock, and cannot miss late commits. See
//! `docs/decisions/0015-postgres-increments.md`.

mod copy;
mod reading;
mod schema;
mod session;
mod stream;
mod tls;
mod url;
mod watermark;

pub(super) use self::url::PostgresUrl;

use self::reading::{Begun, relation_if_unchanged};
use self::schema::Found;
use self::session::{Session, TextRow};
use self::watermark::Mark;
use super::schema::Schema;
use super::{
    DatabaseLocation, ItemSink, Keysets, MintSource, MintType, Reading, SourceError, Watermark,
};
use crate::NoteKind;

/// Number of attempts at a reading if a table is rewritten at the same time.
const ATTEMPTS: u32 = 3;

/// A mint's Postgres database. Each reading uses its own transaction.
///
/// The mint's writers are not blocked: a reading waits for no row lock, and no row lock waits for it. `ALTER TABLE`
/// and `TRUNCATE` wait until the reading is over, as they do during a backup.
///
/// The role only needs privileges on the columns that are read, and on `xmin`. Without `xmin`, every reading is a
/// full one:
///
/// ```sql
/// GRANT SELECT (id, unit, active, input_fee_ppk) ON keyset TO nutfilter;
/// GRANT SELECT (y, keyset_id, state, xmin) ON proof TO nutfilter;
/// GRANT SELECT (blinded_message, keyset_id, c, xmin) ON blind_signature TO nutfilter;
/// ```
///
/// # Cost
///
/// A full reading scans the table at the server. An incremental one scans it too, but only new rows cross the
/// network, and the server may scan with several processes. A count that is
/// [asked for](MintSource::verify_next) is another scan. If no transaction has ended since
/// the last reading, nothing is scanned. After a restart of the server, the next reading is a full one.
#[derive(Clone, Debug)]
pub struct PostgresSource {
    url: PostgresUrl,
    mint: MintType,
    /// Whether the missing privilege on `xmin` was logged.
    warned: bool,
    /// Whether the next reading counts the rows.
    verify: bool,
}

impl PostgresSource {
    /// Checks the database. It detects the mint by its tables, unless `mint` is given, and verifies that everything
    /// it needs exists and may be read. It can be called on an async thread, which is blocked for a moment.
    ///
    /// # Errors
    ///
    /// If the location is not a Postgres URL, or the server cannot be reached or refuses the login. Also if the
    /// schema is not one that this version supports; the error names the first missing table, column or privilege.
    pub fn open(location: &DatabaseLocation, mint: Option<MintType>) -> Result<Self, SourceError> {
        let url = location.postgres().ok_or_else(|| {
            SourceError::postgres_url("must begin with postgres:// or postgresql://")
        })?;
        // A separate thread, because a runtime cannot be entered from within another one.
        let mint = std::thread::scope(|scope| {
            let look = scope.spawn(|| look(url, mint));
            look.join()
                .unwrap_or_else(|_| Err(SourceError::Other("schema check thread panicked".into())))
        })?;
        Ok(Self {
            url: url.clone(),
            mint,
            warned: false,
            verify: false,
        })
    }

    /// The mint that the database belongs to.
    #[must_use]
    pub fn mint_type(&self) -> MintType {
        self.mint
    }

    /// Begins a transaction, reads the schema that it sees, and verifies it.
    fn begin(&self) -> Result<(Session<'_>, Found, &'static Schema), SourceError> {
        let mut session = Session::begin(&self.url)?;
        let found = Found::look(&mut session, self.url.to_string())?;
        let schema = Schema::of(self.mint);
        found.verify(schema)?;
        Ok((session, found, schema))
    }
}

fn look(url: &PostgresUrl, mint: Option<MintType>) -> Result<MintType, SourceError> {
    let mut session = Session::begin(url)?;
    let found = Found::look(&mut session, url.to_string())?;
    let mint = match mint {
        Some(mint) => mint,
        None => found.recognise()?,
    };
    found.verify(Schema::of(mint))?;
    session.finish();
    Ok(mint)
}

impl MintSource for PostgresSource {
    fn mint(&self) -> &str {
        self.mint.as_str()
    }

    fn keysets(&mut self) -> Result<Keysets, SourceError> {
        retried(|| {
            let (mut session, _, schema) = self.begin()?;
            let rows = session.rows("listing keysets", &schema.keysets.select())?;
            relation_if_unchanged(&mut session, schema.keysets.name)?;
            session.finish();
            Ok(listed(rows))
        })
    }

    fn read(
        &mut self,
        kind: NoteKind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        let verify = core::mem::take(&mut self.verify);
        let since = since.map(Mark::decode).transpose();
        let since = since.map_err(SourceError::rescan)?;
        // The sink has received nothing before the table is locked, so a retry is safe.
        let begun = retried(|| Begun::new(self, kind, since.as_ref(), verify))?;
        let warn = !begun.tells_new && !self.warned;
        if warn {
            tracing::warn!(
                table = begun.notes.table.name,
                "role cannot read column `xmin`, so every refresh rereads the full table; grant \
                 SELECT (xmin) on the table to the role"
            );
        }
        let reading = begun.read(kind, since, sink)?;
        self.warned |= warn;
        Ok(reading)
    }

    fn verify_next(&mut self) {
        self.verify = true;
    }
}

/// Retries a reading that a rewritten table interrupted.
fn retried<T>(mut attempt: impl FnMut() -> Result<T, SourceError>) -> Result<T, SourceError> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(SourceError::Rewritten { .. }) => {}
            result => return result,
        }
    }
    attempt()
}

/// Converts rows of id, unit, active flag and fee into keysets.
fn listed(rows: Vec<TextRow>) -> Keysets {
    let mut listed = Keysets::default();
    for row in rows {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        let id = next().unwrap_or_default();
        let unit = next();
        let active = next().is_some_and(|value| ["t", "true", "1"].contains(&&*value));
        let fee = next().and_then(|fee| fee.parse().ok()).unwrap_or(0);
        listed.add(&id, unit, active, fee);
    }
    listed
}
