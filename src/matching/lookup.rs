//! Point look-ups: each target is searched individually, from the [`Point`] that a table gives for it.
//!
//! One look-up is a dependency chain: each code waits for the previous one. Separate look-ups are independent,
//! so four run in parallel in scalar code, and 16 or 32 in vectors. The targets then need no order; sorting them
//! would take longer than finding them.
//!
//! Points are not trusted. With any point, reads stay within the bytes, and every step consumes bits. If a
//! forged point leads to bits that are not a code, the look-up returns [`Astray`].

use crate::arch::lanes::WINDOW;
#[cfg(target_arch = "x86_64")]
use crate::arch::lookup;
use crate::arch::memory::prefetch;
use crate::arch::{Kind, SimdLevel};
use crate::bits::BitReader;
use crate::cost;
use crate::decode::in_pairs;
use crate::matching::lane::{Answer, LANES, Lane};
use crate::matching::table::{Point, Table};
use crate::matching::{Coded, Strategy};
use crate::params::Params;
use crate::rice::{self, Unreadable};

/// The bits of a validated filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream<'a> {
    pub(crate) level: SimdLevel,
    pub(crate) bytes: &'a [u8],
    pub(crate) params: Params,
    /// F: the exclusive upper limit of the values.
    pub(crate) range: u64,
    /// The bit position where the last item ends.
    pub(crate) end: u64,
}

/// An invalid point led to bits that are not a code. No table of this filter contains such a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Astray;

/// The number of targets per batch. Few enough that their state stays in the first-level cache, and enough that
/// lanes waiting for the last target cost little.
pub(crate) const BATCH: usize = 256;

/// Fewer targets than this are faster one by one than in lanes.
const FEW: usize = 5;

/// Fewer targets than this do not fill the lanes of a vector kernel.
#[cfg(target_arch = "x86_64")]
const FEW_FOR_LANES: usize = 8;

