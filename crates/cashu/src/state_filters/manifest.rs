//! [`Manifest`]: the list of the segments of a sequence, and the rules of the sequence.
//!
//! A sequence holds the elements of one kind of event, in segments by interval of time. The *cover* is a list of
//! intervals without gaps from 0 on. Compaction merges the segments of finished ten minutes, hours, days, months and
//! years ([`Level`]). Parts that were just merged stay listed for a while, inside the interval of their merge, so that
//! a wallet between two downloads needs only what is new.
//!
//! Every manifest has a number and names the SHA-256 of the bytes of the one before it.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::RangeInclusive;

use data_encoding::HEXLOWER;
use nutfilter::segment::Universe;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Event;
use super::sequence_error::{Fault, MAX_NUMBER, SequenceError, parse};

/// The width of the universe of a new sequence, unless the operator chooses another.
///
/// A non-member then matches n values with probability n / 2^36, 11 times less often than the draft's blocks.
/// `docs/proposal.md` compares widths.
pub const DEFAULT_WIDTH: u32 = 36;

/// Number of older manifests that a mint serves.
pub const KEPT_MANIFESTS: u64 = 1_000;

/// Seconds after which a mint writes another manifest, also if nothing happened. So a follower can tell a mint without
/// events from one that stands still.
pub const HEARTBEAT: u64 = 3_600;

/// Maximum number of segments in a manifest. Those of this crate's rules list about 200 after ten years. Each can cost
/// a wallet one request.
pub const MAX_SEGMENTS: usize = 2_000;

/// Maximum number of intervals inside each other: what is new, and the five levels of compaction.
pub const MAX_NESTING: usize = Level::ALL.len() + 1;

/// The draft's error code for an object that does not exist: a height, a segment or the number of a manifest.
pub const CODE_UNKNOWN_OBJECT: i64 = 40001;

/// The draft's error code for a kind that the mint does not cover.
pub const CODE_UNKNOWN_KIND: i64 = 40002;

/// The media type of blocks and segments.
pub const OBJECT_MEDIA_TYPE: &str = "application/octet-stream";

/// What a request costs besides the object, in bytes: the heads of request and response.
pub const REQUEST_BYTES: u64 = 500;

/// The version in a manifest.
const VERSION: u64 = 1;

/// Bytes of a segment besides its code: head, w, P, n and checksum.
const SEGMENT_FIXED_BYTES: u64 = 10 + 6 + 4;

/// The SHA-256 of published bytes.
pub type Hash = [u8; 32];

/// Computes the SHA-256 that manifests name.
#[must_use]
pub fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// A level of compaction. When a segment ends in a later unit of a level than the one before it, the segments of
/// the finished unit are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// 600 s.
    TenMinutes,
    /// 3,600 s.
    Hour,
    /// 86,400 s.
    Day,
    /// 30 days.
    Month,
    /// 360 days.
    Year,
}

impl Level {
    /// All levels, the finest first.
    pub const ALL: [Self; 5] = [
        Self::TenMinutes,
        Self::Hour,
        Self::Day,
        Self::Month,
        Self::Year,
    ];

    /// The length of a unit, in seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::TenMinutes => 600,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Month => 30 * 86_400,
            Self::Year => 360 * 86_400,
        }
    }

    /// How long the parts of a merge into this level stay listed and served after it, in seconds.
    ///
    /// Parts save a wallet from downloading the whole merge for a short interval, and cost everybody a longer
    /// manifest. Minutes are listed just long enough for a download that has begun. Larger parts are listed until a
    /// wallet that visits every hour, or twice per part, has seen the merge.
    #[must_use]
    pub const fn grace(self) -> u64 {
        match self {
            Self::TenMinutes => 300,
            Self::Hour => Self::Hour.seconds(),
            Self::Day => 2 * Self::Hour.seconds(),
            Self::Month => 2 * Self::Day.seconds(),
            Self::Year => 2 * Self::Month.seconds(),
        }
    }
}

/// One segment in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestSegment {
    /// Start of the interval, in Unix seconds.
    pub start: u64,
    /// End of the interval, which is not part of it.
    pub end: u64,
    /// Number of values.
    pub n: u32,
    /// Length of the file, in bytes.
    pub length: u64,
    /// SHA-256 of the file.
    pub sha256: Hash,
}

