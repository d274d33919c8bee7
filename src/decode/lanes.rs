//! Decodes many places of one stream in parallel; this is the part outside the kernels.
//!
//! A kernel advances all lanes in lock step by groups of 8 codes, as long as every code is short.
//! [`Decoder::run`] brings every lane to the first code that begins at or after the lane's own stop. Near the
//! stop it decodes one code at a time, and it decodes the codes that the kernel cannot. Lanes are independent
//! here, and their values are relative to their starts.

use crate::arch::lanes::{Advanced, GROUP, Lanes, WINDOW, groups_within};
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{Avx2, Avx512, avx2, avx512};
use crate::bits::BitReader;
use crate::cost;
use crate::rice;

/// A lane kernel: advances `Lanes` in groups.
pub(crate) trait Kernel<const N: usize>: Copy {
    /// Decodes this many groups, or fewer: see [`Advanced`].
    fn advance(self, bytes: &[u8], code: Code, lanes: &mut Lanes<N>, groups: usize) -> Advanced;

    /// The same; also writes the values of lane `i` from `out[places[i]]` on.
    fn advance_into(
        self,
        bytes: &[u8],
        code: Code,
        lanes: &mut Lanes<N>,
        groups: usize,
        out: &mut [u64],
        places: &[usize; N],
    ) -> Advanced;
}

