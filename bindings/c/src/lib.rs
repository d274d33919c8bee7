//! C functions to match scripts against Bitcoin's basic block filters (BIP158), and to scan a chain for a wallet. `include/nutfilter.h` is made from this
//! file.
//!
//! Only handles are allocated here and freed by the caller. Bytes are copied or borrowed for one call. Hashes and headers have
//! 32 bytes in internal order, the reverse of the order in which they are printed.
//!
//! What callers promise: each handle is NULL or from a function that makes it, and not freed. A pointer is NULL or points to as many
//! elements as are said next to it, or to one. Functions may be called with their contexts.

// The promise is the same for all.
#![allow(clippy::missing_safety_doc)]

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::{ptr, slice};

use nutfilter::SipHash;
use nutfilter::bip158::{
    self, HeaderChain, HeaderError, SavedError, ScanFault, ScanPlan, ScanStep, Scratch,
};

/// What a function returns. Values below 0 are errors.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No script of the list is in the block, or nothing was changed.
    NutfilterNo = 0,
    /// The block may have scripts of the list: download it. Or something was changed.
    NutfilterYes = 1,
    /// The wallet takes this block next.
    NutfilterApply = 2,
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
    /// The hashes lead to another header than the trusted one: ask another peer.
    NutfilterOtherTip = -6,
}

use Status::*;

/// Scripts to look for, and memory for matching. Use a list on one thread at a time.
pub struct Watchlist {
    list: bip158::Watchlist,
    scratch: Scratch,
}

/// The filter headers of consecutive blocks. Several threads may read it at once.
pub struct Chain(HeaderChain);

/// Which scripts of a wallet remain to be tested at which heights. Use a plan on one thread at a time.
pub struct Plan {
    plan: ScanPlan,
    scratch: Scratch,
}

/// A block's filter.
#[repr(C)]
pub struct Filter {
    /// The block hash: that of your own chain of block headers at this height.
    pub block_hash: [u8; 32],
    /// The height of the block.
    pub height: u32,
    /// The serialised filter: its count, then the coded set.
    pub bytes: *const u8,
    /// The number of bytes.
    pub len: usize,
}

/// A filter of an array.
#[derive(Clone, Copy)]
struct Numbered {
    at: usize,
    hash: [u8; 32],
}

impl From<Numbered> for SipHash {
    fn from(block: Numbered) -> Self {
        block.hash.into()
    }
}

/// A filter as it is scanned.
type Given<'a> = (u32, Numbered, &'a [u8]);

thread_local! {
    static ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

fn set_error(text: String) {
    ERROR.set(text);
}

/// Makes an empty list. Free it with `nutfilter_watchlist_free`.
#[unsafe(no_mangle)]
pub extern "C" fn nutfilter_watchlist_new() -> *mut Watchlist {
    Box::into_raw(Box::new(Watchlist { list: bip158::Watchlist::new(), scratch: Scratch::new() }))
}

/// Frees a list; NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_watchlist_free(list: *mut Watchlist) {
    // SAFETY: the caller's promise.
    unsafe { free(list) }
}

/// Adds a script. Returns `NUTFILTER_NO` if it was there already.
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_match(list: *mut Watchlist, filter: *const Filter) -> Status {
    // SAFETY: the caller's promise.
    unsafe { nutfilter_matches(list, filter, None, ptr::null_mut()) }
}

/// As `nutfilter_match`, and calls `found` with `context` and each script of the list that may be in the block. The
/// script is valid during the call, which must not use the list.
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
    let Watchlist { list, scratch } = list;
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
            set_error(reason.to_string());
            NutfilterInvalidFilter
        }
    }
}

/// Verifies `count` filters against the filter headers of `chain`, and matches those that are right. Writes a status for each to
/// `results`. Several filters are hashed side by side: give 32 or more.
///
/// Returns the first error among the results, or else whether any is `NUTFILTER_YES`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_scan(
    list: *mut Watchlist,
    chain: *const Chain,
    filters: *const Filter,
    count: usize,
    results: *mut Status,
) -> Status {
    // SAFETY: the caller's promise.
    let (Some(list), Some(chain)) = (unsafe { list.as_mut() }, unsafe { chain.as_ref() }) else {
        return NutfilterNull;
    };
    // SAFETY: the caller's promise.
    let Some((given, results)) = (unsafe { filters_of(filters, count, results) }) else {
        return NutfilterNull;
    };
    let found = list.list.scan_verified(&mut list.scratch, &chain.0, &given);
    let found = found.into_iter().map(|one| match one {
        Ok(one) => (one.block.1, None),
        Err(error) => (error.block.1, Some((error.block.0, error.fault))),
    });
    statuses(results, found)
}

