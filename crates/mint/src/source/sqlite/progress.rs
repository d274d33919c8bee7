//! The parts of the watermark: the state of a table that is kept between two readings.

use std::collections::BTreeMap;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};

use crate::source::{SourceError, Watermark};

/// Version of the format. Watermarks of another version are refused, and the table is read in full.
const VERSION: u32 = 4;

/// Number of newest rows, of each sort, that are looked up again.
pub(super) const NEWEST: usize = 64;

/// Maximum number of remembered rows that may count later. A busy mint has some hundreds at a time. Rows of
/// abandoned quotes stay.
const MAX_PENDING: usize = 900_000;

/// Maximum number of unreadable rows that are looked up again at each reading. With more, the table is read in full.
pub(super) const MAX_BAD: usize = 1_000;

/// The facts of one reading about its table, all from one state of the database.
///
/// Every row of that state is counted once: as a member, as unreadable, as unservable or as pending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    version: u32,
    mint: String,
    table: String,
    /// Number of rows that count and belong to a keyset that can be served.
    pub(super) members: u64,
    /// Number of rows that count and have an invalid keyset id.
    pub(super) unservable: u64,
    /// Some of these invalid ids.
    pub(super) unservable_ids: Vec<String>,
    /// The rows with the highest row ids among those that count, the highest first.
    pub(super) anchors: Vec<(i64, Item)>,
    /// Rows that began to count after they had been pending, the latest last.
    pub(super) flipped: Vec<Item>,
    /// The rows that began to count last by the mint's clock, with their times, the earliest first.
    pub(super) latest: Vec<(i64, Item)>,
    /// Rows that count and cannot be read: their row ids and keysets.
    pub(super) bad: Vec<(i64, String)>,
    /// All rows that do not count yet.
    pub(super) pending: Vec<Item>,
    /// The mint's own total of the amounts per keyset; `None` if the mint keeps none.
    pub(super) totals: Option<BTreeMap<String, i64>>,
    /// The database that was read; see [`ReadOnly::identity`](super::connect::ReadOnly::identity).
    pub(super) identity: Option<String>,
}

/// The value of an item's column, exactly as stored, so that it can be looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) enum Item {
    Text(String),
    Blob(Vec<u8>),
    /// A row without a usable value, by its row id.
    Row(i64),
}

impl Progress {
    pub(super) fn of(mint: &str, table: &str) -> Self {
        Self {
            version: VERSION,
            mint: mint.to_owned(),
            table: table.to_owned(),
            ..Self::default()
        }
    }

    /// Parses the output of [`Progress::watermark`].
    ///
    /// # Errors
    ///
    /// [`SourceError::RescanRequired`] for anything that was not written for this table.
    pub(super) fn parse(
        watermark: &Watermark,
        mint: &str,
        table: &str,
    ) -> Result<Self, SourceError> {
        let parsed: Self = serde_json::from_slice(watermark.as_bytes()).map_err(|error| {
            // A parser's message may repeat its input.
            SourceError::rescan(format!(
                "invalid watermark at line {}, column {}",
                error.line(),
                error.column()
            ))
        })?;
        let expected = Self::of(mint, table);
        if (parsed.version, &parsed.mint, &parsed.table)
            != (expected.version, &expected.mint, &expected.table)
        {
            return Err(SourceError::rescan(format!(
                "the watermark is for version {}, table `{}` of {}; expected version {VERSION}, \
                 table `{table}` of {mint}",
                parsed.version, parsed.table, parsed.mint
            )));
        }
        Ok(parsed)
    }

    /// Serializes this; `None` if the result is too long.
    pub(super) fn watermark(&self) -> Option<Watermark> {
        let bytes = serde_json::to_vec(self).ok()?;
        if bytes.len() > Watermark::MAX_BYTES {
            tracing::warn!(
                table = self.table,
                pending = self.pending.len(),
                bytes = bytes.len(),
                "too many pending rows to track; the next refresh rereads the full table"
            );
            return None;
        }
        Some(Watermark::new(bytes))
    }

    /// Remembers a row that does not count yet. Returns whether there was room.
    pub(super) fn remember(&mut self, item: Item) -> bool {
        let room = self.pending.len() < MAX_PENDING;
        if room {
            self.pending.push(item);
        }
        room
    }

