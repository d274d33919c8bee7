//! Sets on disk: the same bytes as in memory, whatever the runs; and every fault an error.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nutfilter::{ItemHash, Nut23, Nut25, Params, SipHash, SortedHashes};
use nutfilter_store::{MAX_METADATA_BYTES, MIN_MEMORY, Options, Store, StoreError, StoreErrorKind};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tempfile::TempDir;

fn place() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A place, and the path of a store in it.
fn place_of_store() -> (TempDir, PathBuf) {
    let directory = place();
    let kept = directory.path().join("kept");
    (directory, kept)
}

fn options() -> Options {
    Options::new(MIN_MEMORY)
}

fn scratch(directory: &TempDir) -> Store {
    Store::scratch_in(directory, options()).expect("a store")
}

fn add(store: &mut Store, hashes: &[u64]) {
    let mut batch = store.batch();
    batch.push_hashes(hashes).expect("room");
    batch.commit().expect("a commit");
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| {
            let name = entry.expect("an entry").file_name();
            name.into_string().expect("UTF-8")
        })
        .collect();
    names.sort_unstable();
    names
}

/// The run files of a kept store, in the order in which they were made.
fn run_files(directory: &Path) -> Vec<PathBuf> {
    let runs = names(directory)
        .into_iter()
        .filter(|name| name.starts_with("run-"));
    runs.map(|name| directory.join(name)).collect()
}

fn encoded(store: &Store<impl ItemHash>, params: Params) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let written = store.encode_to(params, &mut bytes)?;
    assert_eq!(written.bytes, bytes.len() as u64);
    assert_eq!(u64::from(written.n), store.len());
    Ok(bytes)
}

/// The parameters that are worth a look: the usual ones, both ends of P, and M far from 2^P.
fn some_params() -> Vec<Params> {
    let pairs = [
        (19, 784_931),
        (0, 1),
        (0, 50),
        (6, 64),
        (20, 784_931),
        (32, u64::from(u32::MAX)),
    ];
    let params = pairs.map(|(p, m)| Params::new(p, m).expect("within the limits"));
    params.to_vec()
}

fn check_equal(store: &Store, hashes: &[u64], what: &str) {
    let set = SortedHashes::from_hashes(hashes.to_vec());
    let repeated = set.as_slice().windows(2).filter(|pair| pair[0] == pair[1]);
    let repeated = repeated.count() as u64;
    for params in some_params() {
        let expected = set.encode(params).expect("a filter in memory");
        let mut bytes = Vec::new();
        let written = store.encode_to(params, &mut bytes).expect("a filter");
        assert!(bytes == expected.bytes(), "{what}, {params:?}: other bytes");
        assert_eq!(
            (written.n, written.repeated),
            (expected.n(), repeated),
            "{what}"
        );
    }
}

/// Hashes as they come, and as clients might grind them.
fn shapes(len: usize) -> Vec<(&'static str, Vec<u64>)> {
    let mut random = StdRng::seed_from_u64(len as u64);
    let mut make = |of: &mut dyn FnMut(&mut StdRng, usize) -> u64| -> Vec<u64> {
        (0..len).map(|i| of(&mut random, i)).collect()
    };
    vec![
        ("uniform", make(&mut |random, _| random.next_u64())),
        ("equal", make(&mut |_, _| 0x1234_5678_9abc_def0)),
        ("all zero", make(&mut |_, _| 0)),
        ("all ones", make(&mut |_, _| u64::MAX)),
        (
            "ascending",
            make(&mut |_, i| i as u64 * (u64::MAX / len as u64)),
        ),
        (
            "descending",
            make(&mut |_, i| (len - i) as u64 * (u64::MAX / len as u64)),
        ),
        (
            "in one place",
            make(&mut |random, _| (77 << 56) | u64::from(random.next_u32())),
        ),
        (
            "few values",
            make(&mut |random, _| random.random_range(0..5_u64) << 62),
        ),
        (
            "half in one place",
            make(&mut |random, i| match i % 2 {
                0 => random.next_u64(),
                _ => (3 << 60) | u64::from(random.next_u32() >> 20),
            }),
        ),
        (
            "drifting",
            make(&mut |random, i| (((i / 1000) as u64) << 48) | (random.next_u64() >> 16)),
        ),
    ]
}