/// The filters at a pointer, and what will be known about them.
///
/// # Safety
///
/// As `nutfilter_scan`.
unsafe fn filters_of<'a>(
    filters: *const Filter,
    count: usize,
    results: *mut Status,
) -> Option<(Vec<Given<'a>>, &'a mut [MaybeUninit<Status>])> {
    if count == 0 {
        return Some((Vec::new(), &mut []));
    }
    if filters.is_null() || results.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; not NULL.
    let filters = unsafe { slice::from_raw_parts(filters, count) };
    let given = filters.iter().enumerate().map(|(at, filter)| {
        let hash = filter.block_hash;
        // SAFETY: the caller's promise.
        let serialized = unsafe { bytes(filter.bytes, filter.len) }?;
        Some((filter.height, Numbered { at, hash }, serialized))
    });
    let given = given.collect::<Option<_>>()?;
    // SAFETY: the caller's promise; not NULL. C need not have written anything there.
    let results = unsafe { slice::from_raw_parts_mut(results.cast::<MaybeUninit<_>>(), count) };
    results.fill(MaybeUninit::new(NutfilterNo));
    Some((given, results))
}

/// Writes the statuses of the filters that match or cannot be used. Returns that of all.
fn statuses(
    results: &mut [MaybeUninit<Status>],
    found: impl Iterator<Item = (Numbered, Option<(u32, ScanFault)>)>,
) -> Status {
    let mut all = NutfilterNo;
    for (block, fault) in found {
        let status = match &fault {
            None => NutfilterYes,
            Some((_, ScanFault::WrongFilter { .. })) => NutfilterWrongFilter,
            Some((_, ScanFault::NoHeader { .. })) => NutfilterNoHeader,
            Some(_) => NutfilterInvalidFilter,
        };
        results[block.at] = MaybeUninit::new(status);
        if all as i32 >= 0 {
            all = status;
            match fault {
                Some((height, ScanFault::Invalid(reason))) => {
                    set_error(format!("filter at height {height}: {reason}"));
                }
                Some((_, fault)) => set_error(fault.to_string()),
                None => {}
            }
        }
    }
    all
}

/// Makes a plan without scripts, for filters from height `start` on. Free it with `nutfilter_plan_free`.
#[unsafe(no_mangle)]
pub extern "C" fn nutfilter_plan_new(start: u32) -> *mut Plan {
    plan_of(ScanPlan::new(start))
}

fn plan_of(plan: ScanPlan) -> *mut Plan {
    let scratch = Scratch::new();
    Box::into_raw(Box::new(Plan { plan, scratch }))
}

/// Frees a plan; NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_plan_free(plan: *mut Plan) {
    // SAFETY: the caller's promise.
    unsafe { free(plan) }
}

/// Adds a script that was not used below height `from`: the birthday of its wallet, or `UINT32_MAX` for a new one. At any time.
///
/// Returns `NUTFILTER_NO` if it was in the plan already from this height on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_plan_insert(
    plan: *mut Plan,
    script: *const u8,
    len: usize,
    from: u32,
) -> Status {
    // SAFETY: the caller's promise.
    match unsafe { (plan.as_mut(), bytes(script, len)) } {
        (Some(plan), Some(script)) => yes_if(plan.plan.insert_from(script, from)),
        _ => NutfilterNull,
    }
}

/// What to do next; `end` is the height after the last filter that the client has.
///
/// Returns `NUTFILTER_YES` and writes heights, at least one and at most `size`, and their number to `count`: give these filters, or
/// some of them, to `nutfilter_plan_scan`. Returns `NUTFILTER_APPLY` and writes one height: let the wallet take this block, then
/// call `nutfilter_plan_applied`. Returns `NUTFILTER_NO` if nothing is left to do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_plan_next(
    plan: *mut Plan,
    end: u32,
    heights: *mut u32,
    size: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: the caller's promise.
    let (Some(plan), Some(count)) = (unsafe { plan.as_mut() }, unsafe { count.as_mut() }) else {
        return NutfilterNull;
    };
    if heights.is_null() || size == 0 {
        return NutfilterNull;
    }
    let (status, found): (_, Vec<u32>) = match plan.plan.next(end) {
        Some(ScanStep::Test { heights, .. }) => {
            (NutfilterYes, heights.into_iter().flatten().take(size).collect())
        }
        Some(ScanStep::Apply(height)) => (NutfilterApply, vec![height]),
        None => (NutfilterNo, Vec::new()),
    };
    *count = found.len();
    // SAFETY: the caller's promise; not NULL, and `found` has at most `size` elements.
    unsafe { ptr::copy_nonoverlapping(found.as_ptr(), heights, found.len()) };
    status
}

