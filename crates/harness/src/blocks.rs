//! Blocks of the draft on state filters, next to sets of positions.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use nutfilter_cashu::state_filters::{Block, Element};
use sha2::{Digest, Sha256};

/// A bitmap, or elements.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Even: `bytes` is a bitmap. Odd: `bytes` has elements, 32 bytes each.
    pub way: u8,
    /// The width b, brought into range.
    pub width: u8,
    /// The width of the fold, brought into range.
    pub folded: u8,
    /// How many elements are inserted. The others are only tested.
    pub inserted: u8,
    /// The bitmap, or the elements.
    pub bytes: &'a [u8],
}

impl Case<'_> {
    /// Reads the bitmap, or inserts the elements, and compares with sets of positions.
    ///
    /// # Panics
    ///
    /// If a result differs.
    pub fn check(&self) {
        match self.way % 2 {
            0 => self.check_bitmap(),
            _ => self.check_elements(),
        }
    }

    fn check_bitmap(&self) {
        let bytes = self.bytes.len();
        let width = (Block::MIN_WIDTH..=Block::MAX_WIDTH).find(|width| 1 << width == bytes * 8);
        match (Block::from_bytes(self.bytes.to_vec()), width) {
            (Ok(block), Some(width)) => {
                assert_eq!(
                    (block.width(), block.as_bytes()),
                    (width, self.bytes),
                    "{self:?}"
                );
                let set = positions_in(self.bytes);
                assert_eq!(block.popcount() as usize, set.len(), "{self:?}");
                self.check_fold(&block, &set);
            }
            (Err(error), None) => assert!(
                error.to_string().contains(&bytes.to_string()),
                "{error}: {self:?}"
            ),
            (block, width) => panic!("{block:?} and {width:?}: {self:?}"),
        }
    }

    fn check_elements(&self) {
        let elements: Vec<Element> = self.bytes.as_chunks::<32>().0.to_vec();
        let inserted = &elements[..elements.len().min(self.inserted.into())];
        // Wider blocks take too long for a fuzzer.
        let width = Block::MIN_WIDTH + u32::from(self.width) % 12;
        let mut block = Block::new(width).expect("a width in range");
        inserted.iter().for_each(|element| block.insert(element));
        let set: BTreeSet<u64> = inserted
            .iter()
            .flat_map(|element| positions(element, width))
            .collect();
        assert_eq!(positions_in(block.as_bytes()), set, "{self:?}");
        for element in &elements {
            let expected = positions(element, width)
                .iter()
                .all(|position| set.contains(position));
            assert_eq!(block.may_contain(element), expected, "{self:?}");
        }
        self.check_fold(&block, &set);
    }

    fn check_fold(&self, block: &Block, set: &BTreeSet<u64>) {
        let by = u32::from(self.folded) % (block.width() - Block::MIN_WIDTH + 1);
        let folded = block.fold(block.width() - by).expect("a smaller width");
        let expected = set.iter().map(|position| position >> by).collect();
        assert_eq!(positions_in(folded.as_bytes()), expected, "{self:?}");
        assert!(block.fold(block.width() + 1).is_err(), "{self:?}");
    }
}

/// The 16 positions of an element, as the draft says.
fn positions(element: &Element, width: u32) -> [u64; 16] {
    let digests = [0_u32, 1].map(|half| {
        let digest = Sha256::new()
            .chain_update(element)
            .chain_update(half.to_be_bytes());
        <[u8; 32]>::from(digest.finalize())
    });
    std::array::from_fn(|at| {
        let word = &digests[at / 8][at % 8 * 4..][..4];
        let number = word
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte));
        (number << width) >> 32
    })
}

/// The places of the set bits.
fn positions_in(bitmap: &[u8]) -> BTreeSet<u64> {
    let bits = bitmap
        .iter()
        .flat_map(|byte| (0..8).map(move |at| byte << at & 0x80 != 0));
    (0..)
        .zip(bits)
        .filter_map(|(position, set)| set.then_some(position))
        .collect()
}