    /// The highest row id of a row that counts. Each reading checks that this row is still there.
    pub(super) fn last(&self) -> Option<i64> {
        let readable = self.anchors.first().map(|&(rowid, _)| rowid);
        readable.max(self.bad.iter().map(|&(rowid, _)| rowid).max())
    }

    pub(super) fn add_flipped(&mut self, item: Item) {
        self.flipped.push(item);
        // Done rarely, so that dropping the oldest rows is cheap.
        if self.flipped.len() >= 2 * NEWEST {
            self.trim_flipped();
        }
    }

    /// Adds rows that have begun to count since.
    pub(super) fn add_latest(&mut self, rows: impl Iterator<Item = (i64, self::Item)>) {
        self.latest.extend(rows);
        self.latest.sort();
        let earliest = self.latest.len().saturating_sub(NEWEST);
        self.latest.drain(..earliest);
    }

    pub(super) fn trim_flipped(&mut self) {
        let oldest = self.flipped.len().saturating_sub(NEWEST);
        self.flipped.drain(..oldest);
    }
}

impl Item {
    /// The value, if its type is one that an item can have.
    pub(super) fn of(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Text(text) => Some(Item::Text(core::str::from_utf8(text).ok()?.to_owned())),
            ValueRef::Blob(bytes) => Some(Item::Blob(bytes.to_vec())),
            _ => None,
        }
    }
}

impl ToSql for Item {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Item::Text(text) => ValueRef::Text(text.as_bytes()),
            Item::Blob(bytes) => ValueRef::Blob(bytes),
            Item::Row(rowid) => ValueRef::Integer(*rowid),
        }))
    }
}

/// `t` and the text, `x` and the bytes in hex, or `r` and the row id.
impl From<Item> for String {
    fn from(item: Item) -> Self {
        match item {
            Item::Text(text) => format!("t{text}"),
            Item::Blob(bytes) => format!("x{}", const_hex::encode(&bytes)),
            Item::Row(rowid) => format!("r{rowid}"),
        }
    }
}

impl TryFrom<String> for Item {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if let Some(text) = text.strip_prefix('t') {
            return Ok(Item::Text(text.to_owned()));
        }
        if let Some(rowid) = text.strip_prefix('r') {
            return rowid.parse().map(Item::Row).map_err(|_| "invalid row id");
        }
        let digits = text.strip_prefix('x');
        digits
            .and_then(|digits| const_hex::decode(digits).ok())
            .map(Item::Blob)
            .ok_or("neither text nor hex digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermark_roundtrips() {
        let mut progress = Progress::of("cdk", "proof");
        progress.members = 7;
        progress.anchors = vec![(i64::MIN, Item::Blob(vec![0, 0xff, 0x1a]))];
        progress.flipped = vec![Item::Text("x\"0".to_owned()), Item::Blob(vec![])];
        progress.totals = Some([("00ad".to_owned(), -3)].into());
        assert!(progress.remember(Item::Text(String::new())));
        assert!(progress.remember(Item::Row(-1)));
        let watermark = progress.watermark().unwrap();
        assert_eq!(
            Progress::parse(&watermark, "cdk", "proof").unwrap(),
            progress
        );
        for (mint, table) in [("cdk", "blind_signature"), ("nutshell", "proof")] {
            let error = Progress::parse(&watermark, mint, table).unwrap_err();
            assert!(
                matches!(error, SourceError::RescanRequired { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn invalid_watermark_is_refused_and_not_quoted() {
        for bytes in [&b""[..], b"{}", b"\"02secret\"", b"[[[[", b"\xff"] {
            let error =
                Progress::parse(&Watermark::new(bytes.to_vec()), "cdk", "proof").unwrap_err();
            assert!(
                matches!(error, SourceError::RescanRequired { .. }),
                "{error}"
            );
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn latest_flipped_rows_are_kept() {
        let mut progress = Progress::default();
        let item = |n: usize| Item::Text(n.to_string());
        (0..1000).for_each(|n| progress.add_flipped(item(n)));
        progress.trim_flipped();
        let latest: Vec<Item> = (1000 - NEWEST..1000).map(item).collect();
        assert_eq!(progress.flipped, latest);
    }
}