/// Verifies filters that `nutfilter_plan_next` asked for, looks for the scripts that remain, and records what was tested. Writes a
/// status for each filter to `results`, and calls `found` with `context` and each script that may be in a block: reveal the
/// addresses after it. The script is valid during the call, which must not use the plan; insert scripts afterwards.
///
/// A height that is missing, or whose filter is wrong, is asked for again. Returns as `nutfilter_scan`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_plan_scan(
    plan: *mut Plan,
    chain: *const Chain,
    filters: *const Filter,
    count: usize,
    results: *mut Status,
    found: Option<
        unsafe extern "C" fn(context: *mut (), height: u32, script: *const u8, len: usize),
    >,
    context: *mut (),
) -> Status {
    // SAFETY: the caller's promise.
    let (Some(plan), Some(chain)) = (unsafe { plan.as_mut() }, unsafe { chain.as_ref() }) else {
        return NutfilterNull;
    };
    // SAFETY: the caller's promise.
    let Some((given, results)) = (unsafe { filters_of(filters, count, results) }) else {
        return NutfilterNull;
    };
    let scanned = plan.plan.scan(&mut plan.scratch, &chain.0, &given);
    if let Some(found) = found {
        for one in scanned.iter().flatten() {
            for script in &one.scripts {
                // SAFETY: the caller's promise.
                unsafe { found(context, one.height, script.as_ptr(), script.len()) };
            }
        }
    }
    let scanned = scanned.into_iter().map(|one| match one {
        Ok(one) => (one.block, None),
        Err(error) => (error.block.1, Some((error.block.0, error.fault))),
    });
    statuses(results, scanned)
}

/// Records that the wallet has taken the block at `height`. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_plan_applied(plan: *mut Plan, height: u32) {
    // SAFETY: the caller's promise.
    if let Some(plan) = unsafe { plan.as_mut() } {
        plan.plan.applied(height);
    }
}

/// Forgets the filters from `height` on: a reorganisation replaced their blocks. The wallet forgets them too. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_plan_rewind(plan: *mut Plan, height: u32) {
    // SAFETY: the caller's promise.
    if let Some(plan) = unsafe { plan.as_mut() } {
        plan.plan.rewind(height);
    }
}

/// Calls `write` once with `context` and the plan as bytes, with a checksum, valid during the call. Keep them after each step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_plan_to_bytes(
    plan: *const Plan,
    write: Option<unsafe extern "C" fn(context: *mut (), bytes: *const u8, len: usize)>,
    context: *mut (),
) -> Status {
    // SAFETY: the caller's promise.
    let (Some(plan), Some(write)) = (unsafe { plan.as_ref() }, write) else {
        return NutfilterNull;
    };
    let bytes = plan.plan.to_bytes();
    // SAFETY: the caller's promise.
    unsafe { write(context, bytes.as_ptr(), bytes.len()) };
    NutfilterYes
}

/// Reads what `nutfilter_plan_to_bytes` wrote. Returns NULL if it is damaged or of another version: then begin a new plan. Free it
/// with `nutfilter_plan_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_plan_from_bytes(bytes: *const u8, len: usize) -> *mut Plan {
    // SAFETY: the caller's promise.
    let Some(bytes) = (unsafe { self::bytes(bytes, len) }) else {
        return ptr::null_mut();
    };
    match ScanPlan::from_bytes(bytes) {
        Ok(plan) => plan_of(plan),
        Err(error) => {
            set_error(error.to_string());
            ptr::null_mut()
        }
    }
}

/// Copies what was wrong in the last call on this thread that returned `NUTFILTER_INVALID_FILTER`, `NUTFILTER_WRONG_FILTER`,
/// `NUTFILTER_NO_HEADER`, or NULL for bytes, with its numbers, to `text`: at most `size` bytes with the zero at the end.
///
/// Returns the length of the whole text without the zero, as `snprintf` does; 200 bytes are enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_last_error(text: *mut c_char, size: usize) -> usize {
    ERROR.with_borrow(|error| {
        if !text.is_null() && size > 0 {
            let len = error.len().min(size - 1);
            // SAFETY: the caller's promise; `len` and the zero are at most `size` bytes.
            unsafe {
                ptr::copy_nonoverlapping(error.as_ptr(), text.cast(), len);
                text.add(len).write(0);
            }
        }
        error.len()
    })
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
        2 => c"the wallet takes this block next",
        -1 => c"a pointer is NULL although its length is not 0",
        -2 => c"invalid filter",
        -3 => c"the filter header commits to another filter",
        -4 => c"no filter header for this height",
        -5 => c"the hashes do not continue the chain",
        -6 => c"the hashes do not lead to the trusted header",
        _ => c"unknown status",
    };
    text.as_ptr()
}