/// The segments of a sequence at one moment.
///
/// ```
/// use nutfilter::segment::{Segment, Universe};
/// use nutfilter_cashu::state_filters::manifest::{Manifest, ManifestSegment, hash};
/// use nutfilter_cashu::state_filters::Event;
///
/// let universe = Universe::new(36)?;
/// let file = Segment::from_elements(universe, &[[1; 32], [2; 32]])?.to_bytes();
/// let manifest = Manifest {
///     kind: Event::BlindSignature,
///     states: Vec::new(),
///     universe,
///     number: 0,
///     previous: None,
///     time: 1_767_225_600,
///     segments: vec![ManifestSegment {
///         start: 0,
///         end: 1_767_225_600,
///         n: 2,
///         length: file.len() as u64,
///         sha256: hash(&file),
///     }],
/// };
/// assert_eq!(Manifest::from_json(&manifest.to_json())?, manifest);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The kind of the events.
    pub kind: Event,
    /// The states whose events the sequence holds. Empty for a kind without states.
    pub states: Vec<&'static str>,
    /// The universe of all segments.
    pub universe: Universe,
    /// 0 for the first manifest of a sequence, one more for each further one.
    pub number: u64,
    /// SHA-256 of the bytes of the manifest before; `None` for number 0.
    pub previous: Option<Hash>,
    /// When it was written, in Unix seconds.
    pub time: u64,
    /// By start, then by descending end.
    pub segments: Vec<ManifestSegment>,
}

impl Manifest {
    /// Parses and checks a manifest. Unknown members are ignored.
    ///
    /// # Errors
    ///
    /// The bytes are not such a JSON object, or [`Manifest::check`] fails.
    pub fn from_json(json: &[u8]) -> Result<Self, SequenceError> {
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let Version { version } = parse(json)?;
        if version != VERSION {
            return Err(SequenceError(Fault::Version { version }));
        }
        let wire: Wire = parse(json)?;
        let kind = Event::from_name(&wire.kind).ok_or(SequenceError(Fault::Kind))?;
        let state = |state: &String| {
            let known = kind.states().iter().find(|known| *known == state);
            known.copied().filter(|known| !known.is_empty())
        };
        let states = wire.states.iter().flatten().map(state).collect();
        let width = wire.w;
        let manifest = Self {
            kind,
            states: Option::ok_or(states, SequenceError(Fault::States { kind }))?,
            universe: Universe::new(width)
                .map_err(|_| SequenceError(Fault::UniverseWidth { width }))?,
            number: wire.number,
            previous: match &wire.previous {
                None => None,
                Some(hex) => Some(from_hex(hex, "previous")?),
            },
            time: wire.time,
            segments: wire
                .segments
                .iter()
                .map(ManifestSegment::read)
                .collect::<Result<_, _>>()?,
        };
        manifest.check()?;
        Ok(manifest)
    }

