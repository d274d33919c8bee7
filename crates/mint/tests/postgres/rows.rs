//! Which rows are read, and which of them are new.

use nutfilter_mint::source::MintSource as _;
use nutfilter_mint::{KeysetId, MintType, NoteKind};

use crate::history::{Consumer, Held, Tally};
use crate::support::{
    LEGACY, MintDatabase, V1, delete, insert_keyset, insert_member, item, read, refusal,
};

fn count(held: &Held) -> usize {
    held.items.values().map(Vec::len).sum()
}

#[test]
fn both_mints_are_detected_listed_and_read() {
    for mint in MintType::ALL {
        let Some(database) = MintDatabase::new(mint) else {
            return;
        };
        let mut sql = insert_keyset(mint, V1) + &insert_keyset(mint, "no id");
        for kind in NoteKind::ALL {
            for index in 0..10 {
                let keyset = [V1, LEGACY, "none"][usize::from(index) % 3];
                sql += &insert_member(mint, kind, keyset, &item(index), index < 8);
            }
        }
        database.writer.run(&sql);
        let mut source = database.source();
        let listed = source.keysets().unwrap();
        assert_eq!(listed.keysets.len(), 1);
        let info = &listed.keysets[0];
        assert_eq!((info.id.as_str(), info.unit.as_deref()), (V1, Some("sat")));
        assert!(info.active && info.input_fee_ppk == 100);
        assert_eq!(listed.unservable, ["no id"]);
        for kind in NoteKind::ALL {
            let held = Held::whole(&mut source, kind).unwrap();
            // All of nutshell's spent notes count.
            let all = (mint, kind) == (MintType::Nutshell, NoteKind::Spent);
            assert_eq!(count(&held), if all { 7 } else { 6 });
            assert_eq!(held.total, Some(count(&held) as u64));
            let legacy = KeysetId::parse(LEGACY).unwrap();
            assert!(held.items[&legacy].contains(&item(4)));
            assert_eq!(held.unservable, ["none"]);
        }
    }
}

/// Ends this many transactions that write nothing.
fn end_transactions(database: &MintDatabase, count: u32) {
    database.writer.run(&format!(
        "DO $$ BEGIN FOR i IN 1..{count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
    ));
}

#[test]
fn transaction_open_during_reading_is_read_later() {
    // The ids of few transactions are listed, and those of many are compared.
    for (mint, ended) in [
        (MintType::Nutshell, 0),
        (MintType::Cdk, 0),
        (MintType::Cdk, 5000),
    ] {
        let Some(database) = MintDatabase::new(mint) else {
            return;
        };
        for kind in NoteKind::ALL {
            let (mut source, mut consumer) = (database.source(), Consumer::default());
            let mut tally = Tally::default();
            let late = database.another_writer();
            let insert = |index| insert_member(mint, kind, V1, &item(index), true);
            late.run(&format!("BEGIN; {} SAVEPOINT a; {}", insert(0), insert(1)));
            database.writer.run(&insert(2));
            consumer.refresh(&mut source, kind, &mut tally);
            assert_eq!(count(consumer.of(kind)), 1);
            end_transactions(&database, ended);
            database.writer.run(&insert(3));
            consumer.refresh(&mut source, kind, &mut tally);
            assert_eq!(count(consumer.of(kind)), 2);
            late.run("COMMIT");
            consumer.refresh(&mut source, kind, &mut tally);
            assert_eq!(count(consumer.of(kind)), 4);
            assert_eq!((tally.increments, tally.whole), (2, 1), "{tally:?}");
        }
    }
}

#[test]
fn counts_leave_out_keysets_that_cannot_be_served() {
    for mint in MintType::ALL {
        let Some(database) = MintDatabase::new(mint) else {
            return;
        };
        for kind in NoteKind::ALL {
            let insert = |keyset: &str, index| {
                let sql = insert_member(mint, kind, keyset, &item(index), true);
                database.writer.run(&sql);
            };
            let mut source = database.source();
            let mut since = None;
            let mut read_on = || {
                let (count, _, reading) = read(&mut source, kind, since.as_ref()).unwrap();
                since = reading.watermark;
                (count, reading.total, reading.unservable)
            };
            let none = || vec!["none".to_owned()];
            insert(V1, 0);
            assert_eq!(read_on(), (1, Some(1), vec![]));
            insert(V1, 1);
            assert_eq!(read_on(), (1, Some(2), vec![]));
            // A new row is in such a keyset, then an old one.
            insert("none", 2);
            assert_eq!(read_on(), (0, Some(2), none()));
            insert(V1, 3);
            assert_eq!(read_on(), (1, Some(3), none()));
            database.writer.run(&delete(mint, kind, &item(2)));
            assert_eq!(read_on(), (0, Some(3), vec![]));
            database.writer.run(&delete(mint, kind, &item(1)));
            insert(V1, 4);
            // One of the anchors is gone.
            assert!(read(&mut source, kind, since.as_ref()).is_err());
        }
    }
}

#[test]
fn prepared_transaction_is_read_after_its_commit() {
    let Some(database) = MintDatabase::new(MintType::Cdk) else {
        return;
    };
    let (mut source, mut consumer) = (database.source(), Consumer::default());
    let mut tally = Tally::default();
    let insert = |index| insert_member(MintType::Cdk, NoteKind::Spent, V1, &item(index), true);
    let gid = &database.name;
    database
        .writer
        .run(&format!("BEGIN; {} PREPARE TRANSACTION '{gid}'", insert(0)));
    database.writer.run(&insert(1));
    consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
    assert_eq!(count(consumer.of(NoteKind::Spent)), 1);
    database.writer.run(&format!("COMMIT PREPARED '{gid}'"));
    consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
    assert_eq!(count(consumer.of(NoteKind::Spent)), 2);
    assert_eq!(tally.increments, 1);
}

