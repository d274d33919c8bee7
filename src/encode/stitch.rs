//! [`stitch`]: joins the pieces of a filter, through a buffer of fixed size.
//!
//! Stitching writes the missing code of each piece and appends the others, shifted by 0 to 7 bits.

use alloc::vec;
use alloc::vec::Vec;

use super::coder::{Carry, Coder, StreamOutput};
use super::{LEAST_FREE, Piece};
use crate::arch::SimdLevel;
use crate::error::{BuildError, BuildFault};
use crate::params::Params;

/// Bytes between two writes to the output: 20,000 items with the usual parameters; fits well in cache.
const BUFFER_BYTES: usize = 64 * 1024;

/// Joins the pieces of a filter of `n` items, given in the order of their ranges, to the bytes of
/// [`SortedHashes::encode`](crate::SortedHashes::encode) of the whole set. `write` receives them part by part.
///
/// # Errors
///
/// Errors of `write`. A piece has another N, P or M, or begins before the end of its predecessor, or the pieces do
/// not have `n` items together; the bytes that were written are then not a filter.
///
/// # Cost
///
/// One pass over the bytes. Memory: one piece at a time, and a buffer of 64 KiB. Whatever the pieces say, at most
/// `n * (P + 1)` bits plus a bit for each `2^P` of the range `n * M` are written.
pub fn stitch<E: From<BuildError>>(
    n: u32,
    params: Params,
    pieces: impl IntoIterator<Item = Piece>,
    write: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    stitch_at(SimdLevel::detect(), n, params, pieces, write)
}

fn stitch_at<E: From<BuildError>>(
    level: SimdLevel,
    n: u32,
    params: Params,
    pieces: impl IntoIterator<Item = Piece>,
    write: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let coder = Coder::of_values(level, params);
    let mut carry = Carry::default();
    let mut output = Buffered { buffer: vec![0; BUFFER_BYTES], used: 0, write };
    for (at, piece) in (0_u64..).zip(pieces) {
        if (piece.n, piece.params) != (n, params) {
            return Err(BuildError(BuildFault::OtherFilter { piece: at }).into());
        }
        if piece.is_empty() {
            continue;
        }
        // Before anything of the piece is written.
        let pushed = carry.items + u64::from(piece.items);
        if pushed > u64::from(n) {
            return Err(BuildError(BuildFault::OtherCount { n, pushed }).into());
        }
        if piece.first < carry.previous {
            return Err(BuildError(BuildFault::PieceOrder { piece: at }).into());
        }
        coder.push(&mut carry, &[piece.first], &mut output)?;
        append_codes(&mut carry, &piece, &mut output)?;
    }
    if carry.items != u64::from(n) {
        let pushed = carry.items;
        return Err(BuildError(BuildFault::OtherCount { n, pushed }).into());
    }
    output.finish(&carry)
}

/// Appends the codes of a piece, of all items but the first.
fn append_codes<O: StreamOutput>(
    carry: &mut Carry,
    piece: &Piece,
    output: &mut O,
) -> Result<(), O::Error> {
    let (bytes, bits) = (&piece.bytes, piece.bits);
    let (whole, tail) = bytes.split_at((bits / 8) as usize);
    // Whole bytes leave the number of bits that do not fill a byte as it is.
    let filled = carry.filled;
    let mask = (1 << filled) - 1;
    for part in whole.chunks(LEAST_FREE) {
        let room = output.room()?;
        let mut carried = carry.bits;
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
        carry.bits = carried;
        output.commit(part.len());
    }
    if let Some(&byte) = tail.first() {
        let more = (bits % 8) as u32;
        let both = carry.bits << more | u64::from(byte) >> (8 - more);
        carry.filled += more;
        if let Some(left) = carry.filled.checked_sub(8) {
            output.room()?[0] = (both >> left) as u8;
            output.commit(1);
            carry.filled = left;
        }
        carry.bits = both & ((1 << carry.filled) - 1);
    }
    carry.items += u64::from(piece.items - 1);
    carry.previous = piece.last;
    Ok(())
}