    /// The manifest as JSON. Equal manifests give equal bytes.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let wire = Wire {
            version: VERSION,
            kind: self.kind.as_str().into(),
            states: match self.states.is_empty() {
                true => None,
                false => Some(self.states.iter().map(|&state| state.into()).collect()),
            },
            w: self.universe.width(),
            number: self.number,
            previous: self.previous.as_ref().map(|hash| HEXLOWER.encode(hash)),
            time: self.time,
            segments: self.segments.iter().map(ManifestSegment::write).collect(),
        };
        // Writing strings and numbers to memory cannot fail.
        serde_json::to_vec(&wire).unwrap_or_default()
    }

    /// Checks everything that can be checked without the segments: states, number and previous, the order of the
    /// intervals, that the cover has no gaps and no overlaps, that parts lie inside the cover and inside each
    /// other, and that each length is possible for its n.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn check(&self) -> Result<(), SequenceError> {
        let fail = |fault| Err(SequenceError(fault));
        let kind = self.kind;
        let has_states = kind.states() != [""];
        let repeated = |at: usize| self.states[..at].contains(&self.states[at]);
        if has_states == self.states.is_empty()
            || !self
                .states
                .iter()
                .all(|state| kind.states().contains(state))
            || (0..self.states.len()).any(repeated)
        {
            return fail(Fault::States { kind });
        }
        let number = self.number;
        if (number == 0) != self.previous.is_none() {
            return fail(Fault::Previous { number });
        }
        let largest = [number, self.time]
            .into_iter()
            .chain(self.segments.iter().map(|segment| segment.end))
            .max();
        if let Some(number) = largest.filter(|&largest| largest > MAX_NUMBER) {
            return fail(Fault::TooLarge { number });
        }
        self.check_intervals()?;
        for segment in &self.segments {
            let &ManifestSegment { start, n, .. } = segment;
            if u64::from(n) > self.universe.size() {
                let width = self.universe.width();
                return fail(Fault::TooManyValues { start, n, width });
            }
            let (length, range) = (segment.length, segment_lengths(self.universe, n));
            if !range.contains(&length) {
                let (min, max) = range.into_inner();
                return fail(Fault::Length {
                    start,
                    n,
                    length,
                    min,
                    max,
                });
            }
        }
        Ok(())
    }

    fn check_intervals(&self) -> Result<(), SequenceError> {
        let fail = |fault| Err(SequenceError(fault));
        let segments = self.segments.len();
        if segments == 0 {
            return fail(Fault::NoSegments);
        }
        if segments > MAX_SEGMENTS {
            return fail(Fault::TooManySegments { segments });
        }
        let mut covered = 0;
        // The ends of the intervals around the current one, the innermost last.
        let mut around: Vec<u64> = Vec::new();
        let mut last = None;
        for &ManifestSegment { start, end, .. } in &self.segments {
            if start >= end {
                return fail(Fault::Interval { start, end });
            }
            let key = (start, Reverse(end));
            if last.is_some_and(|last| last >= key) {
                return fail(Fault::Order { start, end });
            }
            last = Some(key);
            while around.last().is_some_and(|&outer| outer <= start) {
                around.pop();
            }
            match around.last() {
                Some(&outer) if end > outer => {
                    return fail(Fault::Overlap { start, end, outer });
                }
                Some(_) => {}
                None if start != covered => return fail(Fault::Gap { covered, start }),
                None => covered = end,
            }
            around.push(end);
            if around.len() > MAX_NESTING {
                return fail(Fault::Nesting { start, end });
            }
        }
        Ok(())
    }

    /// The segments of the cover: intervals without overlaps that together go from 0 to [`Manifest::end`].
    pub fn cover(&self) -> impl Iterator<Item = &ManifestSegment> {
        let mut covered = 0;
        self.segments.iter().filter(move |segment| {
            let is_cover = segment.start >= covered;
            if is_cover {
                covered = segment.end;
            }
            is_cover
        })
    }

    /// The end of the last interval.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.cover().last().map_or(0, |segment| segment.end)
    }
}

/// The lengths that the file of a segment of `n` values can have.
#[must_use]
pub fn segment_lengths(universe: Universe, n: u32) -> RangeInclusive<u64> {
    let p = universe.remainder_bits(n);
    let bits = u64::from(n) * u64::from(p + 1);
    let quotients = match n {
        0 => 0,
        _ => (universe.size() - 1) >> p,
    };
    SEGMENT_FIXED_BYTES + bits.div_ceil(8)..=SEGMENT_FIXED_BYTES + (bits + quotients).div_ceil(8)
}

/// The segments that together hold everything from `since` on, in the fewest bytes: a merge, or those of its parts
/// that end after `since`, if the parts are complete.
///
/// # Cost
///
/// Linear, for each of at most [`MAX_NESTING`] levels. Parts below them are ignored.
#[must_use]
pub fn cheapest_cover(listed: &[ManifestSegment], since: u64) -> Vec<ManifestSegment> {
    cover_from(listed, since, MAX_NESTING)
}

