//! [`StreamEncoder`]: encodes a set that arrives in pieces, through a buffer of fixed size.
//!
//! For sets on disk: neither the hashes nor the filter need to fit in memory.

use alloc::vec;
use alloc::vec::Vec;

use super::LEAST_FREE;
use super::coder::{Carry, Coder, Output};
use crate::arch::SimdLevel;
use crate::error::{BuildError, BuildFault};
use crate::params::Params;

/// Bytes between two writes to the output: 20,000 items with the usual parameters; fits well in cache.
const BUFFER_BYTES: usize = 64 * 1024;

/// Encodes sorted hashes that arrive in pieces, for sets and filters that do not fit in memory.
///
/// N must be known before the first piece, because every value depends on it. The bytes are those of
/// [`SortedHashes::encode`](crate::SortedHashes::encode).
///
/// ```
/// use nutfilter::{BuildError, Params, SortedHashes, StreamEncoder};
///
/// let set = SortedHashes::from_items(["one", "two", "three"]);
/// let mut bytes = Vec::new();
/// let mut write = |piece: &[u8]| Ok::<(), BuildError>(bytes.extend_from_slice(piece));
/// let mut encoder = StreamEncoder::new(3, Params::default());
/// for piece in set.as_slice().chunks(2) {
///     encoder.push_hashes(piece, &mut write)?;
/// }
/// encoder.finish(&mut write)?;
/// assert_eq!(bytes, set.encode(Params::default())?.bytes());
/// # Ok::<(), BuildError>(())
/// ```
///
/// # Cost
///
/// One linear pass. Memory: a buffer of 64 KiB, for any input.
#[derive(Debug)]
pub struct StreamEncoder {
    coder: Coder,
    n: u32,
    pushed: u64,
    carry: Carry,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that belong to the stream.
    used: usize,
    /// The number of whole bytes that were written out.
    written: u64,
}

impl StreamEncoder {
    /// An encoder for a set of `n` hashes.
    #[must_use]
    pub fn new(n: u32, params: Params) -> Self {
        Self::with_buffer(SimdLevel::detect(), n, params, BUFFER_BYTES)
    }

    /// The same with a buffer of another size, subject to the minimum.
    fn with_buffer(level: SimdLevel, n: u32, params: Params, bytes: usize) -> Self {
        Self {
            coder: Coder::of_hashes(level, params, params.range(n)),
            n,
            pushed: 0,
            carry: Carry::default(),
            // Enough room for an output, in addition to bytes that are not written out yet.
            buffer: vec![0; bytes.max(2 * LEAST_FREE)],
            used: 0,
            written: 0,
        }
    }

    /// The same for values.
    pub(super) fn of_values(level: SimdLevel, n: u32, params: Params) -> Self {
        Self {
            coder: Coder::of_values(level, params),
            ..Self::with_buffer(level, n, params, BUFFER_BYTES)
        }
    }

    /// Rejects more items than N before anything of them is written.
    pub(super) fn check_room(&self, items: u32) -> Result<(), BuildError> {
        let (n, pushed) = (self.n, self.pushed + u64::from(items));
        if pushed > u64::from(n) {
            return Err(BuildError(BuildFault::OtherCount { n, pushed }));
        }
        Ok(())
    }

    /// The value of the last item.
    pub(super) fn previous(&self) -> u64 {
        self.carry.previous
    }

    /// Appends the codes of `items` items, of which the last has the value `last`: the first `bits` bits of
    /// `bytes`.
    ///
    /// # Errors
    ///
    /// Errors of `write`.
    pub(super) fn push_codes<E: From<BuildError>>(
        &mut self,
        items: u32,
        bytes: &[u8],
        bits: u64,
        last: u64,
        write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut output = Buffered {
            buffer: &mut self.buffer,
            used: &mut self.used,
            written: &mut self.written,
            write,
        };
        let (whole, tail) = bytes.split_at((bits / 8) as usize);
        // Whole bytes leave the number of bits that do not fill a byte as it is.
        let filled = self.carry.filled;
        let mask = (1 << filled) - 1;
        for part in whole.chunks(LEAST_FREE) {
            let room = output.room()?;
            let mut carried = self.carry.bits;
            let (words, rest) = part.as_chunks::<8>();
            let (places, _) = room.as_chunks_mut::<8>();
            for (word, place) in words.iter().zip(places) {
                let word = u64::from_be_bytes(*word);
                // In two steps, as `filled` may be 0.
                *place = (carried << 1 << (63 - filled) | word >> filled).to_be_bytes();
                carried = word & mask;
            }
            for (&byte, place) in rest.iter().zip(&mut room[words.len() * 8..]) {
                let both = carried << 8 | u64::from(byte);
                *place = (both >> filled) as u8;
                carried = both & mask;
            }
            self.carry.bits = carried;
            output.advance(part.len());
        }
        if let Some(&byte) = tail.first() {
            let more = (bits % 8) as u32;
            let both = self.carry.bits << more | u64::from(byte) >> (8 - more);
            self.carry.filled += more;
            if let Some(left) = self.carry.filled.checked_sub(8) {
                output.room()?[0] = (both >> left) as u8;
                output.advance(1);
                self.carry.filled = left;
            }
            self.carry.bits = both & ((1 << self.carry.filled) - 1);
        }
        self.carry.items += u64::from(items);
        self.carry.previous = last;
        self.pushed += u64::from(items);
        Ok(())
    }