struct Buffered<W> {
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that belong to the stream.
    used: usize,
    write: W,
}

impl<E: From<BuildError>, W: FnMut(&[u8]) -> Result<(), E>> Buffered<W> {
    /// Writes the remaining bits, with the last byte padded with zero bits.
    fn finish(mut self, carry: &Carry) -> Result<(), E> {
        if carry.filled > 0 {
            self.room()?[0] = carry.last_byte();
            self.used += 1;
        }
        match self.used {
            0 => Ok(()),
            used => (self.write)(&self.buffer[..used]),
        }
    }
}

impl<E: From<BuildError>, W: FnMut(&[u8]) -> Result<(), E>> StreamOutput for Buffered<W> {
    type Error = E;

    fn room(&mut self) -> Result<&mut [u8], E> {
        if self.buffer.len() - self.used < LEAST_FREE {
            (self.write)(&self.buffer[..self.used])?;
            self.used = 0;
        }
        Ok(&mut self.buffer[self.used..])
    }

    fn commit(&mut self, bytes: usize) {
        self.used += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SortedHashes;
    use crate::encode::encode_hashes;
    use crate::tests::{Noise, sorted};

    fn stitched(
        level: SimdLevel,
        n: u32,
        params: Params,
        pieces: Vec<Piece>,
    ) -> Result<Vec<u8>, BuildError> {
        let mut bytes = Vec::new();
        let mut write = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok::<(), BuildError>(())
        };
        stitch_at(level, n, params, pieces, &mut write).map(|()| bytes)
    }

    /// Cuts sorted hashes at random places, often several times at one place.
    fn cut(hashes: &[u64], cuts: usize, seed: u64) -> Vec<&[u64]> {
        let mut places: Vec<usize> =
            Noise::of(seed).map(|x| (x % (hashes.len() as u64 + 1)) as usize).take(cuts).collect();
        places.extend([0, hashes.len()]);
        places.sort_unstable();
        places.windows(2).map(|pair| &hashes[pair[0]..pair[1]]).collect()
    }

    #[test]
    fn stitched_codes_may_end_with_the_buffer() {
        // One code of 1 bit and others of 2: the last bit is the first one after 64 KiB.
        let n = (1 << 18) + 1;
        let hash = |i: u64| ((u128::from(i) << 64).div_ceil(u128::from(n))) as u64;
        let hashes: Vec<u64> = (0..n).map(hash).collect();
        let params = Params::new(0, 1).unwrap();
        for level in SimdLevel::available() {
            let piece = Piece::encode_at(level, &hashes, n as u32, params).unwrap();
            let whole = encode_hashes(level, &hashes, params).unwrap();
            assert_eq!(whole.bytes.len(), (1 << 16) + 1);
            let bytes = stitched(level, n as u32, params, Vec::from([piece])).unwrap();
            assert!(bytes == whole.bytes, "{level:?}");
        }
    }

