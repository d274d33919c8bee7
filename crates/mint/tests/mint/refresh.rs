//! Refreshes of a database that changes.

use nutfilter_mint::source::{MintSource as _, SqliteSource};
use nutfilter_mint::{MintType, NoteKind};

use crate::found::Found;
use crate::sql::{table, tables_of_notes};
use crate::support::{MintDatabase, V1, V2, assert_served, items, refresh};

use NoteKind::Spent;

/// What the filters then have is tried by random histories.
#[test]
fn only_new_rows_keysets_and_signatures_are_read() {
    for (mint, kind) in tables_of_notes() {
        let database = MintDatabase::with_keyset(mint);
        let notes = items(1, 100, 33);
        // The mint runs, so new rows can be told from others.
        let _mint = database.running();
        database.add(kind, V1, &notes[..50]);
        database.execute(&database.insert(kind, V1, &notes[50..60], "PENDING"));
        let mut refresher = database.refreshed();
        database.add(kind, V1, &notes[60..]);
        database.flip(kind);
        database.add_keyset(V2, "sat", true, 0);
        let report = refresh(&mut refresher);
        assert_eq!(report.whole[kind as usize], Some(false));
        let waited = (mint, kind) != (MintType::Nutshell, Spent);
        let expected = if waited { 50 } else { 40 };
        assert_eq!(report.items[kind as usize], expected);
        assert_served(&refresher, kind, V1, &notes);
        assert_served(&refresher, kind, V2, &[]);
        let report = refresh(&mut refresher);
        assert_eq!((report.items, report.encoded), ([0, 0], 0));
    }
}

#[test]
fn database_that_did_not_only_grow_is_read_whole() {
    for (mint, kind) in tables_of_notes() {
        let database = MintDatabase::with_keyset(mint);
        let [name, keyset, _] = table(mint, kind);
        let running = database.running();
        // What a killed mint does at its next start, with the same files.
        let (record, migrate) = match mint {
            MintType::Nutshell => ("dbversions (db, version)", "dbversions VALUES ('mint', 7)"),
            _ => ("migrations (name)", "migrations VALUES ('7')"),
        };
        let record = format!("CREATE TABLE {record}");
        let migrate = format!(
            "INSERT INTO {migrate}; UPDATE {name} SET {keyset} = '{V2}' WHERE rowid = 1;
             UPDATE {name} SET {keyset} = '{V1}' WHERE rowid = 1"
        );
        running.execute_batch(&record).unwrap();
        database.add(kind, V1, &items(1, 10, 33));
        let mut refresher = database.refreshed();
        let whole = |refresher: &mut _| refresh(refresher).whole[kind as usize].unwrap();
        assert!(!whole(&mut refresher));
        for sql in [
            migrate,
            "VACUUM".to_owned(),
            format!("UPDATE {name} SET rowid = rowid + 1000"),
            format!("UPDATE {name} SET {keyset} = '{V2}' WHERE rowid = 1010"),
            format!("DELETE FROM {name} WHERE rowid = 1010"),
            "CREATE INDEX another ON ".to_owned() + name + " (amount)",
        ] {
            running.execute_batch(&sql).unwrap();
            assert!(whole(&mut refresher), "{sql}");
            assert!(!whole(&mut refresher), "{sql}");
        }
        // At the highest row id, SQLite chooses ids at random.
        let renumber = |from, to| format!("UPDATE {name} SET rowid = {to} WHERE rowid = {from}");
        let highest = i64::MAX;
        running.execute_batch(&renumber(1009, highest)).unwrap();
        assert!(whole(&mut refresher));
        assert!(whole(&mut refresher));
        running.execute_batch(&renumber(highest, 1009)).unwrap();
        assert!(whole(&mut refresher));
        assert!(!whole(&mut refresher));
        // Also beside one that does not count yet.
        database.execute(&database.insert(kind, V1, &items(1, 10, 33)[9..], "PENDING"));
        running.execute_batch(&renumber(1010, highest)).unwrap();
        assert!(whole(&mut refresher));
        assert!(whole(&mut refresher));
        running.execute_batch(&renumber(highest, 1010)).unwrap();
        assert!(whole(&mut refresher));
        // A mint without a log is read whole each time: it may be a copy.
        drop(running);
        assert!(whole(&mut refresher));
        assert!(whole(&mut refresher));
        // What was deleted stays: a filter never claims less than the one before it.
        assert_served(&refresher, kind, V1, &items(1, 10, 33));
    }
}