#[test]
fn a_set_of_many_runs_has_the_bytes_that_it_has_in_memory() {
    let directory = place();
    for (what, hashes) in shapes(150_000) {
        let mut store = scratch(&directory);
        let mut batch = store.batch();
        // In pieces that end nowhere in particular.
        for piece in hashes.chunks(7_001) {
            batch.push_hashes(piece).expect("room on the disk");
        }
        assert_eq!(batch.len(), 150_000);
        batch.commit().expect("a commit");
        // Nearly thirteen thousand hashes are a run, and four runs are read at once.
        assert!((2..=4).contains(&store.runs()), "{} runs", store.runs());
        check_equal(&store, &hashes, what);
        store.compact().expect("one run");
        assert_eq!(store.runs(), 1);
        check_equal(&store, &hashes, what);
    }
    assert_eq!(
        names(directory.path()),
        [""; 0],
        "a scratch store left files"
    );
}

#[test]
fn runs_of_all_lengths_and_in_dozens_merge_into_the_same_bytes() {
    let directory = place();
    let memory = 8 << 20;
    for (what, hashes) in shapes(30_000) {
        let mut store = Store::scratch_in(&directory, Options::new(memory)).expect("a store");
        let (mut rest, mut length) = (hashes.as_slice(), 0);
        while !rest.is_empty() {
            length = (length * 5 + 3) % 1_531;
            let (run, others) = rest.split_at(length.min(rest.len()));
            add(&mut store, run);
            rest = others;
        }
        assert!((30..=64).contains(&store.runs()), "{} runs", store.runs());
        check_equal(&store, &hashes, what);
    }
}

#[test]
fn short_sets_and_the_edges_of_blocks_are_no_different() {
    let directory = place();
    let mut random = StdRng::seed_from_u64(5);
    for len in [
        0, 1, 2, 510, 511, 512, 1021, 1022, 1023, 5_110, 12_742, 12_743, 12_744,
    ] {
        let hashes: Vec<u64> = (0..len).map(|_| random.next_u64()).collect();
        let mut store = scratch(&directory);
        add(&mut store, &hashes);
        assert_eq!(store.len(), len as u64);
        assert_eq!(store.is_empty(), len == 0);
        check_equal(&store, &hashes, &format!("{len} hashes"));
    }
}

#[test]
fn items_records_and_hashes_are_the_same_set_with_every_hasher() {
    let directory = place();
    let records: Vec<u8> = (0..33 * 20_000_u64).map(|i| ((i * i) >> 7) as u8).collect();
    check(Nut25, &directory, &records);
    check(Nut23, &directory, &records);
    check(SipHash::new(1, 2), &directory, &records);

    fn check<H: ItemHash>(hasher: H, directory: &TempDir, records: &[u8]) {
        for width in [1, 32, 33, 48] {
            let records = &records[..records.len() / width * width];
            let set = SortedHashes::builder(hasher.clone())
                .hash_records(records, width)
                .expect("whole records");
            let expected = set.encode(Params::default()).expect("a filter");
            let options = Options::with_hasher(hasher.clone(), MIN_MEMORY);
            let mut store = Store::scratch_in(directory, options).expect("a store");
            let mut batch = store.batch();
            let (first, rest) = records.split_at(records.len() / width / 3 * width);
            batch.push_records(first, width).expect("room");
            let items = rest.chunks_exact(width);
            let (some, rest) = (items.clone().take(100), items.skip(100));
            for item in some {
                batch.push_item(item).expect("room");
            }
            batch.push_items(rest).expect("room");
            batch.commit().expect("a commit");
            let bytes = encoded(&store, Params::default()).expect("a filter");
            assert!(bytes == expected.bytes(), "{hasher:?}, {width}");
        }
    }
}

