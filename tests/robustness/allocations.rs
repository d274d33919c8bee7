//! Counts what is allocated while something runs, to the byte, and only by the thread that runs it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

/// The system's allocator, watched.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Bytes of this thread since [`peak_of`] began, and the most there were at a time.
    static LIVE: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

/// Memory that reading may take whatever the input, in bytes.
pub(crate) const FIXED: usize = 64 << 10;

/// The result of `run`, and the most bytes that this thread had allocated at a time while it ran. It must not free what
/// was allocated before.
pub(crate) fn peak_of<T>(run: impl FnOnce() -> T) -> (T, usize) {
    LIVE.set((0, 0));
    let result = run();
    let (_, peak) = LIVE.get();
    (result, usize::try_from(peak).expect("a peak is not below zero"))
}

fn count(bytes: i64) {
    // A thread that ends may have lost its own variables before its last memory.
    let _ = LIVE.try_with(|live| {
        let (now, peak) = live.get();
        let now = now + bytes;
        live.set((now, peak.max(now)));
    });
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
}
