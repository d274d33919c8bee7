//! Counts what is allocated while something runs, to the byte, and only by the threads that run it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
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

/// Whose measurement that is; nobody's is 0.
static MEASURED: AtomicU64 = AtomicU64::new(0);

/// The threads of one test.
#[derive(Clone, Copy)]
pub(crate) struct Threads(u64);

thread_local! {
    /// Whose this thread is.
    static OWNER: Cell<u64> = const { Cell::new(0) };
}

/// Memory that reading may take whatever the input, in bytes.
pub(crate) const FIXED: usize = 64 << 10;

/// What `run` gives, and the most bytes that were allocated at a time while it ran: by this thread, and by those
/// that were told to [count with it](Threads::count_this_one). It must not free what was allocated before.
pub(crate) fn peak_of<T>(run: impl FnOnce() -> T) -> (T, usize) {
    // A test that failed while it measured says nothing about the next one.
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let Threads(own) = Threads::of_this_test();
    LIVE.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    MEASURED.store(own, Relaxed);
    let result = run();
    MEASURED.store(0, Relaxed);
    let peak = usize::try_from(PEAK.load(Relaxed)).expect("a peak is not below zero");
    (result, peak)
}

impl Threads {
    /// This one, and those that will be told to count with it.
    pub(crate) fn of_this_test() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        if OWNER.get() == 0 {
            OWNER.set(LAST.fetch_add(1, Relaxed) + 1);
        }
        Self(OWNER.get())
    }

    /// What this thread allocates counts where they are measured: for the threads of a pool. Not where others
    /// are, as the threads of a pool allocate at times of their own.
    pub(crate) fn count_this_one(self) {
        OWNER.set(self.0);
    }
}

fn count(bytes: i64) {
    // A thread that ends may have lost its own variables before its last memory.
    let owner = OWNER.try_with(Cell::get).unwrap_or(0);
    if owner != 0 && owner == MEASURED.load(Relaxed) {
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
fn only_allocations_of_this_thread_count() {
    let (_, peak) = peak_of(|| {
        // Looked at, or the compiler may leave it out.
        drop(black_box(vec![1_u8; 1000]));
        let mut grown = vec![1_u8; 300];
        grown.reserve_exact(400);
        std::thread::spawn(|| drop(black_box(vec![1_u8; 1 << 20]))).join()
    });
    // A thread's own data comes on top, a few hundred bytes.
    assert!((1000..5000).contains(&peak), "{peak}");
    assert_eq!(peak_of(|| 1 + 1), (2, 0));
    assert_eq!(peak_of(|| black_box(vec![0_u64; 100])).1, 800);
    // A thread that was told to count does, but where others measure it does not.
    let own = Threads::of_this_test();
    let helper = move || {
        own.count_this_one();
        drop(black_box(vec![1_u8; 1 << 20]));
    };
    let (_, peak) = peak_of(|| std::thread::spawn(helper).join());
    assert!((1 << 20..(1 << 20) + 5000).contains(&peak), "{peak}");
    let others = std::thread::spawn(move || peak_of(|| std::thread::spawn(helper).join()).1);
    let peak = others.join().expect("no panic");
    assert!(peak < 5000, "{peak}");
}