#[test]
fn items_of_changing_lengths_hash_as_they_would_alone() {
    let directory = place();
    let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    let lengths = [33, 33, 0, 0, 48, 1, 33, 20_000, 33, 16_384, 16_385, 2, 2];
    let mut items: Vec<&[u8]> = Vec::new();
    for (at, length) in lengths.into_iter().enumerate() {
        items.push(&bytes[at * 7..at * 7 + length]);
    }
    let expected = SortedHashes::from_items(&items);
    let mut store = scratch(&directory);
    let mut batch = store.batch();
    for (count, item) in items.iter().enumerate() {
        assert_eq!(batch.len(), count as u64);
        batch.push_item(item).expect("room");
    }
    batch.commit().expect("a commit");
    let mut hashes = Vec::new();
    store
        .for_each_piece(|piece| hashes.extend_from_slice(piece))
        .expect("all of it");
    assert_eq!(hashes, expected.as_slice());
}

#[test]
fn incomplete_record_is_refused_and_the_batch_continues() {
    let directory = place();
    let mut store = scratch(&directory);
    let mut batch = store.batch();
    batch.push_records(&[1; 66], 33).expect("two records");
    for (len, width) in [(65, 33), (1, 0), (0, 0)] {
        let error = batch
            .push_records(&vec![1; len], width)
            .expect_err("no records");
        assert_eq!(error.kind(), StoreErrorKind::RecordLength, "{error}");
    }
    batch.push_records(&[2; 33], 33).expect("a record");
    batch.commit().expect("a commit");
    assert_eq!(store.len(), 3);
}

#[test]
fn a_batch_that_is_dropped_adds_nothing_and_leaves_nothing() {
    let (_directory, kept) = place_of_store();
    let mut store = Store::create(&kept, options()).expect("a store");
    let before = names(&kept);
    let mut batch = store.batch();
    batch.push_hashes(&[5; 40_000]).expect("room");
    assert!(run_files(&kept).len() >= 2, "nothing was written yet");
    drop(batch);
    assert_eq!(names(&kept), before);
    assert!(store.is_empty());
}

#[test]
fn a_batch_that_is_cleared_begins_anew_after_an_error_too() {
    let (_directory, kept) = place_of_store();
    let mut store = Store::create(&kept, options()).expect("a store");
    let before = names(&kept);
    let mut batch = store.batch();
    assert!(batch.is_empty());
    batch.push_items([[1; 33], [2; 33]]).expect("room");
    batch.push_hashes(&[5; 40_000]).expect("room");
    assert!(!batch.is_empty());
    let written = run_files(&kept);
    batch.clear();
    assert!(batch.is_empty());
    assert_eq!(names(&kept), before);

    // A directory stands where the next run is to be written.
    let next = written.last().expect("a run").file_name().expect("a name");
    let next = next.to_str().expect("ASCII");
    let number = next.trim_start_matches("run-").trim_end_matches(".hashes");
    let number = u64::from_str_radix(number, 16).expect("hexadecimal");
    let obstacle = kept.join(format!("run-{:016x}.hashes", number + 1));
    fs::create_dir(&obstacle).expect("a directory");
    let error = batch.push_hashes(&[6; 40_000]).expect_err("no run");
    assert_eq!(error.kind(), StoreErrorKind::Io, "{error}");
    assert_eq!(error.path(), Some(obstacle.as_path()));
    batch.clear();
    fs::remove_dir(&obstacle).expect("the directory");
    let hashes = [vec![7; 40_000], vec![3; 2]].concat();
    batch.push_hashes(&hashes).expect("room");
    assert_eq!(batch.len(), 40_002);
    batch.commit().expect("a commit");
    check_equal(&store, &hashes, "what came after the last clear");
}

#[test]
fn a_kept_store_opens_again_and_takes_more() {
    let (_directory, kept) = place_of_store();
    let mut random = StdRng::seed_from_u64(9);
    let mut all = Vec::new();
    for day in 0..12 {
        let mut store = Store::open_or_create(&kept, options()).expect("a store");
        assert_eq!(store.len(), all.len() as u64, "day {day}");
        let hashes: Vec<u64> = (0..5_000 * day).map(|_| random.next_u64()).collect();
        add(&mut store, &hashes);
        all.extend(hashes);
        // At most as many runs as one pass merges, and no other files.
        assert!(store.runs() <= 4, "{} runs", store.runs());
        assert_eq!(run_files(&kept).len(), store.runs());
        store.verify().expect("whole files");
        check_equal(&store, &all, &format!("day {day}"));
    }
    let mut store = Store::open(&kept, options()).expect("a store");
    store.compact().expect("one run");
    assert_eq!(run_files(&kept).len(), 1);
    check_equal(&store, &all, "compacted");
}

