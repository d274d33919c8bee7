//! Incremental readings always give the result of a full reading.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nutfilter_mint::source::{MintSource, SqliteSource, Watermark};
use nutfilter_mint::{MintType, NoteKind};
use rusqlite::Connection;

use crate::support::history::{self, Consumer, Database, Event, Held, NewItems, Note, Tally};
use crate::support::{MintDatabase, items, table, tables_of_notes};

/// Longer than a short lock takes on a busy machine.
const A_MOMENT: Duration = Duration::from_secs(1);

/// A SQLite database, and the connection of the mint that writes to it.
struct Sqlite {
    database: MintDatabase,
    /// `None` while the mint is stopped.
    connection: Option<Connection>,
    restored: u32,
}

impl Sqlite {
    fn new(mint: MintType) -> Self {
        Self {
            database: MintDatabase::new(mint),
            connection: None,
            restored: 0,
        }
    }

    fn connection(&mut self) -> &Connection {
        self.connection.get_or_insert_with(|| {
            let connection = self.database.connect();
            connection
                .execute_batch("PRAGMA synchronous = OFF;")
                .unwrap();
            connection
        })
    }

    fn copy(&self) -> PathBuf {
        self.database.directory().join("copy.db")
    }

    fn begin(&mut self) {
        if self.connection().is_autocommit() {
            self.connection().execute_batch("BEGIN").unwrap();
        }
    }

    fn commit(&mut self) {
        if !self.connection().is_autocommit() {
            self.connection().execute_batch("COMMIT").unwrap();
        }
    }

    /// Closing the last connection moves everything into the database file.
    fn stop(&mut self) {
        self.commit();
        self.connection = None;
    }
}

impl Database for Sqlite {
    fn mint(&self) -> MintType {
        self.database.mint
    }

    fn apply(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Insert(_) | Event::Flip(_) | Event::Delete(_) => {
                    self.begin();
                    let connection = self.connection.as_ref().unwrap();
                    self.database.happen(connection, event).unwrap();
                }
                Event::Tidy => {
                    self.commit();
                    self.connection().execute_batch("VACUUM").unwrap();
                }
                Event::Save => {
                    self.stop();
                    fs::copy(&self.database.path, self.copy()).unwrap();
                }
                Event::Restore => {
                    self.stop();
                    self.restored += 1;
                    // Restore into the file, or replace the file.
                    if self.restored.is_multiple_of(2) {
                        fs::copy(self.copy(), &self.database.path).unwrap();
                    } else {
                        let twin = self.database.directory().join("twin.db");
                        fs::copy(self.copy(), &twin).unwrap();
                        fs::rename(twin, &self.database.path).unwrap();
                    }
                }
            }
        }
        // A stopped mint must be readable as well as a running one.
        match events.len() % 3 {
            0 => self.stop(),
            _ => self.commit(),
        }
    }

    fn source(&self) -> Box<dyn MintSource> {
        Box::new(self.database.source())
    }
}

#[test]
fn nutshell_increments_add_up_to_the_contents() {
    history::run_all(MintType::Nutshell, 60, |_| Sqlite::new(MintType::Nutshell));
}

#[test]
fn cdk_increments_add_up_to_the_contents() {
    history::run_all(MintType::Cdk, 60, |_| Sqlite::new(MintType::Cdk));
}

/// A database, its source, and a consumer that follows it.
struct Followed {
    sqlite: Sqlite,
    consumer: Consumer,
    kind: NoteKind,
}

impl Followed {
    fn new((mint, kind): (MintType, NoteKind)) -> Self {
        Self {
            sqlite: Sqlite::new(mint),
            consumer: Consumer::default(),
            kind,
        }
    }

    fn note(&self, number: usize, counts: bool) -> Note {
        Note {
            kind: self.kind,
            keyset: history::IDS[0],
            item: items(1, number + 1, 33).pop().unwrap(),
            amount: 1,
            counts,
        }
    }

    fn insert(&mut self, numbers: impl Iterator<Item = usize>, counts: bool) {
        let events: Vec<Event> = numbers
            .map(|number| Event::Insert(self.note(number, counts)))
            .collect();
        self.sqlite.apply(&events);
    }

    fn flip(&mut self, number: usize) {
        let note = self.note(number, true);
        self.sqlite.apply(&[Event::Flip(note)]);
    }

