//! Pieces of a filter: stitched they give the bytes of the whole set, and damaged ones no more bytes than its numbers
//! allow.

use arbitrary::Arbitrary;
use nutfilter::pieces::{Piece, stitch};
use nutfilter::{BuildError, SortedHashes};

/// A set, where it is cut, and what happens to one of its pieces.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a> {
    /// See [`params_from`](crate::params_from).
    pub p: u8,
    /// See [`params_from`](crate::params_from).
    pub m: u32,
    /// Added to N.
    pub more: u8,
    /// The place of a change in the bytes of the first piece, in eighths of a byte; none if 0.
    pub at: u16,
    /// What the byte there becomes.
    pub to: u8,
    /// Hashes, 8 bytes each. A piece ends at each that is a multiple of 4.
    pub bytes: &'a [u8],
}

impl Case<'_> {
    /// Encodes, changes, reads and stitches the pieces.
    pub fn check(&self) {
        let params = crate::params_from(self.p, self.m);
        let words = self.bytes.as_chunks::<8>().0.iter();
        let hashes: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
        let set = SortedHashes::from_hashes(hashes);
        let n = set.len() as u32 + u32::from(self.more);
        // A small set with P = 0 and a large M has long codes.
        let most = u128::from(n) * u128::from(params.p() + 1)
            + ((u128::from(n) * u128::from(params.m())) >> params.p());
        if most > 1 << 20 {
            return;
        }
        let most = most.div_ceil(8) as usize;
        let mut changed = false;
        let mut pieces = Vec::new();
        let ranges = set.as_slice().split_inclusive(|hash| hash % 4 == 0);
        for (number, range) in ranges.enumerate() {
            let range = SortedHashes::from_hashes(range.to_vec());
            let piece = Piece::encode(&range, n, params).expect("a part of the set");
            let mut bytes = piece.to_bytes();
            assert_eq!(Piece::from_bytes(&bytes).as_ref(), Ok(&piece), "{self:?}");
            let content = bytes.len() - 8;
            if number == 0 && self.at != 0 {
                let at = usize::from(self.at) / 8 % content;
                changed = bytes[at] != self.to;
                bytes[at] = self.to;
                assert_eq!(Piece::from_bytes(&bytes).is_err(), changed, "{self:?}");
                // With the right checksum, as a machine that lies would send it.
                let hash = murmur3::murmur3_x64_128(&mut &bytes[..content], 0);
                let checksum = (hash.expect("memory") as u64).to_le_bytes();
                bytes[content..].copy_from_slice(&checksum);
            }
            pieces.extend(Piece::from_bytes(&bytes));
        }
        let mut stitched = Vec::new();
        let write = |part: &[u8]| {
            stitched.extend_from_slice(part);
            Ok::<(), BuildError>(())
        };
        let result = stitch(n, params, pieces, write);
        assert!(stitched.len() <= most, "{} of {most} bytes: {self:?}", stitched.len());
        if !changed {
            assert_eq!(result.is_ok(), self.more == 0, "{self:?}");
        }
        if !changed && self.more == 0 {
            let whole = set.encode(params).expect("a small set");
            assert_eq!(stitched, whole.bytes(), "{self:?}");
        }
    }
}
