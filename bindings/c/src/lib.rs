//! C functions to match scripts against Bitcoin's basic block filters (BIP158). `include/nutfilter.h` is made from this
//! file.
//!
//! Only handles are allocated here and freed by the caller. Bytes are copied or borrowed for one call. Hashes and headers have
//! 32 bytes in internal order, the reverse of the order in which they are printed.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::slice;

use nutfilter::SipHash;
use nutfilter::bip158::{self, HeaderChain, ScanFault, Scratch};

/// What a function returns. Values below 0 are errors.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No script of the list is in the block, or nothing was changed.
    NutfilterNo = 0,
    /// The block may have scripts of the list: download it. Or something was changed.
    NutfilterYes = 1,
    /// A pointer is NULL although its length is not 0.
    NutfilterNull = -1,
    /// The filter is invalid. If its header commits to it, every peer has it.
    NutfilterInvalidFilter = -2,
    /// The filter header commits to another filter: ask another peer.
    NutfilterWrongFilter = -3,
    /// The chain has no filter header for this height.
    NutfilterNoHeader = -4,
    /// The hashes do not continue the chain: they overlap it, leave a gap, or belong to another branch.
    NutfilterNotConnected = -5,
}

use Status::*;

/// Scripts to look for, and memory for matching. Use a list on one thread at a time.
pub struct Watchlist {
    list: bip158::Watchlist,
    scratch: Scratch,
    error: String,
}

/// The filter headers of consecutive blocks. Several threads may read it at once.
pub struct Chain(HeaderChain);

/// A block's filter.
#[repr(C)]
pub struct Filter {
    /// The block hash.
    pub block_hash: [u8; 32],
    /// The serialised filter: its count, then the coded set.
    pub bytes: *const u8,
    /// The number of bytes.
    pub len: usize,
}

/// Makes an empty list. Free it with `nutfilter_watchlist_free`.
#[unsafe(no_mangle)]
pub extern "C" fn nutfilter_watchlist_new() -> *mut Watchlist {
    Box::into_raw(Box::new(Watchlist {
        list: bip158::Watchlist::new(),
        scratch: Scratch::new(),
        error: String::new(),
    }))
}

/// Frees a list; NULL is ignored.
///
/// # Safety
///
/// `list` is from `nutfilter_watchlist_new` and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_watchlist_free(list: *mut Watchlist) {
    if !list.is_null() {
        // SAFETY: the caller gives back what Box::into_raw returned.
        drop(unsafe { Box::from_raw(list) });
    }
}

/// Adds a script. Returns `NUTFILTER_NO` if it was there already.
///
/// # Safety
///
/// `list` is NULL or from `nutfilter_watchlist_new`; `script` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_watchlist_insert(
    list: *mut Watchlist,
    script: *const u8,
    len: usize,
) -> Status {
    // SAFETY: the caller's promise.
    match unsafe { (list.as_mut(), bytes(script, len)) } {
        (Some(list), Some(script)) => yes_if(list.list.insert(script)),
        _ => NutfilterNull,
    }
}

/// Removes a script. Returns `NUTFILTER_NO` if it was not there.
///
/// # Safety
///
/// As `nutfilter_watchlist_insert`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_watchlist_remove(
    list: *mut Watchlist,
    script: *const u8,
    len: usize,
) -> Status {
    // SAFETY: the caller's promise.
    match unsafe { (list.as_mut(), bytes(script, len)) } {
        (Some(list), Some(script)) => yes_if(list.list.remove(script)),
        _ => NutfilterNull,
    }
}

/// Whether a filter may have a script of the list. Does not verify the filter against its header.
///
/// # Safety
///
/// `list` is NULL or from `nutfilter_watchlist_new`; `filter` is NULL or points to a filter of `filter->len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_match(list: *mut Watchlist, filter: *const Filter) -> Status {
    // SAFETY: the caller's promise.
    unsafe { nutfilter_matches(list, filter, None, std::ptr::null_mut()) }
}