    #[test]
    fn stitched_pieces_equal_the_filter_at_every_level() {
        for level in SimdLevel::available() {
            for (p, m) in [(19, 784_931), (0, 1), (0, 300), (3, 100), (7, 200), (32, 1 << 31)] {
                let params = Params::new(p, m).unwrap();
                for n in [0, 1, 2, 3, 17, 500, 30_000] {
                    let shapes: [fn(u64) -> u64; 3] = [|x| x, |x| x >> 40, |x| (x % 3) << 62];
                    for (round, shape) in shapes.into_iter().enumerate() {
                        let hashes = sorted(Noise::of(n as u64).map(shape), n);
                        let whole = encode_hashes(SimdLevel::SCALAR, &hashes, params).unwrap();
                        for cuts in [0, 1, 2, 30] {
                            let pieces = cut(&hashes, cuts, round as u64)
                                .into_iter()
                                .map(|part| Piece::encode_at(level, part, n as u32, params))
                                .map(|piece| Piece::from_bytes(&piece.unwrap().to_bytes()))
                                .collect::<Result<Vec<_>, _>>();
                            let bytes = stitched(level, n as u32, params, pieces.unwrap()).unwrap();
                            let what = (level, p, n, round, cuts);
                            assert!(bytes == whole.bytes, "{what:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn pieces_of_other_filters_are_rejected() {
        let params = Params::CASHU;
        let piece = |hashes: &[u64], n| Piece::encode_at(SimdLevel::detect(), hashes, n, params);
        let stitched = |pieces: &[&Piece]| {
            let pieces = pieces.iter().map(|&piece| piece.clone()).collect();
            stitched(SimdLevel::detect(), 2, params, pieces).map_err(|error| error.0)
        };
        let (low, high) = (&piece(&[1 << 60], 2).unwrap(), &piece(&[1 << 63], 2).unwrap());
        assert!(stitched(&[low, high]).is_ok());

        let swapped = Err(BuildFault::PieceOrder { piece: 1 });
        assert_eq!(stitched(&[high, low]), swapped);
        let other = &piece(&[1 << 63], 3).unwrap();
        assert_eq!(stitched(&[low, other]), Err(BuildFault::OtherFilter { piece: 1 }));
        assert_eq!(stitched(&[other]), Err(BuildFault::OtherFilter { piece: 0 }));
        let count = |pushed| Err(BuildFault::OtherCount { n: 2, pushed });
        assert_eq!(stitched(&[low]), count(1));
        assert_eq!(stitched(&[low, low, high]), count(3));
        assert_eq!(stitched(&[]), count(0));
        assert!(piece(&[1, 2, 3], 2).is_err());
    }

    /// A piece of 64 bytes may stand for 2^59 bytes of codes.
    #[test]
    fn output_of_stitch_is_bounded_by_what_the_caller_states() {
        let (n, wide) = (u32::MAX, Params::new(0, u64::from(u32::MAX)).unwrap());
        let last = wide.range(n) - 1;
        let hostile =
            Piece { params: wide, n, items: 1, first: last, last, bytes: Vec::new(), bits: 0 };
        let hostile = Piece::from_bytes(&hostile.to_bytes()).unwrap();
        let full = |_: &[u8]| panic!("bytes were written");
        let stitched = stitch_at(SimdLevel::detect(), 2, Params::CASHU, [hostile], full);
        assert_eq!(stitched, Err(BuildError(BuildFault::OtherFilter { piece: 0 })));
        // Pieces that repeat write no more than N items either.
        let piece = Piece::encode_at(SimdLevel::detect(), &[1 << 60], 2, Params::CASHU).unwrap();
        let mut written = 0;
        let write = |part: &[u8]| {
            written += part.len();
            Ok::<(), BuildError>(())
        };
        let repeated = core::iter::repeat_n(piece, 100_000);
        let stitched = stitch_at(SimdLevel::detect(), 2, Params::CASHU, repeated, write);
        assert_eq!(stitched, Err(BuildError(BuildFault::OtherCount { n: 2, pushed: 3 })));
        assert_eq!(written, 0, "the buffer never filled");
    }

    #[test]
    fn code_longer_than_the_buffer_is_written_in_parts() {
        let params = Params::new(0, 1 << 20).unwrap();
        let hashes = [0, u64::MAX / 2, u64::MAX];
        for level in SimdLevel::available() {
            let whole = encode_hashes(SimdLevel::SCALAR, &hashes, params).unwrap();
            assert!(whole.bytes.len() > 5 * BUFFER_BYTES);
            let pieces = hashes.map(|hash| Piece::encode_at(level, &[hash], 3, params).unwrap());
            let bytes = stitched(level, 3, params, pieces.into()).unwrap();
            assert!(bytes == whole.bytes, "{level}");
        }
    }

    #[test]
    fn output_error_is_returned() {
        let full = BuildError(BuildFault::OutOfMemory { bytes: 7 });
        let params = Params::new(0, 1 << 20).unwrap();
        for hash in [0, u64::MAX] {
            let piece = Piece::encode(&SortedHashes::from_hashes(vec![hash]), 1, params);
            assert_eq!(stitch(1, params, piece, |_| Err(full)), Err(full));
        }
    }
}
