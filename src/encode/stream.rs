//! [`StreamEncoder`]: a set that is pushed piece by piece, coded through a buffer of fixed size.
//!
//! For sets that lie on disk. F has to be known before the first piece, and so N; the hashes and the filter need
//! not fit in memory.

use alloc::vec;
use alloc::vec::Vec;

use super::LEAST_FREE;
use super::coder::{Carry, Coder, Output};
use crate::arch::Level;
use crate::error::BuildError;
use crate::params::Params;

/// Bytes between two writes to the output: 20,000 items at the usual parameters, and well in cache.
const BUFFER_BYTES: usize = 64 * 1024;

/// Codes a set in bounded memory: whatever it is given, it holds one buffer and no more.
#[derive(Debug)]
pub(crate) struct StreamEncoder {
    coder: Coder,
    carry: Carry,
    buffer: Vec<u8>,
    /// The bytes of the buffer that are the stream's.
    used: usize,
    /// Whole bytes that were written out.
    written: u64,
}

impl StreamEncoder {
    /// For a set whose values are below `range`: F.
    pub(crate) fn new(level: Level, range: u64, params: Params) -> Self {
        Self::with_buffer(level, range, params, BUFFER_BYTES)
    }

    /// The same with a buffer of another size, as far as there can be one of that size.
    fn with_buffer(level: Level, range: u64, params: Params, bytes: usize) -> Self {
        Self {
            coder: Coder::of_hashes(level, params, range),
            carry: Carry::default(),
            // Room as an output has to give it, after whatever is not written out yet.
            buffer: vec![0; bytes.max(2 * LEAST_FREE)],
            used: 0,
            written: 0,
        }
    }

    /// Codes the hashes that come next, in order; `write` gets whole bytes of the stream as the buffer
    /// fills. A single code may be longer than the buffer, or memory: it is written piece by piece too.
    ///
    /// # Errors
    ///
    /// Those of `write`, and a hash that is smaller than the one before it. After an error the encoder is
    /// of no use.
    pub(crate) fn push_hashes<E: From<BuildError>>(
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
        self.coder.push(&mut self.carry, sorted, &mut output)
    }

    /// The number of bits so far.
    pub(crate) fn bits(&self) -> u64 {
        (self.written + self.used as u64) * 8 + u64::from(self.carry.filled)
    }

    /// Writes what is left, the last byte filled up with zero-bits; gives the number of bits without those.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub(crate) fn finish<E>(
        mut self,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let bits = self.bits();
        if self.carry.filled > 0 {
            // There is room: every store of a short loop took more.
            self.buffer[self.used] = self.carry.last_byte();
            self.used += 1;
        }
        if self.used > 0 {
            write(&self.buffer[..self.used])?;
        }
        Ok(bits)
    }
}

/// The stream of a set that comes in pieces of these lengths, over and over, through a buffer of so many bytes: for
/// tests of what a caller can do to a [`StreamEncoder`].
///
/// # Errors
///
/// Those of the encoder.
#[cfg(feature = "store")]
pub(crate) fn encode_in_pieces(
    level: Level,
    hashes: &[u64],
    params: Params,
    lengths: &[u8],
    buffer_bytes: usize,
) -> Result<super::Encoded, BuildError> {
    let n = super::count(hashes.len())?;
    let mut encoder = StreamEncoder::with_buffer(level, params.range(n), params, buffer_bytes);
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
            // A list of nothing but empty pieces has to end too.
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
    use crate::error::BuildFault;
    use crate::noise::{noise, sorted};

    fn streamed(level: Level, hashes: &[u64], params: Params, seed: u64) -> (Vec<u8>, u64) {
        let mut encoder = StreamEncoder::new(level, params.range(hashes.len() as u32), params);
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
    fn a_stream_in_pieces_of_any_size_is_the_filter() {
        for level in Level::available() {
            for (round, n) in [0, 1, 2, 15, 40, 3_000, 100_000].into_iter().enumerate() {
                for (p, m) in [(19, 784_931), (0, 1), (3, 100), (32, u64::from(u32::MAX))] {
                    let params = Params::new(p, m).unwrap();
                    let hashes = sorted(noise(n as u64), n);
                    let whole = encode_hashes(Level::PORTABLE, &hashes, params).unwrap();
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
    fn a_code_longer_than_the_buffer_goes_out_in_pieces() {
        let params = Params::new(0, 1 << 20).unwrap();
        let hashes = [0, u64::MAX / 2, u64::MAX];
        for level in Level::available() {
            let whole = encode_hashes(Level::PORTABLE, &hashes, params).unwrap();
            assert!(whole.bytes.len() > 5 * BUFFER_BYTES);
            assert!(streamed(level, &hashes, params, 1) == (whole.bytes, whole.end));
        }
    }

    #[test]
    fn descending_hashes_are_an_error_that_names_the_first() {
        for level in Level::available() {
            for p in [0, 1, 19, 32] {
                let params = Params::new(p, 1 << p >> 1 | 1).unwrap();
                for at in 1..80 {
                    let mut hashes: Vec<u64> = (2..102).map(|i| i << 57).collect();
                    hashes[at..].iter_mut().for_each(|hash| *hash -= 2 << 57);
                    let mut encoder = StreamEncoder::new(level, u64::MAX >> 40, params);
                    let error = encoder.push_hashes(&hashes, |_| Ok::<(), BuildError>(()));
                    let item = at as u64;
                    let expected = Err(BuildError(BuildFault::Unsorted { item }));
                    assert_eq!(error, expected, "{level}, P = {p}");
                }
            }
        }
    }

    #[test]
    fn an_error_of_the_output_is_handed_on() {
        let full = BuildError(BuildFault::OutOfMemory { bytes: 7 });
        let params = Params::new(0, 1 << 20).unwrap();
        let mut encoder = StreamEncoder::new(Level::detect(), 1 << 22, params);
        let pushed = encoder.push_hashes(&[u64::MAX], |_| Err(full));
        assert_eq!(pushed, Err(full));
        let mut encoder = StreamEncoder::new(Level::detect(), 1 << 22, params);
        encoder.push_hashes(&[0], |_| Err(full)).unwrap();
        assert_eq!(encoder.finish(|_| Err(full)), Err(full));
    }
}
