//! The Postgres databases of both mints.
//!
//! Notes come by binary `COPY`. What is new is told by the ids of the transactions that wrote the rows (`xmin`),
//! which need no column of the mint's, no clock, and cannot miss what was committed late: see
//! `docs/decisions/0015-postgres-increments.md`.

mod copy;
mod reading;
mod schema;
mod session;
mod tls;
mod url;
mod watermark;

pub(super) use self::url::PostgresUrl;

use self::reading::{Begun, relation_if_unchanged};
use self::schema::Found;
use self::session::{Session, TextRow};
use self::watermark::Mark;
use super::listing::{Description, Listing};
use super::schema::Schema;
use super::{
    DatabaseLocation, ItemSink, Keysets, MintSource, MintType, Reading, SourceError, Watermark,
};
use crate::Kind;

/// So often a reading begins anew if a table was rewritten just then.
const ATTEMPTS: u32 = 3;

/// A mint's Postgres database, read in a transaction of its own each time.
///
/// The mint's writers are not held up: a reading waits for no row and no row waits for it. Whoever alters or
/// truncates a table waits until the reading is over, as with a backup.
///
/// The role needs no more than to read the columns in question, and `xmin`, without which every reading is a whole
/// one:
///
/// ```sql
/// GRANT SELECT (id, unit, active, input_fee_ppk) ON keyset TO nutfilter;
/// GRANT SELECT (y, keyset_id, state, xmin) ON proof TO nutfilter;
/// GRANT SELECT (blinded_message, keyset_id, c, xmin) ON blind_signature TO nutfilter;
/// ```
///
/// # Cost
///
/// A whole reading is a scan of the table at the server, and an increment too, of which only what is new crosses the
/// wire. It is another scan where a count is [asked for](MintSource::verify_next), and none at all if no transaction has
/// ended since. After a restart of the server the next reading is a whole one.
#[derive(Clone, Debug)]
pub struct PostgresSource {
    url: PostgresUrl,
    mint: MintType,
    /// Whether it was said that `xmin` cannot be read.
    warned: bool,
    /// Whether the next reading counts the rows.
    verify: bool,
}

impl PostgresSource {
    /// Looks at the database, recognises the mint by its tables unless told which it is, and verifies
    /// that everything is there that will be read, and may be. May be called on an async thread, which it blocks
    /// for a moment.
    ///
    /// # Errors
    ///
    /// If the location is no Postgres URL, the server cannot be reached or lets nobody in, or the database is not
    /// as this version knows it; the error names the first table, column or privilege that is missing.
    pub fn open(location: &DatabaseLocation, mint: Option<MintType>) -> Result<Self, SourceError> {
        let url = location.postgres().ok_or(SourceError::PostgresUrl {
            reason: "it does not begin with postgres:// or postgresql://",
        })?;
        // A thread of its own, as a runtime cannot be entered from within another.
        let mint = std::thread::scope(|scope| {
            let look = scope.spawn(|| look(url, mint));
            look.join()
                .unwrap_or_else(|_| Err(SourceError::Other("the thread that looked died".into())))
        })?;
        Ok(Self {
            url: url.clone(),
            mint,
            warned: false,
            verify: false,
        })
    }

    /// Which mint's database it is.
    #[must_use]
    pub fn mint_type(&self) -> MintType {
        self.mint
    }

    /// A transaction, the schema as it sees it, and whether that is as expected.
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
        kind: Kind,
        since: Option<&Watermark>,
        sink: &mut dyn ItemSink,
    ) -> Result<Reading, SourceError> {
        let verify = core::mem::take(&mut self.verify);
        let since = match since.map(Mark::decode) {
            None => None,
            Some(Ok(mark)) => Some(mark),
            Some(Err(reason)) => return Err(SourceError::StartOver { reason }),
        };
        // Nothing has come to the sink before the table is locked.
        let begun = retried(|| Begun::new(self, kind, since.as_ref(), verify))?;
        let warn = !begun.tells_new && !self.warned;
        if warn {
            tracing::warn!(
                table = begun.notes.table.name,
                "the role may not read the column `xmin`, without which every reading is a whole one: \
                 GRANT SELECT (xmin) on the table to it"
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

/// Begins again what a rewritten table interrupted.
fn retried<T>(mut attempt: impl FnMut() -> Result<T, SourceError>) -> Result<T, SourceError> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(SourceError::Rewritten { .. }) => {}
            result => return result,
        }
    }
    attempt()
}

/// The keysets in rows of id, unit, whether active, and fee.
fn listed(rows: Vec<TextRow>) -> Keysets {
    let mut listing = Listing::default();
    for row in rows {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        let id = next().unwrap_or_default();
        let description = Description {
            unit: next(),
            active: next().is_some_and(|value| ["t", "true", "1"].contains(&&*value)),
            input_fee_ppk: next().and_then(|fee| fee.parse().ok()).unwrap_or(0),
        };
        listing.add(&id, description);
    }
    listing.finish()
}
