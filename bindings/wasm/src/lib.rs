//! The codec as a WebAssembly module without imports, for the npm package `nutfilter`.
//!
//! An operation is a sequence of calls: [`reset`] empties the memory, [`allocate`] makes room for the input,
//! and the other functions work on it. Pointers are valid until the next reset. JavaScript checks parameters
//! and lengths, and it alone calls these functions. For invalid filters it computes the error message itself,
//! so no text is formatted here.

#![no_std]

extern crate alloc;

mod arena;

use alloc::alloc::{Layout, alloc};
use alloc::vec::Vec;
use core::num::NonZeroUsize;
use core::ptr::null_mut;
use core::slice;

use nutfilter::{
    Filter, ItemHash, Nut23, Nut25, Params, RawValues, SipHash, SortedHashes, map_all_to_range,
};

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

/// Writes the hashes of `count` items to `out`. The items lie one after another. If `width` is not 0, each has
/// `width` bytes; otherwise `lengths` has their lengths. `profile`: 0 is NUT-25, 1 is NUT-23, 2 is SipHash with
/// the 16 bytes at `key`.
///
/// # Safety
///
/// The pointers lead to as much memory as described. Only `key` and `lengths` may be null if they are not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hash(
    profile: u32,
    key: *const [u8; 16],
    items: *const u8,
    width: usize,
    lengths: *const u32,
    count: usize,
    out: *mut u64,
) {
    // SAFETY: the caller's promise.
    let out = unsafe { slice::from_raw_parts_mut(out, count) };
    let items = match NonZeroUsize::new(width) {
        // SAFETY: the caller's promise.
        Some(width) => Items::Records(
            unsafe { slice::from_raw_parts(items, width.get() * count) },
            width,
        ),
        None => {
            // SAFETY: the caller's promise.
            let lengths = unsafe { slice::from_raw_parts(lengths, count) };
            let total = lengths.iter().map(|&length| length as usize).sum();
            // SAFETY: the caller's promise.
            Items::Mixed(unsafe { slice::from_raw_parts(items, total) }, lengths)
        }
    };
    match profile {
        0 => items.hash(&Nut25, out),
        1 => items.hash(&Nut23, out),
        // SAFETY: the caller's promise.
        _ => items.hash(&SipHash::from_key(unsafe { *key }), out),
    }
}

enum Items<'a> {
    Records(&'a [u8], NonZeroUsize),
    Mixed(&'a [u8], &'a [u32]),
}

impl Items<'_> {
    fn hash<H: ItemHash>(self, hasher: &H, out: &mut [u64]) {
        match self {
            Self::Records(records, width) => {
                hasher.hash_records(records, width, out);
            }
            Self::Mixed(mut bytes, lengths) => {
                for (out, &length) in out.iter_mut().zip(lengths) {
                    let (item, rest) = bytes.split_at(length as usize);
                    *out = hasher.hash(item);
                    bytes = rest;
                }
            }
        }
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
