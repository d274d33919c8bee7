//! Decodes the bytes of a filter to its values.
//!
//! [`scan`] decodes serially, as the stream of differences suggests. [`lanes`] decodes at many places in
//! parallel with the kernels of the SIMD level. [`sync`] finds these places in a filter without an index. All of them
//! give the same values and the same error as the scan, and the same class of error as the bit-by-bit reference.
//!
//! Whole filters are decoded by one of these functions:
//!
//! | function | gives | checks |
//! |---|---|---|
//! | [`validate`] | where the items end | everything |
//! | [`visit`] | all values, in slices | everything, if it goes to the end |
//! | [`append_values`] | all values, in one vector | everything |
//! | [`seek_table`] | places to begin at | everything |

#[cfg(target_arch = "x86_64")]
pub(crate) mod filter_batch;
mod lane_decoder;
mod resync;
mod scanner;
mod values;
mod visitors;

use alloc::vec::Vec;
use core::ops::ControlFlow;

#[cfg(any(test, target_arch = "aarch64"))]
use crate::arch::Baseline;
use crate::arch::lanes::{GROUP, Scalar};
use crate::arch::memory::append;
use crate::arch::{Kind, SimdLevel};
use crate::error::DecodeError;

use resync::Boundary;
pub(crate) use resync::Coded;
pub(crate) use scanner::{Scanner, in_pairs};
pub(crate) use values::Values;
use visitors::{Check, Each, SampleVisitor, Visit, absolute};
pub(crate) use visitors::{Gap, SampleMemory, SeekTable, longest_span};

/// Why decoding a [`Filter`](crate::Filter) cannot fail.
pub(crate) const VALIDATED: &str = "the bytes of a filter were validated when it was made";

/// The number of values per block of a consumer: 1 KiB, which leaves room in the first-level cache for the
/// consumer's own data.
pub(crate) const BLOCK: usize = 128;

/// The maximum items per lane if nothing is kept of them. In long lanes, the codes that are read to find the
/// start cost little.
const LONG_LANE: u64 = 8192;

/// The maximum items per lane if their values are kept.
const BUFFERED_LANE: u64 = 4096;

/// The maximum number of values in all lanes: a quarter of a megabyte. The input and the output share the second-level
/// cache with them: with twice as many, 10 million items took 40 percent longer (Zen 4, AVX-512).
const BUFFERED_VALUES: u64 = 32 << 10;

/// From this many items on, four lanes with a buffer are faster than one lane without.
const SCALAR_VISIT: u32 = 1 << 16;

/// Fewer items than this do not fill the lanes of the widest kernel. Half as many lanes are then faster, by
/// half at 5,000 items.
#[cfg(target_arch = "x86_64")]
const ENOUGH_FOR_ALL_LANES: u32 = 5_800;

/// The number of lanes of the kernel that `with_kernel!` chooses.
fn lanes_of(coded: &Coded<'_>) -> u64 {
    match coded.level.kind() {
        #[cfg(target_arch = "aarch64")]
        Kind::Baseline(Baseline::Neon(_)) if coded.suits_neon() => 12,
        Kind::Baseline(_) => 4,
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2(_) => 16,
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512(_) if coded.n < ENOUGH_FOR_ALL_LANES => 16,
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512(_) => 32,
    }
}

