//! Rows without a valid item: an error names the row, and no filter is built without it.

use core::ops::ControlFlow;
use core::time::Duration;
use std::collections::BTreeSet;

use nutfilter_mint::source::{MintSource as _, RowFault, SourceError};
use nutfilter_mint::{MintType, NoteKind, RefreshError};

use crate::found::Found;
use crate::sql::{table, tables_of_notes};
use crate::support::{MintDatabase, V1, V2, items, read_whole};

/// Two good rows and a third one, whose item is this SQL expression.
fn with_third_row(mint: MintType, kind: NoteKind, value: &str) -> MintDatabase {
    let database = MintDatabase::with_keyset(mint);
    database.add(kind, V1, &items(1, 2, 33));
    database.add_row(kind, V1, value);
    database
}

fn read(database: &MintDatabase, kind: NoteKind) -> Result<usize, SourceError> {
    read_whole(database.source(), kind, Found::default())
}

#[test]
fn bad_row_is_an_error_that_names_it() {
    use MintType::{Cdk, Nutshell};
    let odd = format!("'02{}'", "a".repeat(63));
    let not_hex = RowFault::NotHex;
    let wrong = |found, expected| RowFault::WrongType { found, expected };
    let cases = [
        (Nutshell, "'02zz'", not_hex(4)),
        (Nutshell, &odd, not_hex(65)),
        (Nutshell, "' 02ab'", not_hex(5)),
        (Nutshell, "''", RowFault::Empty),
        (Nutshell, "x'02ab'", wrong("a blob", "hex text")),
        (Cdk, "x''", RowFault::Empty),
        (Cdk, "'02ab'", wrong("text", "a blob")),
        (Cdk, "5", wrong("an integer", "a blob")),
        (Cdk, "NULL", wrong("null", "a blob")),
    ];
    for (mint, value, expected) in cases {
        for kind in NoteKind::ALL {
            let database = with_third_row(mint, kind, value);
            let error = read(&database, kind).unwrap_err();
            assert!(
                matches!(error, SourceError::BadRow(_, fault) if fault == expected),
                "{value}: {error}"
            );
            let text = error.to_string();
            let [table, _, column] = table(mint, kind);
            let row = format!("keyset {V1}, {kind}: column `{column}` of table `{table}`, row 3: ");
            assert!(text.starts_with(&row), "{text}");
        }
    }
    let database = MintDatabase::with_keyset(Cdk);
    let insert = database.insert(NoteKind::Spent, V1, &items(2, 1, 33), "BURNT");
    database.execute(&format!("PRAGMA ignore_check_constraints = 1; {insert}"));
    let error = read(&database, NoteKind::Spent).unwrap_err().to_string();
    let expected = format!("keyset {V1}, spent: column `y` of table `proof`, row 1: unknown state");
    assert_eq!(error, expected);
    // Without a keyset it holds no filter until everything is read. So it is looked up again, as it may count later.
    let _mint = database.running();
    database.add(NoteKind::Spent, V1, &items(3, 1, 33));
    database.execute("UPDATE proof SET keyset_id = 'none' WHERE rowid = 1");
    let (mut source, mut found) = (database.source(), Found::default());
    source.read(NoteKind::Spent, false, &mut found).unwrap();
    database.execute("UPDATE proof SET state = 'SPENT'");
    let reading = source.read(NoteKind::Spent, false, &mut found).unwrap();
    assert_eq!((reading.whole, found.items[&None].len()), (None, 1));
}

#[test]
fn newest_row_with_invalid_text_holds_its_filter() {
    for column in ["y", "id"] {
        let database = with_third_row(MintType::Nutshell, NoteKind::Spent, "'02ab'");
        let invalid = format!("UPDATE proofs_used SET {column} = CAST(x'ff' AS TEXT)");
        database.execute(&format!("{invalid} WHERE rowid = 3"));
        let mut refresher = database.refresher();
        let report = refresher.refresh(false).unwrap();
        assert_eq!(report.whole, [Some(true); 2]);
        let is_held = |(_, error): &_| matches!(error, RefreshError::Held);
        assert!(report.failures.iter().all(is_held), "{report:?}");
        assert_eq!(report.is_complete(), column == "id");
        // A keyset that is held and never had a filter.
        let ready = refresher.monitor().ready(u64::MAX, Duration::MAX);
        assert_eq!(ready, Ok(()), "no other server would have it");
    }
}

/// Such rows count in every filter, also those that waited for a signature; and if the item cannot be read either, the row is named.
#[test]
fn row_without_a_readable_keyset_id_is_passed_on_without_one() {
    let ids = [
        ("NULL", "null"),
        ("''", "empty"),
        ("' 009a1f293253e41e '", " 009a1f293253e41e "),
        ("'keyset-1'", "keyset-1"),
        ("CAST(x'3030ff' AS TEXT)", "00\u{fffd}"),
        ("CAST('009a1f293253e41e' AS BLOB)", "a blob"),
        ("7.5", "7.5"),
    ];
    for (mint, kind) in tables_of_notes() {
        let [name, column, item] = table(mint, kind);
        // CDK has the column NOT NULL.
        for (id, named) in &ids[usize::from(mint == MintType::Cdk)..] {
            let (database, notes) = (MintDatabase::with_keyset(mint), items(1, 3, 33));
            let _mint = database.running();
            database.add(kind, V1, &notes[..1]);
            database.add(kind, V2, &notes[1..2]);
            database.execute(&database.insert(kind, V2, &notes[2..], "PENDING"));
            database.add_row(kind, V2, "''");
            let update = format!("UPDATE {name} SET {column} = {id} WHERE {column} = '{V2}'");
            database.execute(&update);
            let mut source = database.source();
            let mut found = Found::default();
            let reading = source.read(kind, false, &mut found).unwrap();
            assert_eq!(reading.unservable, [*named]);
            let waits = usize::from(name != "proofs_used");
            let of_v1 = &found.items[&Some(V1.parse().unwrap())];
            let counts = [found.items[&None].len(), of_v1.len(), found.passed];
            assert_eq!(counts, [2 - waits, 1, 3 - waits], "{name}, {id}");
            let [(None, error)] = &*found.bad else { panic!("{:?}", found.bad) };
            let error = error.to_string();
            let row = format!("keyset unknown, {kind}: column `{item}` of table `{name}`, row 4: ");
            assert!(error.starts_with(&row), "{error}");

            database.flip(kind);
            let mut found = Found::default();
            assert_eq!(source.read(kind, false, &mut found).unwrap().whole, None);
            let unnamed = found.items.get(&None).map_or(0, BTreeSet::len);
            assert_eq!((unnamed, found.bad.len()), (waits, 0));
        }
    }
}

#[test]
fn sink_that_breaks_ends_the_reading() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        database.add(NoteKind::Spent, V1, &items(1, 10_000, 33));
        let mut batches = 0;
        let broken = Found::with(|| {
            batches += 1;
            ControlFlow::Break(())
        });
        let result = read_whole(database.source(), NoteKind::Spent, broken);
        assert!(matches!(result, Err(SourceError::Stopped)));
        assert_eq!(batches, 1);
    }
}
