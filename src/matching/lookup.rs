//! Point look-ups: each target is searched individually, from the [`Point`] that a table gives for it.
//!
//! One look-up is a dependency chain: each code waits for the previous one. Separate look-ups are independent. A
//! processor overlaps them by itself if their bits are prefetched, and 16 or 32 run side by side in vectors. The targets
//! need no order; sorting them would take longer than finding them.
//!
//! On a Zen 3, scalar code that interleaved four look-ups took twice the time of one after the other: they do not fit in
//! the registers.
//!
//! Points are not trusted: the storage of a filter may return other bytes than when its table was made. With any point, reads
//! stay within the bytes, and every step consumes bits. If a point leads to bits that are not a code, the look-up returns
//! [`OtherBytes`].

#[cfg(target_arch = "x86_64")]
use crate::arch::Kind;
use crate::arch::lanes::{Point, WINDOW};
#[cfg(target_arch = "x86_64")]
use crate::arch::lookup_lanes;
use crate::arch::memory::prefetch;
use crate::bits::BitReader;
use crate::cost;
use crate::decode::{Coded, in_pairs};
use crate::matching::Strategy;
use crate::matching::point_table::PointTable;
use crate::rice::{self, Unreadable};

/// The bits of a validated filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidatedBits<'a> {
    pub(crate) coded: Coded<'a>,
    /// The bit position where the last item ends.
    pub(crate) end: u64,
}

/// A point led to bits that are not a code. No table of these bytes contains such a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherBytes;

/// The number of targets per batch. Few enough that their state stays in the first-level cache, and enough that
/// lanes waiting for the last target cost little.
#[cfg(target_arch = "x86_64")]
const BATCH: usize = lookup_lanes::BATCH;
#[cfg(not(target_arch = "x86_64"))]
const BATCH: usize = 256;

/// Up to this number of targets are faster one by one than in lanes: those would wait for the last target.
const FEW: usize = 24;