impl Stream<'_> {
    /// Returns whether `target`, which is below F, is among the items after `point`. Before the target, no item
    /// is above it.
    ///
    /// # Errors
    ///
    /// The point is forged. A forged point may also give a wrong answer.
    pub(crate) fn find(&self, point: Point, target: u64) -> Result<bool, Astray> {
        // One chain of codes cannot be vectorized.
        self.level.compiled(
            #[inline(always)]
            || self.find_here(point, target),
        )
    }

    /// [`Stream::find`] from the point of a table.
    ///
    /// # Errors
    ///
    /// The table is forged.
    pub(crate) fn find_by(&self, table: &Table, target: u64) -> Result<bool, Astray> {
        self.level.compiled(
            #[inline(always)]
            || self.find_here(table.locate(target), target),
        )
    }

    #[inline(always)]
    fn find_here(&self, point: Point, target: u64) -> Result<bool, Astray> {
        if let Some(answer) = point.answer() {
            return Ok(answer);
        }
        let mut cursor = Cursor::new(self.bytes, point);
        let start = cursor.reader.position();
        let found = self.find_from(&mut cursor, target);
        // The last step looked at bits that it did not consume.
        cost::count(|| cursor.reader.position() - start + u64::from(WINDOW));
        found
    }

    #[inline(always)]
    fn find_from(&self, cursor: &mut Cursor<'_>, target: u64) -> Result<bool, Astray> {
        let (p, in_pairs) = (self.params.p(), in_pairs(self.params));
        loop {
            let step = if in_pairs {
                cursor.pairs_to(target, p)
            } else {
                cursor.singles_to(target, p)
            };
            match step {
                Outcome::Found => return Ok(true),
                Outcome::Absent => return Ok(false),
                Outcome::Careful => {}
            }
            if let Some(found) = self.find_with_care(cursor, target)? {
                return Ok(found);
            }
        }
    }

    /// Decodes one code that is long or near the end of the bytes. Returns the answer if it is known after
    /// that. If the code leads beyond the target, reads only as much as it needs to detect that.
    #[cold]
    #[inline(never)]
    fn find_with_care(&self, cursor: &mut Cursor<'_>, target: u64) -> Result<Option<bool>, Astray> {
        if cursor.value > target || cursor.reader.position() >= self.end {
            return Ok(Some(false));
        }
        let p = self.params.p();
        let room = target - cursor.value;
        let delta = match rice::read(&mut cursor.reader, p, room >> p) {
            Ok(delta) => delta,
            Err(Unreadable::QuotientTooLarge) => return Ok(Some(false)),
            Err(Unreadable::RunCut | Unreadable::RemainderCut) => return Err(Astray),
        };
        if delta >= room {
            return Ok(Some(delta == room));
        }
        cursor.value += delta;
        Ok(None)
    }

    /// Calls `visit` with the index in `targets` of each member of the set, in order, until `visit` returns
    /// false. `locate` gives the points for a batch of targets.
    ///
    /// # Errors
    ///
    /// The points are forged.
    pub(crate) fn find_each(
        &self,
        locate: impl Fn(&[u64], &mut [Point]),
        targets: &[u64],
        mut visit: impl FnMut(usize) -> bool,
    ) -> Result<(), Astray> {
        if targets.len() < FEW {
            for (at, target) in targets.iter().enumerate() {
                let mut point = [Point::default()];
                locate(core::slice::from_ref(target), &mut point);
                let found = *target < self.range && self.find(point[0], *target)?;
                if found && !visit(at) {
                    break;
                }
            }
            return Ok(());
        }
        let mut points = [Point::default(); BATCH];
        let mut found = [false; BATCH];
        for (batch, targets) in (0..).step_by(BATCH).zip(targets.chunks(BATCH)) {
            let points = &mut points[..targets.len()];
            let found = &mut found[..targets.len()];
            locate(targets, points);
            // Targets beyond the range are in no part, and no item would stop their search.
            for (point, _) in points
                .iter_mut()
                .zip(targets)
                .filter(|&(_, &target)| target >= self.range)
            {
                *point = Point::ABSENT;
            }
            prefetch_bits(self.bytes, points);
            self.find_batch(points, targets, found)?;
            for (at, _) in (batch..).zip(&*found).filter(|&(_, &found)| found) {
                if !visit(at) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// [`Stream::find_each`] with the points of an index, or one pass over the filter if that is cheaper.
    ///
    /// # Errors
    ///
    /// The index is forged.
    pub(crate) fn visit_matches(
        &self,
        strategy: Strategy,
        table: &Table,
        n: u32,
        targets: &[u64],
        mut visit: impl FnMut(usize) -> bool,
    ) -> Result<(), Astray> {
        let planned = || table.planned(self.level, (n, self.bytes.len()), targets.len());
        let strategy = strategy.unless_open(planned);
        if strategy != Strategy::Lookup {
            let coded = Coded {
                level: self.level,
                bytes: self.bytes,
                n,
                params: self.params,
            };
            let visited = coded.visit_matches(strategy, targets, false, visit);
            return visited.map_err(|_| Astray);
        }
        let locate = |targets: &[u64], points: &mut [Point]| {
            table.locate_all(self.level, targets, points);
        };
        self.find_each(locate, targets, &mut visit)
    }

    /// Returns for each target whether it is in the set, given its point. Targets at or above F are not.
    fn find_batch(
        &self,
        points: &[Point],
        targets: &[u64],
        found: &mut [bool],
    ) -> Result<(), Astray> {
        match self.level.kind() {
            Kind::Scalar => self.find_in_fours(points, targets, found),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(avx2) if self.suits_lanes(targets) => {
                self.find_in_lanes(avx2, points, targets, found)
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(avx512) if self.suits_lanes(targets) => {
                self.find_in_lanes(avx512, points, targets, found)
            }
            #[cfg(target_arch = "x86_64")]
            _ => self.level.compiled(
                #[inline(always)]
                || self.find_in_fours(points, targets, found),
            ),
        }
    }

    /// Whether the lanes' numbers can hold the values, and there are enough targets.
    #[cfg(target_arch = "x86_64")]
    fn suits_lanes(&self, targets: &[u64]) -> bool {
        self.params.p() <= Params::MAX_P && self.range < 1 << 62 && targets.len() >= FEW_FOR_LANES
    }

    /// Four chains of codes in parallel: while one waits for its last code, the others proceed.
    #[inline(always)]
    fn find_in_fours(
        &self,
        points: &[Point],
        targets: &[u64],
        found: &mut [bool],
    ) -> Result<(), Astray> {
        let (p, in_pairs) = (self.params.p(), in_pairs(self.params));
        let n = targets.len();
        let Some(last) = self
            .bytes
            .len()
            .checked_sub(8)
            .filter(|_| in_pairs && n >= LANES)
        else {
            for ((found, &point), &target) in found.iter_mut().zip(points).zip(targets) {
                *found = target < self.range && self.find_here(point, target)?;
            }
            return Ok(());
        };
        let mut lanes: [Lane; LANES] = core::array::from_fn(|at| Lane::new(points, targets, at));
        let mut next = LANES;
        loop {
            // When a lane stops, all lanes are checked.
            let [a, b, c, d] = &mut lanes;
            while a.step(self.bytes, last, p)
                && b.step(self.bytes, last, p)
                && c.step(self.bytes, last, p)
                && d.step(self.bytes, last, p)
            {}
            for lane in &mut lanes {
                let Some(answer) = lane.answer(self.bytes, last, p) else {
                    continue;
                };
                self.settle(lane.place, answer, points, targets, found)?;
                if next < n {
                    *lane = Lane::new(points, targets, next);
                    next += 1;
                    continue;
                }
                // The other lanes have no targets left to share with.
                let settled = lane.place;
                for lane in lanes.iter().filter(|lane| lane.place != settled) {
                    self.settle(lane.place, Answer::Careful, points, targets, found)?;
                }
                return Ok(());
            }
        }
    }

    /// Writes the answer for the target at `place`, after a careful look-up if necessary.
    #[inline(always)]
    fn settle(
        &self,
        place: usize,
        answer: Answer,
        points: &[Point],
        targets: &[u64],
        found: &mut [bool],
    ) -> Result<(), Astray> {
        found[place] = targets[place] < self.range
            && match answer {
                Answer::Known(answer) => answer,
                Answer::Careful => self.find_here(points[place], targets[place])?,
            };
        Ok(())
    }

    /// Not inlined: the scalar look-ups next to it would have fewer registers.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn find_in_lanes<const N: usize>(
        &self,
        simd: impl lookup::LookUp<N>,
        points: &[Point],
        targets: &[u64],
        found: &mut [bool],
    ) -> Result<(), Astray> {
        let mut answers = [lookup::ABSENT; BATCH];
        let answers = &mut answers[..targets.len()];
        let code = (self.params.p(), in_pairs(self.params));
        lookup::look_up(simd, self.bytes, code, points, targets, answers);
        for (at, found) in found.iter_mut().enumerate() {
            *found = targets[at] < self.range
                && match answers[at] {
                    lookup::ABSENT => false,
                    lookup::FOUND => true,
                    // A long code, or the last few items: the lanes leave those to this function.
                    _ => self.find(points[at], targets[at])?,
                };
        }
        Ok(())
    }
}

/// Prefetches the bits of all targets. Otherwise look-ups in a filter larger than the second-level cache would take
/// twice the time.
fn prefetch_bits(bytes: &[u8], points: &[Point]) {
    for point in points {
        let at = usize::try_from(point.position / 8).unwrap_or(usize::MAX);
        // Half a step of 16 items takes 21 bytes.
        for line in [at, at.saturating_add(64)] {
            if let Some(byte) = bytes.get(line) {
                prefetch(byte);
            }
        }
    }
}

/// The state of a look-up. All values before it are below the target, except the initial 0 before the first
/// item.
#[derive(Clone, Debug)]
struct Cursor<'a> {
    reader: BitReader<'a>,
    value: u64,
}

enum Outcome {
    Found,
    Absent,
    /// The next code does not fit in the buffer, or the bytes are nearly used up.
    Careful,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn new(bytes: &'a [u8], point: Point) -> Self {
        Self {
            reader: BitReader::at(bytes, point.position),
            value: point.base,
        }
    }

    /// Decodes until the target is reached or passed. Padding consists of zeros, which decode as repetitions of
    /// the last value. They equal a target only if that value did.
    #[inline(always)]
    fn pairs_to(&mut self, target: u64, p: u32) -> Outcome {
        // A local copy keeps the reader in registers during the loop.
        let mut reader = self.reader.clone();
        let Some(mut room) = target.checked_sub(self.value) else {
            return Outcome::Absent;
        };
        let step = loop {
            if !reader.refill_by_word() {
                break Outcome::Careful;
            }
            let (buffer, available) = reader.peek();
            let (first, second, bits) = rice::read_pair(buffer, p);
            if bits > available {
                break Outcome::Careful;
            }
            let sum = first + second;
            if sum >= room {
                break if first == room || sum == room {
                    Outcome::Found
                } else {
                    Outcome::Absent
                };
            }
            reader.consume(bits);
            room -= sum;
        };
        self.reader = reader;
        self.value = target - room;
        step
    }

    /// The same for codes of which two do not fit in one refill.
    #[inline(always)]
    fn singles_to(&mut self, target: u64, p: u32) -> Outcome {
        let mut reader = self.reader.clone();
        let Some(mut room) = target.checked_sub(self.value) else {
            return Outcome::Absent;
        };
        let step = loop {
            if !reader.refill_by_word() {
                break Outcome::Careful;
            }
            let (buffer, available) = reader.peek();
            let (delta, bits) = rice::read_one(buffer, p);
            if bits > available {
                break Outcome::Careful;
            }
            if delta >= room {
                break if delta == room {
                    Outcome::Found
                } else {
                    Outcome::Absent
                };
            }
            reader.consume(bits);
            room -= delta;
        };
        self.reader = reader;
        self.value = target - room;
        step
    }
}