    /// Encodes the next hashes, in order. `write` receives whole bytes of the stream when the buffer fills. A
    /// single code may be longer than the buffer, or memory; it is written in pieces as well.
    ///
    /// # Errors
    ///
    /// Errors of `write`, and a hash that is smaller than its predecessor. After an error the encoder is
    /// unusable.
    pub fn push_hashes<E: From<BuildError>>(
        &mut self,
        sorted: &[u64],
        write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut output = Buffered {
            buffer: &mut self.buffer,
            used: &mut self.used,
            written: &mut self.written,
            write,
        };
        self.pushed += sorted.len() as u64;
        self.coder.push(&mut self.carry, sorted, &mut output)
    }

    /// The number of bits so far.
    fn bits(&self) -> u64 {
        (self.written + self.used as u64) * 8 + u64::from(self.carry.filled)
    }

    /// Writes the remaining bits, with the last byte padded with zero bits. Returns the number of bits without
    /// padding.
    ///
    /// # Errors
    ///
    /// Errors of `write`. The number of hashes is not the declared N: the bytes are then not a filter.
    pub fn finish<E: From<BuildError>>(
        mut self,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        if self.pushed != u64::from(self.n) {
            let (n, pushed) = (self.n, self.pushed);
            return Err(BuildError(BuildFault::OtherCount { n, pushed }).into());
        }
        let bits = self.bits();
        if self.carry.filled > 0 {
            // Codes of a piece may have filled the buffer to its end.
            if self.used == self.buffer.len() {
                write(&self.buffer)?;
                self.used = 0;
            }
            self.buffer[self.used] = self.carry.last_byte();
            self.used += 1;
        }
        if self.used > 0 {
            write(&self.buffer[..self.used])?;
        }
        Ok(bits)
    }
}

/// Encodes a set in pieces whose lengths repeat `lengths`, through a buffer of the given size. For tests of all
/// uses of a [`StreamEncoder`].
///
/// # Errors
///
/// Errors of the encoder.
#[cfg(feature = "__internals")]
pub(crate) fn encode_in_pieces(
    level: SimdLevel,
    hashes: &[u64],
    params: Params,
    lengths: &[u8],
    buffer_bytes: usize,
) -> Result<super::Encoded, BuildError> {
    let n = super::count(hashes.len())?;
    let mut encoder = StreamEncoder::with_buffer(level, n, params, buffer_bytes);
    let mut bytes = Vec::new();
    let mut write = |part: &[u8]| {
        bytes.extend_from_slice(part);
        Ok::<(), BuildError>(())
    };
    let mut rest = hashes;
    let mut lengths = lengths.iter().map(|&length| usize::from(length)).cycle();
    let mut was_empty = false;
    while !rest.is_empty() {
        let length = match lengths.next() {
            // A list of only empty pieces must terminate too.
            Some(0) if was_empty => 1,
            Some(length) => length.min(rest.len()),
            None => rest.len(),
        };
        was_empty = length == 0;
        let (piece, after) = rest.split_at(length);
        encoder.push_hashes(piece, &mut write)?;
        rest = after;
    }
    let end = encoder.finish(&mut write)?;
    Ok(super::Encoded { bytes, n, end })
}

struct Buffered<'a, W> {
    buffer: &'a mut [u8],
    used: &'a mut usize,
    written: &'a mut u64,
    write: W,
}

