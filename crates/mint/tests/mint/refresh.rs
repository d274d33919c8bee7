//! Refreshes of a database that changes.

use nutfilter_mint::{MintType, NoteKind};

use crate::sql::{table, tables_of_notes};
use crate::support::{MintDatabase, V1, V2, assert_served, filter, items, refresh};

use NoteKind::Spent;

#[test]
fn refresh_finds_new_rows_keysets_and_signatures() {
    for (mint, kind) in tables_of_notes() {
        let database = MintDatabase::with_keyset(mint);
        let notes = items(1, 100, 33);
        // The mint runs, so new rows can be told from others.
        let _mint = database.running();
        database.add(kind, V1, &notes[..50]);
        let can_wait = (mint, kind) != (MintType::Nutshell, Spent);
        let first = if can_wait { 50 } else { 60 };
        database.execute(&database.insert(kind, V1, &notes[50..60], "PENDING"));
        let mut refresher = database.refreshed();
        assert_served(&refresher, kind, V1, &notes[..first]);
        assert!(filter(&refresher, kind, V2).is_none());

        database.add(kind, V1, &notes[60..]);
        if can_wait {
            database.flip(kind);
        }
        database.add_keyset(V2, "sat", true, 0);
        let report = refresh(&mut refresher);
        assert_eq!(report.whole[kind as usize], Some(false));
        assert_eq!(report.items[kind as usize], 100 - first as u64);
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
        // A mint without a log is read whole each time: it may be a copy.
        drop(running);
        assert!(whole(&mut refresher));
        assert!(whole(&mut refresher));
        // What was deleted stays: a filter never claims less than the one before it.
        assert_served(&refresher, kind, V1, &items(1, 10, 33));
    }
}

#[test]
fn last_filters_are_served_while_the_database_is_gone() {
    for mint in MintType::ALL {
        let database = MintDatabase::with_keyset(mint);
        database.add(Spent, V1, &items(1, 100, 33));
        let mut refresher = database.refreshed();
        let served = filter(&refresher, Spent, V1);
        let away = database.directory().join("away");
        std::fs::rename(&database.path, &away).unwrap();
        let error = refresher.refresh(false).unwrap_err().to_string();
        let expected = format!("database not found: {}", database.path.display());
        assert_eq!(error, expected);
        assert_eq!(database.files(), ["away"], "nothing is made in its place");
        assert_eq!(filter(&refresher, Spent, V1), served);
        let status = refresher.monitor().status();
        assert_eq!(status.failure, Some(expected));
        std::fs::rename(&away, &database.path).unwrap();
        refresh(&mut refresher);
        assert_eq!(refresher.monitor().status().failure, None);
    }
}
