//! The served filters are, byte for byte, what the reference builds from the mint's notes.

use std::time::Duration;

use nutfilter_mint::source::{DatabaseLocation, ItemBatch, KeysetInfo, MintSource, SqliteSource};
use nutfilter_mint::{MintType, NoteKind, Refresher};
use nutfilter_sample::Sample;

use crate::support::history::{Consumer, Tally};
use crate::support::{LEGACY, MintDatabase, Server, V1, V2, V3, assert_filter_of, items, keyset};

/// Publishes once and serves.
fn serve(mut refresher: Refresher) -> Server {
    let report = refresher.refresh().unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    Server::start(refresher.service().clone())
}

#[test]
fn both_mints_serve_the_reference_filters_of_both_kinds() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        // More than 5,473 items: with fewer, the second hash has no effect on the bytes.
        let (spent, issued) = (items(1, 6000, 33), items(2, 9000, 33));
        database.add_keyset(V1, "sat", true, 100);
        database.add_spent(V1, &spent);
        database.add_signed(V1, &issued);
        // Another keyset in the same tables.
        let (other_spent, other_issued) = (items(3, 70, 33), items(4, 700, 33));
        database.add_keyset(V2, "usd", false, 0);
        database.add_spent(V2, &other_spent);
        database.add_signed(V2, &other_issued);

        let server = serve(database.refresher());
        assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent);
        assert_filter_of(&server.filter(NoteKind::Issued, V1).body, &issued);
        assert_filter_of(&server.filter(NoteKind::Spent, V2).body, &other_spent);
        assert_filter_of(&server.filter(NoteKind::Issued, V2).body, &other_issued);
    }
}

#[test]
fn cdk_proof_is_spent_only_in_state_spent() {
    let database = MintDatabase::with_keyset(MintType::Cdk);
    let spent = items(1, 300, 33);
    database.add_spent(V1, &spent);
    for (stream, state) in (2..).zip(["PENDING", "UNSPENT", "RESERVED", "UNKNOWN"]) {
        database.add_in_state(V1, &items(stream, 50, 33), state);
    }
    let server = serve(database.refresher());
    assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent);
}

#[test]
fn items_of_mixed_lengths_are_served() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        let bls = items(1, 500, 48);
        let mixed = [
            items(2, 100, 33),
            items(3, 100, 34),
            items(4, 1, 200),
            items(5, 1, 3),
        ]
        .concat();
        database.add_keyset(V3, "sat", true, 0);
        database.add_spent(V3, &bls);
        database.add_signed(V3, &mixed);
        let server = serve(database.refresher());
        assert_filter_of(&server.filter(NoteKind::Spent, V3).body, &bls);
        assert_filter_of(&server.filter(NoteKind::Issued, V3).body, &mixed);
    }
}

#[test]
fn no_item_is_lost_between_batches() {
    let full = ItemBatch::FULL;
    for mint in MintType::ALL {
        for (stream, count) in (1..).zip([1, full - 1, full, full + 1, 2 * full]) {
            let database = MintDatabase::with_keyset(mint);
            let spent = items(stream, count, 33);
            database.add_spent(V1, &spent);
            let server = serve(database.refresher());
            assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent);
        }
    }
}

#[test]
fn keyset_known_only_from_notes_is_served_and_listed() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        let (spent, issued) = (items(1, 40, 33), items(2, 60, 33));
        database.add_keyset(V1, "sat", true, 100);
        database.add_spent(V2, &spent);
        database.add_signed(LEGACY, &issued);
        // The mint lists only one of them; the others are found with the notes.
        let listed = database.source().keysets().unwrap();
        let mut info = KeysetInfo::new(keyset(V1));
        info.input_fee_ppk = 100;
        assert_eq!(listed.keysets, [info]);
        assert!(listed.unservable.is_empty());

        let server = serve(database.refresher());
        assert_filter_of(&server.filter(NoteKind::Spent, V2).body, &spent);
        assert_filter_of(
            &server.filter(NoteKind::Issued, "I2yN-iR_fkzT").body,
            &issued,
        );
        let keysets = server.get("/v1/keysets").json();
        let expected = serde_json::json!({ "keysets": [
            { "id": V1, "unit": "sat", "active": true, "input_fee_ppk": 100 },
            { "id": V2, "unit": "unknown", "active": false, "input_fee_ppk": 0 },
            { "id": LEGACY, "unit": "unknown", "active": false, "input_fee_ppk": 0 },
        ]});
        assert_eq!(keysets, expected);
    }
}

