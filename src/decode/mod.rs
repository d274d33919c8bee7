//! From the bytes of a filter to its values.
//!
//! [`scan`] reads them one after another, which is what a stream of differences asks for. [`lanes`] reads at
//! many places at once, by the kernels of the level; [`sync`] finds the places in a filter without an index, and
//! `threads` does the same on all threads. Every way of decoding gives the same values and the same error as
//! the scan, and the same class of error as the bit-by-bit reference.
//!
//! Whole filters go through one of these:
//!
//! | function | gives | checks |
//! |---|---|---|
//! | [`validate`] | where the items end | everything |
//! | [`visit`] | all values, in slices | everything, if it goes to the end |
//! | [`seek_table`] | places to begin at | everything |

mod lanes;
mod scan;
mod sinks;
mod spans;
mod sync;
#[cfg(feature = "parallel")]
mod threads;

use alloc::vec::Vec;
use core::ops::ControlFlow;

use crate::arch::lanes::GROUP;
use crate::arch::{Kind, Level};
use crate::error::DecodeError;
use crate::params::Params;

pub(crate) use scan::{Scanner, in_pairs};
use sinks::{Check, Sample, Visit};
pub(crate) use spans::{Gap, longest_span, most_items};
use sync::{Place, Stream};

/// How many values a consumer takes at a time: 1 KiB, which stays in the nearest cache beside whatever
/// the consumer itself works on.
pub(crate) const BLOCK: usize = 128;

/// Lanes of at most so many items, where nothing is kept of them. Long ones make little of the codes that
/// are read to find the start.
const LONG_LANE: u64 = 8192;

/// Lanes of at most so many items, where their values are kept: the values of 32 lanes fill half a
/// megabyte.
const BUFFERED_LANE: u64 = 2048;

/// From so many items on four lanes and their buffer take less time than one lane that needs no buffer.
const PORTABLE_VISIT: u32 = 1 << 16;

/// How many lanes the widest kernel has.
const MOST_LANES: u64 = 32;

/// Fewer items than so do not fill the widest kernel's lanes, and half as many lanes still win: at 5,000 items
/// by half.
#[cfg(target_arch = "x86_64")]
const ENOUGH_FOR_ALL_LANES: u32 = 5_800;

/// What all these functions are given: the kernel is chosen here, once.
macro_rules! drive {
    ($stream:expr, $place:expr, $lane_items:expr, $sink:expr) => {
        match $stream.level.kind() {
            Kind::Portable => sync::drive($stream, lanes::Plain, $place, $lane_items, $sink),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(avx2) => sync::drive($stream, avx2, $place, $lane_items, $sink),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) if $stream.n < ENOUGH_FOR_ALL_LANES => {
                sync::drive($stream, avx512.avx2(), $place, $lane_items, $sink)
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) => sync::drive($stream, avx512, $place, $lane_items, $sink),
        }
    };
}

/// The same from the first item on, on all threads where that is worth it.
macro_rules! drive_all {
    ($stream:expr, $lane_items:expr, $sink:expr, $new:expr) => {{
        #[cfg(feature = "parallel")]
        let driven = if $stream.n >= threads::MIN_ITEMS {
            match $stream.level.kind() {
                Kind::Portable => threads::drive($stream, lanes::Plain, $lane_items, $sink, $new),
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2(avx2) => threads::drive($stream, avx2, $lane_items, $sink, $new),
                #[cfg(target_arch = "x86_64")]
                Kind::Avx512(avx512) => threads::drive($stream, avx512, $lane_items, $sink, $new),
            }
        } else {
            drive!($stream, Place::START, $lane_items, $sink)
        };
        #[cfg(not(feature = "parallel"))]
        let driven = drive!($stream, Place::START, $lane_items, $sink);
        driven
    }};
}

