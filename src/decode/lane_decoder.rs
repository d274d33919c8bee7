//! Decodes many places of one stream in parallel; this is the part outside the kernels.
//!
//! A kernel advances all lanes in lock step by groups of 8 codes, as long as every code is short.
//! [`Decoder::run`] brings every lane to the first code that begins at or after the lane's own stop. Near the
//! stop it decodes one code at a time, and it decodes the codes that the kernel cannot. Lanes are independent
//! here, and their values are relative to their starts.

use crate::arch::lanes::{self, Advanced, GROUP, LONGEST_GROUP, Lanes, Simd, WINDOW};
use crate::bits::BitReader;
use crate::cost;
use crate::rice;

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
    fn store_value(&mut self, _lane: usize, _done: usize, _value: u64) -> bool {
        true
    }

    /// Calls the kernel for lanes at item number `done`.
    fn decode_groups(
        &mut self,
        simd: impl Simd<N>,
        bytes: &[u8],
        p: u32,
        lanes: &mut Lanes<N>,
        _done: usize,
        groups: usize,
    ) -> Advanced {
        lanes::decode_groups(simd, bytes, p, lanes, groups)
    }
}

/// Keeps only the sums.
pub(super) struct Totals;

impl<const N: usize> Take<N> for Totals {}

/// A stream and its expected shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder<'a, S> {
    pub(super) simd: S,
    pub(super) bytes: &'a [u8],
    pub(super) p: u32,
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

/// A round that is repeated reads at most so many times the bits of the lanes in vain.
const GUESSED: u64 = 2;

impl<S> Decoder<'_, S> {
    /// Decodes one code at `position`: returns the number and the position of the next code.
    #[inline]
    pub(super) fn one(&self, position: u64) -> Result<(u64, u64), Odd> {
        let first = usize::try_from(position / 8).map_err(|_| Odd)?;
        let rest = self.bytes.get(first..).ok_or(Odd)?;
        if let Some(word) = rest.first_chunk::<8>() {
            let window = !u64::from_be_bytes(*word) << (position % 8);
            let (number, bits) = rice::read_one(window, self.p);
            if bits <= WINDOW {
                cost::count(|| u64::from(bits));
                return Ok((number, position + u64::from(bits)));
            }
        }
        let mut reader = BitReader::at(self.bytes, position);
        let number = rice::read(&mut reader, self.p, LONGEST_RUN);
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
        S: Simd<N>,
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
    /// In dense filters that is many times the mean, so a round is limited to [`GUESSED`] lanes of such codes.
    #[inline(always)]
    fn in_step<const N: usize>(
        &self,
        lanes: &mut Lanes<N>,
        stops: &[u64; N],
        take: &mut impl Take<N>,
        budget: &mut usize,
    ) -> Result<[usize; N], Odd>
    where
        S: Simd<N>,
    {
        let guess = self.group_bits * 17 / 16 + 1;
        let mut guessing = guess < LONGEST_GROUP;
        let mut done = 0;
        let mut most = None;
        loop {
            let gaps = lanes.positions.iter().zip(stops);
            let gap = gaps
                .map(|(&position, &stop)| stop.saturating_sub(position))
                .min()
                .unwrap_or_default();
            let groups = if guessing {
                let most = *most.get_or_insert((GUESSED * gap / LONGEST_GROUP).max(1));
                (gap / guess).min(most) as usize
            } else {
                (gap / LONGEST_GROUP) as usize
            };
            let before = (*lanes, done);
            let (moved, short) =
                self.round(lanes, &mut done, groups, guessing, stops, take, budget)?;
            if let Some(each) = short {
                return Ok(each);
            }
            if guessing && lanes.positions.iter().zip(stops).any(|(position, stop)| position > stop)
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
        S: Simd<N>,
    {
        let mut moved = 0;
        while moved < groups {
            let wanted = (groups - moved).min(take.mark(*done, lanes) / GROUP);
            if wanted == 0 {
                break;
            }
            let before = lanes.positions;
            let advanced = take.decode_groups(self.simd, self.bytes, self.p, lanes, *done, wanted);
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
        if take.store_value(lane, done, lanes.values[lane]) { Ok(()) } else { Err(Odd) }
    }
}
