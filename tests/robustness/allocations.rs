//! Counts what is allocated while something runs, to the byte, and only by the threads that run it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The system's allocator, watched.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of the threads that count, since [`peak_of`] began, and the most there were at a time.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// One measurement at a time: tests run side by side.
static MEASURING: Mutex<()> = Mutex::new(());

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

/// Memory that reading may take whatever the input, in bytes.
pub(crate) const FIXED: usize = 64 << 10;

/// What `run` gives, and the most bytes that were allocated at a time while it ran: by this thread, and by those
/// that [`this_thread_counts`] was called on. It must not free what was allocated before.
pub(crate) fn peak_of<T>(run: impl FnOnce() -> T) -> (T, usize) {
    // A test that failed while it measured says nothing about the next one.
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    LIVE.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    COUNTS.set(true);
    let result = run();
    COUNTS.set(false);
    let peak = usize::try_from(PEAK.load(Relaxed)).expect("a peak is not below zero");
    (result, peak)
}

/// What this thread allocates counts from here on: for the threads of a pool.
pub(crate) fn this_thread_counts() {
    COUNTS.set(true);
}

fn count(bytes: i64) {
    // A thread that ends may have lost its own variables before its last memory.
    if COUNTS.try_with(Cell::get).unwrap_or(false) {
        let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
        PEAK.fetch_max(live, Relaxed);
    }
}

// SAFETY: the system's allocator does all of it; what is counted beside it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is the system's allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is the system's allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // As the system does it where it matters: large blocks grow in place, or their pages move.
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is the system's allocator's.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise is the system's allocator's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn what_is_allocated_counts_to_the_byte_and_what_others_allocate_does_not() {
    let (_, peak) = peak_of(|| {
        drop(vec![1_u8; 1000]);
        let mut grown = vec![1_u8; 300];
        grown.reserve_exact(400);
        std::thread::spawn(|| drop(vec![1_u8; 1 << 20])).join()
    });
    // A thread's own data comes on top, a few hundred bytes.
    assert!((1000..5000).contains(&peak), "{peak}");
    assert_eq!(peak_of(|| 1 + 1), (2, 0));
    assert_eq!(peak_of(|| vec![0_u64; 100]).1, 800);
}
