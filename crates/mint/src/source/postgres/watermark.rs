//! Where a reading continues: the moment of the last one, in the server's own terms.
//!
//! `docs/decisions/0015-postgres-increments.md` explains why nothing is missed.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::source::Watermark;
use crate::source::schema::Notes;

/// Number of newest items that are looked up before the next reading.
pub(super) const ANCHORS: usize = 64;

/// Maximum distance over which the low 32 bits of transaction ids are compared. The comparison would be valid up to
/// twice that distance.
const MAX_DISTANCE: u64 = 1 << 30;

/// Maximum number of rows that are remembered because the next reading returns them again.
const MAX_RECENT: usize = 1 << 15;

/// Maximum number of transaction ids in the text of a query.
const MAX_LISTED: u64 = 4096;

/// Maximum number of unreadable rows that are looked up again at each reading. With more, the table is read in full.
pub(super) const MAX_BAD: usize = 1_000;

/// Version of the stored format.
pub(super) const FORMAT: u32 = 3;

/// Everything that is remembered of a reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) format: u32,
    pub(super) state: State,
    /// Number of items in keysets that can be served, if they were counted.
    pub(super) members: Option<u64>,
    /// Invalid keyset ids that occur in notes.
    pub(super) unservable: Vec<String>,
    /// The newest items.
    pub(super) anchors: Vec<Anchor>,
    /// The rows that the next reading returns again; see [`Recent`].
    pub(super) recent: Vec<String>,
    /// Rows that cannot be read.
    pub(super) bad: Vec<BadItem>,
}

/// A row that cannot be read, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BadItem {
    /// In hex.
    keyset: String,
    /// In hex; `None` if it is null.
    item: Option<String>,
}

impl BadItem {
    pub(super) fn new(keyset: &[u8], item: Option<&[u8]>) -> Self {
        Self {
            keyset: const_hex::encode(keyset),
            item: item.map(const_hex::encode),
        }
    }

    /// The bytes of the keyset and the item.
    pub(super) fn decode(&self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let decode = |hex: &String| const_hex::decode(hex);
        let item = self.item.as_ref().map(decode).transpose();
        Some((decode(&self.keyset).ok()?, item.ok()?))
    }
}

/// The state that was read, and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) mint: String,
    pub(super) table: String,
    /// The cluster's system identifier, if the role may read it.
    pub(super) system: Option<String>,
    /// Start of the server, in seconds since 1970, with a fraction.
    pub(super) started: String,
    /// The database's oid.
    pub(super) database: String,
    /// The table's oid.
    pub(super) relation: String,
    pub(super) snapshot: Snapshot,
}

/// The view of a transaction: everything before `xmin`, and nothing from `xmax` on. In between, it sees all
/// transactions except those that were running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Snapshot {
    /// In Postgres' format, `xmin:xmax:running`.
    text: String,
    pub(super) xmin: u64,
    pub(super) xmax: u64,
}

impl Snapshot {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (xmin, xmax) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        (xmin <= xmax).then(|| Self {
            text: text.to_owned(),
            xmin,
            xmax,
        })
    }

    /// Returns the 64-bit id of a transaction that is visible in this snapshot, from the 32 bits in a row.
    pub(super) fn widen(&self, xid: u32) -> u64 {
        let age = (self.xmax as u32).wrapping_sub(xid);
        self.xmax.saturating_sub(age.into())
    }
}

/// One of the newest items.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Anchor {
    /// The transaction that wrote its row.
    xid: u64,
    /// In hex. If the column is hex text, in the same case as there.
    pub(super) item: String,
}