#[test]
fn metadata_is_committed_with_its_items() {
    let place = place();
    let mut store = Store::create(place.path(), options()).unwrap();
    assert_eq!(store.metadata(), b"");
    let mut batch = store.batch();
    batch.push_hashes(&[3, 1]).unwrap();
    batch.commit_with_metadata(b"row 2").unwrap();
    assert_eq!((store.len(), store.metadata()), (2, &b"row 2"[..]));

    // Dropped, too long, none: the note stays that of the last commit that gave one.
    let mut batch = store.batch();
    batch.push_hashes(&[4]).unwrap();
    drop(batch);
    let long = vec![0; MAX_METADATA_BYTES + 1];
    let error = store.batch().commit_with_metadata(&long).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::LongMetadata);
    add(&mut store, &[2]);
    store.compact().unwrap();
    drop(store);
    let mut store = Store::open(place.path(), options()).unwrap();
    assert_eq!((store.len(), store.metadata()), (3, &b"row 2"[..]));

    // Nothing new is worth a note as well.
    store.batch().commit_with_metadata(&long[1..]).unwrap();
    drop(store);
    let store = Store::open(place.path(), options()).unwrap();
    assert_eq!((store.len(), store.metadata()), (3, &long[1..]));
    check_equal(&store, &[1, 2, 3], "after a note alone");
}

#[test]
fn store_of_another_hasher_or_label_does_not_open() {
    let (_directory, kept) = place_of_store();
    let sip =
        |key, label: &str| Options::with_hasher(SipHash::new(key, 0), MIN_MEMORY).with_label(label);
    drop(Store::create(&kept, sip(1, "spent")).expect("a store"));
    assert!(Store::open(&kept, sip(1, "spent")).is_ok());
    let kinds = [
        Store::open(&kept, sip(2, "spent")).map(drop),
        Store::open(&kept, sip(1, "issued")).map(drop),
        Store::open(&kept, sip(1, "")).map(drop),
        Store::open(&kept, options().with_label("spent")).map(drop),
    ];
    for opened in kinds {
        let error = opened.expect_err("another set");
        assert_eq!(error.kind(), StoreErrorKind::OtherSet, "{error}");
        assert_eq!(error.path(), Some(kept.as_path()));
    }
}

#[test]
fn a_store_is_open_once_and_created_once() {
    let (_directory, kept) = place_of_store();
    let store = Store::create(&kept, options()).expect("a store");
    let error = Store::open(&kept, options()).expect_err("twice");
    assert_eq!(error.kind(), StoreErrorKind::InUse, "{error}");
    let error = Store::create(&kept, options()).expect_err("twice");
    assert_eq!(error.kind(), StoreErrorKind::InUse, "{error}");
    drop(store);
    let error = Store::create(&kept, options()).expect_err("over another");
    assert_eq!(error.kind(), StoreErrorKind::Exists, "{error}");
    assert!(Store::open(&kept, options()).is_ok());
}

#[test]
fn a_limit_that_is_too_low_is_refused() {
    for memory in [0, 1, MIN_MEMORY - 1] {
        let error = Store::scratch_in(".", Options::<Nut25>::new(memory)).expect_err("too low");
        assert_eq!(error.kind(), StoreErrorKind::Memory);
        assert!(error.to_string().contains(&memory.to_string()), "{error}");
    }
}

#[test]
fn a_limit_that_the_system_cannot_give_is_an_error() {
    let directory = place();
    let mut store =
        Store::scratch_in(&directory, Options::<Nut25>::new(usize::MAX / 2)).expect("a store");
    let mut batch = store.batch();
    let error = batch.push_hashes(&[1]).expect_err("no such memory");
    assert_eq!(error.kind(), StoreErrorKind::Memory, "{error}");
    let error = batch.push_hashes(&[1]).expect_err("a batch that failed");
    assert_eq!(error.kind(), StoreErrorKind::Abandoned);
    let error = batch.commit().expect_err("a batch that failed");
    assert_eq!(error.kind(), StoreErrorKind::Abandoned);
}

