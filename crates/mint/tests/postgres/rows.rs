//! What is read, and what of it is new.

use nutfilter_mint::source::MintSource as _;
use nutfilter_mint::{Kind, MintType};

use crate::support::{Consumer, LEGACY, MintDatabase, Noted, V1, insert_keyset, insert_member};

/// The item `index`.
fn item(index: u8) -> Vec<u8> {
    let mut item = vec![2; 33];
    item[32] = index;
    item
}

#[test]
fn both_mints_are_recognised_listed_and_read_whole() {
    for mint in MintType::ALL {
        let Some(database) = MintDatabase::new(mint) else {
            return;
        };
        let mut sql = insert_keyset(mint, V1) + &insert_keyset(mint, "no id");
        for kind in Kind::ALL {
            for index in 0..10 {
                let keyset = [V1, LEGACY, "none"][usize::from(index) % 3];
                // nutshell's spent notes count, whatever is said here.
                let member = index < 8 || (mint, kind) == (MintType::Nutshell, Kind::Spent);
                sql += &insert_member(mint, kind, keyset, &item(index), member);
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
        for kind in Kind::ALL {
            let (noted, reading) = Noted::whole(&mut source, kind);
            let all = (mint, kind) == (MintType::Nutshell, Kind::Spent);
            assert_eq!(noted.count, if all { 7 } else { 6 });
            assert!(noted.items.contains(&(LEGACY.to_owned(), item(4))));
            assert_eq!(reading.unservable, ["none"]);
        }
    }
}

#[test]
fn only_what_is_new_comes() {
    for mint in MintType::ALL {
        let Some(database) = MintDatabase::new(mint) else {
            return;
        };
        for kind in Kind::ALL {
            let mut source = database.source();
            let insert = |range: std::ops::Range<u8>| {
                let rows = range.map(|index| insert_member(mint, kind, V1, &item(index), true));
                database.writer.run(&rows.collect::<String>());
            };
            insert(0..100);
            let (_, reading) = Noted::whole(&mut source, kind);
            insert(100..105);
            let (noted, reading) =
                Noted::read(&mut source, kind, reading.watermark.as_ref()).unwrap();
            assert_eq!((noted.count, reading.total), (5, Some(105)));
            // Other tests' transactions hold back what is known to be old; no more than the new may come again.
            let (noted, again) =
                Noted::read(&mut source, kind, reading.watermark.as_ref()).unwrap();
            assert!(noted.count <= 5 && again.total == Some(105));
        }
    }
}

#[test]
fn what_was_begun_before_a_reading_and_committed_after_it_comes() {
    for mint in MintType::ALL {
        let Some(database) = MintDatabase::new(mint) else {
            return;
        };
        for kind in Kind::ALL {
            let (mut source, mut consumer) = (database.source(), Consumer::default());
            let late = database.another_writer();
            let insert = |index| insert_member(mint, kind, V1, &item(index), true);
            late.run(&format!("BEGIN; {} SAVEPOINT a; {}", insert(0), insert(1)));
            database.writer.run(&insert(2));
            consumer.refresh(&mut source, kind);
            assert_eq!(consumer.items.len(), 1);
            database.writer.run(&insert(3));
            consumer.refresh(&mut source, kind);
            late.run("COMMIT");
            consumer.refresh(&mut source, kind);
            assert_eq!(consumer.items.len(), 4);
            assert_eq!((consumer.increments, consumer.started_over.len()), (2, 0));
        }
    }
}