    fn delete(&mut self, number: usize) {
        let note = self.note(number, true);
        self.sqlite.apply(&[Event::Delete(note)]);
    }

    fn execute(&mut self, sql: &str) {
        self.sqlite.connection().execute_batch(sql).unwrap();
    }

    /// Reads on. Returns the reason if a full reading was necessary. The contents are right in either case.
    #[track_caller]
    fn read(&mut self) -> Option<String> {
        let mut tally = Tally::default();
        let mut source = self.sqlite.database.source();
        self.read_from(&mut source, &mut tally)
    }

    #[track_caller]
    fn read_from(&mut self, source: &mut SqliteSource, tally: &mut Tally) -> Option<String> {
        tally.started_over.clear();
        self.consumer.refresh(source, self.kind, tally);
        let fresh = Held::whole(&mut self.sqlite.database.source(), self.kind).unwrap();
        assert!(self.consumer.of(self.kind).items == fresh.items);
        assert_eq!(self.consumer.of(self.kind).total, fresh.total);
        tally.started_over.keys().next().cloned()
    }
}

/// The tables with pending rows.
fn tables_with_pending() -> impl Iterator<Item = (MintType, NoteKind)> {
    tables_of_notes().filter(|&table| table != (MintType::Nutshell, NoteKind::Spent))
}

#[track_caller]
fn assert_reason(reason: Option<String>, part: &str) {
    assert!(
        reason.as_ref().is_some_and(|reason| reason.contains(part)),
        "{reason:?}"
    );
}

#[test]
fn replaced_newest_note_is_noticed() {
    for mut mint in tables_of_notes().map(Followed::new) {
        mint.insert(0..100, true);
        mint.read();
        mint.delete(99);
        mint.insert(100..101, true);
        assert_reason(mint.read(), "is gone");
    }
}

#[test]
fn rows_with_other_ids_are_noticed() {
    for mut mint in tables_of_notes().map(Followed::new) {
        mint.insert(0..100, true);
        mint.read();
        // The same number as before, with the newest in a range that was already read.
        mint.delete(2);
        let table = table(mint.sqlite.mint(), mint.kind);
        mint.execute(&format!(
            "UPDATE {table} SET rowid = rowid - 1 WHERE rowid > 3"
        ));
        mint.insert(100..101, true);
        assert_reason(mint.read(), "has another id");
    }
}

#[test]
fn newest_note_that_no_longer_counts_is_noticed() {
    for mut mint in tables_with_pending().map(Followed::new) {
        mint.insert(0..100, true);
        mint.insert(100..101, false);
        mint.sqlite.apply(&[Event::Save]);
        mint.flip(100);
        mint.read();
        mint.sqlite.apply(&[Event::Restore]);
        assert_reason(mint.read(), "row  of `");
    }
}

#[test]
fn flipped_note_that_no_longer_counts_is_noticed() {
    for mut mint in tables_with_pending().map(Followed::new) {
        mint.insert(0..1, false);
        mint.insert(1..100, true);
        mint.sqlite.apply(&[Event::Save]);
        mint.read();
        mint.flip(0);
        assert_eq!(mint.read(), None);
        // Either nothing else was read since, or much else.
        assert_eq!(mint.read(), None);
        mint.sqlite.apply(&[Event::Restore]);
        assert_reason(mint.read(), "recently counted row");
    }
}

#[test]
fn pending_note_is_taken_if_it_counts_dropped_if_deleted() {
    for mut mint in tables_with_pending().map(Followed::new) {
        mint.insert(0..5, false);
        mint.read();
        mint.insert(5..100, true);
        mint.insert(100..110, false);
        assert_eq!(mint.read(), None);
        for number in [0, 4, 103, 109] {
            mint.flip(number);
            assert_eq!(mint.read(), None);
        }
        let held = mint.consumer.of(mint.kind).total;
        assert_eq!(held, Some(99));
        for number in [1, 101, 108] {
            mint.delete(number);
            assert_eq!(mint.read(), None);
        }
        // It is added again, above the others.
        mint.insert(1..2, false);
        assert_eq!(mint.read(), None);
        mint.flip(1);
        assert_eq!(mint.read(), None);
        assert_eq!(mint.consumer.of(mint.kind).total, Some(100));
    }
}