/// A kept store of three runs, closed.
fn three_runs(kept: &Path, lengths: [usize; 3]) -> Vec<u64> {
    let mut random = StdRng::seed_from_u64(3);
    let mut store = Store::create(kept, options()).expect("a store");
    let mut all = Vec::new();
    for length in lengths {
        let hashes: Vec<u64> = (0..length).map(|_| random.next_u64()).collect();
        add(&mut store, &hashes);
        all.extend(hashes);
    }
    assert_eq!(run_files(kept).len(), 3);
    all
}

/// Opens the store and reads all of it.
fn read_all(kept: &Path) -> Result<(), StoreError> {
    let store = Store::open(kept, options())?;
    store.verify()?;
    encoded(&store, Params::default()).map(drop)
}

/// The error of a store with damage in this file: of opening it, or of whatever is asked of it then, each alone.
fn refused(kept: &Path, file: &Path, what: &str) -> StoreError {
    let check = |error: &StoreError| {
        let kind = error.kind();
        let refused = [StoreErrorKind::Damaged, StoreErrorKind::OtherSet].contains(&kind);
        assert!(refused, "{what}: {error}");
        assert_eq!(error.path(), Some(file), "{what}: {error}");
    };
    let error = match Store::open(kept, options()) {
        Err(error) => error,
        Ok(store) => {
            check(&encoded(&store, Params::default()).expect_err(what));
            check(&store.for_each_piece(|_| ()).expect_err(what));
            store.verify().expect_err(what)
        }
    };
    check(&error);
    error
}

/// Replaces one byte in place. Some file systems wait for the disk when an emptied file is written again.
fn put(file: &Path, at: usize, byte: u8) {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(file)
        .expect("a file");
    file.seek(SeekFrom::Start(at as u64)).expect("a place");
    file.write_all(&[byte]).expect("a byte");
}

#[test]
fn a_run_cut_at_any_byte_is_refused_by_name() {
    let (_directory, kept) = place_of_store();
    // Three blocks: a first one, one within, and a last one that is not full.
    three_runs(&kept, [600, 1030, 3]);
    let file = &run_files(&kept)[1];
    let whole = fs::read(file).expect("a run");
    assert_eq!(whole.len(), 64 + 1033 * 8);
    let cut = fs::OpenOptions::new().write(true).open(file);
    let cut = cut.expect("the run");
    for len in (0..whole.len()).rev() {
        cut.set_len(len as u64).expect("a cut run");
        let error = refused(&kept, file, &format!("{len} bytes"));
        assert_eq!(error.kind(), StoreErrorKind::Damaged, "{len}: {error}");
    }
    fs::write(file, [&whole[..], &[0]].concat()).expect("a longer run");
    refused(&kept, file, "a byte more");
    fs::write(file, &whole).expect("the run");
    read_all(&kept).expect("the run is whole again");
}

#[test]
fn a_run_with_any_bit_flipped_is_refused_by_name() {
    let (_directory, kept) = place_of_store();
    three_runs(&kept, [20, 1030, 3]);
    let file = &run_files(&kept)[1];
    let whole = fs::read(file).expect("a run");
    let (block, head) = (512 * 8, 64);
    for at in 0..whole.len() {
        // Every bit of the header and of the edges of blocks with their checksums; of what is between, one a byte.
        let within = at.saturating_sub(head) % block;
        let edge = at < head || within < 16 || within >= block - 24 || at >= whole.len() - 24;
        for bit in if edge { 0..8 } else { at % 8..at % 8 + 1 } {
            put(file, at, whole[at] ^ 1 << bit);
            refused(&kept, file, &format!("bit {bit} of byte {at}"));
        }
        put(file, at, whole[at]);
    }
    read_all(&kept).expect("the run is whole again");
}

