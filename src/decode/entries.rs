//! Decoding in lanes from places that are known: nothing has to find its start.

use super::lanes::{Decoder, Kernel, Odd};
use super::sync::codes_a_step;
use super::{Entry, Scanner};
use crate::arch::Level;
use crate::arch::lanes::{GROUP, Lanes};
use crate::params::Params;

/// Groups between two looks at the values: in so many codes no sum grows by 2^63, so that one that overflowed
/// is smaller than it was.
const MAX_GROUPS: usize = 1 << 16;

/// What all entries have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries<'a> {
    pub(super) level: Level,
    pub(super) bytes: &'a [u8],
    pub(super) params: Params,
    pub(super) largest: u64,
}

impl Entries<'_> {
    /// See [`decode_from`](super::decode_from).
    pub(super) fn decode<const N: usize>(
        self,
        kernel: impl Kernel<N>,
        entries: &[Entry],
        out: &mut [u64],
    ) -> bool {
        let p = self.params.p();
        let codes = codes_a_step(p, self.params.m() >> p);
        let decoder = Decoder {
            kernel,
            bytes: self.bytes,
            code: (p, codes == 2),
            group_bits: GROUP as u64,
        };
        let (batches, others) = entries.as_chunks::<N>();
        let mut rest = out;
        for batch in batches {
            let wanted = batch.iter().fold(0_usize, |sum, entry| {
                sum.saturating_add(entry.count as usize)
            });
            let Some((values, behind)) = rest.split_at_mut_checked(wanted) else {
                return false;
            };
            rest = behind;
            // What lanes cannot do, or not judge, the serial scan can.
            if (codes == 0 || self.batch(&decoder, batch, values) == Err(Odd))
                && !self.serially(batch, values)
            {
                return false;
            }
        }
        self.serially(others, rest)
    }

    fn batch<const N: usize>(
        self,
        decoder: &Decoder<'_, impl Kernel<N>>,
        batch: &[Entry; N],
        out: &mut [u64],
    ) -> Result<(), Odd> {
        let mut lanes = Lanes {
            positions: batch.map(|entry| entry.position),
            values: batch.map(|entry| entry.base),
        };
        if lanes.values.iter().any(|&base| base > self.largest) {
            return Err(Odd);
        }
        let mut places = [0; N];
        for lane in 1..N {
            places[lane] = places[lane - 1] + batch[lane - 1].count as usize;
        }
        let counts = batch.map(|entry| entry.count as usize);
        let together = counts.iter().min().copied().unwrap_or_default() / GROUP;
        let mut groups = 0;
        while groups < together {
            let wanted = (together - groups).min(MAX_GROUPS);
            let before = lanes.values;
            let now = places.map(|place| place + groups * GROUP);
            let advanced = decoder.kernel.advance_into(
                self.bytes,
                decoder.code,
                &mut lanes,
                wanted,
                out,
                &now,
            );
            if advanced.groups == 0 {
                break;
            }
            groups += advanced.groups;
            for lane in (0..N).filter(|lane| advanced.behind >> lane & 1 == 1) {
                let end = places[lane] + groups * GROUP;
                self.singly(decoder, &mut lanes, lane, &mut out[end - GROUP..end])?;
            }
            let mut values = lanes.values.iter().zip(before);
            if values.any(|(&value, before)| value < before || value > self.largest) {
                return Err(Odd);
            }
        }
        for lane in 0..N {
            let (from, to) = (groups * GROUP, counts[lane]);
            self.singly(
                decoder,
                &mut lanes,
                lane,
                &mut out[places[lane]..][from..to],
            )?;
        }
        Ok(())
    }

    /// Fills `out` from one lane.
    fn singly<const N: usize>(
        self,
        decoder: &Decoder<'_, impl Kernel<N>>,
        lanes: &mut Lanes<N>,
        lane: usize,
        out: &mut [u64],
    ) -> Result<(), Odd> {
        for place in out {
            let (number, next) = decoder.one(lanes.positions[lane])?;
            let value = lanes.values[lane].checked_add(number).ok_or(Odd)?;
            if value > self.largest {
                return Err(Odd);
            }
            (lanes.positions[lane], lanes.values[lane], *place) = (next, value, value);
        }
        Ok(())
    }

    pub(super) fn serially(self, entries: &[Entry], out: &mut [u64]) -> bool {
        let mut rest = out;
        for entry in entries {
            let Some((values, behind)) = rest.split_at_mut_checked(entry.count as usize) else {
                return false;
            };
            rest = behind;
            if entry.base > self.largest {
                return false;
            }
            let limit = (self.largest + 1, self.params);
            let place = (entry.position, entry.base);
            let mut scanner = Scanner::resume(self.level, self.bytes, limit, place, u64::MAX);
            if scanner.fill(values) != Ok(values.len()) {
                return false;
            }
        }
        true
    }
}
