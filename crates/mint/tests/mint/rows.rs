//! Rows without a valid item: an error names the row, and no filter is built without it.

use core::ops::ControlFlow;

use nutfilter_mint::source::{RowFault, SourceError};
use nutfilter_mint::{MintType, NoteKind, RefresherOptions};

use crate::support::{
    MintDatabase, Server, V1, V2, assert_filter_of, assert_served, items, keyset, on_disk,
    read_whole, table,
};

/// Two good rows and a third one, whose item is this SQL expression.
fn with_third_row(mint: MintType, kind: NoteKind, value: &str) -> MintDatabase {
    let database = MintDatabase::with_keyset(mint);
    database.add_spent(V1, &items(1, 2, 33));
    database.add_signed(V1, &items(2, 2, 33));
    let row = match (mint, kind) {
        (MintType::Nutshell, NoteKind::Spent) => {
            format!("proofs_used (amount, id, c, secret, y) VALUES (1, '{V1}', '', '', {value})")
        }
        (MintType::Nutshell, NoteKind::Issued) => {
            format!("promises (amount, id, b_, c_) VALUES (1, '{V1}', {value}, '02')")
        }
        (_, NoteKind::Spent) => format!(
            "proof (amount, keyset_id, secret, c, state, y)
             VALUES (1, '{V1}', '', x'', 'SPENT', {value})"
        ),
        (_, NoteKind::Issued) => format!(
            "blind_signature (amount, keyset_id, blinded_message, c)
             VALUES (1, '{V1}', {value}, x'02')"
        ),
    };
    database.execute(&format!("INSERT INTO {row};"));
    database
}

fn read(database: &MintDatabase, kind: NoteKind) -> Result<u64, SourceError> {
    read_whole(database.source(), kind, || ControlFlow::Continue(()))
}

#[test]
fn hex_in_either_case_is_decoded() {
    let upper = format!("'02{}'", "AB".repeat(32));
    let mixed = format!("'03{}'", "aB".repeat(32));
    for value in [upper, mixed] {
        let database = with_third_row(MintType::Nutshell, NoteKind::Spent, &value);
        let mut spent = items(1, 2, 33);
        spent.push(
            [
                &[if value.starts_with("'02") { 2 } else { 3 }][..],
                &[0xab; 32],
            ]
            .concat(),
        );
        let refresher = database.refreshed();
        assert_served(&refresher, NoteKind::Spent, &spent);
    }
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
            let SourceError::BadRow {
                ref keyset,
                kind: named,
                row,
                fault,
                ..
            } = error
            else {
                panic!("{mint} {kind} {value}: {error}");
            };
            assert_eq!(
                (keyset.as_str(), named, row, fault),
                (V1, kind, 3, expected),
                "{value}"
            );
            let text = error.to_string();
            let table = format!("`{}`", table(mint, kind));
            assert!(text.contains(&table) && text.contains("row 3"), "{text}");
        }
    }
}

/// Other keysets get their new notes by increments, also over a count and a restart, until the row is repaired.
#[test]
fn bad_row_holds_back_only_its_own_filter_without_full_readings() {
    use MintType::{Cdk, Nutshell};
    let spent = NoteKind::Spent;
    for (mint, value, is_deleted) in [
        (Nutshell, "'zz'", true),
        (Nutshell, "NULL", true),
        (Nutshell, "''", false),
        (Nutshell, "' 02ab'", false),
        (Cdk, "NULL", false),
        (Cdk, "5", true),
    ] {
        let prefix = if mint == Cdk { "x" } else { "" };
        let good = format!("{prefix}'02{}'", "a".repeat(64));
        let table = table(mint, spent);
        let repair = match is_deleted {
            true => format!("DELETE FROM {table} WHERE y IS {value}"),
            false => format!("UPDATE {table} SET y = {good} WHERE y IS {value}"),
        };
        let database = with_third_row(mint, spent, value);
        database.add_keyset(V2, "sat", true, 0);
        let data = database.directory().join("data");
        let refresher = || {
            database.refresher_with(RefresherOptions {
                verify_every: 2,
                ..on_disk(&data)
            })
        };
        let mut others = vec![];
        let mut refresher_ = refresher();
        for round in 0..6 {
            if round == 4 {
                drop(refresher_);
                refresher_ = refresher();
                refresher_.restore();
            }
            others.extend(items(7 + round, 20, 33));
            database.insert(spent, V2, &items(7 + round, 20, 33));
            database.insert(spent, V1, &items(70 + round, 2, 33));
            let report = refresher_.refresh().unwrap();
            let [failure] = &report.failures[..] else {
                panic!("{:?}", report.failures)
            };
            let failed = (failure.keyset.as_ref(), failure.kind);
            assert_eq!(failed, (Some(&keyset(V1)), spent), "{mint}, {value}");
            // After a restart the keyset that never had a filter causes one more.
            let whole = round == 0 || round == 4;
            assert_eq!(report.readings[0].whole, whole, "{mint}, {value}, {round}");
            let server = Server::start(refresher_.service().clone());
            assert_eq!(server.filter(spent, V1).status, 503);
            assert_filter_of(&server.filter(NoteKind::Issued, V1).body, &items(2, 2, 33));
            assert_filter_of(&server.filter(spent, V2).body, &others);
            assert_eq!(server.get("/health").json()["status"], "degraded");
        }
        database.execute(&repair);
        let report = refresher_.refresh().unwrap();
        assert!(report.failures.is_empty() && report.readings[0].whole);
        let mut all = items(1, 2, 33);
        (70..76).for_each(|stream| all.extend(items(stream, 2, 33)));
        if !is_deleted {
            all.push([&[2][..], &[0xaa; 32]].concat());
        }
        let server = Server::start(refresher_.service().clone());
        assert_filter_of(&server.filter(spent, V1).body, &all);
        assert_eq!(server.get("/health").json()["status"], "ok");
        assert!(!refresher_.refresh().unwrap().readings[0].whole);
    }
}

/// A keyset that was complete before keeps its filter and its date.
#[test]
fn filter_from_before_a_bad_row_keeps_its_date() {
    let database = with_third_row(MintType::Nutshell, NoteKind::Spent, "'zz'");
    database.execute("DELETE FROM proofs_used WHERE y = 'zz'");
    let clock = crate::support::Clock::default();
    clock.set(1_700_000_000);
    let mut refresher = database.refresher_at(&clock);
    refresher.refresh().unwrap();
    let server = Server::start(refresher.service().clone());
    let before = server.filter(NoteKind::Spent, V1).body;
    let third = format!("(1, '{V1}', '', '', 'zz')");
    database.execute(&format!(
        "INSERT INTO proofs_used (amount, id, c, secret, y) VALUES {third}"
    ));
    for round in 1..4 {
        clock.set(1_700_000_000 + round * 3_600);
        database.add_spent(V1, &items(7 + round, 2, 33));
        let report = refresher.refresh().unwrap();
        assert!(!report.readings[0].whole);
        assert_eq!(server.filter(NoteKind::Spent, V1).body, before);
    }
}

#[test]
fn sink_that_breaks_ends_the_reading() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        database.add_spent(V1, &items(1, 10_000, 33));
        let mut batches = 0;
        let result = read_whole(database.source(), NoteKind::Spent, || {
            batches += 1;
            ControlFlow::Break(())
        });
        assert!(matches!(result, Err(SourceError::Stopped)));
        assert_eq!(batches, 1);
    }
}
