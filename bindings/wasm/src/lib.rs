//! The codec as a WebAssembly module without imports, for the npm package `nutfilter`.
//!
//! An operation is a sequence of calls: [`reset`] empties the memory, [`allocate`] makes room for the input,
//! and the other functions work on it. Pointers are valid until the next reset. JavaScript checks parameters
//! and lengths, and it alone calls these functions. It hashes the items, since copying them costs as much as hashing.
//! For invalid filters it computes the error message itself, so no text is formatted here.

#![no_std]

extern crate alloc;

mod arena;

use alloc::alloc::{Layout, alloc};
use alloc::vec::Vec;
use core::ptr::null_mut;
use core::slice;

use nutfilter::{Filter, Params, RawValues, SortedHashes, map_all_to_range};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// Frees everything.
#[unsafe(no_mangle)]
pub extern "C" fn reset() {
    arena::ARENA.reset();
}

/// Returns `bytes` bytes of memory, aligned for 64-bit numbers, or null.
#[unsafe(no_mangle)]
pub extern "C" fn allocate(bytes: usize) -> *mut u8 {
    match Layout::from_size_align(bytes.max(1), 8) {
        // SAFETY: the size is not zero.
        Ok(layout) => unsafe { alloc(layout) },
        Err(_) => null_mut(),
    }
}

/// Sorts `count` hashes and encodes them. Writes the address and the length of the filter to `out`. Returns
/// whether memory sufficed. The hashes are consumed.
///
/// # Safety
///
/// `hashes` was returned by [`allocate`] for exactly this many hashes, and at least one. `out` has room for two
/// numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn encode(
    hashes: *mut u64,
    count: usize,
    p: u32,
    m: u32,
    out: *mut [usize; 2],
) -> bool {
    // SAFETY: the allocator is the same, as are alignment and size.
    let hashes = unsafe { Vec::from_raw_parts(hashes, count, count) };
    let Ok(params) = Params::new(p, u64::from(m)) else {
        return false;
    };
    let set = SortedHashes::from_hashes(hashes);
    let Ok(filter) = set.encode(params) else {
        return false;
    };
    let bytes = filter.into_bytes().leak();
    // SAFETY: the caller's promise.
    unsafe { *out = [bytes.as_ptr().addr(), bytes.len()] };
    true
}

/// Returns the address of `count` bytes, 1 for each hash that is in the filter and 0 for each other, or null if
/// the filter is invalid. The hashes are overwritten.
///
/// # Safety
///
/// There are `len` bytes and `count` hashes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn matches(
    bytes: *const u8,
    len: usize,
    n: u32,
    p: u32,
    m: u32,
    hashes: *mut u64,
    count: usize,
) -> *const bool {
    // SAFETY: the caller's promise.
    let (bytes, hashes) = unsafe {
        (
            slice::from_raw_parts(bytes, len),
            slice::from_raw_parts_mut(hashes, count),
        )
    };
    let Ok(params) = Params::new(p, u64::from(m)) else {
        return core::ptr::null();
    };
    map_all_to_range(hashes, params.range(n));
    Filter::check_length_with(RawValues, bytes, u64::from(n), params)
        .and_then(|filter| filter.matches_values(hashes))
        .map_or(core::ptr::null(), |found| found.leak().as_ptr())
}