/// Checks the bytes of a filter of `n` items from the first bit to the last; gives the bit position where
/// the items end.
///
/// # Errors
///
/// Too short, out of range, trailing data, padding: exactly the error of [`Scanner::finish`].
///
/// # Cost
///
/// Nothing is allocated, but what threads need.
pub(crate) fn validate(
    level: Level,
    bytes: &[u8],
    n: u32,
    params: Params,
) -> Result<u64, DecodeError> {
    let stream = Stream {
        level,
        bytes,
        n,
        params,
    };
    // Nothing stops this one.
    match drive_all!(stream, LONG_LANE, &mut Check, |_| Check)? {
        ControlFlow::Continue(end) => Ok(end),
        ControlFlow::Break(()) => stream.scanner(Place::START).finish(),
    }
}

/// Calls `each` with slices of the values, in order and without a gap; no slice is empty, and all fit the
/// nearest cache. Ends early with `Break` where `each` does; otherwise with the bit position where the
/// items end, and then all is checked that [`validate`] checks.
///
/// # Errors
///
/// As [`validate`]. `each` may have seen values before that, right ones as far as they go.
pub(crate) fn visit(
    level: Level,
    bytes: &[u8],
    n: u32,
    params: Params,
    each: impl FnMut(&[u64]) -> ControlFlow<()>,
) -> Result<ControlFlow<(), u64>, DecodeError> {
    visit_rest(&Scanner::new(level, bytes, n, params), bytes, params, each)
}

/// [`visit`] from where `scanner`, which scans these bytes with these parameters, is.
///
/// # Errors
///
/// As [`visit`].
pub(crate) fn visit_rest(
    scanner: &Scanner<'_>,
    bytes: &[u8],
    params: Params,
    each: impl FnMut(&[u64]) -> ControlFlow<()>,
) -> Result<ControlFlow<(), u64>, DecodeError> {
    let place = Place::of(scanner);
    let stream = Stream {
        level: scanner.level(),
        bytes,
        n: scanner.n(),
        params,
    };
    // A small filter gets a buffer about as large as itself, whatever it says of its items.
    let values = (bytes.len() as u64 + (48 << 10)) / 8;
    let lane_items = BUFFERED_LANE.min(values / MOST_LANES);
    let mut visit = Visit::new(stream.level, each);
    if stream.level == Level::PORTABLE && stream.n < PORTABLE_VISIT {
        return sync::drive_serially(stream, place, &mut visit);
    }
    drive!(stream, place, lane_items, &mut visit)
}

/// Places in a filter where decoding can begin; made by [`seek_table`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeekTable {
    /// The bit positions of the first code after each place, never decreasing. The first is 0.
    pub(crate) positions: Vec<u64>,
    /// The value before each place, 0 before the first item; never decreasing.
    pub(crate) bases: Vec<u64>,
    /// The bit position where the items end.
    pub(crate) end: u64,
    /// The codes that are longer than what may lie between two places, in order. Usual filters have none.
    pub(crate) gaps: Vec<Gap>,
}

/// Validates a filter and gives places in it, the first item's first, between which lie at most `step`
/// items (at least 1): `step` as a rule, fewer now and then. An empty filter has none. Nor do more than `longest`
/// bits lie between them, but where a single code has more: that one is a [`Gap`].
///
/// # Errors
///
/// As [`validate`].
///
/// # Cost
///
/// One pass, and another over what was too long for the first; 16 bytes a place, 24 a gap.
pub(crate) fn seek_table(
    level: Level,
    bytes: &[u8],
    n: u32,
    params: Params,
    step: u32,
    longest: u64,
) -> Result<SeekTable, DecodeError> {
    let stream = Stream {
        level,
        bytes,
        n,
        params,
    };
    let mut sample = Sample::new(n, step.max(1) as usize);
    let driven = if (step as usize) < GROUP {
        // Lanes sample at whole groups.
        sync::drive_serially(stream, Place::START, &mut sample)
    } else {
        drive_all!(stream, sample.lane_items(), &mut sample, |items| {
            Sample::new(items, step.max(1) as usize)
        })
    };
    match driven? {
        ControlFlow::Continue(end) => spans::divide(sample.into_table(end), &stream, longest),
        // Nothing stops this one.
        ControlFlow::Break(()) => Ok(SeekTable::default()),
    }
}

#[cfg(test)]
mod tests;