/// The kernels of an instruction set are methods of its token.
#[cfg(target_arch = "x86_64")]
macro_rules! kernel_of {
    ($token:ty, $lanes:expr) => {
        impl Kernel<{ $lanes }> for $token {
            fn advance(
                self,
                bytes: &[u8],
                code: Code,
                lanes: &mut Lanes<{ $lanes }>,
                groups: usize,
            ) -> Advanced {
                self.advance_lanes(bytes, code, lanes, groups)
            }

            fn advance_into(
                self,
                bytes: &[u8],
                code: Code,
                lanes: &mut Lanes<{ $lanes }>,
                groups: usize,
                out: &mut [u64],
                places: &[usize; $lanes],
            ) -> Advanced {
                self.advance_lanes_into(bytes, code, lanes, groups, out, places)
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel_of!(Avx2, avx2::lanes::LANES);
#[cfg(target_arch = "x86_64")]
kernel_of!(Avx512, avx512::lanes::LANES);

/// Four lanes in scalar Rust: the processor overlaps their dependency chains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

impl Kernel<4> for Plain {
    fn advance(self, bytes: &[u8], code: Code, lanes: &mut Lanes<4>, groups: usize) -> Advanced {
        plain_totals(bytes, code, lanes, groups)
    }

    fn advance_into(
        self,
        bytes: &[u8],
        code: Code,
        lanes: &mut Lanes<4>,
        groups: usize,
        out: &mut [u64],
        places: &[usize; 4],
    ) -> Advanced {
        plain_into(bytes, code, lanes, groups, out, places)
    }
}

/// The 8 bytes at a bit position, inverted, with the first bit at the top. Beyond the bytes it is an empty
/// window, which counts as odd.
#[inline(always)]
fn window(bytes: &[u8], position: u64) -> u64 {
    bytes
        .get((position / 8) as usize..)
        .and_then(|rest| rest.first_chunk::<8>())
        .map_or(0, |word| !u64::from_be_bytes(*word) << (position % 8))
}

/// Sums only. As in the vector kernels, a code adds `(run << P) + ones - top`. The runs are derived from the
/// advance of the position, so a code takes two shifts, a count and an addition.
#[inline(always)]
fn plain_totals(bytes: &[u8], code: Code, lanes: &mut Lanes<4>, groups: usize) -> Advanced {
    let (p, in_pairs) = code;
    let codes = if in_pairs { 2 } else { 1 };
    let groups = groups_within(bytes.len(), &lanes.positions, groups, GROUP / codes, 64);
    let (width, down) = (p + 1, 63 - p);
    let start = lanes.positions;
    let mut positions = start;
    let mut tops = [0_u64; 4];
    let mut done = 0;
    let mut odd = 0;
    while done < groups && odd == 0 {
        let before = (positions, tops);
        let mut most = 0;
        for _ in 0..GROUP / codes {
            for (position, tops) in positions.iter_mut().zip(&mut tops) {
                let window = window(bytes, *position);
                // The result stays below 64, for processors that cannot count the zeros of zero. Such a window
                // is odd in any case.
                let run = (window | 1).leading_zeros();
                let end_of_run = window << run;
                *tops = tops.wrapping_add(end_of_run >> down);
                let mut bits = run + width;
                if in_pairs {
                    let window = end_of_run << width;
                    let run = (window | 1).leading_zeros();
                    *tops = tops.wrapping_add(window << run >> down);
                    bits += run + width;
                }
                *position += u64::from(bits);
                // Exceeds the width of a window if one of them does: bits are below 256.
                most |= WINDOW.wrapping_sub(bits);
            }
        }
        done += 1;
        odd = most >> 31;
        if odd != 0 {
            (positions, tops) = before;
        }
    }
    // All four wait for the odd one: that is rare, and they are few.
    let behind = if odd == 0 { 0 } else { 0b1111 };
    let codes = ((done - odd as usize) * GROUP) as u64;
    for lane in 0..4 {
        let runs = positions[lane] - start[lane] - codes * u64::from(width);
        let ones = codes * ((2 << p) - 1);
        let total = (runs << p).wrapping_add(ones.wrapping_sub(tops[lane]));
        lanes.values[lane] = lanes.values[lane].wrapping_add(total);
    }
    lanes.positions = positions;
    Advanced {
        groups: done,
        behind,
    }
}

/// Decodes every value to its place.
#[inline(always)]
fn plain_into(
    bytes: &[u8],
    code: Code,
    lanes: &mut Lanes<4>,
    groups: usize,
    out: &mut [u64],
    places: &[usize; 4],
) -> Advanced {
    let (p, in_pairs) = code;
    let codes = if in_pairs { 2 } else { 1 };
    let groups = groups_within(bytes.len(), &lanes.positions, groups, GROUP / codes, 64);
    let mut now = *lanes;
    let mut done = 0;
    let mut odd = 0;
    while done < groups && odd == 0 {
        let before = now;
        let mut most = 0;
        let at = places.map(|place| place + done * GROUP);
        for step in 0..GROUP / codes {
            for (lane, &at) in at.iter().enumerate() {
                let position = now.positions[lane];
                let window = window(bytes, position);
                let value = now.values[lane];
                let bits = if in_pairs {
                    let (first, second, bits) = rice::read_pair(window, p);
                    let pair = &mut out[at + 2 * step..][..2];
                    pair[0] = value.wrapping_add(first);
                    pair[1] = pair[0].wrapping_add(second);
                    now.values[lane] = pair[1];
                    bits
                } else {
                    let (number, bits) = rice::read_one(window, p);
                    now.values[lane] = value.wrapping_add(number);
                    out[at + step] = now.values[lane];
                    bits
                };
                now.positions[lane] = position + u64::from(bits);
                most |= WINDOW.wrapping_sub(bits);
            }
        }
        done += 1;
        odd = most >> 31;
        if odd != 0 {
            now = before;
        }
    }
    *lanes = now;
    let behind = if odd == 0 { 0 } else { 0b1111 };
    Advanced {
        groups: done,
        behind,
    }
}

/// P, and whether each step decodes two codes.
pub(crate) type Code = (u32, bool);

/// Receives the items of lanes.
pub(super) trait Take<const N: usize> {
    /// All lanes are at their item number `done`. Returns how many codes may follow in lock step before the
    /// next call.
    fn mark(&mut self, _done: usize, _lanes: &Lanes<N>) -> usize {
        usize::MAX
    }

    /// One lane is at its item number `done`, at the given position and value.
    fn mark_one(&mut self, _lane: usize, _done: usize, _position: u64, _value: u64) {}

    /// One lane decoded item number `done`. Returns false if there is no room for it.
    fn put(&mut self, _lane: usize, _done: usize, _value: u64) -> bool {
        true
    }

    /// Calls the kernel for lanes at item number `done`.
    fn advance(
        &mut self,
        kernel: impl Kernel<N>,
        bytes: &[u8],
        code: Code,
        lanes: &mut Lanes<N>,
        _done: usize,
        groups: usize,
    ) -> Advanced {
        kernel.advance(bytes, code, lanes, groups)
    }
}

/// Keeps only the sums.
pub(super) struct Totals;

impl<const N: usize> Take<N> for Totals {}

/// A stream and its expected shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder<'a, K> {
    pub(super) kernel: K,
    pub(super) bytes: &'a [u8],
    pub(super) code: Code,
    /// The mean length of a group in bits, rounded up; at least 1. An estimate is sufficient.
    pub(super) group_bits: u64,
}

/// An assumption about rare codes failed, or there is no room: the lanes are abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Odd;

/// The longest run that is decoded in a lane. Codes suitable for lanes have runs of six ones on average, so no
/// code of a usual filter is this long. A lane that begins within a longer run would read the same bits as its
/// neighbours.
const LONGEST_RUN: u64 = 256;

impl<K> Decoder<'_, K> {
    /// Decodes one code at `position`: returns the number and the position of the next code.
    #[inline]
    pub(super) fn one(&self, position: u64) -> Result<(u64, u64), Odd> {
        let (p, _) = self.code;
        let first = usize::try_from(position / 8).map_err(|_| Odd)?;
        let rest = self.bytes.get(first..).ok_or(Odd)?;
        if let Some(word) = rest.first_chunk::<8>() {
            let window = !u64::from_be_bytes(*word) << (position % 8);
            let (number, bits) = rice::read_one(window, p);
            if bits <= WINDOW {
                cost::count(|| u64::from(bits));
                return Ok((number, position + u64::from(bits)));
            }
        }
        let mut reader = BitReader::at(self.bytes, position);
        let number = rice::read(&mut reader, p, LONGEST_RUN);
        cost::count(|| reader.position() - position);
        Ok((number.map_err(|_| Odd)?, reader.position()))
    }

    /// Advances every lane to its first code at or after its stop, and returns the number of items of each.
    /// `budget` limits the codes that are decoded singly, and is reduced by them.
    pub(super) fn run<const N: usize>(
        &self,
        lanes: &mut Lanes<N>,
        stops: &[u64; N],
        take: &mut impl Take<N>,
        budget: &mut usize,
    ) -> Result<[usize; N], Odd>
    where
        K: Kernel<N>,
    {
        let mut done = self.in_step(lanes, stops, take, budget)?;
        // One lane after the other would wait for each code; in turns they overlap.
        loop {
            let mut moved = 0;
            for lane in 0..N {
                if lanes.positions[lane] < stops[lane] {
                    self.step(lanes, lane, done[lane], take)?;
                    done[lane] += 1;
                    moved += 1;
                }
            }
            if moved == 0 {
                return Ok(done);
            }
            *budget = budget.checked_sub(moved).ok_or(Odd)?;
        }
    }

    /// Advances all lanes in lock step as long as none passes its stop.
    ///
    /// Works in rounds. The first estimate of a round's groups uses the mean length of a code. If a lane passes
    /// its stop, the round is repeated. From then on the estimate uses the maximum length of a kernel's code.
    #[inline(always)]
    fn in_step<const N: usize>(
        &self,
        lanes: &mut Lanes<N>,
        stops: &[u64; N],
        take: &mut impl Take<N>,
        budget: &mut usize,
    ) -> Result<[usize; N], Odd>
    where
        K: Kernel<N>,
    {
        let steps = if self.code.1 { GROUP / 2 } else { GROUP };
        let longest = steps as u64 * u64::from(WINDOW);
        let guess = self.group_bits * 17 / 16 + 1;
        let mut guessing = guess < longest;
        let mut done = 0;
        loop {
            let gaps = lanes.positions.iter().zip(stops);
            let gap = gaps
                .map(|(&position, &stop)| stop.saturating_sub(position))
                .min();
            let length = if guessing { guess } else { longest };
            let groups = (gap.unwrap_or_default() / length) as usize;
            let before = (*lanes, done);
            let (moved, short) =
                self.round(lanes, &mut done, groups, guessing, stops, take, budget)?;
            if let Some(each) = short {
                return Ok(each);
            }
            if guessing
                && lanes
                    .positions
                    .iter()
                    .zip(stops)
                    .any(|(position, stop)| position > stop)
            {
                (*lanes, done) = before;
                guessing = false;
            } else if moved == 0 {
                return Ok([done; N]);
            }
        }
    }

    /// Advances by at most `groups` groups. Returns their number. If lanes have to stop within a group, also
    /// returns the number of items of each lane.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn round<const N: usize>(
        &self,
        lanes: &mut Lanes<N>,
        done: &mut usize,
        groups: usize,
        guessing: bool,
        stops: &[u64; N],
        take: &mut impl Take<N>,
        budget: &mut usize,
    ) -> Result<(usize, Option<[usize; N]>), Odd>
    where
        K: Kernel<N>,
    {
        let mut moved = 0;
        while moved < groups {
            let wanted = (groups - moved).min(take.mark(*done, lanes) / GROUP);
            if wanted == 0 {
                break;
            }
            let before = lanes.positions;
            let advanced = take.advance(self.kernel, self.bytes, self.code, lanes, *done, wanted);
            cost::count(|| {
                let moved = lanes.positions.iter().zip(&before);
                moved.map(|(now, before)| now - before).sum()
            });
            if advanced.groups == 0 {
                break;
            }
            moved += advanced.groups;
            *done += advanced.groups * GROUP;
            if advanced.behind != 0 {
                // Interrupting a kernel costs about as much as this many codes.
                *budget = budget.checked_sub(N).ok_or(Odd)?;
                let mut each = [*done; N];
                for lane in (0..N).filter(|lane| advanced.behind >> lane & 1 == 1) {
                    each[lane] -= GROUP;
                    *budget = budget.checked_sub(GROUP).ok_or(Odd)?;
                    while each[lane] < *done
                        && (lanes.positions[lane] < stops[lane]
                            || guessing && lanes.positions[lane] == stops[lane])
                    {
                        self.step(lanes, lane, each[lane], take)?;
                        each[lane] += 1;
                    }
                    if guessing && each[lane] < *done {
                        // The lane is beyond its stop, and the round will be repeated.
                        return Ok((moved, None));
                    }
                }
                if each.iter().any(|each| each < done) {
                    return Ok((moved, Some(each)));
                }
            }
        }
        Ok((moved, None))
    }

    /// Decodes one code of one lane.
    #[inline]
    fn step<const N: usize>(
        &self,
        lanes: &mut Lanes<N>,
        lane: usize,
        done: usize,
        take: &mut impl Take<N>,
    ) -> Result<(), Odd> {
        take.mark_one(lane, done, lanes.positions[lane], lanes.values[lane]);
        let (number, next) = self.one(lanes.positions[lane])?;
        lanes.positions[lane] = next;
        lanes.values[lane] = lanes.values[lane].wrapping_add(number);
        if take.put(lane, done, lanes.values[lane]) {
            Ok(())
        } else {
            Err(Odd)
        }
    }
}
