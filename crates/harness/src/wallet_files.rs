//! A wallet's cache file: damage is found, and what is read back is what was written.

use arbitrary::Arbitrary;
use nutfilter_wallet::internals::{cache_file, read_cache_file};

/// A cache file.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Even: the bytes are a cache file. Odd: the body of one in which something is changed.
    pub way: u8,
    /// Where a bit of the file is flipped, if it has that many.
    pub flip: u16,
    /// The limit of the body.
    pub max: u16,
    /// The file, or the body.
    pub bytes: &'a [u8],
}

const ID: [u8; 32] = [7; 32];

impl Case<'_> {
    /// Reads the file.
    ///
    /// # Panics
    ///
    /// If a file is accepted that was never written.
    pub fn check(&self) {
        match self.way % 2 {
            0 => self.any_cache_file(),
            _ => self.changed_cache_file(),
        }
    }

    /// Only what would be written is accepted.
    fn any_cache_file(&self) {
        if let Ok((timestamp, body)) = read_cache_file(&ID, self.bytes, u64::from(self.max)) {
            assert!(body.len() <= usize::from(self.max));
            assert!(cache_file(&ID, timestamp, &body) == self.bytes, "{self:?}");
        }
    }

    fn changed_cache_file(&self) {
        let timestamp = u64::from(self.flip);
        let mut file = cache_file(&ID, timestamp, self.bytes);
        let read = read_cache_file(&ID, &file, u64::from(self.max));
        match self.bytes.len() <= usize::from(self.max) {
            true => assert_eq!(read, Ok((timestamp, self.bytes.to_vec()))),
            false => assert!(read.is_err(), "{self:?}"),
        }
        if let Some(byte) = file.get_mut(usize::from(self.flip / 8)) {
            *byte ^= 1 << (self.flip % 8);
            assert!(read_cache_file(&ID, &file, u64::MAX).is_err(), "{self:?}");
        }
    }
}
