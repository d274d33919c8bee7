//! Failed allocations: each gives a typed error with the size, or the same answer by another path. No earlier state is
//! lost.
//!
//! This file has only one test, because its allocator fails on all threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use nutfilter::internals::SimdLevel;
use nutfilter::{Filter, Nut25, Params, SortedHashes, SortedHashesBuilder};

/// The system's allocator, which refuses what [`refusing`] says.
struct Refusing;

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Requests of at least so many bytes are refused.
static LEAST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// How many of those there were.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The first one that is refused, and the first one after it that is not.
static FROM: AtomicUsize = AtomicUsize::new(0);
static TO: AtomicUsize = AtomicUsize::new(0);

/// What `run` gives while these of its requests for at least `least` bytes are refused.
fn refusing<T>(which: Range<usize>, least: usize, run: impl FnOnce() -> T) -> T {
    ASKED.store(0, SeqCst);
    FROM.store(which.start, SeqCst);
    TO.store(which.end, SeqCst);
    LEAST.store(least, SeqCst);
    let result = black_box(run());
    LEAST.store(usize::MAX, SeqCst);
    let asked = ASKED.load(SeqCst);
    assert!(asked >= which.end, "{asked} requests for {least} bytes, and not {}", which.end);
    result
}

fn refused(bytes: usize) -> bool {
    if bytes < LEAST.load(SeqCst) {
        return false;
    }
    let asked = ASKED.fetch_add(1, SeqCst);
    (FROM.load(SeqCst)..TO.load(SeqCst)).contains(&asked)
}

// SAFETY: the system's allocator does all of it, and a null pointer is how an allocator refuses.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is the system's allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is the system's allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refused(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is the system's allocator's.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the system's allocator's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn allocation_failure_preserves_the_set() {
    for n in [20_000, 1_200_000] {
        for level in SimdLevel::available() {
            sorting(level, n);
            encoding(level, n);
            merging(level, n);
        }
    }
}

/// The hashes of so many items, in no order.
fn hashes(from: u64, n: usize) -> Vec<u64> {
    (from..from + n as u64).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

fn builder(level: SimdLevel) -> SortedHashesBuilder<Nut25> {
    SortedHashes::builder(Nut25).with_level(level)
}

fn sorting(level: SimdLevel, n: usize) {
    let hashes = hashes(0, n);
    let mut sorted = hashes.clone();
    sorted.sort_unstable();
    let again = hashes.clone();
    // What is dealt to needs more than there is; without it the hashes are sorted where they are.
    let set = refusing(0..1, n * 8 / 5, || builder(level).sort(again));
    assert!(set.as_slice() == sorted, "{level}, {n} hashes");
    // Items are dealt as they come, and then sorted where they are or into their place: whichever of these has no room.
    let records: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    let expected = SortedHashes::from_records(&records, 8).expect("whole records");
    for least in [n * 8 / 5, n * 8] {
        let set = refusing(0..1, least, || builder(level).hash_records(&records, 8));
        assert!(set.as_ref() == Ok(&expected), "{level}, {n} records, {least}");
        let set = refusing(0..1, least, || builder(level).hash_items(records.chunks_exact(8)));
        assert!(set == expected, "{level}, {n} items, {least}");
    }
}

fn encoding(level: SimdLevel, n: usize) {
    let set = builder(level).sort(hashes(0, n));
    let before = set.clone();
    let bytes = set.encode(Params::CASHU).expect("a filter").bytes().len();
    let error = refusing(0..1, bytes / 2, || set.encode(Params::CASHU)).expect_err("no memory");
    says(&error, bytes);
    assert!(set == before);
    let values: Vec<u64> = set.encode(Params::CASHU).expect("a filter").values().collect();
    let made = refusing(0..1, bytes / 2, || Filter::from_values(&values, Params::CASHU));
    says(&made.expect_err("no memory"), bytes);
}

/// The number of bytes in the message is at least what is needed, and not twice as much.
fn says(error: &nutfilter::BuildError, bytes: usize) {
    let text = error.to_string();
    let number =
        text.split(|letter: char| !letter.is_ascii_digit()).find(|digits| !digits.is_empty());
    let number: usize = number.expect("a number").parse().expect("digits");
    assert!((bytes..bytes * 2).contains(&number), "{text}, of {bytes}");
}

fn merging(level: SimdLevel, n: usize) {
    for new in [n / 100, n] {
        let more = builder(level).sort(hashes(n as u64, new));
        let before = builder(level).sort(hashes(0, n));
        // A copy has no room to spare.
        let mut kept = before.clone();
        let all = hashes(0, n + new);
        let all = builder(level).sort(all).encode(Params::CASHU).expect("a filter");
        // Without room for the filter; then without room for the hashes, however little more is asked for.
        let error = refusing(0..1, n, || kept.merge_and_encode(&more, Params::CASHU));
        says(&error.expect_err("no memory"), all.bytes().len());
        assert!(kept == before, "{level}, {n} and {new}");
        let times = if new < n { 2 } else { 1 };
        let error = refusing(0..times, n * 8, || kept.merge_and_encode(&more, Params::CASHU));
        let text = error.expect_err("no memory").to_string();
        assert!(text.contains(&(n + new).to_string()), "{text}");
        assert!(kept == before, "{level}, {n} and {new}");
        let error = refusing(0..times, n * 8, || kept.merge(&more));
        assert!(error.is_err());
        assert!(kept == before, "{level}, {n} and {new}");
        // With memory it is as if nothing had been.
        let mut kept = before;
        let filter = kept.merge_and_encode(&more, Params::CASHU).expect("a filter");
        assert!(filter.bytes() == all.bytes(), "{level}, {n} and {new}");
    }
}
