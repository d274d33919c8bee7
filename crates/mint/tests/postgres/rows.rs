//! Which rows are read, and which of them are new.

use nutfilter_mint::source::{AsOf, MintSource as _};
use nutfilter_mint::{KeysetId, MintType, NoteKind};

use crate::found::Found;
use crate::sql::{keyset, table, tables_of_notes};
use crate::support::{
    LEGACY, MintDatabase, POSTGRES, V1, both, cdk, each_table, insert, item, read,
};

use NoteKind::Spent;

#[test]
fn both_mints_are_detected_listed_and_read() {
    for database in both() {
        let mint = database.mint;
        let mut sql = [V1, "no id"].map(|id| keyset(mint, id, "sat", true, 100)).concat();
        let (keysets, end) = match mint {
            MintType::Nutshell => ("keysets", "final_expiry"),
            _ => ("keyset", "valid_to"),
        };
        sql += &format!("UPDATE {keysets} SET {end} = 1900000000;");
        for kind in NoteKind::ALL {
            for index in 0..10 {
                let keyset = [V1, LEGACY, "none"][usize::from(index) % 3];
                sql += &insert(mint, kind, keyset, index, index < 8);
            }
        }
        database.run(&sql);
        let mut source = database.source();
        let listed = source.keysets().unwrap();
        assert_eq!(listed.keysets.len(), 1);
        let info = &listed.keysets[0];
        assert_eq!((info.id.as_str(), info.unit.as_deref()), (V1, Some("sat")));
        assert!(info.active && info.input_fee_ppk == 100);
        assert_eq!(info.final_expiry, Some(1_900_000_000));
        let drop = format!("ALTER TABLE {keysets} DROP COLUMN {end}");
        database.run(&drop);
        assert_eq!(source.keysets().unwrap().keysets[0].final_expiry, None);
        assert_eq!(listed.unservable, ["no id"]);
        for kind in NoteKind::ALL {
            let (found, reading) = read(&mut source, kind, false).unwrap();
            // All of nutshell's spent notes count.
            let all = (mint, kind) == (MintType::Nutshell, Spent);
            assert_eq!(found.count(), if all { 10 } else { 8 });
            assert_eq!(found.items[&None].len(), if all { 3 } else { 2 });
            let legacy = KeysetId::parse(LEGACY).unwrap();
            assert!(found.items[&Some(legacy.clone())].contains(&item(4)));
            assert_eq!(reading.unservable, ["none"]);
            assert_eq!(reading.whole, Some("first"));
            assert!(found.bad.is_empty());
            let AsOf::StoreClock(date) = reading.as_of else {
                panic!("{:?}", reading.as_of);
            };
            let now: u64 =
                database.writer.value("SELECT extract(epoch FROM now())::bigint").parse().unwrap();
            assert!((now - 60..=now).contains(&date));
        }
    }
}

#[test]
fn newest_row_that_is_gone_is_noticed() {
    for (database, mint, kind) in each_table() {
        let (mut source, [name, _, column]) = (database.source(), table(mint, kind));
        let mut whole = || read(&mut source, kind, false).unwrap().1.whole;
        assert_eq!([whole(), whole()], [Some("first"), Some("no notes")]);
        (0..2).for_each(|index| database.add(kind, index));
        assert_eq!([whole(), whole()], [Some("no notes"), None]);
        // As if the machine were put back with its memory.
        let newest = POSTGRES.item(mint, &item(1));
        for change in [
            format!(
                "DELETE FROM {name} WHERE {column} = {newest}; {}",
                insert(mint, kind, V1, 2, true)
            ),
            format!("UPDATE {name} SET amount = amount"),
        ] {
            database.run(&change);
            assert_eq!([whole(), whole()], [Some("newest row gone"), None], "{change}");
        }
        let reading = read(&mut source, kind, true).unwrap().1;
        assert_eq!(reading.whole, Some("asked"));
    }
}

#[test]
fn transaction_open_during_reading_is_read_later() {
    for (database, mint, kind) in each_table() {
        let (mut source, mut found) = (database.source(), Found::default());
        let late = database.another_writer();
        let insert = |index| insert(mint, kind, V1, index, true);
        late.run(&format!("BEGIN; {} SAVEPOINT a; {}", insert(0), insert(1)));
        database.add(kind, 2);
        assert_eq!(found.read(&mut source, kind), (true, 1));
        database.add(kind, 3);
        assert_eq!(found.read(&mut source, kind), (false, 1));
        // Prepared ones run, too.
        late.run(&format!("PREPARE TRANSACTION '{}'", database.name));
        assert_eq!(found.read(&mut source, kind), (false, 0));
        late.run(&format!("COMMIT PREPARED '{}'", database.name));
        assert_eq!(found.read(&mut source, kind), (false, 2));
        // Pending notes that count now.
        database.run(&crate::support::insert(mint, kind, V1, 4, false));
        if (mint, kind) != (MintType::Nutshell, Spent) {
            assert_eq!(found.read(&mut source, kind), (false, 0));
            database.run(&POSTGRES.flip(mint, kind));
        }
        assert_eq!(found.read(&mut source, kind), (false, 1));
    }
}

