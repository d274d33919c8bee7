//! The bytes of a [`ResidentFilter`]: queries read them as they are stored.
//!
//! Reading makes the lines again from their tags, so a set of tags is accepted in one form.

use alloc::vec::Vec;

use super::{COUNTS, FIRST_OWN, LineTag, MORE, Maker, ResidentFilter, Shape};
use super::{CacheLines, line_of, tag_of};
use crate::arch::SimdLevel;
use crate::arch::line::{HIGH, Line, SLOTS, as_bytes};
use crate::arch::memory::with_room;
use crate::error::{ResidentError, ResidentFault};
use crate::hash::{Nut25, fingerprint};

const MAGIC: &[u8; 8] = b"nutflook";
const VERSION: u32 = 1;
const LINE: usize = size_of::<Line>();
/// The numbers of a line.
const NUMBERS: usize = LINE / 8;

/// The header, and room for the rest. [`finish`] adds the number of exceptions.
pub(super) fn header(shape: &Shape) -> Vec<Line> {
    let mut lines = with_room(shape.lines as usize + 3);
    let mut header = Line([0; LINE]);
    let (magic, rest) = header.0.split_at_mut(8);
    magic.copy_from_slice(MAGIC);
    let (numbers, _) = rest.as_chunks_mut::<4>();
    for (place, number) in numbers.iter_mut().zip([VERSION, shape.n, shape.m as u32]) {
        *place = number.to_le_bytes();
    }
    lines.push(header);
    lines
}

/// Adds the exceptions and the checksum to the header and the lines.
pub(super) fn finish(lines: &mut Vec<Line>, exceptions: &[LineTag]) {
    lines[0].0[24..32].copy_from_slice(&(exceptions.len() as u64).to_le_bytes());
    // The last number of the last line is the checksum.
    let tail = (exceptions.len() + 1).div_ceil(NUMBERS);
    let mut numbers = exceptions.iter();
    for _ in 0..tail {
        let mut line = Line([0; LINE]);
        let (places, _) = line.0.as_chunks_mut::<8>();
        for (place, number) in places.iter_mut().zip(&mut numbers) {
            *place = number.to_le_bytes();
        }
        lines.push(line);
    }
    let bytes = as_bytes(lines);
    let checksum = fingerprint(&bytes[..bytes.len() - 8]).to_le_bytes();
    if let Some(Line(last)) = lines.last_mut() {
        last[LINE - 8..].copy_from_slice(&checksum);
    }
}

/// The lines of tags. Fewer or none if the bytes are not those that were checked.
pub(super) fn lines<'a>(bytes: &'a [u8], shape: &Shape) -> &'a [[u8; LINE]] {
    let (lines, _) = bytes.as_chunks::<LINE>();
    lines.get(1..shape.lines as usize + 2).unwrap_or_default()
}

/// The exceptions. None if the bytes are not those that were checked.
pub(super) fn exceptions<'a>(bytes: &'a [u8], shape: &Shape, count: usize) -> &'a [[u8; 8]] {
    let (numbers, _) = bytes.as_chunks::<8>();
    let first = (shape.lines as usize + 2) * NUMBERS;
    numbers.get(first..first + count).unwrap_or_default()
}

impl<D: AsRef<[u8]>> ResidentFilter<D> {
    /// A [`Nut25`] filter that was stored: [`ResidentFilter::from_bytes_with`].
    ///
    /// # Errors
    ///
    /// As [`ResidentFilter::from_bytes_with`].
    pub fn from_bytes(bytes: D) -> Result<Self, ResidentError> {
        Self::from_bytes_with(Nut25, bytes)
    }
}

impl<D: AsRef<[u8]>, H> ResidentFilter<D, H> {
    /// The bytes to store. Equal filters have equal bytes, at every SIMD level.
    ///
    /// ```text
    ///   0  "nutflook"     8  version 1 (u32)    12  N (u32)     16  M (u32)    20  zero (u32)
    ///  24  number of exceptions E (u64)         32  zeros
    ///  64  L + 1 lines of 64 bytes
    ///      E exceptions (u64), zeros up to a multiple of 64 bytes, and in the last 8 of them:
    ///      checksum (u64) of all before; all numbers little-endian
    /// ```
    ///
    /// L is the maximum of 1, `ceil(N / 17.1)` and `ceil(N * M / 2^24)`. With `K = min(floor(2^64 * L / (N * M)), 2^64 - 1)`,
    /// the key of a value v is `floor(v * K / 2^40)`. Its lowest 24 bits are the tag, the others the number of the line.
    ///
    /// The distinct tags of a line follow those that the line before it could not hold. The first 21 are in the
    /// line, up to 20 others at the front of the next, and the rest are exceptions, as keys, in ascending order.
    /// The slots that remain hold the last of the line's tags, or 0.
    ///
    /// ```text
    ///   0  the low 16 bits of 21 tags    42  their high 8 bits    63  number of the first own tag (21 if it has none)
    ///                                                                 + 32 if there are more in the next line
    ///                                                                 + 64 if there are exceptions
    /// ```
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// The same filter over a copy of its bytes that begins at a cache line. A `Vec<u8>` usually does not, and a look-up
    /// then reads two lines. A memory map does.
    #[must_use]
    pub fn into_owned(self) -> ResidentFilter<CacheLines, H> {
        let (whole, _) = self.data.as_ref().as_chunks::<LINE>();
        let mut lines = with_room(whole.len());
        lines.extend(whole.iter().map(|line| Line(*line)));
        ResidentFilter {
            data: CacheLines(lines),
            shape: self.shape,
            exceptions: self.exceptions,
            hasher: self.hasher,
            level: self.level,
        }
    }

