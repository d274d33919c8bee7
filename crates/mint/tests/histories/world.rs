//! A mint's database, a service that publishes filters of it to a directory, and what these filters have to contain.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nutfilter_cashu::FilterResponse;
use nutfilter_mint::{FilterState, Loss, MintType};
use tempfile::TempDir;

use crate::service::{Service, Whole, paths};

/// Migrations leave the third one alone. The last one is not listed, and has no note at first.
pub(crate) const KEYSETS: [&str; 4] =
    ["009a1f293253e41e", "00ad268c4d1f5826", "0012345678abcdef", "00fedcba87654321"];

/// Words that stand for those of a table in SQL: its name, keyset, item, and when a row was made or began to count; then the
/// column that says whether it counts, with a value if it does, if it does not, and if nobody knows; and conditions for the
/// first two. The last one is the type of items.
const WORDS: [&str; 11] = [
    "$table", "$keyset", "$item", "$time", "$state", "$yes", "$no", "$odd", "$counts", "$waits",
    "$type",
];

/// By mint and kind. Of nutshell's spent notes each row counts.
#[rustfmt::skip]
const NOTES: [[[&str; 11]; 2]; 2] = [
    [
        ["proof", "keyset_id", "y", "created_time", "state", "'SPENT'", "'PENDING'", "'BURNT'", "state = 'SPENT'", "state = 'PENDING'", ""],
        ["blind_signature", "keyset_id", "blinded_message", "signed_time", "c", "'02'", "NULL", "NULL", "c IS NOT NULL", "c IS NULL", ""],
    ],
    [
        ["proofs_used", "id", "y", "created", "other", "NULL", "NULL", "NULL", "1 = 1", "1 = 0", "TEXT"],
        ["promises", "id", "b_", "signed_at", "c_", "'02'", "NULL", "NULL", "c_ IS NOT NULL", "c_ IS NULL", "TEXT"],
    ],
];

/// The column `counted` has the time when a row began to count; no mint has it.
pub(crate) const CREATE: &str = "CREATE TABLE $table ($item $type, $keyset TEXT, $time BIGINT, counted BIGINT, \
     amount BIGINT DEFAULT 1, $state TEXT, UNIQUE ($item))";

/// Rows get another keyset, in place. Those of the third keyset stay.
pub(crate) const OTHER_KEYSETS: &str = "UPDATE $table SET $keyset = CASE $keyset WHEN '009a1f293253e41e' \
     THEN '00ad268c4d1f5826' WHEN '00ad268c4d1f5826' THEN '0012345678abcdef' ELSE $keyset END";

/// One of the rows that do not count.
const ONE_WAITING: &str = " WHERE $item = (SELECT $item FROM $table WHERE $waits ORDER BY $item LIMIT 1 \
     OFFSET (SELECT $at % (count(*) + 1) FROM $table WHERE $waits))";

/// Tables of keysets and migrations, of both mints, with all keysets.
pub(crate) fn other_tables() -> Vec<String> {
    let mut all = vec![
        "CREATE TABLE migrations (name TEXT)".to_owned(),
        "CREATE TABLE dbversions (db TEXT, version INT)".to_owned(),
    ];
    for table in ["keyset", "keysets"] {
        all.push(format!(
            "CREATE TABLE {table} (id TEXT, unit TEXT, active BOOL, input_fee_ppk BIGINT)"
        ));
        for keyset in &KEYSETS[..3] {
            all.push(format!("INSERT INTO {table} VALUES ('{keyset}', 'sat', true, 0)"));
        }
    }
    all
}

pub(crate) trait Database: Sized {
    /// What happens to the database, other than what a mint does in order.
    type Event: Clone + core::fmt::Debug + 'static;