impl Mark {
    pub(super) fn decode(watermark: &Watermark) -> Result<Self, String> {
        let unreadable = || "unsupported watermark version".to_owned();
        let mark: Self = serde_json::from_slice(watermark.as_bytes()).map_err(|_| unreadable())?;
        // The items become part of an SQL statement, so only hex is accepted.
        let hex = |anchor: &Anchor| {
            !anchor.item.is_empty() && anchor.item.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let bad = |bad: &BadItem| bad.decode().is_some();
        match mark.format == FORMAT && mark.anchors.iter().all(hex) && mark.bad.iter().all(bad) {
            true => Ok(mark),
            false => Err(unreadable()),
        }
    }

    /// Serializes the mark; `None` if that fails, which is not expected.
    pub(super) fn encode(&self) -> Option<Watermark> {
        serde_json::to_vec(self).ok().map(Watermark::new)
    }

    /// Why a reading of `now` cannot continue from here, as far as this can be told without reading rows.
    pub(super) fn obstacle(&self, now: &State) -> Option<String> {
        let then = &self.state;
        if (&then.mint, &then.table) != (&now.mint, &now.table) {
            return Some(format!(
                "the watermark is for table {} of {}",
                then.table, then.mint
            ));
        }
        if then.system != now.system {
            return Some("the Postgres cluster was replaced".to_owned());
        }
        if then.started != now.started {
            return Some("the Postgres server was restarted".to_owned());
        }
        if then.database != now.database {
            return Some("the database was replaced".to_owned());
        }
        if then.relation != now.relation {
            return Some(format!("table {} was replaced", now.table));
        }
        let (then, now) = (&then.snapshot, &now.snapshot);
        if now.xmax < then.xmax {
            return Some(format!(
                "transaction ids went back from {} to {}",
                then.xmax, now.xmax
            ));
        }
        if now.xmax - then.xmin > MAX_DISTANCE {
            return Some(format!("{} transactions have passed", now.xmax - then.xmin));
        }
        None
    }

    /// Whether no transaction has ended since, so that there is nothing to read.
    pub(super) fn is_now(&self, now: &State) -> bool {
        // On a standby, the text does not list running transactions. Equal texts are therefore only conclusive if
        // nothing is running.
        self.state == *now && now.snapshot.xmin == now.snapshot.xmax
    }

    /// The condition that a row, visible in the snapshot `now`, was written by a transaction that was running, or had
    /// not begun, at this mark. Rows only have the lower 32 bits of a transaction's id.
    ///
    /// Listed ids (`list`) are compared by all processes of a parallel query. `age` can only be called by one.
    pub(super) fn is_new(&self, now: &Snapshot, list: bool) -> String {
        let oldest = self.state.snapshot.xmin;
        if list && now.xmax.saturating_sub(oldest) <= MAX_LISTED {
            let ids: Vec<String> = (oldest..now.xmax)
                .map(|id| (id as u32).to_string())
                .collect();
            return format!("t.xmin = ANY ('{{{}}}'::pg_catalog.xid[])", ids.join(","));
        }
        let oldest = oldest as u32;
        format!("pg_catalog.age(t.xmin) <= (SELECT pg_catalog.age('{oldest}'::pg_catalog.xid))")
    }

    /// The statement that counts how many anchors are still members.
    pub(super) fn count_anchors(&self, notes: &Notes) -> String {
        let items: Vec<String> = self
            .anchors
            .iter()
            .map(|anchor| match notes.hex {
                true => format!("'{}'", anchor.item),
                false => format!("pg_catalog.decode('{}', 'hex')", anchor.item),
            })
            .collect();
        format!(
            "SELECT count(*) FROM {} WHERE {} IN ({}) AND ({})",
            notes.table.name,
            notes.item,
            items.join(","),
            notes.member
        )
    }
}

/// The statement that counts how many of these rows are still as they were.
pub(super) fn count_bad(bad: &[BadItem], notes: &Notes) -> String {
    let decode = |hex: &str| format!("pg_catalog.decode('{hex}', 'hex')");
    let text = |hex: &str| format!("pg_catalog.convert_from({}, 'UTF8')", decode(hex));
    let rows: Vec<String> = bad
        .iter()
        .map(|bad| {
            let item = match &bad.item {
                None => "IS NULL".to_owned(),
                Some(item) if notes.hex => format!("= {}", text(item)),
                Some(item) => format!("= {}", decode(item)),
            };
            format!(
                "{} {item} AND {} = {}",
                notes.item,
                notes.keyset,
                text(&bad.keyset)
            )
        })
        .collect();
    format!(
        "SELECT count(*) FROM {} WHERE ({}) AND ({})",
        notes.table.name,
        rows.join(" OR "),
        notes.member
    )
}

/// Distinguishes repeated rows from new rows whose items have the same hash.
///
/// A reading returns all rows of transactions that began after the oldest one running at the previous reading. So
/// some rows are repeated. These are remembered by keyset and item. Hashes would not do, because anyone can create
/// items with equal hashes.
pub(super) struct Recent {
    /// Rows can be equal if they cannot be read.
    before: HashMap<String, usize>,
    /// Rows of this transaction and later ones will be returned again.
    oldest: u64,
    rows: Vec<String>,
}

impl Recent {
    /// `before` contains the rows that the earlier reading remembered. `now` is the snapshot of this reading.
    pub(super) fn new(before: Vec<String>, now: &Snapshot) -> Self {
        let mut counts = HashMap::new();
        for row in before {
            *counts.entry(row).or_default() += 1;
        }
        Self {
            before: counts,
            oldest: now.xmin,
            rows: vec![],
        }
    }

