//! [`Watchlist::scan`]: the filters of many blocks, one after another or on all cores.

use alloc::vec::Vec;
use core::fmt;

use super::{Scratch, Watchlist};
use crate::error::DecodeError;
use crate::hash::SipHash;

/// A block that may create or spend scripts of a [`Watchlist`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockMatch<'w, B> {
    /// The block, as it was given.
    pub block: B,
    /// The scripts that its filter matches, in no particular order; at least one.
    pub scripts: Vec<&'w [u8]>,
}

/// A block whose filter is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanError<B> {
    /// The block, as it was given.
    pub block: B,
    /// What is invalid.
    pub error: DecodeError,
}

impl<B: fmt::Debug> fmt::Display for ScanError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid filter of block {:?}", self.block)
    }
}

impl<B: fmt::Debug> core::error::Error for ScanError<B> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl Watchlist {
    /// Matches filters one after another. Returns the blocks that match and those whose filter is invalid, in the
    /// given order.
    ///
    /// A block is given by its hash in internal order (of type `bitcoin::BlockHash` with the feature `bitcoin`), or
    /// by the key itself.
    pub fn scan<'w, B, F>(
        &'w self,
        filters: impl IntoIterator<Item = (B, F)>,
    ) -> impl Iterator<Item = Result<BlockMatch<'w, B>, ScanError<B>>>
    where
        B: Copy + Into<SipHash>,
        F: AsRef<[u8]>,
    {
        let mut scratch = Scratch::new();
        let filters = filters.into_iter();
        filters.filter_map(move |(block, filter)| self.scan_one(&mut scratch, block, &filter))
    }

    /// [`Watchlist::scan`] on all threads of the current rayon pool.
    ///
    /// Takes 256 filters at a time from the iterator and matches them in parallel; nothing is read ahead
    /// meanwhile.
    #[cfg(feature = "parallel")]
    pub fn par_scan<'w, B, F>(
        &'w self,
        filters: impl IntoIterator<Item = (B, F)>,
    ) -> impl Iterator<Item = Result<BlockMatch<'w, B>, ScanError<B>>>
    where
        B: Copy + Into<SipHash> + Send,
        F: AsRef<[u8]> + Send,
    {
        use rayon::iter::{IntoParallelIterator, ParallelIterator};

        /// About five megabytes.
        const BATCH: usize = 256;

        let mut filters = filters.into_iter();
        let batches = core::iter::from_fn(move || {
            let batch: Vec<_> = filters.by_ref().take(BATCH).collect();
            (!batch.is_empty()).then_some(batch)
        });
        batches.flat_map(|batch| {
            let found = batch
                .into_par_iter()
                .map_init(Scratch::new, |scratch, one| {
                    let (block, filter) = one;
                    self.scan_one(scratch, block, &filter)
                });
            found.flatten().collect::<Vec<_>>()
        })
    }

    fn scan_one<'w, B: Copy + Into<SipHash>>(
        &'w self,
        scratch: &mut Scratch,
        block: B,
        filter: &impl AsRef<[u8]>,
    ) -> Option<Result<BlockMatch<'w, B>, ScanError<B>>> {
        match self.matches(scratch, block, filter.as_ref()) {
            Ok(scripts) if scripts.is_empty() => None,
            Ok(scripts) => Some(Ok(BlockMatch { block, scripts })),
            Err(error) => Some(Err(ScanError { block, error })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bip158::{build, serialize};

    #[test]
    fn scan_returns_matches_and_errors_in_order() {
        let block = |number: u16| {
            let mut hash = [3; 32];
            hash[..2].copy_from_slice(&number.to_le_bytes());
            hash
        };
        let list = Watchlist::from_iter([b"mine"]);
        let filters: Vec<_> = (0..600)
            .map(|number| {
                let script: &[u8] = if number % 100 == 7 { b"mine" } else { b"other" };
                let filter = build(SipHash::from(block(number)), [script]).unwrap();
                let mut bytes = serialize(&filter);
                if number == 300 {
                    bytes.pop();
                }
                (block(number), bytes)
            })
            .collect();
        let check = |found: Vec<Result<BlockMatch<'_, _>, ScanError<_>>>| {
            let blocks = found.iter().map(|found| match found {
                Ok(found) => {
                    assert_eq!(found.scripts, [b"mine"]);
                    found.block
                }
                Err(error) => {
                    assert_eq!(error.block, block(300));
                    error.block
                }
            });
            assert!(blocks.eq([7, 107, 207, 300, 307, 407, 507].map(block)));
        };
        check(list.scan(filters.clone()).collect());
        #[cfg(feature = "parallel")]
        check(list.par_scan(filters).collect());
    }
}
