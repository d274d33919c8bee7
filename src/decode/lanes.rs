//! Many places of one stream decoded side by side: what the kernels do not do.
//!
//! A kernel moves all lanes by groups of 8 codes, in lock step, as long as every code is short. Around it
//! [`Decoder::run`] brings every lane to the first code that begins at or behind the lane's own stop, one code
//! at a time near the end, and reads what the kernel could not. Lanes know nothing of each other here, and
//! their values are relative to where they began.

use crate::arch::lanes::{Advanced, GROUP, Lanes, WINDOW, groups_within};
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{Avx2, Avx512, avx2, avx512};
use crate::bits::BitReader;
use crate::cost;
use crate::rice;

/// A lane kernel: `Lanes` by the group.
pub(crate) trait Kernel<const N: usize>: Copy {
    /// Decodes so many groups, or fewer: see [`Advanced`].
    fn advance(self, bytes: &[u8], code: Code, lanes: &mut Lanes<N>, groups: usize) -> Advanced;

    /// The same, with the values of lane `i` written from `out[places[i]]` on.
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

/// Four lanes in plain Rust: a processor overlaps four chains of which each waits for itself.
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

/// The 8 bytes at a bit position, inverted, the first bit at the top; an empty window, which is odd, where
/// there are none.
#[inline(always)]
fn window(bytes: &[u8], position: u64) -> u64 {
    bytes
        .get((position / 8) as usize..)
        .and_then(|rest| rest.first_chunk::<8>())
        .map_or(0, |word| !u64::from_be_bytes(*word) << (position % 8))
}

/// Sums only. As in the vector kernels, a code adds `(run << P) + ones - top`; the runs are taken from how
/// far the position went, and so a code takes two shifts, a count and an addition.
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
                // Below 64, for the sake of processors that cannot count the zeros of zero: odd anyway.
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
                // Above the width of a window where one of them is: bits are below 256.
                most |= WINDOW.wrapping_sub(bits);
            }
        }
        done += 1;
        odd = most >> 31;
        if odd != 0 {
            (positions, tops) = before;
        }
    }
    // All four wait for the one that is odd: it is rare, and they are few.
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

/// Every value, where it belongs.
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

/// P, and whether two codes are taken at a step.
pub(crate) type Code = (u32, bool);

/// What becomes of the items of lanes.
pub(super) trait Take<const N: usize> {
    /// All lanes are at their item number `done`. Gives how many codes may follow in lock step before the
    /// next call.
    fn mark(&mut self, _done: usize, _lanes: &Lanes<N>) -> usize {
        usize::MAX
    }

    /// One lane is at its item number `done`, at the given position and value.
    fn mark_one(&mut self, _lane: usize, _done: usize, _position: u64, _value: u64) {}

    /// One lane read item number `done`; false where there is no room for it.
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

/// Nothing but the sums.
pub(super) struct Totals;

impl<const N: usize> Take<N> for Totals {}

/// A stream, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder<'a, K> {
    pub(super) kernel: K,
    pub(super) bytes: &'a [u8],
    pub(super) code: Code,
    /// The mean length of a group in bits, rounded up; at least 1. A guess is enough.
    pub(super) group_bits: u64,
}

/// What was expected to be rare was not, or there is no room: the lanes are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Odd;

/// The longest run that is read in a lane. Codes that lanes are for have runs of six ones on average, so none of
/// a usual filter is as long. A lane that begins within a longer run would read what its neighbours read.
const LONGEST_RUN: u64 = 256;

impl<K> Decoder<'_, K> {
    /// One code at `position`: the number and where the next one begins.
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

    /// Moves every lane to its first code at or behind its stop, and gives how many items each had.
    /// `budget` is how many codes may be read singly, and is used up by them.
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
        // Lane by lane would wait for each code; in turns they overlap.
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

    /// Moves all lanes on in lock step for as long as none passes its stop.
    ///
    /// In rounds. How many groups a round has is a guess first: lanes need about as many codes as the mean
    /// length says. Where one passes its stop all the same, the round is done again, and from then on groups are
    /// reckoned at the length that no code of a kernel exceeds.
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

    /// At most `groups` groups. Gives how many it was and, where lanes have to stop within one, how many
    /// items each lane has.
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
                // To be interrupted takes a kernel about as long as so many codes.
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
                        // It is beyond its stop, and the round will be done again.
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

    /// One code of one lane.
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
