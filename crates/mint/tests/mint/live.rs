//! Reading the database of a running mint, and of a stopped one.

use core::ops::ControlFlow;
#[cfg(unix)]
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use nutfilter_mint::source::{
    AsOf, DatabaseLocation, IsLocked, MintSource as _, SourceError, SqliteSource, open_alone,
};
use nutfilter_mint::{MintType, NoteKind};

use crate::found::Found;
use crate::support::{MintDatabase, V1, assert_served, items, read_whole, refresh};

#[test]
fn writer_can_commit_during_a_reading() {
    let database = MintDatabase::new(MintType::Cdk);
    let notes = items(1, 10_000, 33);
    database.add(NoteKind::Spent, V1, &notes[..9_000]);
    let mint = database.connect();
    mint.busy_timeout(Duration::ZERO).unwrap();
    mint.execute_batch(&database.insert(NoteKind::Spent, V1, &notes[9_000..9_001], "SPENT"))
        .unwrap();
    let mut next = 9_001;
    let each = Found::with(|| {
        mint.execute_batch(&database.insert(NoteKind::Spent, V1, &notes[next..next + 1], "SPENT"))
            .unwrap();
        next += 1;
        ControlFlow::Continue(())
    });
    let read = read_whole(database.source(), NoteKind::Spent, each);
    assert_eq!(read.unwrap(), 9_001, "the state at the start, and nothing of what came later");
    assert_eq!(next, 9_004);
}

#[test]
fn reading_a_stopped_mint_leaves_no_files() {
    for (mint, journal) in
        [(MintType::Cdk, "WAL"), (MintType::Nutshell, "WAL"), (MintType::Cdk, "DELETE")]
    {
        let database = MintDatabase::new(mint);
        database.execute(&format!("PRAGMA journal_mode = {journal}"));
        let spent = items(1, 5_000, 33);
        database.add(NoteKind::Spent, V1, &spent);
        assert_eq!(database.files(), ["mint.db"]);
        let before = std::fs::read(&database.path).unwrap();
        assert_served(&database.refreshed(), NoteKind::Spent, V1, &spent);
        assert_eq!(database.files(), ["mint.db"]);
        assert!(std::fs::read(&database.path).unwrap() == before);
    }
}

/// For longer than a reading waits.
#[test]
fn locked_database_is_an_error_and_read_when_it_is_free() {
    let database = MintDatabase::with_keyset(MintType::Cdk);
    database.execute("PRAGMA journal_mode = DELETE");
    let notes = items(1, 20, 33);
    database.add(NoteKind::Spent, V1, &notes[..10]);
    let mut refresher = database.refreshed();
    let mint = database.connect();
    mint.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let said = format!("{:?}", refresher.refresh(false));
    assert!(said.contains("database is locked"), "{said}");
    assert_served(&refresher, NoteKind::Spent, V1, &notes[..10]);
    mint.execute_batch("COMMIT").unwrap();
    database.add(NoteKind::Spent, V1, &notes[10..]);
    refresh(&mut refresher);
    assert_served(&refresher, NoteKind::Spent, V1, &notes);
}

#[test]
fn mint_start_during_reading_of_closed_database_is_an_error() {
    let database = MintDatabase::new(MintType::Cdk);
    let notes = items(1, 10_000, 33);
    database.add(NoteKind::Spent, V1, &notes[..9_000]);
    let reads = |action: &dyn Fn()| {
        let found = Found::at_first(action);
        let error = read_whole(database.source(), NoteKind::Spent, found).unwrap_err();
        assert!(matches!(error, SourceError::ChangedWhileRead { .. }), "{error}");
    };
    // The mint starts, writes, checkpoints and stops.
    reads(&|| database.add(NoteKind::Spent, V1, &notes[9_000..]));
    let mint = database.connect();
    let update = "UPDATE proof SET amount = 2 WHERE rowid = 1";
    reads(&|| mint.execute_batch(update).unwrap());
}

const WRITES: &str = "NUTFILTER_TEST_WRITES";

/// Another process: whether it gets the lock of a writer.
#[test]
fn process_that_writes() {
    if let Some(path) = std::env::var_os(WRITES) {
        let other = rusqlite::Connection::open(path).unwrap();
        other.busy_timeout(Duration::ZERO).unwrap();
        let is_free = other.execute_batch("BEGIN IMMEDIATE").is_ok();
        println!("{}", if is_free { "free" } else { "locked" });
    }
}