#[test]
fn invalid_id_is_reported_and_others_are_served() {
    for mint in MintType::ALL {
        let database = MintDatabase::with_keyset(mint);
        let spent = items(1, 40, 33);
        database.add_keyset("not an id", "sat", true, 0);
        database.add_spent("not an id", &items(2, 3, 33));
        database.add_spent(V1, &spent);
        assert_eq!(
            database.source().keysets().unwrap().unservable,
            ["not an id"]
        );
        let server = serve(database.refresher());
        assert_filter_of(&server.filter(NoteKind::Spent, V1).body, &spent);
    }
}

#[test]
fn report_counts_what_was_built() {
    let database = MintDatabase::with_keyset(MintType::Cdk);
    database.add_spent(V1, &items(1, 5000, 33));
    let mut told = Vec::new();
    let mut refresher = database.refresher();
    let report = refresher
        .refresh_with_progress(&mut |progress| {
            assert_eq!(progress.keyset, &keyset(V1));
            told.push((progress.kind, progress.items));
        })
        .unwrap();
    assert_eq!(told, [(NoteKind::Spent, 4096), (NoteKind::Spent, 5000)]);

    let [spent, issued] = &report.filters[..] else {
        panic!("{:?}", report.filters)
    };
    assert_eq!((spent.kind, spent.n), (NoteKind::Spent, 5000));
    assert_eq!(
        (issued.kind, issued.n, issued.filter_bytes),
        (NoteKind::Issued, 0, 0)
    );
    let snapshot = refresher.service().snapshot().unwrap();
    let served = snapshot
        .keyset(&keyset(V1))
        .unwrap()
        .filter(NoteKind::Spent)
        .unwrap();
    assert_eq!(spent.body_bytes, served.json().bytes().len());
    assert_eq!(
        (spent.n, spent.filter_bytes, spent.timestamp),
        (served.n(), served.filter_bytes(), served.timestamp())
    );
    let [reading, of_issued] = &report.readings[..] else {
        panic!("{:?}", report.readings)
    };
    assert_eq!((reading.kind, reading.items), (NoteKind::Spent, 5000));
    assert_eq!((of_issued.kind, of_issued.items), (NoteKind::Issued, 0));
    let (read, times) = (reading, spent.times);
    let stages = [read.read, read.hash, read.sort, times.encode, times.body];
    assert!(stages.iter().all(|stage| !stage.is_zero()), "{stages:?}");
    let together: Duration = stages.iter().sum();
    assert!(report.list + together <= report.total);
}

#[test]
fn sample_database_holds_the_stated_notes() {
    for mint in MintType::ALL {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sample.sqlite");
        let mut sample = Sample::of(mint, 7000, 300);
        sample.write(&path, &mut |_| ()).unwrap();
        let mut source = SqliteSource::open(&DatabaseLocation::from(path.as_path()), None).unwrap();
        assert_eq!(source.mint_type(), mint);
        let mut consumer = Consumer::default();
        let mut tally = Tally::default();
        for more in [0, 1, 25] {
            for kind in NoteKind::ALL {
                sample.grow(&path, kind, more).unwrap();
                let mut notes: Vec<Vec<u8>> = (0..sample.count(kind))
                    .map(|index| sample.note(kind, index).to_vec())
                    .collect();
                notes.sort();
                consumer.refresh(&mut source, kind, &mut tally);
                assert!(consumer.of(kind).items[&sample.keyset] == notes);
            }
        }
        assert_eq!((tally.whole, tally.increments), (2, 4), "{tally:?}");
        assert_eq!((sample.spent, sample.issued), (7026, 326));
    }
}