/// As `nutfilter_match`, and calls `found` with `context` and each script of the list that may be in the block. The
/// script is valid during the call, which must not use the list.
///
/// # Safety
///
/// As `nutfilter_match`; `found` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_matches(
    list: *mut Watchlist,
    filter: *const Filter,
    found: Option<unsafe extern "C" fn(context: *mut (), script: *const u8, len: usize)>,
    context: *mut (),
) -> Status {
    // SAFETY: the caller's promise.
    let (Some(list), Some(filter)) = (unsafe { list.as_mut() }, unsafe { filter.as_ref() }) else {
        return NutfilterNull;
    };
    // SAFETY: the caller's promise.
    let Some(serialized) = (unsafe { bytes(filter.bytes, filter.len) }) else {
        return NutfilterNull;
    };
    let block = SipHash::from(filter.block_hash);
    let Watchlist {
        list,
        scratch,
        error,
    } = list;
    let matches = match found {
        None => list.match_any(scratch, block, serialized),
        Some(found) => list.matches(scratch, block, serialized).map(|scripts| {
            for script in &scripts {
                // SAFETY: the caller's promise.
                unsafe { found(context, script.as_ptr(), script.len()) };
            }
            !scripts.is_empty()
        }),
    };
    match matches {
        Ok(any) => yes_if(any),
        Err(reason) => {
            *error = reason.to_string();
            NutfilterInvalidFilter
        }
    }
}

/// Verifies `count` filters of consecutive blocks, the first at `height`, against the filter headers of `chain`, and matches
/// those that are right. Writes a status for each to `results`. Several filters are hashed side by side: give 32 or more.
///
/// Returns the first error among the results, or else whether any is `NUTFILTER_YES`.
///
/// # Safety
///
/// `list` and `chain` are NULL or from the functions that make them; `filters` and `results` have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_scan(
    list: *mut Watchlist,
    chain: *const Chain,
    height: u32,
    filters: *const Filter,
    count: usize,
    results: *mut Status,
) -> Status {
    if filters.is_null() || results.is_null() {
        return if count == 0 {
            NutfilterNo
        } else {
            NutfilterNull
        };
    }
    // SAFETY: the caller's promise; neither is NULL.
    let (filters, results) = unsafe {
        (
            slice::from_raw_parts(filters, count),
            // C need not have written anything there.
            slice::from_raw_parts_mut(results.cast::<MaybeUninit<Status>>(), count),
        )
    };
    // SAFETY: the caller's promise.
    let (Some(list), Some(chain)) = (unsafe { list.as_mut() }, unsafe { chain.as_ref() }) else {
        return NutfilterNull;
    };
    let mut given = Vec::with_capacity(count);
    for filter in filters {
        // SAFETY: the caller's promise.
        let Some(serialized) = (unsafe { bytes(filter.bytes, filter.len) }) else {
            return NutfilterNull;
        };
        given.push((filter.block_hash, serialized));
    }
    // There are no headers above height 2^32 - 1.
    let most = usize::try_from(u64::from(u32::MAX - height) + 1).unwrap_or(usize::MAX);
    let (inside, outside) = results.split_at_mut(most.min(count));
    inside.fill(MaybeUninit::new(NutfilterNo));
    outside.fill(MaybeUninit::new(NutfilterNoHeader));
    let mut all = NutfilterNo;
    let given = (height..=u32::MAX).zip(given);
    let given: Vec<_> = given
        .map(|(height, (block, serialized))| (height, block, serialized))
        .collect();
    for found in list.list.scan_verified(&mut list.scratch, &chain.0, &given) {
        let (at, status) = match found {
            Ok(found) => (found.block.0, NutfilterYes),
            Err(error) => {
                let status = match &error.fault {
                    ScanFault::WrongFilter { .. } => NutfilterWrongFilter,
                    ScanFault::NoHeader { .. } => NutfilterNoHeader,
                    _ => NutfilterInvalidFilter,
                };
                if all as i32 >= 0 {
                    list.error = match &error.fault {
                        ScanFault::Invalid(reason) => {
                            format!("filter at height {}: {reason}", error.block.0)
                        }
                        fault => fault.to_string(),
                    };
                }
                (error.block.0, status)
            }
        };
        inside[(at - height) as usize] = MaybeUninit::new(status);
        if all as i32 >= 0 {
            all = status;
        }
    }
    if !outside.is_empty() && all as i32 >= 0 {
        list.error = format!("no filter header for height {}", 1_u64 << 32);
        all = NutfilterNoHeader;
    }
    all
}

/// Copies what was wrong in the last call with this list that returned `NUTFILTER_INVALID_FILTER`, `NUTFILTER_WRONG_FILTER`
/// or `NUTFILTER_NO_HEADER`, with its numbers, to `text`: at most `size` bytes with the zero at the end.
///
/// Returns the length of the whole text without the zero, as `snprintf` does; 200 bytes are enough.
///
/// # Safety
///
/// `list` is NULL or from `nutfilter_watchlist_new`; `text` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_last_error(
    list: *const Watchlist,
    text: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller's promise.
    let error = unsafe { list.as_ref() }.map_or("", |list| &list.error);
    if !text.is_null() && size > 0 {
        let len = error.len().min(size - 1);
        // SAFETY: the caller's promise; `len` and the zero are at most `size` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(error.as_ptr(), text.cast(), len);
            text.add(len).write(0);
        }
    }
    error.len()
}