/// POSIX drops a process's locks on a file when any descriptor of it is closed.
#[cfg(unix)]
#[test]
fn reading_keeps_the_locks_of_a_mint_in_the_same_process() {
    for (journal, locked) in [("DELETE", "mint.db"), ("WAL", "mint.db-shm")] {
        let database = MintDatabase::with_keyset(MintType::Cdk);
        database.execute(&format!("PRAGMA journal_mode = {journal}"));
        let spent = items(1, 50, 33);
        database.add(NoteKind::Spent, V1, &spent);
        let mint = database.running();
        mint.execute_batch("BEGIN IMMEDIATE; UPDATE proof SET amount = 2").unwrap();
        let has_lock = || {
            let said = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture", "live::process_that_writes"])
                .env(WRITES, &database.path)
                .output();
            let said = String::from_utf8(said.unwrap().stdout).unwrap();
            assert!(said.contains("locked") != said.contains("free"), "{said}");
            said.contains("locked")
        };
        assert!(has_lock(), "{journal}");
        let mut refresher = database.refreshed();
        refresh(&mut refresher);
        assert_served(&refresher, NoteKind::Spent, V1, &spent);
        drop(refresher);
        assert!(has_lock(), "{journal}: a reading dropped the lock");
        // What nothing here may do.
        drop(std::fs::File::open(database.directory().join(locked)));
        assert!(!has_lock(), "{journal}");
    }
}

#[cfg(unix)]
#[test]
fn special_characters_in_a_database_name_are_literal() {
    for name in [
        &b"a mint?mode=rwc&x=#1 %41%00.db"[..],
        b"file:mint.db",
        "münze.db".as_bytes(),
        b"\xff.db",
        b"-wal",
    ] {
        let name = std::ffi::OsStr::from_bytes(name);
        let database = MintDatabase::named(MintType::Cdk, name);
        database.add(NoteKind::Spent, V1, &items(1, 5, 33));
        let count = read_whole(database.source(), NoteKind::Spent, Found::default());
        assert_eq!(count.unwrap(), 5, "{name:?}");
        assert_eq!(database.files(), [name.to_string_lossy()]);
    }
}

#[cfg(unix)]
#[test]
fn database_is_found_through_a_link() {
    let database = MintDatabase::new(MintType::Nutshell);
    // The latest rows are in the `-wal` file, which is next to the database and not to the link.
    let _mint = database.running();
    database.add(NoteKind::Spent, V1, &items(1, 5, 33));
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.db");
    std::os::unix::fs::symlink(&database.path, &link).unwrap();
    let source = SqliteSource::open(&DatabaseLocation::from(link.as_path()), None).unwrap();
    let count = read_whole(source, NoteKind::Spent, Found::default());
    assert_eq!(count.unwrap(), 5);
}

#[test]
fn wal_without_shm_is_read_and_only_shm_is_created() {
    let database = MintDatabase::new(MintType::Cdk);
    let spent = items(1, 50, 33);
    database.add(NoteKind::Spent, V1, &spent[..20]);
    // Copied as left by a killed mint, with the latest notes in the `-wal` file.
    let mint = database.connect();
    mint.execute_batch(&database.insert(NoteKind::Spent, V1, &spent[20..], "SPENT")).unwrap();
    let copy = MintDatabase::new(MintType::Cdk);
    for suffix in ["", "-wal"] {
        let name = |database: &MintDatabase| format!("{}{suffix}", database.path.display());
        std::fs::copy(name(&database), name(&copy)).unwrap();
    }
    assert_eq!(copy.files(), ["mint.db", "mint.db-wal"]);
    let main = std::fs::read(&copy.path).unwrap();
    let refresher = copy.refreshed();
    assert_served(&refresher, NoteKind::Spent, V1, &spent);
    assert_eq!(copy.files(), ["mint.db", "mint.db-shm", "mint.db-wal"]);
    assert!(std::fs::read(&copy.path).unwrap() == main);
}