#[test]
fn pending_row_without_item_needs_no_whole_reading() {
    // The columns of nutshell are text, in which a number is text too.
    for value in ["CAST(x'ff' AS TEXT)", "7"] {
        let mut mint = Followed::new((MintType::Cdk, NoteKind::Issued));
        mint.insert(0..100, true);
        mint.insert(100..103, false);
        mint.insert(103..110, true);
        mint.execute(&format!(
            "UPDATE blind_signature SET blinded_message = {value} WHERE rowid = 102"
        ));
        let (mut source, mut tally) = (mint.sqlite.database.source(), Tally::default());
        mint.read_from(&mut source, &mut tally);
        for number in [100, 102] {
            mint.flip(number);
            mint.read_from(&mut source, &mut tally);
        }
        mint.execute("DELETE FROM blind_signature WHERE rowid = 102");
        mint.read_from(&mut source, &mut tally);
        assert_eq!((tally.whole, tally.increments), (1, 3), "{value}");
        assert_eq!(mint.consumer.of(NoteKind::Issued).total, Some(109));
    }
}

#[test]
fn note_in_the_place_of_a_pending_one_is_read() {
    for (mint, kind) in tables_with_pending() {
        for again in [false, true] {
            let mut mint = Followed::new((mint, kind));
            mint.insert(0..100, true);
            mint.insert(100..103, false);
            mint.read();
            (100..103).for_each(|number| mint.delete(number));
            mint.insert(110..111, true);
            // It counts in its old place, so not all new notes are above the last one.
            mint.insert(if again { 101..102 } else { 111..112 }, false);
            assert_eq!(mint.read(), None);
            assert_eq!(mint.consumer.of(mint.kind).total, Some(101));
        }
    }
}

#[test]
fn deleted_old_note_is_noticed() {
    for mut mint in tables_of_notes().map(Followed::new) {
        mint.insert(0..100, true);
        mint.read();
        mint.delete(3);
        assert_reason(mint.read(), "rows, expected");
        // Readings continue from there.
        mint.insert(100..101, true);
        assert_eq!(mint.read(), None);
    }
}

/// A copy is restored to which nothing was added since, and an old note began to count that was never seen pending.
/// CDK's totals reveal it; for nutshell, the time of the signature does.
#[test]
fn restored_pending_note_never_seen_pending_is_noticed() {
    for (mint, kind) in tables_with_pending() {
        let part = match mint {
            MintType::Nutshell => "recently counted row",
            _ => "total of keyset",
        };
        let mut mint = Followed::new((mint, kind));
        mint.insert(0..1, false);
        mint.insert(1..100, true);
        mint.sqlite.apply(&[Event::Save]);
        mint.flip(0);
        mint.read();
        mint.sqlite.apply(&[Event::Restore]);
        assert_reason(mint.read(), part);
        mint.flip(0);
        assert_eq!(mint.read(), None);
    }
}

/// A copy is restored that still has a pending note, which the mint deleted after a reading. The note then counts below
/// the highest anchor, where only the count of all rows reveals it.
#[test]
fn restored_pending_note_already_forgotten_is_noticed() {
    for mut mint in tables_with_pending().map(Followed::new) {
        mint.insert(0..1, false);
        mint.insert(1..100, true);
        mint.sqlite.apply(&[Event::Save]);
        mint.delete(0);
        mint.read();
        mint.sqlite.apply(&[Event::Restore]);
        mint.flip(0);
        let held = mint.consumer.of(mint.kind).watermark.as_ref().unwrap();
        let since = Watermark::new(held.as_bytes().to_vec());
        // No count was asked for.
        let mut source = mint.sqlite.database.source();
        let reading = source.read(mint.kind, Some(&since), &mut NewItems::default());
        let reason = reading.map(drop).unwrap_err().to_string();
        assert!(reason.contains("rows, expected"), "{reason}");
    }
}