#[test]
fn damaged_list_is_refused_by_name() {
    let (_directory, kept) = place_of_store();
    let all = three_runs(&kept, [600, 700, 3]);
    let mut store = Store::open(&kept, options()).expect("a store");
    store
        .batch()
        .commit_with_metadata(b"row 7")
        .expect("a note");
    drop(store);
    let (list, files) = (kept.join("nutfilter-store"), run_files(&kept));
    let whole = fs::read(&list).expect("a list");
    let is_refused = |what: &str| {
        let error = Store::open(&kept, options()).expect_err(what);
        assert_eq!(error.kind(), StoreErrorKind::Damaged, "{what}: {error}");
        assert_eq!(error.path(), Some(list.as_path()));
        // Whatever is wrong with the list, the runs are not what a crash left.
        assert_eq!(run_files(&kept), files);
    };
    for (at, &byte) in whole.iter().enumerate() {
        for bit in 0..8 {
            put(&list, at, byte ^ 1 << bit);
            is_refused(&format!("bit {bit} of byte {at}"));
        }
        put(&list, at, byte);
    }
    let more = [b"\n", b" ", b"x"].map(|more| [&whole[..], more].concat());
    let others = [b"\xff\xfe".to_vec(), b"nutfilter store 2\n".to_vec()];
    for list_ in more.into_iter().chain(others) {
        fs::write(&list, list_).expect("another list");
        is_refused("another list");
    }
    fs::write(&list, &whole).expect("the list");
    let cut = fs::OpenOptions::new().write(true).open(&list);
    let cut = cut.expect("the list");
    for len in (0..whole.len()).rev() {
        cut.set_len(len as u64).expect("a cut list");
        is_refused(&format!("{len} bytes"));
    }
    fs::write(&list, &whole).expect("the list");
    let store = Store::open(&kept, options()).expect("a store");
    check_equal(&store, &all, "the list is whole again");
    assert_eq!(store.metadata(), b"row 7");
}

#[test]
fn adding_to_a_damaged_store_does_not_hide_the_damage() {
    let (_directory, kept) = place_of_store();
    three_runs(&kept, [600, 700, 3]);
    let files = run_files(&kept);
    let mut bytes = fs::read(&files[1]).expect("a run");
    bytes[64 + 8 * 100] ^= 1;
    fs::write(&files[1], &bytes).expect("a damaged run");
    let mut store = Store::open(&kept, options()).expect("its headers are whole");
    let error = store.compact().expect_err("a damaged run");
    assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
    // So many runs that they are to be merged: a commit that reads the damaged one fails, others leave it as it is.
    for _ in 0..5 {
        let mut batch = store.batch();
        batch.push_hashes(&[7; 100]).expect("room");
        if let Err(error) = batch.commit() {
            assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
        }
        store.verify().expect_err("a damaged run");
        encoded(&store, Params::default()).expect_err("a damaged run");
    }
    drop(store);
    refused(&kept, &files[1], "opened again");
}

#[test]
fn runs_in_each_others_place_or_of_another_store_are_refused() {
    let directory = place();
    let (kept, other) = (
        directory.path().join("kept"),
        directory.path().join("other"),
    );
    three_runs(&kept, [600, 600, 3]);
    three_runs(&other, [3, 600, 600]);
    let files = run_files(&kept);
    let runs: Vec<Vec<u8>> = files
        .iter()
        .map(|file| fs::read(file).expect("a run"))
        .collect();
    fs::write(&files[0], &runs[1]).expect("a swap");
    fs::write(&files[1], &runs[0]).expect("a swap");
    let error = read_all(&kept).expect_err("swapped runs");
    assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
    fs::write(&files[0], &runs[0]).expect("the run");
    fs::write(&files[1], &runs[1]).expect("the run");
    read_all(&kept).expect("as it was");

    // Blocks of a run in each other's place, and a block of another run in the same place.
    let whole = &runs[0];
    let other = fs::read(&run_files(&other)[1]).expect("a run");
    let (head, body) = whole.split_at(64);
    let (first, rest) = body.split_at(4096);
    let foreign = &other[64..64 + 4096];
    for bytes in [[head, rest, first].concat(), [head, foreign, rest].concat()] {
        assert_eq!(bytes.len(), whole.len());
        fs::write(&files[0], &bytes).expect("other blocks");
        let error = read_all(&kept).expect_err("other blocks");
        assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
    }
}