fn cover_from(mut listed: &[ManifestSegment], since: u64, levels: usize) -> Vec<ManifestSegment> {
    let mut chosen = Vec::new();
    while let Some((whole, rest)) = listed.split_first() {
        let inside = rest.iter().take_while(|part| part.end <= whole.end).count();
        let (parts, after) = rest.split_at(inside);
        listed = after;
        if whole.end <= since {
            continue;
        }
        let cost = |segments: &[ManifestSegment]| -> u64 {
            let lengths = segments.iter().map(|one| one.length + REQUEST_BYTES);
            lengths.sum()
        };
        let by_parts = match levels.checked_sub(1) {
            Some(levels) if tiles(parts, whole.start, whole.end) => {
                cover_from(parts, since, levels)
            }
            _ => vec![*whole],
        };
        if cost(&by_parts) < cost(&[*whole]) {
            chosen.extend(by_parts);
        } else {
            chosen.push(*whole);
        }
    }
    chosen
}

/// Whether the outermost of these intervals cover an interval without gaps.
#[must_use]
pub fn tiles(parts: &[ManifestSegment], start: u64, end: u64) -> bool {
    let mut covered = start;
    for part in parts {
        if part.start == covered {
            covered = part.end;
        }
    }
    !parts.is_empty() && covered == end
}

#[derive(Serialize, Deserialize)]
struct Wire {
    version: u64,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<Vec<String>>,
    w: u32,
    number: u64,
    previous: Option<String>,
    time: u64,
    segments: Vec<WireSegment>,
}

#[derive(Serialize, Deserialize)]
struct WireSegment {
    start: u64,
    end: u64,
    n: u32,
    length: u64,
    sha256: String,
}

impl ManifestSegment {
    fn read(wire: &WireSegment) -> Result<Self, SequenceError> {
        Ok(Self {
            start: wire.start,
            end: wire.end,
            n: wire.n,
            length: wire.length,
            sha256: from_hex(&wire.sha256, "sha256")?,
        })
    }

    fn write(&self) -> WireSegment {
        WireSegment {
            start: self.start,
            end: self.end,
            n: self.n,
            length: self.length,
            sha256: HEXLOWER.encode(&self.sha256),
        }
    }
}

fn from_hex(text: &str, member: &'static str) -> Result<Hash, SequenceError> {
    let bytes = HEXLOWER.decode(text.as_bytes()).ok();
    let hash = bytes.and_then(|bytes| bytes.try_into().ok());
    hash.ok_or(SequenceError(Fault::Hex { member }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(intervals: &[(u64, u64, u64)]) -> Vec<ManifestSegment> {
        let segment = |&(start, end, length)| ManifestSegment {
            start,
            end,
            n: 1,
            length,
            sha256: [0; 32],
        };
        intervals.iter().map(segment).collect()
    }

    fn cover(intervals: &[(u64, u64, u64)], since: u64) -> Vec<(u64, u64)> {
        let cover = cheapest_cover(&listed(intervals), since);
        cover.iter().map(|one| (one.start, one.end)).collect()
    }

    #[test]
    fn cover_takes_parts_only_if_they_are_complete_and_cheaper() {
        let day = [
            (0, 100, 90_000),
            (100, 200, 90_000),
            (100, 120, 30_000),
            (120, 150, 30_000),
            (150, 200, 40_000),
            (200, 210, 50),
        ];
        assert_eq!(cover(&day, 0), [(0, 100), (100, 200), (200, 210)]);
        assert_eq!(cover(&day, 100), [(100, 200), (200, 210)]);
        assert_eq!(cover(&day, 119), [(100, 200), (200, 210)]);
        assert_eq!(cover(&day, 120), [(120, 150), (150, 200), (200, 210)]);
        assert_eq!(cover(&day, 199), [(150, 200), (200, 210)]);
        assert_eq!(cover(&day, 200), [(200, 210)]);
        assert_eq!(cover(&day, 210), []);
        // Without the part in the middle, only the whole covers the interval.
        let mut incomplete = day.to_vec();
        incomplete.remove(3);
        assert_eq!(cover(&incomplete, 150), [(100, 200), (200, 210)]);
    }

    #[test]
    fn cover_uses_parts_of_parts() {
        let nested = [
            (0, 1_000, 900_000),
            (0, 500, 500_000),
            (500, 1_000, 500_000),
            (500, 700, 200_000),
            (700, 1_000, 310_000),
        ];
        assert_eq!(cover(&nested, 800), [(700, 1_000)]);
        assert_eq!(cover(&nested, 600), [(500, 1_000)]);
        assert_eq!(cover(&nested, 0), [(0, 1_000)]);
    }
}