/// The time of the file alone proves nothing: a copy lacks the log.
#[test]
fn database_without_its_log_is_dated_by_its_last_change() {
    let (unknown, change) = (AsOf::Unknown, AsOf::LastChange);
    for mint in MintType::ALL {
        let [[spent, of_spent], [issued, of_issued]] = match mint {
            MintType::Nutshell => [["proofs_used", "created"], ["promises", "signed_at"]],
            _ => [["proof", "created_time"], ["blind_signature", "signed_time"]],
        };
        let database = MintDatabase::with_keyset(mint);
        let mut source = database.source();
        let mut read = |sql: String, expected| {
            database.execute(&sql);
            let file = std::fs::File::options().write(true).open(&database.path);
            let modified = UNIX_EPOCH + Duration::from_secs(2_000_000);
            file.unwrap().set_modified(modified).unwrap();
            for kind in NoteKind::ALL {
                let reading = source.read(kind, false, &mut Found::default()).unwrap();
                assert_eq!(reading.as_of, expected, "{sql}");
            }
        };
        read(String::new(), unknown);
        for kind in NoteKind::ALL {
            database.add(kind, V1, &items(1, 2, 33));
        }
        let set = |table, column, value: &str, row| {
            format!("UPDATE {table} SET {column} = {value} WHERE rowid = {row}")
        };
        let created = of_spent;
        read(
            format!("UPDATE {spent} SET {created} = NULL; UPDATE {issued} SET {created} = NULL"),
            unknown,
        );
        // As CDK fills in the column in old rows.
        read(set(issued, created, "0", 2), change(0));
        read(set(spent, of_spent, "1234567.9", 1), change(1_234_567));
        read(set(issued, created, "1300000", 2), change(1_300_000));
        read(set(issued, of_issued, "1400000", 1), change(1_400_000));
        read(set(issued, of_issued, "'2026-01-01'", 2), change(1_400_000));
        // It may be signed later.
        let [signature, value] = match mint {
            MintType::Nutshell => ["c_", "'02'"],
            _ => ["c", "x'02'"],
        };
        read(set(issued, signature, "NULL", 2), change(1_400_000));
        read(set(issued, of_issued, "1500000", 2), change(1_400_000));
        read(set(issued, signature, value, 2), change(1_500_000));
        read(set(spent, of_spent, "3000000", 1), change(1_500_000));
        read(format!("ALTER TABLE {spent} DROP COLUMN {of_spent}"), change(1_500_000));
        let mint = database.running();
        read(String::new(), AsOf::Beginning);
        // A copy with its log, or a killed mint's: nobody has a lock on it.
        let as_of = |is_locked: IsLocked| {
            let source = open_alone(&database.location(), None, is_locked);
            source.unwrap().read(NoteKind::Spent, false, &mut Found::default()).unwrap().as_of
        };
        assert_eq!(as_of(|_| Ok(true)), AsOf::Beginning);
        assert_eq!(as_of(|_| Ok(false)), change(1_500_000));
        drop(mint);
        // One that `VACUUM INTO` made looks like this.
        database.execute("PRAGMA journal_mode = DELETE");
        assert_eq!(as_of(|_| Ok(true)), change(1_500_000));
        read(String::new(), AsOf::Beginning);
    }
}

/// A mint that starts locks its database a moment before it creates the log.
#[test]
fn locked_database_without_a_log_is_refused() {
    static LOCKED: AtomicU32 = AtomicU32::new(0);
    let database = MintDatabase::with_keyset(MintType::Cdk);
    let open = |locked| {
        LOCKED.store(locked, Ordering::Relaxed);
        let is_locked = |_: &Path| {
            let one_less = |left: u32| left.checked_sub(1);
            Ok(LOCKED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok())
        };
        open_alone(&database.location(), None, is_locked)
    };
    open(3).unwrap();
    let began = Instant::now();
    for _ in 0..2 {
        let error = open(u32::MAX).err().unwrap().to_string();
        let path = database.path.display();
        let expected = format!("{path}: a process has it open, but its -wal file");
        assert!(error.starts_with(&expected), "{error}");
        // The second time it is known.
        assert!((5..8).contains(&began.elapsed().as_secs()));
    }
    let _mint = database.running();
    open(u32::MAX).unwrap();
    // The log is that of another `-shm` file, such as when each file was mounted alone and the mint has made others since.
    let is_locked = |path: &Path| Ok(path.extension() == Some("db".as_ref()));
    let error = open_alone(&database.location(), None, is_locked).err().unwrap().to_string();
    assert!(error.contains("but the -wal file here is of another one"), "{error}");
}