#[test]
fn unreadable_row_is_reported_until_it_changes() {
    let Some(database) = MintDatabase::new(MintType::Nutshell) else {
        return;
    };
    let insert = |index| {
        let kind = NoteKind::Spent;
        let sql = insert_member(MintType::Nutshell, kind, V1, &item(index), true);
        database.writer.run(&sql);
    };
    let mut source = database.source();
    insert(0);
    for (number, (value, said)) in [("NULL", "found null"), ("'0g'", "2 bytes"), ("''", "empty")]
        .into_iter()
        .enumerate()
    {
        let bad = || {
            let row = format!("(1, '{V1}', '', '', {value})");
            database.writer.run(&format!(
                "INSERT INTO proofs_used (amount, id, c, secret, y) VALUES {row}"
            ));
        };
        // Found by a full reading, and then by increments: with news, without any, and next to another one.
        bad();
        let (mut since, mut rows) = (None, 1);
        for step in 0..4 {
            if step == 1 {
                insert(number as u8 * 2 + 1);
            }
            // An equal row, while the rows before are read again.
            if step == 3 && value == "NULL" {
                bad();
                rows += 1;
            }
            let (_, bad, reading) = read(&mut source, NoteKind::Spent, since.as_ref()).unwrap();
            assert_eq!(bad.len(), rows, "{value}, step {step}");
            let error = &bad[0];
            assert!(error.contains("`y` of table `proofs_used`"), "{error}");
            assert!(error.contains(said), "{error}");
            since = Some(reading.watermark.unwrap());
        }
        database.writer.run(match value {
            "NULL" => "DELETE FROM proofs_used WHERE y IS NULL",
            "''" => "DELETE FROM proofs_used WHERE y = ''",
            _ => "UPDATE proofs_used SET y = '02bcbc' WHERE y = '0g'",
        });
        let error = refusal(&mut source, NoteKind::Spent, since.as_ref());
        assert!(error.contains("unreadable rows are unchanged"), "{error}");
    }
}

#[test]
fn updates_locks_and_vacuum_change_nothing() {
    for mint in MintType::ALL {
        let Some(database) = MintDatabase::new(mint) else {
            return;
        };
        let (table, column) = match mint {
            MintType::Nutshell => ("promises", "c_"),
            _ => ("blind_signature", "c"),
        };
        let (mut source, mut consumer) = (database.source(), Consumer::default());
        let mut tally = Tally::default();
        let rows =
            (0..100).map(|index| insert_member(mint, NoteKind::Issued, V1, &item(index), true));
        database.writer.run(&rows.collect::<String>());
        consumer.refresh(&mut source, NoteKind::Issued, &mut tally);
        let before = consumer.of(NoteKind::Issued).items.clone();
        for sql in [
            format!("UPDATE {table} SET {column} = {column}"),
            format!("SELECT count(*) FROM (SELECT 1 FROM {table} FOR UPDATE) AS locked"),
            format!("VACUUM {table}"),
            format!("VACUUM FREEZE {table}"),
            format!("VACUUM FULL {table}"),
            format!("ALTER TABLE {table} ALTER COLUMN amount TYPE NUMERIC"),
            format!("ALTER TABLE {table} ADD COLUMN more TEXT DEFAULT 'x'"),
        ] {
            database.writer.run(&sql);
            consumer.refresh(&mut source, NoteKind::Issued, &mut tally);
            assert!(consumer.of(NoteKind::Issued).items == before, "{sql}");
        }
        assert_eq!((tally.increments, tally.whole), (7, 1), "{tally:?}");
    }
}

#[test]
fn moved_or_uncounted_note_causes_full_reading() {
    let Some(database) = MintDatabase::new(MintType::Cdk) else {
        return;
    };
    let (mut source, mut consumer) = (database.source(), Consumer::default());
    let rows =
        (0..200).map(|index| insert_member(MintType::Cdk, NoteKind::Spent, V1, &item(index), true));
    database.writer.run(&rows.collect::<String>());
    let mut tally = Tally::default();
    consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
    let changes = [
        ("y = '\\x00' || substr(y, 2)", 200),
        ("keyset_id = 'I2yN+iR/fkzT'", 200),
        ("keyset_id = 'none'", 199),
        ("state = 'UNSPENT'", 198),
    ];
    for (change, left) in changes {
        // The oldest row that counts, which is not an anchor.
        database.writer.run(&format!(
            "UPDATE proof SET {change} WHERE y = (SELECT y FROM proof
                 WHERE state = 'SPENT' AND keyset_id = '{V1}' ORDER BY y LIMIT 1)"
        ));
        consumer.refresh(&mut source, NoteKind::Spent, &mut tally);
        let held = consumer.of(NoteKind::Spent);
        assert_eq!(
            (count(held), held.total),
            (left, Some(left as u64)),
            "{change}"
        );
        let whole = Held::whole(&mut source, NoteKind::Spent).unwrap();
        assert!(held.items == whole.items, "{change}");
    }
    assert_eq!((tally.increments, tally.whole), (0, 5), "{tally:?}");
    let otherwise = tally.started_over.get("the consumer counts otherwise");
    assert_eq!(otherwise, Some(&4), "{tally:?}");
}