/// Reads. Returns why everything was read, and the number of items.
fn more(source: &mut SqliteSource, kind: NoteKind) -> (Option<&'static str>, usize) {
    let mut found = Found::default();
    let whole = source.read(kind, false, &mut found).unwrap().whole;
    (whole, found.passed)
}

/// A mint that works on a database and is killed: its log stays.
#[cfg(unix)]
fn killed(database: &MintDatabase, sql: &str) {
    let mint = database.connect();
    let keep_log = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    mint.set_db_config(keep_log, true).unwrap();
    mint.execute_batch(sql).unwrap();
}

/// As by `cp -a backup/. directory/`, while the mint is down: the files keep their inodes and birth times.
#[cfg(unix)]
#[test]
fn database_and_log_put_back_in_place_are_read_whole() {
    let checkpoint = "PRAGMA wal_checkpoint;";
    for (is_restored, same, before_last, reason) in [
        (true, 1, "", Some("log")),
        (true, 300, "", Some("log")),
        (true, 200, checkpoint, Some("newest rows")),
        // A mint that was killed, and one that began its log again.
        (false, 1, "", None),
        (false, 1, checkpoint, None),
    ] {
        for (mint, kind) in tables_of_notes() {
            let database = MintDatabase::with_keyset(mint);
            let log = database.directory().join("mint.db-wal");
            let add = |notes: &[Vec<u8>]| database.insert(kind, V1, notes, "SPENT");
            let [lost, found] = [2, 3].map(|stream| add(&items(stream, 1, 33)));
            let others = items(4, same, 33);
            killed(&database, &add(&items(1, 5, 33)));
            let backup = [&database.path, &log].map(|path| std::fs::read(path).unwrap());
            killed(&database, &(lost + &add(&others)));
            let mut source = database.source();
            let mut read = || more(&mut source, kind);
            assert_eq!(read(), (Some("first"), 6 + same));
            assert_eq!(read(), (None, 0));
            if is_restored {
                std::fs::write(&database.path, &backup[0]).unwrap();
                std::fs::write(&log, &backup[1]).unwrap();
            }
            // Wallets send another note first, and then the same ones.
            let (last, others) = others.split_last().unwrap();
            let sent = match is_restored {
                true => found + &add(others) + before_last + &add(std::slice::from_ref(last)),
                false => before_last.to_owned() + &found,
            };
            killed(&database, &sent);
            let new = if is_restored { 6 + same } else { 1 };
            assert_eq!(read(), (reason, new), "{is_restored}, {same}, {before_last}");
        }
    }
}

/// A transaction that is larger than the cache is in the log before it ends, and its frames are written again and again.
#[cfg(unix)]
#[test]
fn large_transactions_do_not_make_a_reading_whole() {
    for committed in [true, false] {
        for (mint, kind) in tables_of_notes() {
            let database = MintDatabase::with_keyset(mint);
            let running = database.running();
            database.add(kind, V1, &items(1, 10, 33));
            let mut source = database.source();
            let mut read = || more(&mut source, kind);
            assert_eq!(read(), (Some("first"), 10));
            running.execute_batch("PRAGMA cache_size = 10; BEGIN").unwrap();
            let log = database.directory().join("mint.db-wal");
            let length = || std::fs::metadata(&log).unwrap().len();
            let before = length();
            for part in 0..4 {
                for notes in items(2 + part, 1_000, 33).chunks(20) {
                    let insert = database.insert(kind, V1, notes, "SPENT");
                    let insert = insert.replace("BEGIN;", "").replace("COMMIT;", "");
                    running.execute_batch(&insert).unwrap();
                }
                assert!(length() > before);
                assert_eq!(read(), (None, 0), "part {part}");
            }
            running.execute_batch(if committed { "COMMIT" } else { "ROLLBACK" }).unwrap();
            assert_eq!(read(), (None, if committed { 4_000 } else { 0 }));
            database.add(kind, V1, &items(9, 1, 33));
            assert_eq!(read(), (None, 1));
        }
    }
}