/// Evaluates a call with the kernel of the level.
macro_rules! with_kernel {
    ($coded:expr, $simd:ident => $call:expr) => {
        match $coded.level.kind() {
            #[cfg(target_arch = "aarch64")]
            Kind::Baseline(Baseline::Neon($simd)) if $coded.suits_neon() => $call,
            Kind::Baseline(_) => {
                let $simd = Scalar;
                $call
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2($simd) => $call,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) if $coded.n < ENOUGH_FOR_ALL_LANES => {
                let $simd = avx512.avx2();
                $call
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512($simd) => $call,
        }
    };
}

/// Calls the decoder with the kernel of the level.
macro_rules! drive {
    ($coded:expr, $place:expr, $lane_items:expr, $sink:expr) => {
        with_kernel!($coded, simd => resync::drive($coded, simd, $place, $lane_items, $sink))
    };
}

/// Validates the bytes of a filter of `n` items completely. Returns the bit position where the items end.
///
/// # Errors
///
/// Too short, out of range, trailing data, or padding: exactly the error of [`Scanner::finish`].
pub(crate) fn validate(coded: Coded<'_>) -> Result<u64, DecodeError> {
    // This visitor never breaks.
    match drive!(coded, Boundary::START, LONG_LANE, &mut Check)? {
        ControlFlow::Continue(end) => Ok(end),
        ControlFlow::Break(()) => coded.scanner(Boundary::START).finish(),
    }
}

/// Calls `each` with slices of the values, in order and without omissions. No slice is empty, and all fit in
/// the first-level cache. Returns `Break` early if `each` does. Otherwise returns the bit position where the
/// items end, after all checks of [`validate`].
///
/// # Errors
///
/// As [`validate`]. `each` may have received values before the error; those are correct.
pub(crate) fn visit(
    coded: Coded<'_>,
    each: impl FnMut(&[u64]) -> ControlFlow<()>,
) -> Result<ControlFlow<(), u64>, DecodeError> {
    let mut each = absolute(coded.level, each);
    visit_from(&mut Vec::new(), Boundary::START, coded, &mut each)
}

/// Appends all values to `values`, and validates the filter. `memory` is kept for the next filter; its content is
/// meaningless.
///
/// # Errors
///
/// As [`validate`]. Some values may have been appended.
pub(crate) fn append_values(
    memory: &mut Vec<u64>,
    values: &mut Vec<u64>,
    coded: Coded<'_>,
) -> Result<(), DecodeError> {
    values.reserve(coded.n as usize);
    let mut each = |slice: &[u64], base| {
        append(coded.level, slice, base, values);
        ControlFlow::Continue(())
    };
    visit_from(memory, Boundary::START, coded, &mut each).map(drop)
}

/// The number of values that an iterator decodes ahead in lanes: an eighth of a megabyte.
pub(crate) const AHEAD: u32 = 16 << 10;

/// Appends the next values of `scanner`, about [`AHEAD`] of them, to `values`, and moves it behind them. `memory` is kept
/// for the next call. Returns whether lanes are worth the next call: they decoded these values, and as many are left.
///
/// # Errors
///
/// Too short or out of range. Some values may have been appended.
pub(crate) fn append_ahead<'a>(
    memory: &mut Vec<u64>,
    values: &mut Vec<u64>,
    scanner: &mut Scanner<'a>,
    coded: Coded<'a>,
) -> Result<bool, DecodeError> {
    values.reserve(AHEAD as usize);
    let mut each = |slice: &[u64], base| {
        append(coded.level, slice, base, values);
        ControlFlow::Continue(())
    };
    let place = Boundary::of(scanner);
    let stop = place.position + coded.bits_of(AHEAD.into());
    let lane_items = u64::from(AHEAD) / lanes_of(&coded);
    let mut visit = Visit::new(memory, &mut each);
    let driver = with_kernel!(coded, simd => {
        resync::drive_to(coded, simd, place, stop, lane_items, &mut visit)
    })?;
    *scanner = coded.scanner(driver.place);
    Ok(driver.place != place && driver.kept_step() && scanner.remaining() >= AHEAD)
}

/// [`visit`] from the position of `scanner`, which must scan this filter. `each` adds the base that it gets to the values.
///
/// # Errors
///
/// As [`visit`].
pub(crate) fn visit_rest(
    scanner: &Scanner<'_>,
    coded: Coded<'_>,
    mut each: impl FnMut(&[u64], u64) -> ControlFlow<()>,
) -> Result<ControlFlow<(), u64>, DecodeError> {
    visit_from(&mut Vec::new(), Boundary::of(scanner), coded, &mut each)
}

fn visit_from(
    memory: &mut Vec<u64>,
    place: Boundary,
    coded: Coded<'_>,
    each: &mut Each<'_>,
) -> Result<ControlFlow<(), u64>, DecodeError> {
    // A small filter gets a buffer of about its own size, regardless of the declared number of items. The usual
    // filter of a Bitcoin block then takes one chunk of lanes: each chunk reads the codes before its lanes twice.
    let values = (coded.bytes.len() as u64 * 3 / 2 + (48 << 10)) / 8;
    let values = values.min(BUFFERED_VALUES);
    let lane_items = BUFFERED_LANE.min(values / lanes_of(&coded));
    let mut visit = Visit::new(memory, each);
    if coded.level == SimdLevel::SCALAR && coded.n < SCALAR_VISIT {
        return resync::drive_serially(coded, place, &mut visit);
    }
    drive!(coded, place, lane_items, &mut visit)
}

/// Validates a filter and returns places in it, starting with the first item's. Between two places lie at most
/// `step` items (at least 1): usually `step`, sometimes fewer. An empty filter has no places. The distance of
/// two places is at most `longest` bits, unless a single code is longer: that code is a [`Gap`].
///
/// # Errors
///
/// As [`validate`].
///
/// # Cost
///
/// One pass, plus another one over the spans that were too long; 16 bytes per place and 24 per gap.
pub(crate) fn seek_table(
    coded: Coded<'_>,
    step: u32,
    longest: u64,
) -> Result<SeekTable, DecodeError> {
    let mut memory = SampleMemory::default();
    seek_table_using(&mut memory, coded, step, longest)?;
    Ok(memory.table)
}

/// [`seek_table`] in the memory of earlier tables.
///
/// # Errors
///
/// As [`validate`]. The table is then meaningless.
pub(crate) fn seek_table_using(
    memory: &mut SampleMemory,
    coded: Coded<'_>,
    step: u32,
    longest: u64,
) -> Result<(), DecodeError> {
    let mut sample = SampleVisitor::reusing(core::mem::take(memory), coded.n, step.max(1) as usize);
    let driven = if (step as usize) < GROUP {
        // Lanes sample only at whole groups.
        resync::drive_serially(coded, Boundary::START, &mut sample)
    } else {
        drive!(coded, Boundary::START, sample.lane_items(), &mut sample)
    };
    // This visitor never breaks.
    if let ControlFlow::Continue(end) = driven? {
        *memory = sample.into_memory(end);
        memory.table.divide(&coded, longest)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