impl<E: From<BuildError>, W: FnMut(&[u8]) -> Result<(), E>> Output for Buffered<'_, W> {
    type Error = E;

    fn room(&mut self) -> Result<&mut [u8], E> {
        if self.buffer.len() - *self.used < LEAST_FREE {
            (self.write)(&self.buffer[..*self.used])?;
            *self.written += *self.used as u64;
            *self.used = 0;
        }
        Ok(&mut self.buffer[*self.used..])
    }

    fn advance(&mut self, bytes: usize) {
        *self.used += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::encode_hashes;
    use crate::splitmix::{noise, sorted};

    fn streamed(level: SimdLevel, hashes: &[u64], params: Params, seed: u64) -> (Vec<u8>, u64) {
        let mut encoder =
            StreamEncoder::with_buffer(level, hashes.len() as u32, params, BUFFER_BYTES);
        let mut bytes = Vec::new();
        let mut rest = hashes;
        let mut sizes = noise(seed).map(|size| ((size % 3000) >> ((size >> 32) % 12)) as usize);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
            let write = |part: &[u8]| {
                assert!(part.len() <= BUFFER_BYTES);
                bytes.extend_from_slice(part);
                Ok::<(), BuildError>(())
            };
            encoder.push_hashes(piece, write).unwrap();
            rest = after;
        }
        let bits = encoder.finish(|part| {
            bytes.extend_from_slice(part);
            Ok::<(), BuildError>(())
        });
        (bytes, bits.unwrap())
    }

    #[test]
    fn stream_in_pieces_of_any_size_equals_the_filter() {
        for level in SimdLevel::available() {
            for (round, n) in [0, 1, 2, 15, 40, 3_000, 100_000].into_iter().enumerate() {
                for (p, m) in [(19, 784_931), (0, 1), (3, 100), (32, u64::from(u32::MAX))] {
                    let params = Params::new(p, m).unwrap();
                    let hashes = sorted(noise(n as u64), n);
                    let whole = encode_hashes(SimdLevel::SCALAR, &hashes, params).unwrap();
                    let streamed = streamed(level, &hashes, params, round as u64);
                    assert!(
                        streamed == (whole.bytes, whole.end),
                        "{level}, {n}, P = {p}"
                    );
                }
            }
        }
    }

    #[test]
    fn code_longer_than_the_buffer_is_written_in_pieces() {
        let params = Params::new(0, 1 << 20).unwrap();
        let hashes = [0, u64::MAX / 2, u64::MAX];
        for level in SimdLevel::available() {
            let whole = encode_hashes(SimdLevel::SCALAR, &hashes, params).unwrap();
            assert!(whole.bytes.len() > 5 * BUFFER_BYTES);
            assert!(streamed(level, &hashes, params, 1) == (whole.bytes, whole.end));
        }
    }

    #[test]
    fn descending_hashes_give_an_error_with_the_first() {
        for level in SimdLevel::available() {
            for p in [0, 1, 19, 32] {
                let params = Params::new(p, 1 << p >> 1 | 1).unwrap();
                for at in 1..80 {
                    let mut hashes: Vec<u64> = (2..102).map(|i| i << 57).collect();
                    hashes[at..].iter_mut().for_each(|hash| *hash -= 2 << 57);
                    // So many items that the hashes map to different values even at M = 1.
                    let n = 1 << 24;
                    let mut encoder = StreamEncoder::with_buffer(level, n, params, BUFFER_BYTES);
                    let error = encoder.push_hashes(&hashes, |_| Ok::<(), BuildError>(()));
                    let item = at as u64;
                    let expected = Err(BuildError(BuildFault::Unsorted { item }));
                    assert_eq!(error, expected, "{level}, P = {p}");
                }
            }
        }
    }

    #[test]
    fn wrong_number_of_hashes_is_an_error() {
        for hashes in [&[][..], &[1, 2]] {
            let mut encoder = StreamEncoder::new(1, Params::default());
            let pushed = encoder.push_hashes(hashes, |_| Ok::<(), BuildError>(()));
            pushed.unwrap();
            let pushed = hashes.len() as u64;
            let error = encoder.finish(|_| Ok::<(), BuildError>(())).unwrap_err();
            assert_eq!(error.0, BuildFault::OtherCount { n: 1, pushed });
        }
    }

    #[test]
    fn output_error_is_returned() {
        let full = BuildError(BuildFault::OutOfMemory { bytes: 7 });
        let params = Params::new(0, 1 << 20).unwrap();
        let mut encoder = StreamEncoder::new(1, params);
        let pushed = encoder.push_hashes(&[u64::MAX], |_| Err(full));
        assert_eq!(pushed, Err(full));
        let mut encoder = StreamEncoder::new(1, params);
        encoder.push_hashes(&[0], |_| Err(full)).unwrap();
        assert_eq!(encoder.finish(|_| Err(full)), Err(full));
    }
}