#[test]
fn only_new_rows_are_passed_on() {
    // Its own server: a transaction of another test would make old rows look new.
    let Some(cluster) = crate::cluster::Cluster::start(None, &[]) else {
        return;
    };
    for (mint, kind) in tables_of_notes() {
        let database = MintDatabase::on(&cluster, mint).unwrap();
        let mut source = database.source();
        (0..40).for_each(|index| database.add(kind, index));
        assert_eq!(read(&mut source, kind, false).unwrap().0.count(), 40);
        database.add(kind, 40);
        // Those of the 16 newest transactions come again.
        let (found, reading) = read(&mut source, kind, false).unwrap();
        assert_eq!((found.count(), reading.is_whole()), (17, false));
        assert_eq!(read(&mut source, kind, false).unwrap().0.count(), 16);
        let (found, reading) = read(&mut source, kind, true).unwrap();
        assert_eq!((found.count(), reading.is_whole()), (41, true));
    }
}

#[test]
fn unreadable_row_is_reported_when_it_is_read() {
    let Some(database) = MintDatabase::new(MintType::Nutshell) else {
        return;
    };
    let mut source = database.source();
    database.add(Spent, 0);
    read(&mut source, Spent, false).unwrap();
    let faults = [("NULL", "found null"), ("'0g'", "2 bytes"), ("''", "empty")];
    for (index, (value, said)) in (1..).zip(faults) {
        let bad = POSTGRES.insert(MintType::Nutshell, Spent, V1, value, "SPENT");
        database.run(&bad);
        database.add(Spent, index);
        for whole in [false, true] {
            let (found, reading) = read(&mut source, Spent, whole).unwrap();
            assert_eq!((found.bad.len(), reading.is_whole()), (1, whole), "{value}");
            let expected = format!("keyset {V1}, spent: column `y` of table `proofs_used`, row ");
            let error = found.bad[0].1.to_string();
            assert!(error.starts_with(&expected) && error.contains(said), "{error}");
        }
        let is_bad = "y IS NULL OR length(y) < 9";
        database.run(&format!("DELETE FROM proofs_used WHERE {is_bad}"));
        // One of the newest rows is gone.
        read(&mut source, Spent, false).unwrap();
    }
    let Some(database) = cdk() else { return };
    database.add(Spent, 0);
    database.run(
        "ALTER TABLE proof DROP CONSTRAINT proof_state_check; UPDATE proof SET state = 'BURNT'",
    );
    let (found, _) = read(&mut database.source(), Spent, false).unwrap();
    let error = found.bad[0].1.to_string();
    assert!(error.ends_with("unknown state"), "{error}");
}

#[test]
fn updates_locks_and_vacuum_miss_nothing() {
    for database in both() {
        let mint = database.mint;
        let kind = NoteKind::Issued;
        let [name, ..] = table(mint, kind);
        (0..50).for_each(|index| database.add(kind, index));
        let (mut source, mut found) = (database.source(), Found::default());
        assert_eq!(found.read(&mut source, kind), (true, 50));
        for (index, (sql, is_whole)) in (50..).zip([
            ("UPDATE {} SET amount = amount", true),
            ("SELECT count(*) FROM (SELECT 1 FROM {} FOR UPDATE) AS locked", false),
            ("VACUUM {}", false),
            ("VACUUM FREEZE {}", false),
            ("VACUUM FULL {}", false),
            ("ALTER TABLE {} ALTER COLUMN amount TYPE NUMERIC", true),
            ("ALTER TABLE {} ADD COLUMN more TEXT DEFAULT 'x'", true),
            ("BEGIN; CREATE TABLE kept AS SELECT * FROM {}; TRUNCATE {}; INSERT INTO {} SELECT * FROM kept; COMMIT", true),
            ("CREATE TABLE other (LIKE {} INCLUDING ALL); INSERT INTO other SELECT * FROM {}; DROP TABLE {}; ALTER TABLE other RENAME TO {}", true),
        ]) {
            database.run(&sql.replace("{}", name));
            database.add(kind, index);
            assert_eq!(found.read(&mut source, kind), (is_whole, 1), "{sql}");
        }
        // Columns that are computed when they are read change with no transaction. Postgres has them since 18.
        let computed =
            format!("ALTER TABLE {name} ADD computed INT GENERATED ALWAYS AS (1) VIRTUAL");
        if database.another_writer().try_run(&computed).is_ok() {
            assert_eq!(found.read(&mut source, kind), (true, 0));
            assert_eq!(found.read(&mut source, kind), (true, 0));
            database.run(&format!("ALTER TABLE {name} DROP computed"));
        }
        // Rows of a child have another history: then everything is read each time.
        database.run(&format!("CREATE TABLE child () INHERITS ({name})"));
        assert_eq!(found.read(&mut source, kind), (true, 0));
        assert_eq!(found.read(&mut source, kind), (true, 0));
    }
}
