//! [`SegmentEncoder`]: the bytes of a segment whose hashes do not fit in memory.

use alloc::vec::Vec;

use super::Universe;
use crate::encode::StreamEncoder;
use crate::error::BuildError;
use crate::gcs;

/// Encodes sorted hashes that arrive in pieces. The bytes are those of
/// [`Segment::to_bytes`](super::Segment::to_bytes).
///
/// n must be known before the first piece, because P depends on it.
///
/// ```
/// use nutfilter::BuildError;
/// use nutfilter::segment::{Segment, SegmentEncoder, Universe};
///
/// let universe = Universe::new(16)?;
/// let sorted = [0x1a2b << 48, 0x1a2c << 48, 0xdce0 << 48];
/// let mut bytes = Vec::new();
/// let mut write = |piece: &[u8]| Ok::<(), BuildError>(bytes.extend_from_slice(piece));
/// let mut encoder = SegmentEncoder::new(universe, 3);
/// for piece in sorted.chunks(2) {
///     encoder.push_hashes(piece, &mut write)?;
/// }
/// encoder.finish(&mut write)?;
/// assert_eq!(bytes, Segment::from_hashes(universe, sorted.to_vec())?.to_bytes());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Cost
///
/// One linear pass. Memory: a buffer of 64 KiB, and 8 bytes per hash of the longest piece.
#[derive(Debug)]
pub struct SegmentEncoder {
    universe: Universe,
    encoder: StreamEncoder,
    /// The last hash that was encoded.
    last: Option<u64>,
    /// The first hash of each value of a piece.
    distinct: Vec<u64>,
    /// What precedes the code, until it is written.
    head: Option<Vec<u8>>,
    checksum: crc32fast::Hasher,
}

impl SegmentEncoder {
    /// An encoder for hashes with `n` distinct values.
    #[must_use]
    pub fn new(universe: Universe, n: u32) -> Self {
        Self {
            universe,
            // Mapping a hash to the range 2^w gives its top w bits.
            encoder: StreamEncoder::new(n, universe.params(n)),
            last: None,
            distinct: Vec::new(),
            head: Some(universe.head(n)),
            checksum: crc32fast::Hasher::new(),
        }
    }

    /// Encodes the next hashes, in order. Hashes of equal values count once.
    ///
    /// # Errors
    ///
    /// Errors of `write`, and a hash that is smaller than its predecessor. After an error the encoder is unusable.
    pub fn push_hashes<E: From<BuildError>>(
        &mut self,
        sorted: &[u64],
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.distinct.clear();
        for &hash in sorted {
            let value = self.universe.value_of(hash);
            if self.last.map(|last| self.universe.value_of(last)) != Some(value) {
                self.distinct.push(hash);
                self.last = Some(hash);
            }
        }
        let (head, checksum) = (&mut self.head, &mut self.checksum);
        self.encoder.push_hashes(&self.distinct, |piece| {
            write_summed(head, checksum, piece, &mut write)
        })
    }

    /// Writes the rest of the segment.
    ///
    /// # Errors
    ///
    /// Errors of `write`. The number of distinct values is not n: the bytes are then not a segment.
    pub fn finish<E: From<BuildError>>(
        self,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut head, mut checksum) = (self.head, self.checksum);
        self.encoder
            .finish(|piece| write_summed(&mut head, &mut checksum, piece, &mut write))?;
        write_summed(&mut head, &mut checksum, &[], &mut write)?;
        write(&checksum.finalize().to_le_bytes())
    }
}

/// Writes the head, if it was not written yet, and a piece of the code.
fn write_summed<E>(
    head: &mut Option<Vec<u8>>,
    checksum: &mut crc32fast::Hasher,
    piece: &[u8],
    write: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    for piece in [head.take().as_deref().unwrap_or_default(), piece] {
        if !piece.is_empty() {
            checksum.update(piece);
            write(piece)?;
        }
    }
    Ok(())
}

impl Universe {
    /// What precedes the code of a segment of `n` values.
    pub(super) fn head(self, n: u32) -> Vec<u8> {
        let mut head = gcs::head(gcs::KIND_SEGMENT).to_vec();
        // At most 56 and 55.
        head.extend_from_slice(&[self.width() as u8, self.remainder_bits(n) as u8]);
        head.extend_from_slice(&n.to_le_bytes());
        head
    }
}