/// The version of this library, as text: compare it with `NUTFILTER_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn nutfilter_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// What a status means. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn nutfilter_status_text(status: i32) -> *const c_char {
    let text = match status {
        0 => c"no",
        1 => c"yes",
        -1 => c"a pointer is NULL although its length is not 0",
        -2 => c"invalid filter",
        -3 => c"the filter header commits to another filter",
        -4 => c"no filter header for this height",
        -5 => c"the hashes do not continue the chain",
        _ => c"unknown status",
    };
    text.as_ptr()
}

/// Makes a chain that begins with the filter at height `first`. `previous` has 32 bytes: the filter header of the block before,
/// or zeros before the genesis block. Returns NULL if `previous` is NULL. Free it with `nutfilter_chain_free`.
///
/// # Safety
///
/// `previous` is NULL or has 32 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_new(first: u32, previous: *const u8) -> *mut Chain {
    // SAFETY: the caller's promise.
    unsafe { previous.cast::<[u8; 32]>().as_ref() }.map_or(std::ptr::null_mut(), |previous| {
        Box::into_raw(Box::new(Chain(HeaderChain::new(first, *previous))))
    })
}

/// Frees a chain; NULL is ignored.
///
/// # Safety
///
/// `chain` is from `nutfilter_chain_new` and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_free(chain: *mut Chain) {
    if !chain.is_null() {
        // SAFETY: the caller gives back what Box::into_raw returned.
        drop(unsafe { Box::from_raw(chain) });
    }
}

/// Adds the headers of `count` filters with these hashes. `hashes` and `previous`, the previous header, are those of a
/// message `cfheaders`.
///
/// Returns `NUTFILTER_NOT_CONNECTED` and adds nothing if `previous` is not the last header of the chain.
///
/// # Safety
///
/// `chain` is NULL or from `nutfilter_chain_new`; `previous` is NULL or has 32 bytes; `hashes` has `count` times 32 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_extend(
    chain: *mut Chain,
    previous: *const u8,
    hashes: *const u8,
    count: usize,
) -> Status {
    let previous = previous.cast::<[u8; 32]>();
    // SAFETY: the caller's promise.
    let (Some(chain), Some(previous)) = (unsafe { chain.as_mut() }, unsafe { previous.as_ref() })
    else {
        return NutfilterNull;
    };
    let hashes = match (hashes.is_null(), count) {
        (true, 0) => &[],
        (true, _) => return NutfilterNull,
        // SAFETY: the caller's promise; not NULL.
        _ => unsafe { slice::from_raw_parts(hashes.cast::<[u8; 32]>(), count) },
    };
    match chain.0.extend_from(*previous, hashes.iter().copied()) {
        Ok(()) => yes_if(count > 0),
        Err(_) => NutfilterNotConnected,
    }
}

/// Forgets the filters from `height` on: a reorganisation replaced their blocks. Returns `NUTFILTER_NO_HEADER` and changes
/// nothing if the chain begins after `height`.
///
/// # Safety
///
/// `chain` is NULL or from `nutfilter_chain_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_rewind(chain: *mut Chain, height: u32) -> Status {
    // SAFETY: the caller's promise.
    let Some(chain) = (unsafe { chain.as_mut() }) else {
        return NutfilterNull;
    };
    let before = chain.0.len();
    match chain.0.rewind(height) {
        Ok(()) => yes_if(chain.0.len() < before),
        Err(_) => NutfilterNoHeader,
    }
}

/// Writes the last header to `tip`, 32 bytes. Compare it with a checkpoint, or with what several peers say.
///
/// # Safety
///
/// `chain` is NULL or from `nutfilter_chain_new`; `tip` is NULL or has 32 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_tip(chain: *const Chain, tip: *mut u8) -> Status {
    let tip = tip.cast::<[u8; 32]>();
    // SAFETY: the caller's promise.
    let (Some(chain), Some(tip)) = (unsafe { chain.as_ref() }, unsafe { tip.as_mut() }) else {
        return NutfilterNull;
    };
    *tip = chain.0.tip().to_byte_array();
    NutfilterYes
}

fn yes_if(condition: bool) -> Status {
    if condition { NutfilterYes } else { NutfilterNo }
}

/// The bytes at a pointer; None if it is NULL and `len` is not 0.
///
/// # Safety
///
/// `pointer` is NULL or has `len` bytes, which do not change while the slice is used.
unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> Option<&'a [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller's promise; not NULL.
    (!pointer.is_null()).then(|| unsafe { slice::from_raw_parts(pointer, len) })
}
