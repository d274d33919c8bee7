//! Several connections that read parts of a table at the same time.
//!
//! All of them see one state of the database: their transactions begin between two looks of another connection at
//! `PRAGMA data_version`, which differs after any commit of someone else. That they opened the same database is known
//! from its files, which were the same before and after.

use core::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use rusqlite::Connection;

use super::connect::{JournalMode, ReadOnly};
use super::progress::Progress;
use super::reading::{Range, Table, Taken};
use crate::KeysetId;
use crate::source::by_keyset::Gathered;
use crate::source::schema::Notes;
use crate::source::{ItemBatch, ItemSink, SourceError};

/// Tables with fewer row ids are read by one connection: they take a tenth of a second.
const WORTHWHILE: i128 = 200_000;

/// Parts per reader, because some parts have fewer rows than others.
const PARTS: usize = 8;

/// Batches that may wait per reader.
const WAITING: usize = 4;

/// Connections in addition to the main one.
pub(super) struct Readers {
    readers: Vec<ReadOnly>,
    /// Sees whether someone commits.
    witness: ReadOnly,
    /// The first and the last row id.
    rows: Range,
    table: &'static str,
}

/// What a reader passes on.
enum Found {
    Batch(KeysetId, ItemBatch),
    BadRow(KeysetId, SourceError),
}

/// What a reader found besides.
struct Rest {
    progress: Progress,
    forgotten: u64,
    gathered: Gathered,
    bad: Vec<(i64, String)>,
    latest: super::latest::Latest,
}

impl Readers {
    /// Opens `count` more connections to the database of `main`. `None` if this is not worthwhile or not possible:
    /// outside of WAL mode, a waiting writer of the mint keeps new readers out.
    pub(super) fn open(main: &ReadOnly, path: &Path, notes: &Notes, count: usize) -> Option<Self> {
        if count < 2 || main.mode != JournalMode::Wal {
            return None;
        }
        let table = notes.table.name;
        let rows = bounds(&main.connection, table).ok()?;
        if i128::from(rows.1) - i128::from(rows.0) < WORTHWHILE {
            return None;
        }
        let open = || ReadOnly::open(path).ok();
        let witness = open()?;
        let readers = (0..count).map(|_| open()).collect::<Option<Vec<_>>>()?;
        let is_same = main.is_in_place()
            && readers
                .iter()
                .chain([&witness])
                .all(|reader| reader.mode == main.mode && reader.is_closed() == main.is_closed());
        is_same.then_some(Self {
            readers,
            witness,
            rows,
            table,
        })
    }

    /// Begins a transaction of each reader. Returns whether all of them see the state of `main`, in which nothing was
    /// read yet.
    pub(super) fn begin_with(&mut self, main: &Connection) -> rusqlite::Result<bool> {
        let version = |witness: &ReadOnly| -> rusqlite::Result<i64> {
            let connection = &witness.connection;
            connection.query_row("PRAGMA data_version", [], |row| row.get(0))
        };
        let before = version(&self.witness)?;
        // The state is that of the first statement.
        self.rows = bounds(main, self.table)?;
        for reader in &self.readers {
            if !reader.connection.is_autocommit() {
                reader.connection.execute_batch("ROLLBACK")?;
            }
            reader.connection.execute_batch("BEGIN")?;
            bounds(&reader.connection, self.table)?;
        }
        Ok(version(&self.witness)? == before)
    }

    /// Takes all rows of the table. Returns the number of rows that do not count and could not be remembered.
    pub(super) fn take_all(
        self,
        table: &Table<'_>,
        progress: &mut Progress,
        taken: &mut Taken<'_>,
    ) -> Result<u64, SourceError> {
        let parts = parts(self.rows, self.readers.len() * PARTS);
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (path, mint, notes, kind, since) =
            (table.path, table.mint, table.notes, table.kind, taken.since);
        let (sender, found) = sync_channel(self.readers.len() * WAITING);
        thread::scope(|scope| {
            let mut threads = vec![];
            for reader in self.readers {
                let (sender, parts, next, failed) = (sender.clone(), &parts, &next, &failed);
                let read = move || {
                    let table = Table {
                        connection: &reader.connection,
                        path,
                        mint,
                        notes,
                        kind,
                        compare_totals: false,
                        verify: false,
                        identity: None,
                    };
                    let rest = take_parts(&table, since, parts, next, failed, sender);
                    failed.fetch_or(rest.is_err(), Ordering::Relaxed);
                    rest
                };
                let thread = thread::Builder::new().name("nutfilter-read".to_owned());
                let thread = thread.spawn_scoped(scope, read);
                threads.push(thread.map_err(|error| SourceError::Other(error.into()))?);
            }
            drop(sender);
            // Once it is dropped, the readers stop.
            let passed = found.into_iter().try_for_each(|found| match found {
                Found::Batch(keyset, batch) => taken.by_keyset.batch(&keyset, &batch),
                Found::BadRow(keyset, error) => taken.by_keyset.bad_row(&keyset, error),
            });
            let rests = threads.into_iter().map(|thread| match thread.join() {
                Ok(rest) => rest,
                Err(panic) => resume_unwind(panic),
            });
            let rests: Vec<Result<Rest, SourceError>> = rests.collect();
            passed?;
            let mut forgotten = 0;
            for rest in rests {
                let rest = rest?;
                forgotten += rest.forgotten;
                for item in rest.progress.pending {
                    forgotten += u64::from(!progress.remember(item));
                }
                progress.unservable += rest.progress.unservable;
                taken.by_keyset.add_unservable_ids(rest.gathered.unservable);
                taken.bad.extend(rest.bad);
                taken.latest.merge(rest.latest);
            }
            Ok(forgotten)
        })
    }
}