/// Makes a chain that begins with the filter at height `first`. `previous` has 32 bytes: the filter header of the block before,
/// or zeros before the genesis block. Returns NULL if `previous` is NULL. Free it with `nutfilter_chain_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_new(first: u32, previous: *const u8) -> *mut Chain {
    // SAFETY: the caller's promise.
    unsafe { previous.cast::<[u8; 32]>().as_ref() }.map_or(ptr::null_mut(), |previous| {
        Box::into_raw(Box::new(Chain(HeaderChain::new(first, *previous))))
    })
}

/// Frees a chain; NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_free(chain: *mut Chain) {
    // SAFETY: the caller's promise.
    unsafe { free(chain) }
}

/// Calls `write` once with `context` and the headers from height `from` on as bytes, with a checksum, valid during the call. Append
/// them to a file that holds those before; after a reorganisation, begin at the first height that was replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_to_bytes(
    chain: *const Chain,
    from: u32,
    write: Option<unsafe extern "C" fn(context: *mut (), bytes: *const u8, len: usize)>,
    context: *mut (),
) -> Status {
    // SAFETY: the caller's promise.
    let (Some(chain), Some(write)) = (unsafe { chain.as_ref() }, write) else {
        return NutfilterNull;
    };
    let bytes = chain.0.to_bytes(from);
    // SAFETY: the caller's promise.
    unsafe { write(context, bytes.as_ptr(), bytes.len()) };
    NutfilterYes
}

/// Reads what `nutfilter_chain_to_bytes` wrote, once or several times. Returns NULL if it is damaged or of another version. If only
/// the last part is cut off, as after a crash, `whole` is then the number of bytes before it, otherwise 0: read these. Free the chain
/// with `nutfilter_chain_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_from_bytes(
    bytes: *const u8,
    len: usize,
    whole: *mut usize,
) -> *mut Chain {
    // SAFETY: the caller's promise.
    let (Some(bytes), whole) = (unsafe { (self::bytes(bytes, len), whole.as_mut()) }) else {
        return ptr::null_mut();
    };
    let (chain, kept) = match HeaderChain::from_bytes(bytes) {
        Ok(chain) => (Box::into_raw(Box::new(Chain(chain))), len),
        Err(error) => {
            set_error(error.to_string());
            let kept = match error {
                SavedError::Torn { whole } => whole,
                _ => 0,
            };
            (ptr::null_mut(), kept)
        }
    };
    if let Some(whole) = whole {
        *whole = kept;
    }
    chain
}

/// Adds the headers of `count` filters with these hashes. `hashes` and `previous`, the previous header, are those of a
/// message `cfheaders`. `trusted` is the last header then: of a checkpoint, or what several peers agree on; or NULL.
///
/// Returns `NUTFILTER_NOT_CONNECTED` if `previous` is not the last header of the chain, and `NUTFILTER_OTHER_TIP` if the hashes do
/// not lead to the trusted header. Then nothing is added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nutfilter_chain_extend(
    chain: *mut Chain,
    previous: *const u8,
    hashes: *const u8,
    count: usize,
    trusted: *const u8,
) -> Status {
    // SAFETY: the caller's promise.
    let (chain, [previous, trusted]) = unsafe {
        let digests = [previous, trusted].map(|digest| digest.cast::<[u8; 32]>().as_ref());
        (chain.as_mut(), digests)
    };
    let (Some(Chain(chain)), Some(previous)) = (chain, previous) else {
        return NutfilterNull;
    };
    let hashes = match (hashes.is_null(), count) {
        (true, 0) => &[],
        (true, _) => return NutfilterNull,
        // SAFETY: the caller's promise; not NULL.
        _ => unsafe { slice::from_raw_parts(hashes.cast::<[u8; 32]>(), count) },
    };
    let hashes = hashes.iter().copied();
    let extended = match trusted {
        Some(trusted) => chain.extend_to(*previous, hashes, *trusted),
        None => chain.extend_from(*previous, hashes),
    };
    match extended {
        Ok(()) => yes_if(count > 0),
        Err(HeaderError::OtherTip { .. }) => NutfilterOtherTip,
        Err(_) => NutfilterNotConnected,
    }
}

/// Forgets the filters from `height` on: a reorganisation replaced their blocks. Returns `NUTFILTER_NO_HEADER` and changes
/// nothing if the chain begins after `height`.
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

/// # Safety
///
/// `handle` is NULL or what `Box::into_raw` returned, and not used any more.
unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(handle) });
    }
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
