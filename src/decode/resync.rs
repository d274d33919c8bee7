//! Decodes a filter in lanes without an index: each lane finds the code boundaries itself.
//!
//! A Rice stream that is entered at a wrong bit synchronises. After some codes, the wrong and the correct
//! reading meet at a boundary, and agree from there on. A chunk of the stream is therefore cut into lanes of
//! equal length in bits. Each lane starts to read some codes before its cut, as if a code began there, and
//! takes the first boundary at or after its cut as its start. It then decodes to the first boundary at or after
//! the next cut. The first lane starts at a known boundary.
//!
//! Correctness: a lane that starts at a true boundary decodes true items and ends at a true boundary, where the
//! next lane has to start. [`Driver::accept`] accepts a lane only if it started where the true items before it
//! end. Any other lane is decoded again, serially, from that place. By induction every item is true, for any
//! bytes; chance only affects the time.
//!
//! Time: a stream of equal differences never synchronises. A chunk with many lanes that were decoded again has
//! failed. After [`MAX_FAILED`] failed chunks, the rest is decoded serially.
//!
//! Errors: lanes report no errors. Anything invalid ends the lanes at the last true place. The serial scan
//! continues from there and finds the same fault as without lanes.

use core::ops::ControlFlow;

use super::lane_decoder::{Decoder, Odd, Take};
use super::{BLOCK, Scanner};
use crate::arch::SimdLevel;
use crate::arch::lanes::{GROUP, Lanes, Simd, WINDOW};
use crate::error::DecodeError;
use crate::params::Params;

/// After this many failed chunks, no more are tried.
const MAX_FAILED: u32 = 2;

/// The bits that are left to the serial scan at the end. Lanes could take the padding in the last byte for
/// items, and kernels read ahead.
const TAIL: u64 = 10_240;

/// With this limit the sums of one lane stay below 2^64. This many bits hold runs of 2^28 ones in total, which
/// are 2^60 as quotients, and remainders below 2^60. One code that extends beyond them is below 2^45.
const MAX_LANE_BITS: u64 = 1 << 28;

/// Shorter lanes are not worth it.
const MIN_LANE_BITS: u64 = 256;

/// The bits that go around the sets of a first-level cache once: 64 lines of 64 bytes.
const SETS_BITS: u64 = 64 * 64 * 8;

/// A quarter of a cache line.
pub(super) const CROWDED_BITS: u64 = 64 * 8 / 4;

/// Whether more than four of the lanes that begin so far apart read the same set of the first-level cache.
///
/// A set holds 8 lines on many CPUs, those of the consumer included. If lanes are a page apart, all of them read one
/// set, and most reads miss. 100,000 items took a quarter longer to decode, and 125,000 two thirds (Zen 4). Then lanes
/// of a quarter of a line less are as fast as any.
pub(super) fn crowded(lanes: usize, lane_bits: u64) -> bool {
    // Every `apart`-th lane, so more than four of them, is less than a quarter of a line from the same set.
    let mut apart = 1..lanes as u64 / 4;
    apart.any(|apart| (apart * lane_bits + CROWDED_BITS) % SETS_BITS < 2 * CROWDED_BITS)
}

/// A boundary between two items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boundary {
    /// The bit position of the next item.
    pub(super) position: u64,
    /// The value of the previous item, or 0 before the first.
    pub(super) value: u64,
    /// The number of previous items.
    pub(super) item: u32,
}

impl Boundary {
    pub(super) const START: Self = Self { position: 0, value: 0, item: 0 };

    /// The position of a scanner that counts items.
    pub(super) fn of(scanner: &Scanner<'_>) -> Self {
        Self {
            position: scanner.position(),
            value: scanner.value(),
            item: scanner.n() - scanner.remaining(),
        }
    }
}

/// Receives the items. Items from lanes come by [`Take`], and `lane` then tells which of them are valid. Items
/// from the serial scan come by `place` and `values`.
pub(super) trait ValueSink<const N: usize>: Take<N> {
    /// Lanes of at most `room` items will be decoded next.
    fn begin(&mut self, _room: usize) {}