/// Reads the parts that no other reader has taken.
fn take_parts(
    table: &Table<'_>,
    since: &'static str,
    parts: &[Range],
    next: &AtomicUsize,
    failed: &AtomicBool,
    sender: SyncSender<Found>,
) -> Result<Rest, SourceError> {
    let mut progress = Progress::of(table.mint, table.notes.table.name);
    let mut sink = Sink(sender);
    let mut taken = Taken::new(&mut sink, super::reading::NO_AMOUNT, since);
    let mut forgotten = 0;
    while !failed.load(Ordering::Relaxed)
        && let Some(&part) = parts.get(next.fetch_add(1, Ordering::Relaxed))
    {
        forgotten += table.take_range(part, &mut progress, &mut taken)?;
    }
    let Taken {
        by_keyset,
        bad,
        latest,
        ..
    } = taken;
    Ok(Rest {
        progress,
        forgotten,
        gathered: by_keyset.finish()?,
        bad,
        latest,
    })
}

/// Passes on what a reader finds.
struct Sink(SyncSender<Found>);

impl Sink {
    fn send(&self, found: Found) -> ControlFlow<()> {
        match self.0.send(found) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl ItemSink for Sink {
    fn items(&mut self, keyset: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
        self.send(Found::Batch(keyset.clone(), items.clone()))
    }

    fn bad_row(&mut self, keyset: &KeysetId, error: SourceError) -> ControlFlow<()> {
        self.send(Found::BadRow(keyset.clone(), error))
    }
}

/// The first and the last row id of a table; an empty range if it has no rows.
fn bounds(connection: &Connection, table: &str) -> rusqlite::Result<Range> {
    let query =
        format!("SELECT (SELECT min(rowid) FROM {table}), (SELECT max(rowid) FROM {table})");
    connection.query_row(&query, [], |row| {
        let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(first.zip(last).unwrap_or((0, -1)))
    })
}

/// Divides a range into about `count` parts.
fn parts((first, last): Range, count: usize) -> Vec<Range> {
    let (first, end) = (i128::from(first), i128::from(last) + 1);
    let count = (count as i128).max(1);
    let edge = |i: i128| first + (end - first).max(0) * i / count;
    (0..count)
        .map(|i| (edge(i), edge(i + 1) - 1))
        .filter(|(first, last)| first <= last)
        // They are within the range, so they fit.
        .map(|(first, last)| (first as i64, last as i64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::SqliteSource;
    use super::*;
    use crate::NoteKind;
    use crate::source::{DatabaseLocation, MintSource};
    use nutfilter_sample::Sample;

    /// A database of 3,000 spent notes and one pending one, whose row ids are far apart, and a writer that has it open.
    fn spread(directory: &Path) -> (std::path::PathBuf, Connection) {
        let path = directory.join("cdk-mintd.sqlite");
        Sample::new(3_000, 10).write(&path, &mut |_| ()).unwrap();
        let writer = Connection::open(&path).unwrap();
        // Its totals would not explain the changes.
        let spread = "DROP TABLE keyset_amounts; UPDATE proof SET rowid = -rowid;
                      UPDATE proof SET rowid = 1000 * -rowid - 500000;
                      UPDATE proof SET state = 'PENDING' WHERE rowid = 1500000";
        writer.execute_batch(spread).unwrap();
        (path, writer)
    }

    /// Everything that a reading passes on, sorted.
    #[derive(Default, Debug, PartialEq)]
    struct Read {
        items: Vec<(String, Vec<u8>)>,
        bad: Vec<String>,
        stop_after: Option<usize>,
    }

    impl ItemSink for Read {
        fn items(&mut self, keyset: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
            let items = items
                .items()
                .map(|item| (keyset.to_string(), item.to_vec()));
            self.items.extend(items);
            match self.stop_after.is_some_and(|stop| self.items.len() > stop) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }

        fn bad_row(&mut self, _: &KeysetId, error: SourceError) -> ControlFlow<()> {
            self.bad.push(error.to_string());
            ControlFlow::Continue(())
        }
    }

    fn read(
        source: &mut SqliteSource,
        since: Option<&crate::source::Watermark>,
    ) -> (Read, crate::source::Reading) {
        let mut read = Read::default();
        let reading = source.read(NoteKind::Spent, since, &mut read).unwrap();
        read.items.sort();
        read.bad.sort();
        (read, reading)
    }

    #[test]
    fn several_readers_find_what_one_finds() {
        let directory = tempfile::tempdir().unwrap();
        let (path, writer) = spread(directory.path());
        let location = DatabaseLocation::from(&*path);
        let source = |readers| {
            let source = SqliteSource::open(&location, None).unwrap();
            source.with_readers(readers)
        };
        let (one, many) = (&mut source(1), &mut source(3));
        let (expected, alone) = read(one, None);
        let (found, together) = read(many, None);
        assert_eq!(expected.items.len(), 2_999);
        assert_eq!(found, expected);
        assert_eq!(together.total, alone.total);

        // The pending note counts, and a new one comes.
        let change = "UPDATE proof SET state = 'SPENT';
                      INSERT INTO proof (y, amount, keyset_id, secret, c, state, created_time)
                      SELECT zeroblob(33), amount, keyset_id, secret, c, state, created_time FROM proof LIMIT 1";
        writer.execute_batch(change).unwrap();
        let (found, after) = read(many, together.watermark.as_ref());
        assert_eq!((found.items.len(), after.total), (2, Some(3_001)));

        writer
            .execute_batch("UPDATE proof SET y = x'' WHERE rowid = 700000")
            .unwrap();
        let (expected, found) = (read(one, None).0, read(many, None).0);
        assert_eq!(found, expected);
        assert!(found.bad[0].contains("row 700000"), "{}", found.bad[0]);
    }

    #[test]
    fn readers_stop_when_the_sink_does() {
        let directory = tempfile::tempdir().unwrap();
        let (path, _writer) = spread(directory.path());
        let source = SqliteSource::open(&DatabaseLocation::from(&*path), None).unwrap();
        let mut read = Read {
            stop_after: Some(0),
            ..Read::default()
        };
        let stopped = source
            .with_readers(3)
            .read(NoteKind::Spent, None, &mut read);
        assert!(matches!(stopped, Err(SourceError::Stopped)), "{stopped:?}");
    }

    #[test]
    fn readers_see_one_state_and_notice_commits() {
        let directory = tempfile::tempdir().unwrap();
        let (path, writer) = spread(directory.path());
        let main = ReadOnly::open(&path).unwrap();
        let notes = &crate::source::schema::Schema::of(crate::MintType::Cdk).spent;
        let mut readers = Readers::open(&main, &path, notes, 3).unwrap();
        assert!(Readers::open(&main, &path, notes, 1).is_none());
        let count = |connection: &Connection| -> i64 {
            let query = "SELECT count(*) FROM proof";
            connection.query_row(query, [], |row| row.get(0)).unwrap()
        };
        let version = |readers: &Readers| -> i64 {
            let query = "PRAGMA data_version";
            let witness = &readers.witness.connection;
            witness.query_row(query, [], |row| row.get(0)).unwrap()
        };
        for rows in [3_000, 2_999] {
            let transaction = main.connection.unchecked_transaction().unwrap();
            assert!(readers.begin_with(&transaction).unwrap());
            let before = version(&readers);
            let delete = format!("DELETE FROM proof WHERE rowid = {}", 1000 * rows - 700_000);
            assert_eq!(writer.execute(&delete, []).unwrap(), 1);
            assert_ne!(version(&readers), before);
            // What was committed after the transactions began is not seen.
            assert_eq!(count(&main.connection), rows);
            assert!(
                readers
                    .readers
                    .iter()
                    .all(|reader| count(&reader.connection) == rows)
            );
        }
        // Another file in the place of the database.
        std::fs::rename(&path, directory.path().join("old")).unwrap();
        std::fs::copy(directory.path().join("old"), &path).unwrap();
        assert!(!main.is_in_place());
        assert!(Readers::open(&main, &path, notes, 3).is_none());
    }

    #[test]
    fn parts_cover_the_range_once() {
        for range in [
            (0, -1),
            (5, 5),
            (-3, 7),
            (1, 1_000_003),
            (i64::MIN, i64::MAX),
        ] {
            for count in [1, 2, 3, 16, 64] {
                let parts = parts(range, count);
                let rows: i128 = parts
                    .iter()
                    .map(|&(a, b)| i128::from(b) - i128::from(a) + 1)
                    .sum();
                assert_eq!(rows, i128::from(range.1) - i128::from(range.0) + 1);
                assert!(parts.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
                assert!(parts.len() <= count);
                if let (Some(first), Some(last)) = (parts.first(), parts.last()) {
                    assert_eq!((first.0, last.1), range);
                }
            }
        }
    }
}