    /// The type of bytes, and what comes before the hex digits of a literal.
    const BLOB: [&'static str; 2];

    /// SQL of the hex digits of bytes.
    fn hex(column: &str) -> String;

    /// Path or URL.
    fn location(&self) -> String;

    /// The mint executes SQL in a session, if it can.
    fn run(&mut self, session: usize, sql: &str);

    /// The rows of a query, in the database of the mint, or in what the service reads.
    fn rows(&mut self, sql: &str, is_read: bool) -> Vec<[Option<String>; 3]>;

    /// Whether the service reads something older than the mint's database.
    fn is_stale(&self) -> bool {
        false
    }

    fn happen(world: &mut World<Self>, event: &Self::Event);

    /// The tables are there.
    fn made(&mut self) {}

    /// Ends what is still open.
    fn settle(_: &mut World<Self>) {}
}

/// A kind comes before a keyset.
#[derive(Clone, Debug)]
pub(crate) enum Op<E> {
    /// A session adds a row.
    Add(usize, usize, usize, What),
    /// One of the rows that did not count does now.
    Flip(usize, usize, usize),
    /// One of the rows that did not count is deleted.
    Drop(usize, usize, usize),
    /// An unreadable item becomes readable.
    Repair(usize),
    /// Rows without a keyset get one.
    Fill(usize, usize),
    Refresh,
    Whole,
    /// The service ends, and another one starts, perhaps one that accepts the losses that were printed.
    NewProcess(bool),
    Event(E),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Counts,
    Pending,
    UnknownState,
    BadItem,
    NoKeyset(&'static str),
    BadItemWithoutKeyset,
}

pub(crate) type Item = u32;

/// A row that counts or is unreadable.
struct Row {
    /// `None` if there is no valid one.
    keyset: Option<usize>,
    /// `None` if it is unreadable.
    item: Option<Item>,
    counted: u64,
}

/// A filter in the directory.
#[derive(Clone, Default)]
struct Published {
    items: BTreeSet<Item>,
    /// 0 without one, and for one whose loss was accepted.
    date: u64,
    /// What it has, and its date, if its loss was accepted and it could not be replaced yet. The next process finds this.
    kept: Option<(BTreeSet<Item>, u64)>,
}

/// A database with its mint, and a service that reads it.
pub(crate) struct World<D> {
    pub(crate) database: D,
    pub(crate) mint: MintType,
    pub(crate) next: Item,
    /// The mint's clock: long ago, so that no time of a row is that of a reading.
    now: u64,
    output: TempDir,
    service: Option<Service>,
    /// By kind and keyset.
    published: [[Published; 4]; 2],
    /// What the present process found published by keyset, as long as it has to be compared.
    compared: [Option<[BTreeSet<Item>; 2]>; 4],
    accepted: Vec<Loss>,
    /// What the present process has read, by kind.
    seen: [BTreeSet<Item>; 2],
    /// And by keyset: rows may have left it since, before its filter could be published.
    of_keyset: [[BTreeSet<Item>; 4]; 2],
    /// And what had no keyset then.
    orphans: [BTreeSet<Item>; 2],
    is_first: bool,
}

impl<D: Database> World<D> {
    /// A database with tables, but without notes. They are made by `run`.
    pub(crate) fn new(database: D, mint: MintType) -> Self {
        let mut world = Self {
            database,
            mint,
            next: 0,
            now: seconds() - 1_000_000,
            output: output(),
            service: None,
            published: Default::default(),
            compared: Default::default(),
            accepted: vec![],
            seen: Default::default(),
            of_keyset: Default::default(),
            orphans: Default::default(),
            is_first: true,
        };
        for kind in 0..2 {
            world.run(0, kind, CREATE);
        }
        other_tables().iter().for_each(|sql| world.database.run(0, sql));
        world.database.made();
        world
    }

    /// Notes of all keysets, the last of them in the keyset that migrations leave alone; some are pending. They are read.
    pub(crate) fn begin(&mut self) {
        use What::{Counts, Pending};
        for kind in 0..2 {
            for (keyset, what) in
                [(0, Pending), (0, Counts), (1, Counts), (1, Pending), (2, Counts)]
            {
                self.now += 10;
                self.add(0, kind, keyset, what);
            }
        }
        self.new_process(false);
        self.refresh(false);
    }

    /// SQL about a kind.
    pub(crate) fn sql(&self, kind: usize, sql: &str) -> String {
        let words = NOTES[usize::from(self.mint != MintType::Cdk)][kind].map(|word| match word {
            "" => D::BLOB[0],
            word => word,
        });
        let words = WORDS.into_iter().zip(words);
        words.fold(sql.to_owned(), |sql, (word, of_kind)| sql.replace(word, of_kind))
    }

    pub(crate) fn run(&mut self, session: usize, kind: usize, sql: &str) {
        let sql = self.sql(kind, sql);
        self.database.run(session, &sql);
    }