#[test]
fn totals_that_count_something_else_are_ignored() {
    for (kind, total) in [
        (NoteKind::Spent, "total_redeemed"),
        (NoteKind::Issued, "total_issued"),
    ] {
        let mut mint = Followed::new((MintType::Cdk, kind));
        mint.insert(0..10, true);
        let mut source = mint.sqlite.database.source();
        let mut tally = Tally::default();
        mint.read_from(&mut source, &mut tally);
        for time in 1..6 {
            mint.execute(&format!("UPDATE keyset_amounts SET {total} = {total} + 7"));
            let reason = mint.read_from(&mut source, &mut tally);
            assert_eq!(reason.is_some(), time <= 3, "{reason:?}");
        }
        mint.insert(10..12, true);
        assert_eq!(mint.read_from(&mut source, &mut tally), None);
    }
}

#[test]
fn mint_without_totals_is_followed() {
    for change in [
        "DROP TABLE keyset_amounts",
        "ALTER TABLE keyset_amounts RENAME COLUMN total_issued TO issued",
    ] {
        let mut mint = Followed::new((MintType::Cdk, NoteKind::Issued));
        mint.insert(0..10, true);
        mint.execute(change);
        mint.read();
        let note = items(2, 1, 33).pop().unwrap();
        mint.sqlite
            .database
            .add_signed(history::IDS[2], std::slice::from_ref(&note));
        assert_eq!(mint.read(), None);
    }
}

#[test]
fn row_that_does_not_count_is_not_decoded() {
    for mint in MintType::ALL {
        let table = match mint {
            MintType::Nutshell => "promises (amount, id, c_, b_)",
            _ => "blind_signature (amount, keyset_id, c, blinded_message)",
        };
        let mut followed = Followed::new((mint, NoteKind::Issued));
        followed.insert(0..10, true);
        let id = history::IDS[0];
        followed.execute(&format!(
            "INSERT INTO {table} VALUES (1, '{id}', NULL, x'')"
        ));
        let mut source = followed.sqlite.database.source();
        let held = Held::whole(&mut source, NoteKind::Issued).unwrap();
        assert_eq!((held.bad, held.total), (0, Some(10)));
        assert!(
            held.watermark.is_some(),
            "a blob of no bytes can be looked up"
        );
    }
}

#[test]
fn increments_do_not_block_a_writer_or_lose_notes() {
    for (mint, kind) in tables_of_notes() {
        let mut followed = Followed::new((mint, kind));
        followed.insert(0..300, true);
        let notes: Vec<Note> = items(9, 3000, 33)
            .into_iter()
            .map(|item| Note {
                item,
                ..followed.note(0, true)
            })
            .collect();
        let always = (mint, kind) == (MintType::Nutshell, NoteKind::Spent);
        // The mint runs from before the first reading until after the last.
        followed.insert(300..301, true);
        followed.delete(300);
        assert!(followed.sqlite.connection.is_some());
        let database = &followed.sqlite.database;
        let written = AtomicUsize::new(0);
        let mut source = database.source();
        let mut tally = Tally::default();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut connection = database.connect();
                // A reader that finds the index of the log being written briefly takes the writers' lock for a
                // second look, like every reader of SQLite. Both mints wait for seconds in this case. `live` tests
                // without any patience that no reading blocks a commit.
                connection.busy_timeout(A_MOMENT).unwrap();
                connection
                    .execute_batch("PRAGMA synchronous = OFF;")
                    .unwrap();
                for notes in notes.chunks(5) {
                    let pending = |note: &Note| Note {
                        counts: always,
                        ..note.clone()
                    };
                    let transaction = connection.transaction().unwrap();
                    for note in notes {
                        let insert = Event::Insert(pending(note));
                        database.happen(&transaction, &insert).unwrap();
                    }
                    transaction.commit().unwrap();
                    if !always {
                        let transaction = connection.transaction().unwrap();
                        for note in notes {
                            let flip = Event::Flip(note.clone());
                            database.happen(&transaction, &flip).unwrap();
                        }
                        transaction.commit().unwrap();
                    }
                    written.fetch_add(notes.len(), Ordering::SeqCst);
                }
            });
            while !writer.is_finished() {
                let before = written.load(Ordering::SeqCst) + 300;
                followed.consumer.refresh(&mut source, kind, &mut tally);
                let total = followed.consumer.of(kind).total.unwrap() as usize;
                assert!(total >= before && total.is_multiple_of(5), "{total}");
            }
        });
        assert!(tally.started_over.is_empty(), "{tally:?}");
        assert_eq!(followed.read(), None);
        assert_eq!(followed.consumer.of(kind).total, Some(3300));
    }
}
