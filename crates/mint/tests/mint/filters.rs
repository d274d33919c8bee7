//! The filters are, byte for byte, what the reference builds from the mint's notes.

use nutfilter_mint::source::{ItemBatch, KeysetInfo, MintSource};
use nutfilter_mint::{KeysetId, MintType, NoteKind};

use crate::support::{LEGACY, MintDatabase, V1, V2, V3, assert_served, body, items};

use NoteKind::{Issued, Spent};

#[test]
fn both_mints_get_the_reference_filters_of_both_kinds() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        database.add_keyset(V1, "sat", true, 100);
        database.add_keyset(V2, "usd", false, 0);
        database.add_keyset(V3, "sat", true, 0);
        let lengths = [(6, 100, 33), (7, 100, 34), (8, 1, 200), (9, 1, 3)];
        let mixed = lengths.map(|(stream, count, length)| items(stream, count, length));
        // More than 5,473 items: with fewer, the second hash has no effect on the bytes.
        let notes = [
            (Spent, V1, items(1, 6000, 33)),
            (Issued, V1, items(2, 9000, 33)),
            (Spent, V2, items(3, 70, 33)),
            (Issued, V2, items(4, 700, 33)),
            (Spent, V3, items(5, 500, 48)),
            (Issued, V3, mixed.concat()),
        ];
        for (kind, keyset, items) in &notes {
            database.add(*kind, keyset, items);
        }
        // Only CDK stores states of proofs.
        for (stream, state) in (10..).zip(["PENDING", "UNSPENT", "RESERVED", "UNKNOWN"]) {
            if mint == MintType::Cdk {
                database.execute(&database.insert(Spent, V1, &items(stream, 50, 33), state));
            }
        }
        let refresher = database.refreshed();
        for (kind, keyset, items) in &notes {
            assert_served(&refresher, *kind, keyset, items);
        }
    }
}

#[test]
fn no_item_is_lost_between_batches() {
    let full = ItemBatch::FULL;
    for mint in MintType::ALL {
        for (stream, count) in (1..).zip([1, full - 1, full, full + 1, 2 * full]) {
            let database = MintDatabase::with_keyset(mint);
            let spent = items(stream, count, 33);
            database.add(Spent, V1, &spent);
            assert_served(&database.refreshed(), Spent, V1, &spent);
        }
    }
}

#[test]
fn keyset_known_only_from_notes_is_served_and_not_listed() {
    for mint in MintType::ALL {
        let database = MintDatabase::new(mint);
        let (spent, issued) = (items(1, 40, 33), items(2, 60, 33));
        database.add_keyset(V1, "sat", true, 100);
        database.add_keyset("not an id", "sat", true, 0);
        database.add(Spent, V2, &spent);
        database.add(Spent, "not an id", &items(3, 3, 33));
        database.add(Issued, LEGACY, &issued);
        let listed = database.source().keysets().unwrap();
        let mut info = KeysetInfo::new(KeysetId::parse(V1).unwrap());
        info.input_fee_ppk = 100;
        assert_eq!(listed.keysets, [info]);
        assert_eq!(listed.unservable, ["not an id"]);

        let refresher = database.refreshed();
        // Rows without a valid keyset count in every filter of their kind.
        let unnamed = items(3, 3, 33);
        assert_served(&refresher, Spent, V2, &[&spent[..], &unnamed].concat());
        assert_served(&refresher, Issued, LEGACY, &issued);
        assert_served(&refresher, Spent, V1, &unnamed);
        let keysets = body(&refresher, "v1/keysets").unwrap();
        let keysets: serde_json::Value = serde_json::from_slice(&keysets).unwrap();
        let expected = serde_json::json!({ "keysets": [
            { "id": V1, "unit": "sat", "active": true, "input_fee_ppk": 100 },
        ]});
        assert_eq!(keysets, expected);
    }
}

#[test]
fn spellings_of_an_id_are_one_keyset() {
    for mint in MintType::ALL {
        let database = MintDatabase::with_keyset(mint);
        database.add_keyset(&V1.to_uppercase(), "usd", true, 0);
        let spent = items(1, 40, 33);
        database.add(Spent, V1, &spent[..20]);
        database.add(Spent, &V1.to_uppercase(), &spent[20..]);
        database.add(Issued, "I2yN-iR_fkzT", &spent[..5]);
        database.add(Issued, LEGACY, &spent[5..9]);
        assert_eq!(database.source().keysets().unwrap().keysets.len(), 1);
        let refresher = database.refreshed();
        assert_served(&refresher, Spent, V1, &spent);
        assert_served(&refresher, Issued, LEGACY, &spent[..9]);
        let objects = refresher.monitor().table().objects();
        let mut paths: Vec<&str> = objects.iter().map(|object| object.path()).collect();
        paths.sort_unstable();
        // As they can be written into a URL and a file name.
        let of = |kind| [V1, "I2yN-iR_fkzT"].map(|id| format!("v1/filter/{kind}/{id}"));
        assert_eq!(paths[..4], [of(Issued), of(Spent)].concat());
        assert_eq!(paths[4..], ["v1/keysets"]);
    }
}