    /// Whether the earlier reading already returned this row. Of equal rows, as many are repeats as it returned.
    ///
    /// A row that moved to another keyset counts as new, because the new keyset lacks the item.
    pub(super) fn is_repeat(&mut self, keyset: &[u8], item: &[u8]) -> bool {
        if self.before.is_empty() {
            return false;
        }
        let left = self.before.get_mut(&key(keyset, item));
        left.filter(|left| **left > 0).is_some_and(|left| {
            *left -= 1;
            true
        })
    }

    /// Remembers a row of this transaction if it will be returned again.
    ///
    /// If there is no room, the consumer still has its count of all rows. The count is sufficient unless repeats
    /// and hash collisions occur in the same reading.
    pub(super) fn add(&mut self, xid: u64, keyset: &[u8], item: &[u8]) {
        if xid >= self.oldest && self.rows.len() < MAX_RECENT {
            self.rows.push(key(keyset, item));
        }
    }

    pub(super) fn finish(self) -> Vec<String> {
        self.rows
    }
}

fn key(keyset: &[u8], item: &[u8]) -> String {
    format!("{} {}", const_hex::encode(keyset), const_hex::encode(item))
}

/// Collects the newest items of a reading.
pub(super) struct Newest {
    anchors: Vec<Anchor>,
    /// No older transaction is among the newest.
    least: u64,
}

impl Newest {
    /// Starts with these anchors.
    pub(super) fn among(anchors: Vec<Anchor>) -> Self {
        Self { anchors, least: 0 }
    }