    /// Checks bytes that were stored ([`ResidentFilter::bytes`]). They are not copied.
    ///
    /// # Errors
    ///
    /// The bytes are truncated, damaged, of another version, or not a resident filter. Any bytes get an error
    /// or a filter that answers without a panic. But an author of valid bytes chooses the answers: keep them where only
    /// you can write.
    ///
    /// # Cost
    ///
    /// Two passes over the bytes.
    pub fn from_bytes_with(hasher: H, bytes: D) -> Result<Self, ResidentError> {
        let (shape, exceptions) = check(bytes.as_ref()).map_err(ResidentError)?;
        Ok(Self { data: bytes, shape, exceptions, hasher, level: SimdLevel::detect() })
    }
}

fn check(bytes: &[u8]) -> Result<(Shape, usize), ResidentFault> {
    let len = bytes.len() as u64;
    let u32_at = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
    let u64_at = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
    if bytes.len() < LINE {
        return Err(ResidentFault::TooShort { len });
    }
    if !bytes.starts_with(MAGIC) {
        return Err(ResidentFault::Magic);
    }
    if u32_at(8) != VERSION {
        let version = u32_at(8);
        return Err(ResidentFault::Version { version });
    }
    let (n, m, count) = (u32_at(12), u64::from(u32_at(16)), u64_at(24));
    let shape = Shape::new(n, m)?;
    let tail = (u128::from(count) + 1).div_ceil(NUMBERS as u128);
    if u128::from(len) != (u128::from(shape.lines) + 2 + tail) * LINE as u128 {
        let lines = shape.lines + 1;
        return Err(ResidentFault::Length { len, lines, count });
    }
    let end = bytes.len() - 8;
    let (stored, computed) = (u64_at(end), fingerprint(&bytes[..end]));
    if stored != computed {
        return Err(ResidentFault::Checksum { stored, computed });
    }
    // Below the length of the bytes.
    let count = count as usize;
    let after = (shape.lines as usize + 2) * LINE + count * 8;
    let zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    if m == 0 || !zero(&bytes[20..24]) || !zero(&bytes[32..LINE]) || !zero(&bytes[after..end]) {
        return Err(ResidentFault::Header { n, m });
    }
    shape.check_exceptions(count as u64)?;
    let keys = exceptions(bytes, &shape, count);
    check_lines(&shape, lines(bytes, &shape), keys)?;
    Ok((shape, count))
}

/// Makes the lines again from the keys that they have.
fn check_lines(
    shape: &Shape,
    lines: &[[u8; LINE]],
    exceptions: &[[u8; 8]],
) -> Result<(), ResidentFault> {
    let mut exceptions = exceptions.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let mut exception = exceptions.next();
    let mut maker = Maker::EMPTY;
    let mut items = 0_u64;
    for (number, line) in lines.iter().enumerate() {
        let fault = ResidentFault::Line { line: number as u64 };
        let own = &tags(line)[usize::from(line[COUNTS] & FIRST_OWN).min(SLOTS)..];
        // The tags of this line in the next one. Slots that only repeat the last tag hold none.
        let next = match lines.get(number + 1) {
            Some(next) if line[COUNTS] & MORE != 0 => {
                &tags(next)[..usize::from(next[COUNTS] & FIRST_OWN).min(SLOTS)]
            }
            _ => &[],
        };
        let mut last = None;
        for &tag in own.iter().chain(next) {
            if last == Some(tag) {
                continue;
            }
            if last > Some(tag) || !maker.push(tag) {
                return Err(fault);
            }
            last = Some(tag);
            items += 1;
        }
        while let Some(key) = exception.filter(|&key| line_of(key) == number as u64) {
            if last >= Some(tag_of(key)) || maker.push(tag_of(key)) {
                return Err(ResidentFault::Exception { key });
            }
            last = Some(tag_of(key));
            items += 1;
            exception = exceptions.next();
        }
        let is_last = number as u64 == shape.lines;
        if maker.line().0 != *line || (is_last && last.is_some()) {
            return Err(fault);
        }
    }
    if let Some(key) = exception {
        return Err(ResidentFault::Exception { key });
    }
    if items > u64::from(shape.n) {
        let n = shape.n;
        return Err(ResidentFault::TooManyItems { n, items });
    }
    Ok(())
}

/// The tags of a line.
pub(super) fn tags(line: &[u8; LINE]) -> [u32; SLOTS] {
    core::array::from_fn(|slot| {
        let low = u16::from_le_bytes([line[2 * slot], line[2 * slot + 1]]);
        u32::from(low) | u32::from(line[HIGH + slot]) << 16
    })
}