    /// The next items in order are those of a lane. Their values are relative to `base`.
    fn lane(&mut self, _lane: usize, _count: usize, _base: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// The position of the serial scan. Returns how many items it may read before the next call, at least 1.
    fn place(&mut self, _position: u64, _value: u64) -> usize {
        BLOCK
    }

    /// The next items in order, from the serial scan.
    fn serial_values(&mut self, _values: &[u64]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// The bytes of a filter, validated or not, and its declared numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coded<'a> {
    pub(crate) level: SimdLevel,
    pub(crate) bytes: &'a [u8],
    pub(crate) n: u32,
    pub(crate) params: Params,
}

impl<'a> Coded<'a> {
    fn bits(&self) -> u64 {
        self.bytes.len() as u64 * 8
    }

    /// The average length of `items` items in bits, rounded up.
    pub(super) fn bits_of(&self, items: u64) -> u64 {
        let bits = u128::from(self.bits()) * u128::from(items);
        // A number that does not fit in 64 bits becomes the maximum.
        u64::try_from(bits.div_ceil(u128::from(self.n.max(1)))).unwrap_or(u64::MAX)
    }

    /// The average number of items in `bits` bits.
    fn items_in(&self, bits: u64) -> u64 {
        let items = u128::from(bits) * u128::from(self.n) / u128::from(self.bits().max(1));
        u64::try_from(items).unwrap_or(u64::MAX)
    }

    /// Whether usually two codes fit in a window.
    ///
    /// Runs are geometric if hashes are uniform. If the window has room for runs of five times the mean and one,
    /// at most one pair in 25 does not fit. With the M that suits P, this holds up to P = 24.
    fn suits_lanes(&self) -> bool {
        let fixed = u64::from(self.params.p()) + 1;
        // 5 * (bits / n - fixed) + 1 <= WINDOW - 2 * fixed
        let most = u128::from(u64::from(WINDOW) - 1 + 3 * fixed) * u128::from(self.n);
        5 * u128::from(self.bits()) <= most
    }

    /// Whether runs are so short that a group of twelve lanes seldom has one that does not fit: two of NEON's runs fit
    /// up to 31, and all lanes wait for an odd one. Four scalar lanes are faster where the mean run is more than an
    /// eighth of the room (instructions at P = 2, 4, 23 and 24).
    #[cfg(target_arch = "aarch64")]
    pub(super) fn suits_neon(&self) -> bool {
        let fixed = u64::from(self.params.p()) + 1;
        let room = u64::from(WINDOW).saturating_sub(2 * fixed).min(31);
        // 8 * (bits / n - fixed) <= room
        8 * u128::from(self.bits()) <= u128::from(8 * fixed + room) * u128::from(self.n)
    }

    /// The lane decoder of these bytes, if their codes are short enough for one.
    pub(super) fn decoder<const N: usize, S: Simd<N>>(&self, simd: S) -> Option<Decoder<'a, S>> {
        self.suits_lanes().then(|| Decoder {
            simd,
            bytes: self.bytes,
            p: self.params.p(),
            group_bits: self.bits_of(GROUP as u64).max(1),
        })
    }

    /// The approximate latest end of the last lane.
    pub(super) fn lanes_end(&self) -> u64 {
        self.bits().saturating_sub(TAIL)
    }

    pub(super) fn scanner(&self, place: Boundary) -> Scanner<'a> {
        Scanner::at_item(
            self.level,
            self.bytes,
            (self.n, self.params),
            (place.position, place.value, place.item),
        )
    }

    /// The number of codes that a lane reads before its cut.
    ///
    /// A straight line above three measured points (with the M that suits P). Fewer than one lane in 500 is out
    /// of step after 142 codes at P = 19, 48 at P = 10, and 24 at P = 6. Other P were not measured. If the line
    /// is too low there, more lanes are decoded again, which costs time but no item.
    pub(super) fn warm_up(&self) -> u64 {
        8 * (u64::from(self.params.p()) + 1)
    }
}