    pub(crate) fn happen(&mut self, op: &Op<D::Event>) {
        self.now += 10;
        let now = self.now;
        let waiting = |which: usize| ONE_WAITING.replace("$at", &which.to_string());
        match *op {
            Op::Add(session, kind, keyset, what) => self.add(session, kind, keyset, what),
            Op::Flip(session, kind, which) => {
                let time = ["", ", $time = counted"][kind];
                let set = format!(
                    "UPDATE $table SET counted = {now}, $state = $yes{}",
                    time.replace("counted", &now.to_string())
                );
                self.run(session, kind, &(set + &waiting(which)));
            }
            Op::Drop(session, kind, which) => {
                self.run(session, kind, &("DELETE FROM $table".to_owned() + &waiting(which)));
            }
            Op::Repair(kind) => {
                let (good, bad) =
                    (self.new_item(kind), "SELECT min($item) FROM $table WHERE $item LIKE 'odd%'");
                self.run(
                    0,
                    kind,
                    &format!("UPDATE $table SET $item = {good} WHERE $item = ({bad})"),
                );
            }
            Op::Fill(kind, keyset) => {
                let without = "$item IS NOT NULL AND coalesce(length($keyset) <> 16, true)";
                let sql =
                    format!("UPDATE $table SET $keyset = '{}' WHERE {without}", KEYSETS[keyset]);
                self.run(0, kind, &sql);
            }
            Op::Refresh => self.refresh(false),
            Op::Whole => self.refresh(true),
            Op::NewProcess(accepts) => self.new_process(accepts),
            Op::Event(ref event) => D::happen(self, event),
        }
    }

    fn new_item(&mut self, kind: usize) -> String {
        self.next += 1;
        let is_text = self.sql(kind, "$type") == "TEXT";
        let prefix = if is_text { "'" } else { D::BLOB[1] };
        format!("{prefix}{}'", const_hex::encode(bytes(self.next)))
    }

    fn add(&mut self, session: usize, kind: usize, keyset: usize, what: What) {
        let sql = self.insert(kind, keyset, what);
        self.run(session, kind, &sql);
    }

    /// SQL that adds a row.
    pub(crate) fn insert(&mut self, kind: usize, keyset: usize, what: What) -> String {
        let item = match what {
            What::BadItemWithoutKeyset => "NULL".to_owned(),
            What::BadItem => format!("'odd{:08}'", self.now),
            _ => self.new_item(kind),
        };
        let keyset = match what {
            What::NoKeyset(keyset) => keyset.to_owned(),
            What::BadItemWithoutKeyset => "NULL".to_owned(),
            _ => format!("'{}'", KEYSETS[keyset]),
        };
        let (now, state) = match what {
            What::Pending => (self.now, "$no"),
            What::UnknownState => (self.now, "$odd"),
            _ => (self.now, "$yes"),
        };
        format!(
            "INSERT INTO $table ($item, $keyset, $time, counted, $state) VALUES ({item}, {keyset}, {now}, {now}, {state})"
        )
    }

    /// The service ends, or is killed. What it published is there when the next one starts.
    pub(crate) fn new_process(&mut self, accepts: bool) {
        let held = self.service.as_ref().map(Service::held);
        self.accepted = held.filter(|_| accepts).unwrap_or_default();
        let moment = Duration::from_millis(self.now % 97 / 2);
        if self.service.take().is_some_and(|service| service.end(moment)) {
            self.take_published();
        }
        let (location, output) = (self.database.location(), self.output.path());
        self.service = Some(Service::start(&location, self.mint, output, &self.accepted));
        for published in self.published.iter_mut().flatten() {
            if let Some((mut items, date)) = published.kept.take() {
                published.items.append(&mut items);
                published.date = date;
            }
        }
        for (keyset, compared) in self.compared.iter_mut().enumerate() {
            let before = [0, 1].map(|kind| &self.published[kind][keyset]);
            let is_there = before.iter().any(|published| published.date > 0);
            *compared = is_there.then(|| before.map(|published| published.items.clone()));
        }
        (self.seen, self.orphans, self.is_first) = (Default::default(), Default::default(), true);
        self.of_keyset = Default::default();
    }

    /// What was published at the last moment: each file whole, with all that was there before, and no older.
    fn take_published(&mut self) {
        for (kind, paths) in paths().iter().enumerate() {
            for (keyset, path) in paths.iter().enumerate() {
                let published = &mut self.published[kind][keyset];
                let Ok(text) = std::fs::read(self.output.path().join(path)) else {
                    assert_eq!(published.date, 0, "{path} is gone");
                    continue;
                };
                let response = FilterResponse::from_json(text).unwrap();
                let date = response.timestamp;
                let filter = response.into_filter().unwrap();
                let has = |item: &Item| filter.matches(&[bytes(*item)])[0];
                assert!(date >= published.date, "{path}: dated {date} after {}", published.date);
                assert!(published.items.iter().all(has), "{path}: published notes are absent");
                let items = (1..=self.next).filter(has).collect();
                (published.items, published.date) = (items, date);
            }
        }
    }

