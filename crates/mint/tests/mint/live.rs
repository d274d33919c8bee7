//! Reading the database of a running mint, and of a stopped one.

use core::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nutfilter_mint::source::SourceError;
use nutfilter_mint::{MintType, NoteKind};
use rusqlite::Connection;

use crate::support::{MintDatabase, V1, assert_served, items, read_whole};

/// Longer than a short lock takes on a busy machine.
const A_MOMENT: Duration = Duration::from_secs(1);

#[test]
fn writer_is_not_blocked_and_filters_are_consistent() {
    const BEFORE: usize = 2000;
    const BATCH: usize = 7;
    for mint in MintType::ALL {
        let database = MintDatabase::with_keyset(mint);
        let notes = items(1, 40_000, 33);
        database.add_spent(V1, &notes[..BEFORE]);
        let mut refresher = database.refresher();
        let done = AtomicBool::new(false);
        let at_work = Barrier::new(2);

        let refreshes = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut connection = database.connect();
                // A reader that finds the index of the log being written briefly takes the writers' lock for a
                // second look, like every reader of SQLite. Both mints wait for seconds in this case. The test
                // below checks without any patience that no reading blocks a commit.
                connection.busy_timeout(A_MOMENT).unwrap();
                let mut written = BEFORE;
                insert_spent(&mut connection, mint, &notes[written..written + BATCH]);
                written += BATCH;
                at_work.wait();
                while !done.load(Ordering::Relaxed) && written + BATCH <= notes.len() {
                    insert_spent(&mut connection, mint, &notes[written..written + BATCH]);
                    written += BATCH;
                }
                written
            });
            at_work.wait();
            let mut counts = vec![];
            for _ in 0..20 {
                let report = refresher.refresh().unwrap();
                assert!(report.failures.is_empty(), "{:?}", report.failures);
                let snapshot = refresher.service().snapshot().unwrap();
                counts.push(snapshot.items(NoteKind::Spent) as usize);
            }
            done.store(true, Ordering::Relaxed);
            let written = writer.join().expect("the writer never fails");
            (counts, written)
        });

        let (counts, written) = refreshes;
        assert!(counts.is_sorted(), "{counts:?}");
        assert!(
            counts[0] < written,
            "the writer wrote while filters were built"
        );
        // Only whole transactions.
        assert!(
            counts
                .iter()
                .all(|count| (count - BEFORE).is_multiple_of(BATCH)),
            "{counts:?}"
        );
        refresher.refresh().unwrap();
        assert_served(&refresher, NoteKind::Spent, &notes[..written]);
    }
}