/// Decodes `coded` from `place` on, in order, into `sink`. Uses lanes of about `lane_items` items if that is
/// worth it. Returns `Break` early if the sink does. Otherwise returns the bit position where the items end,
/// after all checks.
///
/// # Errors
///
/// Errors of the serial scan.
pub(super) fn drive<const N: usize>(
    coded: Coded<'_>,
    simd: impl Simd<N>,
    place: Boundary,
    lane_items: u64,
    sink: &mut impl ValueSink<N>,
) -> Result<ControlFlow<(), u64>, DecodeError> {
    let mut driver = Driver::new(coded, place);
    if let Some(decoder) = coded.decoder(simd) {
        let end = coded.lanes_end();
        if driver.lanes(&decoder, end, lane_items, sink)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    driver.rest(sink)
}

/// [`drive`] in lanes alone, up to about bit `stop`. The driver has the place that was reached.
///
/// # Errors
///
/// Errors of the serial scan, except those at the end.
pub(super) fn drive_to<'a, const N: usize>(
    coded: Coded<'a>,
    simd: impl Simd<N>,
    place: Boundary,
    stop: u64,
    lane_items: u64,
    sink: &mut impl ValueSink<N>,
) -> Result<Driver<'a>, DecodeError> {
    let mut driver = Driver::new(coded, place);
    if let Some(decoder) = coded.decoder(simd) {
        let stop = stop.min(coded.lanes_end());
        // Whether the sink ended it is not of interest.
        let _ = driver.lanes(&decoder, stop, lane_items, sink)?;
    }
    Ok(driver)
}

/// [`drive`] without lanes.
pub(super) fn drive_serially(
    coded: Coded<'_>,
    place: Boundary,
    sink: &mut impl ValueSink<1>,
) -> Result<ControlFlow<(), u64>, DecodeError> {
    Driver::new(coded, place).rest(sink)
}

pub(super) struct Driver<'a> {
    coded: Coded<'a>,
    /// Everything before this place is decoded and true.
    pub(super) place: Boundary,
    /// The largest valid value.
    largest: u64,
    /// The number of failed chunks.
    failed: u32,
}

/// Lanes after a run.
struct Chunk<const N: usize> {
    starts: [u64; N],
    stops: [u64; N],
    /// The number of items of each lane.
    counts: [usize; N],
    /// The end of each lane, and the sum of its differences.
    lanes: Lanes<N>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(coded: Coded<'a>, place: Boundary) -> Self {
        Self { coded, place, largest: coded.params.range(coded.n).saturating_sub(1), failed: 0 }
    }

    /// Whether no chunk failed.
    pub(super) fn kept_step(&self) -> bool {
        self.failed == 0
    }

    /// Decodes the rest serially, and checks the padding.
    pub(super) fn rest<const N: usize>(
        &mut self,
        sink: &mut impl ValueSink<N>,
    ) -> Result<ControlFlow<(), u64>, DecodeError> {
        if self.serial(u64::MAX, sink)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.coded.scanner(self.place).finish().map(ControlFlow::Continue)
    }

