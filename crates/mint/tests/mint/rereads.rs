//! What a full reread reports about the earlier items.

use std::fs;

use nutfilter_mint::{MintType, NoteKind, ReadingReport, Refresher};

use crate::support::{MintDatabase, V1, V2, assert_served, items, refresh, table};

/// A mint with spent notes in two keysets, and a refresher that has read them.
fn followed(mint: MintType, on_disk: bool) -> (MintDatabase, Refresher) {
    let database = MintDatabase::with_keyset(mint);
    database.add_keyset(V2, "sat", true, 0);
    database.insert(NoteKind::Spent, V1, &items(1, 100, 33));
    database.insert(NoteKind::Spent, V2, &items(2, 50, 33));
    let mut refresher = match on_disk {
        true => database.refresher_on_disk(&database.directory().join("data")),
        false => database.refresher(),
    };
    assert_eq!(spent_reading(&mut refresher).lost, None);
    (database, refresher)
}

#[track_caller]
pub(crate) fn spent_reading(refresher: &mut Refresher) -> ReadingReport {
    refresh(refresher).readings[0]
}

fn cases() -> impl Iterator<Item = (MintType, bool)> {
    let mints = MintType::ALL.into_iter();
    mints.flat_map(|mint| [false, true].map(|on_disk| (mint, on_disk)))
}

#[test]
fn renumbered_rows_lose_nothing() {
    for (mint, on_disk) in cases() {
        let (database, mut refresher) = followed(mint, on_disk);
        database.execute(&format!(
            "UPDATE {} SET rowid = rowid + 1000",
            table(mint, NoteKind::Spent)
        ));
        database.insert(NoteKind::Spent, V1, &items(3, 7, 33));
        let reading = spent_reading(&mut refresher);
        assert_eq!((reading.whole, reading.lost), (true, Some(0)));
        let reading = spent_reading(&mut refresher);
        assert_eq!((reading.whole, reading.lost), (false, None));
    }
}

#[test]
fn restored_backup_is_detected_by_lost_notes() {
    for (mint, on_disk) in cases() {
        let (database, mut refresher) = followed(mint, on_disk);
        let copy = database.directory().join("copy");
        fs::copy(&database.path, &copy).unwrap();
        database.insert(NoteKind::Spent, V1, &items(3, 10, 33));
        database.insert(NoteKind::Spent, V2, &items(4, 5, 33));
        assert_eq!(spent_reading(&mut refresher).items, 15);
        fs::copy(&copy, &database.path).unwrap();
        // More notes than were lost, so that no keyset has fewer than before.
        database.insert(NoteKind::Spent, V1, &items(5, 30, 33));
        database.insert(NoteKind::Spent, V2, &items(6, 30, 33));
        let reading = spent_reading(&mut refresher);
        assert_eq!((reading.whole, reading.lost), (true, Some(15)));
        assert_served(
            &refresher,
            NoteKind::Spent,
            &[items(1, 100, 33), items(5, 30, 33)].concat(),
        );
    }
}

#[test]
fn deleted_rows_are_counted() {
    for (mint, on_disk) in cases() {
        let (database, mut refresher) = followed(mint, on_disk);
        let table = table(mint, NoteKind::Spent);
        database.execute(&format!("DELETE FROM {table} WHERE rowid IN (3, 5, 8)"));
        let reading = spent_reading(&mut refresher);
        assert_eq!((reading.whole, reading.lost), (true, Some(3)));
        database.execute(&format!("DELETE FROM {table}"));
        let reading = spent_reading(&mut refresher);
        assert_eq!((reading.whole, reading.lost), (true, Some(147)));
        assert_served(&refresher, NoteKind::Spent, &[]);
    }
}
