//! Batches of items between the store and the hasher.

use core::num::NonZeroUsize;

/// Items, one after the other in one buffer.
///
/// With batches, reading and hashing can be timed separately, and a virtual call is paid only once per
/// [`ItemBatch::FULL`] items.
#[derive(Clone, Debug, Default)]
pub struct ItemBatch {
    bytes: Vec<u8>,
    /// End of each item in `bytes`, ascending. The last one is `bytes.len()`.
    ends: Vec<usize>,
}

impl ItemBatch {
    /// Number of items that a source should collect. With compressed points this is 132 KiB, which stays in the L2
    /// cache between reading and hashing.
    pub const FULL: usize = 4096;

    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one item.
    pub fn push(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        self.ends.push(self.bytes.len());
    }

    /// Adds one item given as hex digits of either case. Returns false and adds nothing if the text is invalid.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    #[must_use]
    pub fn push_hex(&mut self, text: &[u8]) -> bool {
        let start = self.bytes.len();
        self.bytes.resize(start + text.len() / 2, 0);
        let even = text.len().is_multiple_of(2);
        let valid = even && const_hex::decode_to_slice(text, &mut self.bytes[start..]).is_ok();
        if valid {
            self.ends.push(self.bytes.len());
        } else {
            self.bytes.truncate(start);
        }
        valid
    }

    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the batch is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether the batch should be handed on.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= Self::FULL
    }

    /// Removes all items and keeps the allocation.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The items as records of one length, for a hasher that processes many at a time. `None` if the batch is
    /// empty, if the lengths differ, or if the items are empty.
    #[must_use]
    pub fn records(&self) -> Option<(&[u8], NonZeroUsize)> {
        let length = NonZeroUsize::new(*self.ends.first()?)?;
        let expected = (1..).map(|i| i * length.get());
        self.ends.iter().copied().eq(expected.take(self.len())).then_some((&self.bytes, length))
    }

    /// The items, in the order in which they were added.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let item = &self.bytes[start..end];
            start = end;
            item
        })
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn items_of_any_length_come_back_in_order() {
        let mut batch = ItemBatch::new();
        batch.push(&[1; 33]);
        batch.push(&[]);
        assert!(batch.push_hex(b"00fFaB"));
        batch.push(&[2; 48]);
        let items: Vec<&[u8]> = batch.items().collect();
        assert_eq!(items, [&[1; 33][..], &[], &[0, 255, 0xab], &[2; 48]]);
        assert_eq!(batch.len(), 4);
        batch.clear();
        assert!(batch.is_empty() && batch.items().next().is_none());
    }

    #[test]
    fn items_are_records_only_if_of_one_length() {
        let batch = |items: &[&[u8]]| {
            let mut batch = ItemBatch::new();
            items.iter().for_each(|item| batch.push(item));
            batch.records().map(|(bytes, length)| (bytes.to_vec(), length.get()))
        };
        assert_eq!(batch(&[]), None);
        assert_eq!(batch(&[&[]]), None);
        assert_eq!(batch(&[&[1, 2]]), Some((vec![1, 2], 2)));
        assert_eq!(batch(&[&[1, 2], &[3, 4], &[5, 6]]), Some((vec![1, 2, 3, 4, 5, 6], 2)));
        assert_eq!(batch(&[&[1, 2], &[3, 4], &[5]]), None);
        assert_eq!(batch(&[&[1, 2], &[3], &[4, 5, 6]]), None);
        assert_eq!(batch(&[&[1, 2], &[3], &[4, 5, 6], &[7, 8]]), None);
    }

    #[test]
    fn bad_hex_adds_nothing() {
        let mut batch = ItemBatch::new();
        batch.push(&[7]);
        for bad in "0,0g,+1,00 ,0x00,\0\0,é,00112".split(',') {
            let bad = bad.as_bytes();
            assert!(!batch.push_hex(bad), "{bad:?}");
        }
        assert!(batch.push_hex(b"08"));
        assert_eq!(batch.items().collect::<Vec<_>>(), [&[7], &[8]]);
    }
}
