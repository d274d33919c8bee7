//! Occasional counts of all rows: what is noticed at once, what later, and what is saved.

use nutfilter_mint::{MintType, NoteKind, Refresher, RefresherOptions};
use rusqlite::Connection;

use crate::rereads::spent_reading;
use crate::support::{MintDatabase, V1, assert_served, items, table};

/// A running mint, which keeps its database open.
fn running(mint: MintType, notes: usize) -> (MintDatabase, Connection) {
    let database = MintDatabase::with_keyset(mint);
    let connection = open(&database);
    database.insert(NoteKind::Spent, V1, &items(1, notes, 33));
    (database, connection)
}

fn open(database: &MintDatabase) -> Connection {
    let connection = database.connect();
    let version = "PRAGMA schema_version";
    connection
        .query_row(version, [], |row| row.get::<_, i64>(0))
        .unwrap();
    connection
}

fn delete_an_old_note(database: &MintDatabase) {
    let table = table(database.mint, NoteKind::Spent);
    database.execute(&format!("DELETE FROM {table} WHERE rowid = 3"));
}

fn counting(database: &MintDatabase, verify_every: u32) -> Refresher {
    database.refresher_with(RefresherOptions {
        verify_every,
        ..RefresherOptions::default()
    })
}

#[test]
fn deleted_rows_are_noticed_at_the_next_count() {
    for mint in MintType::ALL {
        let (database, _mint) = running(mint, 100);
        let mut refresher = counting(&database, 3);
        spent_reading(&mut refresher);
        delete_an_old_note(&database);
        for number in 2..4 {
            database.insert(NoteKind::Spent, V1, &items(number, 5, 33));
            let reading = spent_reading(&mut refresher);
            assert_eq!((reading.whole, reading.items), (false, 5));
        }
        let reading = spent_reading(&mut refresher);
        assert_eq!((reading.whole, reading.lost), (true, Some(1)));
        let mut left = [items(1, 100, 33), items(2, 5, 33), items(3, 5, 33)].concat();
        left.remove(2);
        assert_served(&refresher, NoteKind::Spent, &left);
    }
}

#[test]
fn restarted_mint_or_new_schema_is_counted_at_once() {
    for mint in MintType::ALL {
        for restart in [true, false] {
            let (database, running) = running(mint, 100);
            let mut refresher = counting(&database, 1000);
            spent_reading(&mut refresher);
            delete_an_old_note(&database);
            assert!(!spent_reading(&mut refresher).whole);
            let _running = match restart {
                true => {
                    drop(running);
                    open(&database)
                }
                false => {
                    database.execute("CREATE TABLE new (x INTEGER)");
                    running
                }
            };
            assert!(spent_reading(&mut refresher).whole);
            assert!(!spent_reading(&mut refresher).whole);
        }
    }
}

/// Number of bytes that this thread has read from files.
#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn finding_nothing_new_reads_little_of_the_database() {
    let rows = std::env::var("NUTFILTER_ROWS").map_or(20_000, |rows| rows.parse().unwrap());
    for mint in MintType::ALL {
        let (database, _mint) = running(mint, 0);
        database.add_spent(V1, &items(1, rows, 33));
        database.add_signed(V1, &items(2, rows, 33));
        let mut measured = vec![];
        for every in [1, 1000] {
            let mut refresher = counting(&database, every);
            spent_reading(&mut refresher);
            let before = bytes_read();
            assert!(!spent_reading(&mut refresher).whole);
            measured.push(bytes_read() - before);
        }
        eprintln!(
            "{mint}: {} bytes with a count, {} without",
            measured[0], measured[1]
        );
        assert!(measured[1] * 4 < measured[0], "{measured:?}");
    }
}