    /// Adds an item.
    ///
    /// # Cost
    ///
    /// One comparison for a row that is not among the newest so far. Occasionally 128 rows are sorted.
    pub(super) fn add(&mut self, xid: u64, item: impl FnOnce() -> String) {
        // For rows of the same transaction, the first ones are kept.
        if self.anchors.len() >= ANCHORS && xid <= self.least {
            return;
        }
        self.anchors.push(Anchor { xid, item: item() });
        if self.anchors.len() >= 2 * ANCHORS {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.anchors.sort_unstable_by(|a, b| b.cmp(a));
        self.anchors.dedup_by(|a, b| a.item == b.item);
        self.anchors.truncate(ANCHORS);
        if self.anchors.len() == ANCHORS {
            self.least = self.anchors.last().map_or(0, |anchor| anchor.xid);
        }
    }

    pub(super) fn finish(mut self) -> Vec<Anchor> {
        // An item may occur in an older and in a newer row.
        self.anchors.sort_unstable_by(|a, b| b.cmp(a));
        let mut seen = HashSet::new();
        self.anchors
            .retain(|anchor| seen.insert(anchor.item.clone()));
        self.anchors.truncate(ANCHORS);
        self.anchors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MintType;

    fn state(snapshot: &str) -> State {
        State {
            mint: MintType::Cdk.to_string(),
            table: "proof".to_owned(),
            system: Some("1".to_owned()),
            started: "1.5".to_owned(),
            database: "5".to_owned(),
            relation: "16385".to_owned(),
            snapshot: Snapshot::parse(snapshot).unwrap(),
        }
    }

    fn mark(snapshot: &str) -> Mark {
        Mark {
            format: FORMAT,
            state: state(snapshot),
            members: Some(7),
            unservable: vec![],
            anchors: vec![],
            recent: vec![],
            bad: vec![],
        }
    }

    #[test]
    fn reading_continues_only_on_same_table_and_server() {
        let then = mark("100:105:100,103");
        assert_eq!(then.obstacle(&state("100:105:100,103")), None);
        assert_eq!(then.obstacle(&state("200:210:")), None);
        type Change = fn(&mut State);
        let changes: [(Change, &str); 6] = [
            (|now| now.mint = "nutshell".to_owned(), "of cdk"),
            (|now| now.table = "promises".to_owned(), "table proof"),
            (|now| now.system = None, "Postgres cluster was replaced"),
            (|now| now.started = "1.6".to_owned(), "restarted"),
            (|now| now.database = "6".to_owned(), "database was replaced"),
            (|now| now.relation = "6".to_owned(), "was replaced"),
        ];
        for (change, said) in changes {
            let mut now = state("200:210:");
            change(&mut now);
            let reason = then.obstacle(&now).unwrap();
            assert!(reason.contains(said), "{reason}");
        }
        let back = then.obstacle(&state("100:104:")).unwrap();
        assert!(back.contains("from 105 to 104"), "{back}");
        let far = |xmax: u64| then.obstacle(&state(&format!("{xmax}:{xmax}:")));
        assert_eq!(far(100 + MAX_DISTANCE), None);
        assert!(far(101 + MAX_DISTANCE).unwrap().contains("have passed"));
    }

    #[test]
    fn same_snapshot_without_running_means_no_news() {
        assert!(mark("100:100:").is_now(&state("100:100:")));
        assert!(!mark("100:100:").is_now(&state("100:101:")));
        assert!(!mark("100:100:").is_now(&state("101:101:")));
        // Running, on a standby.
        assert!(!mark("100:105:").is_now(&state("100:105:")));
    }

    #[test]
    fn short_ids_widen_to_before_the_end_of_the_snapshot() {
        let wrap = 1_u64 << 32;
        let snapshot = Snapshot::parse(&format!("{}:{}:", wrap + 4, wrap + 10)).unwrap();
        assert_eq!(snapshot.widen(9), wrap + 9);
        assert_eq!(snapshot.widen(u32::MAX), wrap - 1);
        assert_eq!(snapshot.widen(11), 11);
    }

    #[test]
    fn new_rows_have_ids_since_oldest_running_one() {
        let wrap = 1_u64 << 32;
        let then = mark(&format!("{}:{}:", wrap - 1, wrap + 1));
        let now = |xmax| Snapshot::parse(&format!("{xmax}:{xmax}:")).unwrap();
        let listed = "t.xmin = ANY ('{4294967295,0,1,2}'::pg_catalog.xid[])";
        assert_eq!(then.is_new(&now(wrap + 3), true), listed);
        let compared =
            "pg_catalog.age(t.xmin) <= (SELECT pg_catalog.age('4294967295'::pg_catalog.xid))";
        assert_eq!(then.is_new(&now(wrap + 3), false), compared);
        assert!(
            then.is_new(&now(wrap - 1 + MAX_LISTED), true)
                .contains("ANY")
        );
        assert_eq!(then.is_new(&now(wrap + MAX_LISTED), true), compared);
    }

    #[test]
    fn invalid_snapshots_are_refused() {
        for text in ["", "1", "1:", "x:1:", "5:4:", "-1:4:"] {
            assert_eq!(Snapshot::parse(text), None, "{text}");
        }
    }

    #[test]
    fn watermark_roundtrips_and_invalid_is_refused() {
        let mut mark = mark("100:105:100,103");
        mark.anchors.push(Anchor {
            xid: 99,
            item: "02aB".to_owned(),
        });
        mark.recent.push(key(b"009a1f293253e41e", b"02aB"));
        for item in [None, Some(&b""[..]), Some(b"zz")] {
            mark.bad.push(BadItem::new(b"009a1f293253e41e", item));
        }
        let watermark = mark.encode().unwrap();
        assert_eq!(Mark::decode(&watermark), Ok(mark.clone()));
        for bytes in [&b""[..], b"{}", b"null"] {
            assert!(Mark::decode(&Watermark::new(bytes.to_vec())).is_err());
        }
        mark.format += 1;
        assert!(Mark::decode(&mark.encode().unwrap()).is_err());
        mark.format = FORMAT;
        mark.bad[0].keyset = "')".to_owned();
        assert!(Mark::decode(&mark.encode().unwrap()).is_err());
        mark.bad.clear();
        for item in ["02') OR true --", ""] {
            mark.anchors[0].item = item.to_owned();
            assert!(Mark::decode(&mark.encode().unwrap()).is_err(), "{item}");
        }
    }

    #[test]
    fn repeats_are_recognized_by_keyset_and_item() {
        let mut recent = Recent::new(vec![], &Snapshot::parse("100:105:100").unwrap());
        recent.add(99, b"a", b"old");
        recent.add(100, b"a", b"new");
        recent.add(104, b"b", b"new");
        // Two rows without an item.
        recent.add(104, b"a", b"");
        recent.add(104, b"a", b"");
        let rows = recent.finish();
        assert_eq!(rows.len(), 4);
        let mut next = Recent::new(rows, &Snapshot::parse("110:110:").unwrap());
        let mut is_repeat =
            |keyset: &str, item: &str| next.is_repeat(keyset.as_bytes(), item.as_bytes());
        assert_eq!([(); 3].map(|()| is_repeat("a", "")), [true, true, false]);
        assert!(is_repeat("a", "new") && is_repeat("b", "new"));
        assert!(!is_repeat("a", "old") && !is_repeat("c", "new") && !is_repeat("an", "ew"));

        let mut full = Recent::new(vec![], &Snapshot::parse("100:105:100").unwrap());
        (0..=MAX_RECENT).for_each(|item| full.add(100, b"a", &item.to_le_bytes()));
        assert_eq!(full.finish().len(), MAX_RECENT);
    }

    #[test]
    fn newest_are_from_latest_transactions_without_dups() {
        let mut newest = Newest::among(vec![]);
        // In neither ascending nor descending order.
        for xid in (0..1000_u64).map(|i| i * 7 % 1000) {
            newest.add(xid, || format!("{xid:04}"));
        }
        let kept = newest.finish();
        let xids: Vec<u64> = kept.iter().map(|anchor| anchor.xid).collect();
        assert_eq!(xids, (936..1000).rev().collect::<Vec<_>>());

        let mut newest = Newest::among(kept);
        newest.add(2000, || "0999".to_owned());
        newest.add(1, || "0001".to_owned());
        let kept = newest.finish();
        assert_eq!(kept.len(), ANCHORS);
        assert_eq!((kept[0].xid, &*kept[0].item), (2000, "0999"));
        assert!(kept[1..].iter().all(|anchor| anchor.item != "0999"));
    }
}
