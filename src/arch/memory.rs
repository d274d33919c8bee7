//! Prefetches, huge pages for memory that is written for the first time, and large zeroed arrays for the sort.
//!
//! A page fault for each 4 KiB costs as much as a pass of the sort (build/nut25 in docs/benchmarking.md). Pages
//! from the system are already zero, so no pass is needed to fill them. `Vec` supports neither: its fallible
//! form allocates first and writes the zeros itself.

use alloc::alloc::alloc_zeroed;
use alloc::vec::Vec;
use core::alloc::Layout;

use crate::arch::SimdLevel;

/// The bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Below this number of bytes, huge pages are not worth a request.
const LARGE: usize = 2 * HUGE_PAGE;

/// Asks for the cache line of a value that is read soon. Reads nothing.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch reads nothing.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) value, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = value;
}

/// Allocates `len` zeros; `None` if memory cannot be allocated.
pub(crate) fn zeroed(len: usize) -> Option<Vec<u64>> {
    let layout = Layout::array::<u64>(len).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    let size = if layout.size() < LARGE {
        layout.size()
    } else {
        // Linux aligns an allocation of whole huge pages to a huge page. The C library adds a header, so request
        // a cache line less.
        let line = 64;
        (layout.size() + line).checked_next_multiple_of(HUGE_PAGE)? - line
    };
    let capacity = size / size_of::<u64>();
    let layout = Layout::array::<u64>(capacity).ok()?;
    // SAFETY: its size is not 0, because it is at least that of the layout above.
    let start = unsafe { alloc_zeroed(layout) }.cast::<u64>();
    if start.is_null() {
        return None;
    }
    if size >= LARGE {
        advise_huge_pages(start.cast(), size);
    }
    // SAFETY: `start` was allocated by the global allocator with the layout of `capacity` words, with which a `Vec`
    // frees it. All these words, and so the first `len`, are initialised to zero.
    Some(unsafe { Vec::from_raw_parts(start, len, capacity) })
}

/// An empty vector with room for so many items, in huge pages if it is large. Look-ups in 37 MB take a fifth less time
/// (10 million values, Xeon).
pub(crate) fn with_room<T>(items: usize) -> Vec<T> {
    let bytes = items.saturating_mul(size_of::<T>());
    if bytes < LARGE {
        return Vec::with_capacity(items);
    }
    // As in `zeroed`; an aligned block takes two lines more.
    let slack = 256;
    let whole = bytes.saturating_add(slack).next_multiple_of(HUGE_PAGE) - slack;
    let mut room = Vec::with_capacity(whole / size_of::<T>());
    advise_huge_pages(room.spare_capacity_mut().as_mut_ptr().cast(), whole);
    room
}

/// Requests huge pages for a vector that is about to grow into its free memory, if it is large. Without them, page faults
/// take more time than decoding into it (10 million values: 24 to 30 ns each, and 9 to 19 with them).
///
/// For all of its memory: advice for a part divides the mapping, and the C library then copies the vector to let it grow.
pub(crate) fn prefer_huge_pages<T>(vector: &mut Vec<T>) {
    let size = vector.capacity() * size_of::<T>();
    if size >= LARGE {
        advise_huge_pages(vector.as_mut_ptr().cast(), size);
    }
}

/// The bytes of items that are records of `width` bytes each, such as arrays; `None` if any item has its bytes elsewhere.
#[inline(always)]
pub(crate) fn as_records<I: AsRef<[u8]>>(items: &[I], width: usize) -> Option<&[u8]> {
    let whole = size_of::<I>() == width
        && items.iter().all(|item| {
            let bytes = item.as_ref();
            bytes.len() == width && core::ptr::addr_eq(bytes.as_ptr(), item)
        });
    // SAFETY: the items lie one after another in the slice. Each lends all of its own bytes as `&[u8]` for as long as
    // it is borrowed, so they are initialised and do not change.
    whole.then(|| unsafe { core::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) })
}