    /// The output directory is another one.
    pub(crate) fn new_output(&mut self) {
        self.service = None;
        (self.output, self.published) = (output(), Default::default());
        self.new_process(false);
    }

    /// The rows that count or are unreadable, of a kind.
    fn rows(&mut self, kind: usize, is_read: bool) -> Vec<Row> {
        let item = match self.sql(kind, "$type") == "TEXT" {
            true => "$item".to_owned(),
            false => D::hex("$item"),
        };
        let item = format!("CASE WHEN $counts THEN {item} END");
        let sql = format!(
            "SELECT $keyset, {item}, counted FROM $table WHERE NOT coalesce($waits, false)"
        );
        let sql = self.sql(kind, &sql);
        let rows = self.database.rows(&sql, is_read).into_iter();
        let rows = rows.map(|[keyset, item, counted]| {
            let keyset = keyset.and_then(|id| KEYSETS.iter().position(|known| *known == id));
            let item = item.filter(|item| item.len() == 66);
            let item = item.map(|item| Item::from_str_radix(&item[58..], 16).unwrap());
            let counted = counted.unwrap().parse().unwrap();
            Row { keyset, item, counted }
        });
        rows.collect()
    }

    /// Refreshes, and compares what is served with the database.
    pub(crate) fn refresh(&mut self, whole: bool) {
        let read = self.try_refresh(whole).unwrap();
        let truth = [0, 1].map(|kind| self.rows(kind, false));
        let there = match self.database.is_stale() {
            true => Some([0, 1].map(|kind| self.rows(kind, true))),
            false => None,
        };
        let there = there.as_ref().unwrap_or(&truth);
        for (seen, rows) in self.seen.iter_mut().zip(there) {
            seen.extend(rows.iter().filter_map(|row| row.item));
        }
        for (orphans, rows) in self.orphans.iter_mut().zip(there) {
            let rows = rows.iter().filter(|row| row.keyset.is_none());
            orphans.extend(rows.filter_map(|row| row.item));
        }
        for keyset in 0..KEYSETS.len() {
            self.check_held(keyset, read);
            self.check_filters(keyset, &truth, there, read);
        }
        self.is_first = false;
    }

    pub(crate) fn try_refresh(&mut self, whole: bool) -> Result<Whole, String> {
        self.service.as_mut().unwrap().refresh(whole)
    }

    /// A keyset is held exactly if something that was published is in no row of the kind, and nobody accepted it.
    fn check_held(&mut self, keyset: usize, read: Whole) {
        let id = KEYSETS[keyset];
        let held = self.service.as_ref().unwrap().held();
        let of_keyset = |loss: &&Loss| loss.keyset.as_str() == id;
        let held = held.iter().find(of_keyset);
        let is_compared = self.is_first || read.contains(&Some(true));
        let Some(before) = self.compared[keyset].take() else {
            assert!(held.is_none(), "{id} is held: {held:?}; nothing was published before");
            return;
        };
        let gone: usize =
            [0, 1].map(|kind| before[kind].difference(&self.seen[kind]).count()).iter().sum();
        let accepted = self.accepted.iter().find(of_keyset);
        let is_accepted = accepted.is_some_and(|loss| loss.values >= gone as u64);
        if is_compared && (gone == 0 || is_accepted) {
            assert!(held.is_none(), "{id} is held: {held:?}; {gone} gone, accepted {accepted:?}");
            if gone > 0 {
                for (kind, before) in before.iter().enumerate() {
                    let items = before.intersection(&self.seen[kind]).copied().collect();
                    self.published[kind][keyset] = Published { items, ..Published::default() };
                }
            }
            return;
        }
        let values = held.map_or(0, |loss| loss.values);
        assert!(values > 0, "{id} is not held; {gone} gone");
        assert!(
            !is_compared || values == gone as u64,
            "{id}: {values} of {gone} are known to be gone"
        );
        self.compared[keyset] = Some(before);
    }