#[test]
fn leftovers_of_a_crash_go_and_a_missing_run_is_an_error() {
    let (directory, kept) = place_of_store();
    let all = three_runs(&kept, [600, 700, 3]);
    let files = run_files(&kept);
    let bystander = kept.join("notes.txt");
    fs::write(&bystander, "mine").expect("a file");
    fs::write(kept.join("run-00000000000000ff.hashes"), [1; 999]).expect("half a run");
    fs::write(kept.join("nutfilter-store.new"), "nutfilter").expect("half a list");
    let store = Store::open(&kept, options()).expect("a store");
    check_equal(&store, &all, "after a crash");
    assert_eq!(run_files(&kept), files);
    assert_eq!(fs::read(&bystander).expect("a file"), b"mine");
    drop(store);

    let moved = directory.path().join("moved");
    fs::rename(&files[0], &moved).expect("a run elsewhere");
    let error = read_all(&kept).expect_err("a missing run");
    assert_eq!(error.kind(), StoreErrorKind::Io, "{error}");
    assert_eq!(error.path(), Some(files[0].as_path()));
    fs::rename(&moved, &files[0]).expect("the run");
    read_all(&kept).expect("as it was");
}

#[test]
fn directories_that_are_not_there_are_errors_by_name() {
    let directory = place();
    let missing = directory.path().join("no").join("such");
    let mut store = Store::scratch_in(&missing, options()).expect("nothing is written yet");
    let mut batch = store.batch();
    batch.push_hashes(&[1]).expect("memory");
    let error = batch.commit().expect_err("no directory");
    assert_eq!(error.kind(), StoreErrorKind::Io);
    assert!(
        error.path().expect("a path").starts_with(&missing),
        "{error}"
    );
    for error in [
        Store::create(&missing, options()).expect_err("no directory above"),
        Store::open(&missing, options()).expect_err("no store"),
        Store::open(directory.path(), options()).expect_err("no store"),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Io);
        let reason = error.io_error().expect("a reason").kind();
        assert_eq!(reason, io::ErrorKind::NotFound, "{error}");
    }
    assert_eq!(names(directory.path()), [""; 0], "looking made files");
}

/// Takes some bytes and no more, as a disk does that is full.
struct Full {
    room: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.room.min(bytes.len()) {
            0 => Err(io::ErrorKind::StorageFull.into()),
            taken => {
                self.room -= taken;
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn full_output_is_an_error_and_the_store_continues() {
    let directory = place();
    let mut store = scratch(&directory);
    let hashes: Vec<u64> = (0..60_000).map(|i| i << 40).collect();
    add(&mut store, &hashes);
    for room in [0, 1, 65_536, 100_000] {
        let error = store
            .encode_to(Params::default(), Full { room })
            .expect_err("no room");
        assert_eq!(error.kind(), StoreErrorKind::Output, "{error}");
        let reason = error.io_error().expect("a reason").kind();
        assert_eq!(reason, io::ErrorKind::StorageFull);
    }
    check_equal(&store, &hashes, "after errors");
}

#[test]
fn a_commit_that_fails_loses_nothing_that_was_committed() {
    let (_directory, kept) = place_of_store();
    let all = three_runs(&kept, [600, 700, 3]);
    let mut store = Store::open(&kept, options()).expect("a store");
    // A directory stands where the new list is to be written, which fails for everybody, root included.
    let obstacle = kept.join("nutfilter-store.new");
    fs::create_dir(&obstacle).expect("a directory");
    let before = run_files(&kept);
    for hashes in [vec![7; 100], vec![7; 50_000]] {
        let mut batch = store.batch();
        batch.push_hashes(&hashes).expect("room");
        let error = batch.commit().expect_err("no new list");
        assert_eq!(error.kind(), StoreErrorKind::Io, "{error}");
        assert_eq!(error.path(), Some(obstacle.as_path()));
        assert_eq!(run_files(&kept), before);
        check_equal(&store, &all, "after a failed commit");
    }
    store.compact().expect_err("no new list");
    assert_eq!(run_files(&kept), before);
    fs::remove_dir(&obstacle).expect("the directory");
    drop(store);
    let mut store = Store::open(&kept, options()).expect("a store");
    check_equal(&store, &all, "opened again");
    store.compact().expect("one run");
    check_equal(&store, &all, "compacted");
}

#[cfg(unix)]
#[test]
fn run_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let (_directory, kept) = place_of_store();
    three_runs(&kept, [1, 2, 3]);
    for file in run_files(&kept) {
        let mode = fs::metadata(&file).expect("a run").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
