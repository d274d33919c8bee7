//! The bytes of a segment. Each set of values has exactly one valid byte string.

use alloc::vec::Vec;

use super::error::{SegmentError, SegmentFault};
use super::{Segment, Universe};
use crate::filter::Filter;
use crate::gcs;

/// w, P and n, between the head of the file and the code.
const FIELD_BYTES: usize = 6;

impl<'a> Segment<&'a [u8]> {
    /// Parses and fully validates the bytes of a segment: a `.gcs` file of kind 2.
    ///
    /// # Errors
    ///
    /// Magic, length, version, checksum, kind, w, n, P, the length of the code, and then its first invalid value,
    /// in this order. Any string that [`Segment::to_bytes`] would not write is refused: another P than that of n
    /// and w, repeated values, trailing data, or padding bits that are not zero.
    ///
    /// # Cost
    ///
    /// One pass over the bytes for the checksum, and one decoding pass.
    pub fn parse(file: &'a [u8]) -> Result<Self, SegmentError> {
        let (kind, contents) = gcs::open(file)?;
        if kind != gcs::KIND_SEGMENT {
            return Err(SegmentError(SegmentFault::Kind { kind }));
        }
        let cut = SegmentFault::HeaderCut {
            bytes: contents.len(),
        };
        let Some((&[width, p, n @ ..], code)) = contents.split_first_chunk::<FIELD_BYTES>() else {
            return Err(SegmentError(cut));
        };
        let universe = Universe::new(width.into())?;
        let n = u32::from_le_bytes(n);
        if u64::from(n) > universe.size() {
            let width = universe.width();
            return Err(SegmentError(SegmentFault::TooManyItems { n, width }));
        }
        let (p, expected) = (p.into(), universe.remainder_bits(n));
        if p != expected {
            return Err(SegmentError(SegmentFault::RemainderBits { p, expected, n }));
        }
        let unvalidated = Filter::check_length_with((), code, n.into(), universe.params(n))?;
        match unvalidated.validate_distinct()? {
            Ok(filter) => Ok(Self { universe, filter }),
            Err(item) => Err(SegmentError(SegmentFault::Repeated { item })),
        }
    }
}

impl<D: AsRef<[u8]>> Segment<D> {
    /// The bytes of the segment.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let code = self.filter.bytes();
        let mut file = Vec::with_capacity(self.file_bytes());
        file.extend_from_slice(&self.universe.head(self.n()));
        file.extend_from_slice(code);
        gcs::seal(&mut file);
        file
    }

    /// The length of [`Segment::to_bytes`].
    #[must_use]
    pub fn file_bytes(&self) -> usize {
        gcs::HEAD_BYTES + FIELD_BYTES + self.filter.bytes().len() + gcs::CHECKSUM_BYTES
    }
}