fn insert_spent(connection: &mut Connection, mint: MintType, notes: &[Vec<u8>]) {
    let sql = match mint {
        MintType::Nutshell => {
            "INSERT INTO proofs_used (amount, id, c, secret, y) VALUES (1, ?1, '', '', lower(hex(?2)))"
        }
        _ => {
            "INSERT INTO proof (amount, keyset_id, secret, c, state, y)
             VALUES (1, ?1, '', x'', 'SPENT', ?2)"
        }
    };
    let transaction = connection.transaction().unwrap();
    for note in notes {
        transaction.execute(sql, (V1, note)).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn writer_can_commit_during_a_reading() {
    let database = MintDatabase::new(MintType::Cdk);
    let notes = items(1, 10_000, 33);
    database.add_spent(V1, &notes[..9_000]);
    let mut mint = database.connect();
    mint.busy_timeout(Duration::ZERO).unwrap();
    insert_spent(&mut mint, MintType::Cdk, &notes[9_000..9_001]);
    let mut next = 9_001;
    let read = read_whole(database.source(), NoteKind::Spent, || {
        insert_spent(&mut mint, MintType::Cdk, &notes[next..next + 1]);
        next += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(
        read.unwrap(),
        9_001,
        "the state at the start, and nothing of what came later"
    );
    assert_eq!(next, 9_004);
}

#[test]
fn reading_a_stopped_mint_leaves_no_files() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        let spent = items(1, 5_000, 33);
        database.add_spent(V1, &spent);
        assert_eq!(database.files(), ["mint.db"]);
        let before = std::fs::read(&database.path).unwrap();
        let refresher = database.refreshed();
        assert_served(&refresher, NoteKind::Spent, &spent);
        assert_eq!(database.files(), ["mint.db"]);
        assert!(std::fs::read(&database.path).unwrap() == before);
    }
}

#[test]
fn mint_start_during_reading_of_closed_database_is_an_error() {
    let database = MintDatabase::new(MintType::Cdk);
    let notes = items(1, 10_000, 33);
    database.add_spent(V1, &notes[..9_000]);
    let mut first = true;
    let error = read_whole(database.source(), NoteKind::Spent, || {
        if std::mem::take(&mut first) {
            // The mint starts, writes, checkpoints and stops.
            database.add_spent(V1, &notes[9_000..]);
        }
        ControlFlow::Continue(())
    })
    .unwrap_err();
    assert!(
        matches!(error, SourceError::ChangedWhileRead { .. }),
        "{error}"
    );

    let mint = database.connect();
    let mut first = true;
    let source = database.source();
    let error = read_whole(source, NoteKind::Spent, || {
        if std::mem::take(&mut first) {
            mint.execute("UPDATE proof SET amount = 2 WHERE rowid = 1", [])
                .unwrap();
        }
        ControlFlow::Continue(())
    });
    assert!(
        matches!(error, Err(SourceError::ChangedWhileRead { .. })),
        "{error:?}"
    );
}

#[test]
fn database_in_another_journal_mode_is_read() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        database.execute("PRAGMA journal_mode = DELETE;");
        let spent = items(1, 500, 33);
        database.add_spent(V1, &spent);
        let refresher = database.refreshed();
        assert_served(&refresher, NoteKind::Spent, &spent);
        assert_eq!(database.files(), ["mint.db"]);
    }
}

#[test]
fn special_characters_in_a_database_name_are_literal() {
    for name in [
        "a mint?mode=rwc&x=#1 %41.db",
        "file:mint.db",
        "münze.db",
        "-wal",
    ] {
        let database = MintDatabase::named(MintType::Cdk, name);
        database.add_spent(V1, &items(1, 5, 33));
        let count = read_whole(database.source(), NoteKind::Spent, || {
            ControlFlow::Continue(())
        });
        assert_eq!(count.unwrap(), 5, "{name}");
        assert_eq!(database.files(), [name]);
    }
}

#[cfg(unix)]
#[test]
fn database_is_found_through_a_link() {
    use nutfilter_mint::source::{DatabaseLocation, SqliteSource};

    let database = MintDatabase::new(MintType::Nutshell);
    // While this is open, the latest rows are in the `-wal` file, which is next to the database and not to the
    // link.
    let mut mint = database.connect();
    insert_spent(&mut mint, MintType::Nutshell, &items(1, 5, 33));
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.db");
    std::os::unix::fs::symlink(&database.path, &link).unwrap();
    let source = SqliteSource::open(&DatabaseLocation::from(link.as_path()), None).unwrap();
    let count = read_whole(source, NoteKind::Spent, || ControlFlow::Continue(()));
    assert_eq!(count.unwrap(), 5);
}

#[test]
fn wal_without_shm_is_read_and_only_shm_is_created() {
    let database = MintDatabase::new(MintType::Cdk);
    let spent = items(1, 50, 33);
    database.add_spent(V1, &spent[..20]);
    // Copied as left by a killed mint, with the latest notes in the `-wal` file.
    let mut mint = database.connect();
    insert_spent(&mut mint, MintType::Cdk, &spent[20..]);
    let copy = MintDatabase::new(MintType::Cdk);
    for suffix in ["", "-wal"] {
        let name = |database: &MintDatabase| format!("{}{suffix}", database.path.display());
        std::fs::copy(name(&database), name(&copy)).unwrap();
    }
    assert_eq!(copy.files(), ["mint.db", "mint.db-wal"]);
    let main = std::fs::read(&copy.path).unwrap();
    let refresher = copy.refreshed();
    assert_served(&refresher, NoteKind::Spent, &spent);
    assert_eq!(copy.files(), ["mint.db", "mint.db-shm", "mint.db-wal"]);
    assert!(std::fs::read(&copy.path).unwrap() == main);
}