/// `each` of every element.
///
/// `array::map` and `Iterator::zip` of the standard library are not `#[inline]`. In a program with several codegen units
/// and without link-time optimisation they are calls: compiled for the baseline, and what they borrow leaves the
/// registers. Inner loops use this function and indexes instead; `just peers` compares the two profiles.
#[inline(always)]
pub(crate) fn map<T: Copy, U: Copy, const N: usize>(
    array: [T; N],
    each: impl Fn(T) -> U,
) -> [U; N] {
    let mut mapped = [each(array[0]); N];
    for at in 1..N {
        mapped[at] = each(array[at]);
    }
    mapped
}

/// Aligns the stack frame of the function that this is inlined into to a cache line.
///
/// For a frame with nothing in it that needs more than 16 bytes, the compiler keeps vectors that do not fit in
/// registers at any multiple of 8. Half of them may then cross a cache line, depending on the depth of the call:
/// a pass in AVX2 lanes took a third longer.
#[inline(always)]
pub(crate) fn align_frame() {
    #[repr(align(64))]
    struct Aligned(u8);
    let mut line = Aligned(0);
    core::hint::black_box(&mut line.0);
}

/// Appends the values, each plus `base`.
pub(crate) fn append(level: SimdLevel, values: &[u64], base: u64, out: &mut Vec<u64>) {
    out.reserve(values.len());
    let fresh = &mut out.spare_capacity_mut()[..values.len()];
    level.compiled(
        #[inline(always)]
        || {
            for (fresh, value) in fresh.iter_mut().zip(values) {
                fresh.write(value.wrapping_add(base));
            }
        },
    );
    // SAFETY: the loop initialised so many more.
    unsafe { out.set_len(out.len() + values.len()) };
}

/// Requests huge pages for `bytes` bytes. The request changes no content, and may fail.
#[cfg(all(feature = "std", target_os = "linux", not(miri)))]
fn advise_huge_pages(start: *mut u8, bytes: usize) {
    use core::ffi::{c_int, c_void};

    const PAGE: usize = 4096;
    /// `MADV_HUGEPAGE` of `<sys/mman.h>`.
    const ADVICE: c_int = 14;
    // The C library that `std` is linked with.
    unsafe extern "C" {
        fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int;
    }

    // Includes the page of the header; without it, the first huge page is lost.
    let header = start.addr() % PAGE;
    // SAFETY: this advice does not change the contents of any page.
    unsafe {
        madvise(
            start.wrapping_byte_sub(header).cast(),
            (header + bytes).next_multiple_of(PAGE),
            ADVICE,
        );
    }
}

#[cfg(not(all(feature = "std", target_os = "linux", not(miri))))]
fn advise_huge_pages(_start: *mut u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_changes_no_content() {
        let mut values: Vec<u64> = (0..100_000).collect();
        values.reserve(2 * LARGE / size_of::<u64>());
        prefer_huge_pages(&mut values);
        values.extend(100_000..600_000);
        assert!(values.into_iter().eq(0..600_000));
    }

    #[test]
    fn rooms_hold_what_they_were_made_for() {
        for items in [0, 1, 1000, LARGE / 8, LARGE / 8 + 1, (3 * LARGE) / 8] {
            let mut room: Vec<u64> = with_room(items);
            let at = room.as_ptr();
            room.extend(0..items as u64);
            assert!(room.as_ptr() == at && room.into_iter().eq(0..items as u64));
        }
    }

    #[test]
    fn zeros_are_zero_and_what_cannot_be_is_none() {
        for len in [0, 1, 511, 512, 513, (4 << 20) / 8 + 1, 3_000_001] {
            let mut zeros = zeroed(len).unwrap();
            assert_eq!(zeros.len(), len);
            assert!(zeros.iter().all(|&word| word == 0), "{len} words");
            zeros.fill(1);
            zeros.push(1);
        }
        assert!(zeroed(usize::MAX).is_none());
        assert!(zeroed(isize::MAX as usize / 8 + 1).is_none());
        assert!(zeroed(isize::MAX as usize / 8).is_none());
    }
}