    /// Decodes chunk after chunk up to about bit `end`, or until lanes are no longer worth it.
    fn lanes<const N: usize, S: Simd<N>>(
        &mut self,
        decoder: &Decoder<'_, S>,
        end: u64,
        lane_items: u64,
        sink: &mut impl ValueSink<N>,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let warm_up = self.coded.bits_of(self.coded.warm_up()).min(MAX_LANE_BITS);
        let longest = self.coded.bits_of(lane_items).clamp(1, MAX_LANE_BITS);
        while self.failed < MAX_FAILED {
            let left = end.saturating_sub(self.place.position);
            let chunks = left.div_ceil(N as u64 * longest).max(1);
            let mut lane_bits = left / (N as u64 * chunks);
            if lane_bits < MIN_LANE_BITS.max(warm_up) {
                break;
            }
            // Ends, because no lanes of 128 to 4,000 bits are crowded.
            while crowded(N, lane_bits) {
                lane_bits -= CROWDED_BITS;
            }
            let stops =
                core::array::from_fn(|lane| self.place.position + (lane as u64 + 1) * lane_bits);
            let flow = match self.chunk(decoder, stops, lane_bits, warm_up, sink) {
                Ok(chunk) => self.join(&chunk, sink)?,
                Err(Odd) => {
                    self.failed += 1;
                    self.serial(stops[N - 1], sink)?
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Decodes lanes that end at `stops`, each from the boundary that it found as its start.
    fn chunk<const N: usize, S: Simd<N>>(
        &self,
        decoder: &Decoder<'_, S>,
        stops: [u64; N],
        lane_bits: u64,
        warm_up: u64,
        sink: &mut impl ValueSink<N>,
    ) -> Result<Chunk<N>, Odd> {
        let fixed = u64::from(self.coded.params.p()) + 1;
        // More than usual, but never more than possible.
        let usual = self.coded.items_in(lane_bits);
        let room = (lane_bits / fixed + 1).min(usual + usual / 8 + 64) as usize;
        // Lanes end within some tens of codes of each other. The rest is for pairs that do not fit in a step: one in
        // 16,000 at P = 19, and one in 25 at P = 24, where lanes are still worth it.
        let mut budget = 64 * N + room * N / 3;

        let mut lanes = Lanes {
            // The first lane knows its start. It reads the same bits as the second, because an idle lane would
            // hold up the others.
            positions: core::array::from_fn(|lane| {
                let cut = stops[lane.saturating_sub(1)];
                cut.saturating_sub(warm_up).max(self.place.position)
            }),
            values: [0; N],
        };
        let cuts = core::array::from_fn(|lane: usize| stops[lane.saturating_sub(1)]);
        decoder.run(&mut lanes, &cuts, &mut super::lane_decoder::Totals, &mut budget)?;
        lanes.positions[0] = self.place.position;
        lanes.values = [0; N];

        let starts = lanes.positions;
        sink.begin(room);
        let counts = decoder.run(&mut lanes, &stops, sink, &mut budget)?;
        Ok(Chunk { starts, stops, counts, lanes })
    }

    /// Accepts the lanes in order, and decodes those that are not true again.
    fn join<const N: usize>(
        &mut self,
        chunk: &Chunk<N>,
        sink: &mut impl ValueSink<N>,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let mut again = 0;
        for lane in 0..N {
            let base = self.place.value;
            let end = Boundary {
                position: chunk.lanes.positions[lane],
                value: chunk.lanes.values[lane],
                // No filter has more items than fit in 32 bits.
                item: u32::try_from(chunk.counts[lane]).unwrap_or(u32::MAX),
            };
            let flow = if self.accept(chunk.starts[lane], end) {
                sink.lane(lane, chunk.counts[lane], base)
            } else {
                again += 1;
                self.serial(chunk.stops[lane], sink)?
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        if again > N / 4 {
            self.failed += 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Moves the place past a lane or a range if that starts there and its items are valid. Otherwise leaves it
    /// unchanged. The value and the number of items of `end` are relative to the start.
    pub(super) fn accept(&mut self, start: u64, end: Boundary) -> bool {
        let item = self.place.item.checked_add(end.item);
        // No difference is negative, so checking the last value checks all.
        let value = self.place.value.checked_add(end.value);
        match (item, value) {
            (Some(item), Some(value))
                if start == self.place.position
                    && item <= self.coded.n
                    && value <= self.largest =>
            {
                self.place = Boundary { position: end.position, value, item };
                true
            }
            _ => false,
        }
    }

    /// Decodes serially from the place to the first item at or after bit `stop`, or to the last item.
    fn serial<const N: usize>(
        &mut self,
        stop: u64,
        sink: &mut impl ValueSink<N>,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let mut longest = if stop == u64::MAX { 1 } else { 57 };
        let mut scanner = self.coded.scanner(self.place);
        let mut block = [0; BLOCK];
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() && scanner.remaining() > 0 && scanner.position() < stop {
            let wanted = sink.place(scanner.position(), scanner.value()).min(BLOCK);
            let sure = (stop - scanner.position()) / longest;
            let wanted = wanted.min(usize::try_from(sure).unwrap_or(BLOCK)).max(1);
            let before = scanner.clone();
            let mut filled = scanner.fill(&mut block[..wanted])?;
            if filled > 1 && scanner.position() > stop {
                // A code was longer than `longest`, so the first item after the stop is one of these. Decode
                // them singly from the previous position, so that a long code is read twice, not once per item.
                scanner = before;
                longest = u64::MAX;
                filled = scanner.fill(&mut block[..1])?;
            }
            flow = sink.serial_values(&block[..filled]);
        }
        self.place = Boundary::of(&scanner);
        Ok(flow)
    }
}