impl ValidatedBits<'_> {
    /// Returns whether `target`, which is below F, is among the items after `point`. Before the target, no item
    /// is above it.
    ///
    /// # Errors
    ///
    /// The point is of other bytes. Such a point may also give a wrong answer.
    #[cfg(any(test, target_arch = "x86_64"))]
    pub(crate) fn find(&self, point: Point, target: u64) -> Result<bool, OtherBytes> {
        // One chain of codes cannot be vectorized.
        self.coded.level.compiled(
            #[inline(always)]
            move || self.find_here(point, target),
        )
    }

    /// [`ValidatedBits::find`] from the point of a table.
    ///
    /// # Errors
    ///
    /// The table is of other bytes.
    #[inline]
    pub(crate) fn find_by(&self, table: &PointTable, target: u64) -> Result<bool, OtherBytes> {
        self.coded.level.compiled(
            #[inline(always)]
            move || {
                // The bits arrive together with the line of the table. Nine of ten are in these cache lines.
                let about = table.estimate(target).saturating_sub(72 * 8);
                prefetch_bits(self.coded.bytes, about, [0, 64, 128]);
                self.find_here(table.locate(target), target)
            },
        )
    }

    #[inline(always)]
    fn find_here(&self, mut point: Point, target: u64) -> Result<bool, OtherBytes> {
        if let Some(answer) = point.answer() {
            return Ok(answer);
        }
        let (p, in_pairs) = (self.coded.params.p(), in_pairs(self.coded.params));
        loop {
            let step = if in_pairs {
                scan::<true>(self.coded.bytes, point, target, p)
            } else {
                scan::<false>(self.coded.bytes, point, target, p)
            };
            match step {
                CodeStep::Answer(found) => return Ok(found),
                CodeStep::Careful(there) => match self.read_one(there, target)? {
                    CodeStep::Answer(found) => return Ok(found),
                    CodeStep::Careful(next) => point = next,
                },
            }
        }
    }

    /// Decodes one code that is long or near the end of the bytes. Returns the answer if it is known after
    /// that. If the code leads beyond the target, reads only as much as it needs to detect that.
    #[cold]
    #[inline(never)]
    fn read_one(&self, point: Point, target: u64) -> Result<CodeStep, OtherBytes> {
        if point.base > target || point.position >= self.end {
            return Ok(CodeStep::Answer(false));
        }
        let p = self.coded.params.p();
        let room = target - point.base;
        let mut reader = BitReader::at(self.coded.bytes, point.position);
        let delta = rice::read(&mut reader, p, room >> p);
        cost::count(|| reader.position() - point.position);
        let delta = match delta {
            Ok(delta) => delta,
            Err(Unreadable::QuotientTooLarge) => return Ok(CodeStep::Answer(false)),
            Err(Unreadable::RunCut | Unreadable::RemainderCut) => return Err(OtherBytes),
        };
        if delta >= room {
            return Ok(CodeStep::Answer(delta == room));
        }
        Ok(CodeStep::Careful(Point { position: reader.position(), base: point.base + delta }))
    }

    /// Calls `visit` with the index in `targets` of each member of the set, in order, until `visit` returns
    /// false. `locate` gives the points for a batch of targets.
    ///
    /// # Errors
    ///
    /// The points are of other bytes.
    pub(crate) fn find_each(
        &self,
        locate: impl Fn(&[u64], &mut [Point]),
        targets: &[u64],
        visit: impl FnMut(usize) -> bool,
    ) -> Result<(), OtherBytes> {
        // Clearing the memory of a large batch would take as long as a few look-ups.
        match targets.len() {
            ..=FEW => self.find_in_batches::<FEW>(locate, targets, visit),
            _ => self.find_in_batches::<BATCH>(locate, targets, visit),
        }
    }

    fn find_in_batches<const SIZE: usize>(
        &self,
        locate: impl Fn(&[u64], &mut [Point]),
        targets: &[u64],
        mut visit: impl FnMut(usize) -> bool,
    ) -> Result<(), OtherBytes> {
        let mut points = [Point::default(); SIZE];
        let mut found = [false; SIZE];
        for (batch, targets) in (0..).step_by(SIZE).zip(targets.chunks(SIZE)) {
            let points = &mut points[..targets.len()];
            let found = &mut found[..targets.len()];
            locate(targets, points);
            for (at, point) in points.iter_mut().enumerate() {
                // Targets beyond the range are in no part, and no item would stop their search.
                if targets[at] >= self.coded.range() {
                    *point = Point::ABSENT;
                }
                // Half a step of 16 items takes 21 bytes.
                prefetch_bits(self.coded.bytes, point.position, [0, 32]);
            }
            self.find_batch(points, targets, found)?;
            for (at, _) in (batch..).zip(&*found).filter(|&(_, &found)| found) {
                if !visit(at) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// [`ValidatedBits::find_each`] with the points of an index, or one pass over the filter if that is cheaper.
    ///
    /// # Errors
    ///
    /// The index is of other bytes.
    pub(crate) fn visit_matches(
        &self,
        strategy: Strategy,
        table: &PointTable,
        targets: &[u64],
        mut visit: impl FnMut(usize) -> bool,
    ) -> Result<(), OtherBytes> {
        // One target needs no plan and no list.
        if let (&[target], Strategy::Cheapest | Strategy::Lookup) = (targets, strategy) {
            if target < self.coded.range() && self.find_by(table, target)? {
                visit(0);
            }
            return Ok(());
        }
        let planned = || {
            table.planned(self.coded.level, (self.coded.n, self.coded.bytes.len()), targets.len())
        };
        let strategy = strategy.unless_open(planned);
        if strategy != Strategy::Lookup {
            let visited = self.coded.visit_matches(strategy, targets, false, visit);
            return visited.map_err(|_| OtherBytes);
        }
        let locate = |targets: &[u64], points: &mut [Point]| {
            table.locate_all(self.coded.level, targets, points);
        };
        self.find_each(locate, targets, &mut visit)
    }

    /// Returns for each target whether it is in the set, given its point.
    fn find_batch(
        &self,
        points: &[Point],
        targets: &[u64],
        found: &mut [bool],
    ) -> Result<(), OtherBytes> {
        #[cfg(target_arch = "x86_64")]
        if self.suits_lanes(targets) {
            match self.coded.level.kind() {
                Kind::Baseline(_) => {}
                Kind::Avx2(avx2) => return self.find_in_lanes(avx2, points, targets, found),
                Kind::Avx512(avx512) => return self.find_in_lanes(avx512, points, targets, found),
            }
        }
        self.coded.level.compiled(
            #[inline(always)]
            || {
                for ((found, &point), &target) in found.iter_mut().zip(points).zip(targets) {
                    *found = self.find_here(point, target)?;
                }
                Ok(())
            },
        )
    }

    /// Whether the lanes' numbers can hold the values, and enough targets fill them.
    #[cfg(target_arch = "x86_64")]
    fn suits_lanes(&self, targets: &[u64]) -> bool {
        self.coded.range() < 1 << 62 && targets.len() > FEW
    }

    /// Not inlined: the scalar look-ups next to it would have fewer registers.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn find_in_lanes<const N: usize>(
        &self,
        simd: impl lookup_lanes::LookUp<N>,
        points: &[Point],
        targets: &[u64],
        found: &mut [bool],
    ) -> Result<(), OtherBytes> {
        let mut answers = [lookup_lanes::ABSENT; BATCH];
        let answers = &mut answers[..targets.len()];
        let code = (self.coded.params.p(), in_pairs(self.coded.params));
        lookup_lanes::look_up(simd, self.coded.bytes, code, points, targets, answers);
        for (at, found) in found.iter_mut().enumerate() {
            *found = targets[at] < self.coded.range()
                && match answers[at] {
                    lookup_lanes::ABSENT => false,
                    lookup_lanes::FOUND => true,
                    // A long code, or the last few items: the lanes leave those to this function.
                    _ => self.find(points[at], targets[at])?,
                };
        }
        Ok(())
    }
}

/// Prefetches the cache lines that are so many bytes after a bit position. Otherwise look-ups in a filter larger than the
/// second-level cache would take twice the time.
#[inline(always)]
fn prefetch_bits<const LINES: usize>(bytes: &[u8], position: u64, offsets: [usize; LINES]) {
    let at = usize::try_from(position / 8).unwrap_or(usize::MAX);
    for offset in offsets {
        if let Some(byte) = bytes.get(at.saturating_add(offset)) {
            prefetch(byte);
        }
    }
}

/// The result of a few codes.
enum CodeStep {
    /// The target was reached or passed.
    Answer(bool),
    /// The next code, from this point on, does not fit in the buffer, or the bytes are nearly used up.
    Careful(Point),
}

/// Decodes until the target is reached or passed. `PAIRS` means that two codes usually fit in one refill.
///
/// Padding consists of zeros, which decode as repetitions of the last value. They equal a target only if that value
/// did.
#[inline(always)]
fn scan<const PAIRS: bool>(bytes: &[u8], point: Point, target: u64, p: u32) -> CodeStep {
    let Some(mut room) = target.checked_sub(point.base) else {
        return CodeStep::Answer(false);
    };
    let word = |at: usize| Some(!u64::from_be_bytes(*bytes.get(at..)?.first_chunk::<8>()?));
    let mut at = usize::try_from(point.position / 8).unwrap_or(usize::MAX);
    let Some(first) = word(at) else {
        return CodeStep::Careful(point);
    };
    // The bits of an incomplete byte are not counted, as after a refill.
    let offset = (point.position % 8) as u32;
    let (mut buffer, mut available) = (first << offset, (56 - offset) | 56);
    at += 7 + usize::from(offset > 0);
    let step = loop {
        let (first, second, bits) = if PAIRS {
            rice::read_pair(buffer, p)
        } else {
            let (delta, bits) = rice::read_one(buffer, p);
            (delta, 0, bits)
        };
        if bits > available {
            break None;
        }
        let sum = first + second;
        if sum >= room {
            break Some(first == room || sum == room);
        }
        room -= sum;
        available -= bits;
        let Some(next) = word(at) else {
            break None;
        };
        buffer = buffer << bits | next >> available;
        at += ((63 - available) >> 3) as usize;
        available |= 56;
    };
    let position = at as u64 * 8 - u64::from(available);
    // The last step looked at bits that it did not consume.
    cost::count(|| position - point.position + u64::from(WINDOW));
    match step {
        Some(found) => CodeStep::Answer(found),
        None => CodeStep::Careful(Point { position, base: target - room }),
    }
}