    fn check_filters(
        &mut self,
        keyset: usize,
        truth: &[Vec<Row>; 2],
        there: &[Vec<Row>; 2],
        read: Whole,
    ) {
        use FilterState::{Current, Held, Idle, Undated, Unreadable};
        let id = KEYSETS[keyset];
        let service = self.service.as_ref().unwrap();
        let paths = paths().map(|of_kind| of_kind[keyset].clone());
        let states = paths.each_ref().map(|path| service.state(path));
        let [Some(spent), Some(issued)] = states else {
            let has_rows = there.iter().flatten().any(|row| row.keyset == Some(keyset));
            assert!(!has_rows && keyset == 3, "{id} is not published");
            for published in &mut self.published {
                let published = core::mem::take(&mut published[keyset]);
                assert_eq!(published.date, 0, "{id} is not published any more");
            }
            return;
        };
        let states = [spent, issued];
        for state in [Held, Unreadable] {
            assert_eq!(states[0] == state, states[1] == state, "{id}: {states:?}");
        }
        assert_eq!(states[0] == Held, self.compared[keyset].is_some(), "{id}: {states:?}");
        let is_bad =
            there.iter().flatten().any(|row| row.keyset == Some(keyset) && row.item.is_none());
        match states[0] {
            Held => {}
            Unreadable => assert!(is_bad || read != [Some(true); 2], "{id}: held for nothing"),
            state => assert!(!is_bad, "{id}: {state:?}, with an unreadable row"),
        }
        for (kind, path) in paths.iter().enumerate() {
            let (state, is_first) = (states[kind], self.is_first);
            let published = &mut self.published[kind][keyset];
            let of_keyset = |row: &&Row| row.keyset.is_none_or(|of| of == keyset);
            let items = |rows: &[Row], until: u64| -> BTreeSet<Item> {
                let rows = rows.iter().filter(of_keyset).filter(|row| row.counted <= until);
                rows.filter_map(|row| row.item).collect()
            };
            let mut here = items(&there[kind], u64::MAX);
            here.extend(&self.orphans[kind]);
            let known = &mut self.of_keyset[kind][keyset];
            known.extend(&here);
            let Some(text) = service.body(path) else {
                assert!(
                    published.date == 0 && matches!(state, Undated | Unreadable),
                    "{path}: absent, {state:?}"
                );
                continue;
            };
            let response = FilterResponse::from_json(text).unwrap();
            let date = response.timestamp;
            let filter = response.into_filter().unwrap();
            let has = |item: &Item| filter.matches(&[bytes(*item)])[0];
            let context =
                || format!("{path}: {state:?}, dated {date} after {}; {read:?}", published.date);
            assert!(published.date <= date && date <= seconds(), "{}", context());
            let is_kept = matches!(state, Undated | Unreadable) && published.date == 0;
            // Since when notes may be missing.
            let complete_until = match state {
                Held | Unreadable => {
                    let is_same = published.date == date;
                    assert!(is_same || is_kept, "{}", context());
                    0
                }
                Idle if self.database.is_stale() && date == published.date => 0,
                Idle if self.database.is_stale() => date,
                Current | Idle => u64::MAX,
                // Its loss was accepted, and the store proves no date for another one.
                Undated => 0,
                _ => panic!("{}", context()),
            };
            let missing = |items: &BTreeSet<Item>| items.iter().filter(|item| !has(item)).count();
            let (gone, mut due) = (missing(&published.items), items(&truth[kind], complete_until));
            if self.database.is_stale() {
                // A migration may have given it another keyset meanwhile.
                due.retain(|item| there[kind].iter().all(|row| row.item != Some(*item)));
            }
            assert!(
                gone == 0,
                "{gone} of {} published are absent; {}",
                published.items.len(),
                context()
            );
            let absent = missing(&due);
            assert!(absent == 0, "{absent} of {} missed; {}", due.len(), context());
            if is_first && matches!(state, Current | Idle) {
                assert_eq!(
                    filter.n() as usize,
                    published.items.union(&here).count(),
                    "{}",
                    context()
                );
            }
            published.items.extend(known.iter().copied().filter(has));
            published.kept = is_kept.then(|| ((1..=self.next).filter(has).collect(), date));
            published.date = if is_kept { 0 } else { date };
        }
    }
}

pub(crate) fn bytes(item: Item) -> Vec<u8> {
    const_hex::decode(format!("02{item:064x}")).unwrap()
}

pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// In memory, if there is such a file system: each filter is synced.
fn output() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
