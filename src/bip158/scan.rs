//! [`Watchlist::scan`]: the filters of many blocks, one after another or on all cores.

use alloc::vec::Vec;
use core::fmt;

#[cfg(feature = "verify")]
use super::HeaderChain;
use super::{FilterHeader, Scratch, Watchlist};
use crate::error::DecodeError;
use crate::hash::SipHash;
#[cfg(feature = "verify")]
use crate::sha256::Sha256;

/// A block that may create or spend scripts of a [`Watchlist`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockMatch<'w, B> {
    /// The block, as it was given.
    pub block: B,
    /// The scripts that its filter matches, in no particular order; at least one.
    pub scripts: Vec<&'w [u8]>,
}

/// A block whose filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanError<B> {
    /// The block, as it was given.
    pub block: B,
    /// What is wrong.
    pub fault: ScanFault,
}

/// Why a filter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanFault {
    /// The filter is invalid. If its header commits to it, every peer has it.
    Invalid(DecodeError),
    /// The header commits to another filter: ask another peer.
    WrongFilter {
        /// The height of the block.
        height: u32,
        /// The header that this filter would have.
        header: FilterHeader,
        /// The header in the chain.
        expected: FilterHeader,
    },
    /// The chain of headers does not reach this height.
    NoHeader {
        /// The height of the block.
        height: u32,
        /// The first height of the chain.
        first: u32,
        /// The number of headers of the chain.
        len: usize,
    },
}

impl fmt::Display for ScanFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => error.fmt(f),
            Self::WrongFilter { height, .. } => {
                write!(
                    f,
                    "the filter at height {height} does not match its filter header"
                )
            }
            Self::NoHeader { height, first, len } => write!(
                f,
                "no filter header for height {height}: the chain has {len} headers from height {first} on"
            ),
        }
    }
}

impl core::error::Error for ScanFault {}

impl<B: fmt::Debug> fmt::Display for ScanError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use the filter of block {:?}", self.block)
    }
}

impl<B: fmt::Debug> core::error::Error for ScanError<B> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.fault)
    }
}

/// A block that matches, or one whose filter cannot be used.
pub type Scanned<'w, B> = Result<BlockMatch<'w, B>, ScanError<B>>;

impl Watchlist {
    /// Matches filters one after another. Returns the blocks that match and those whose filter is invalid, in the
    /// given order.
    ///
    /// A block is given by its hash in internal order (of type `bitcoin::BlockHash` with the feature `bitcoin`), or
    /// by the key itself.
    pub fn scan<'w, B, F>(
        &'w self,
        filters: impl IntoIterator<Item = (B, F)>,
    ) -> impl Iterator<Item = Scanned<'w, B>>
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
    ) -> impl Iterator<Item = Scanned<'w, B>>
    where
        B: Copy + Into<SipHash> + Send,
        F: AsRef<[u8]> + Send,
    {
        use rayon::iter::{IntoParallelIterator, ParallelIterator};

        in_batches(filters).flat_map(|batch| {
            let found = batch
                .into_par_iter()
                .map_init(Scratch::new, |scratch, one| {
                    let (block, filter) = one;
                    self.scan_one(scratch, block, &filter)
                });
            found.flatten().collect::<Vec<_>>()
        })
    }

    /// As [`Watchlist::scan`], for filters with their heights: first verifies that the header at that height commits to
    /// the filter. Matches and errors have the height and the block as it was given.
    ///
    /// Takes up to 32 filters or a megabyte at a time from the iterator, because several filters are hashed faster side
    /// by side. A filter that is wrong is not decoded.
    #[cfg(feature = "verify")]
    pub fn scan_verified<'w, B, F>(
        &'w self,
        chain: &HeaderChain,
        filters: impl IntoIterator<Item = (u32, B, F)>,
    ) -> impl Iterator<Item = Scanned<'w, (u32, B)>>
    where
        B: Copy + Into<SipHash>,
        F: AsRef<[u8]>,
    {
        self.scan_verified_in(Scratch::new(), chain, filters)
    }

    /// [`Watchlist::scan_verified`] at the level of `scratch`, for benchmarks.
    #[cfg(all(feature = "verify", feature = "__internals"))]
    #[doc(hidden)]
    pub fn scan_verified_at<'w, B, F>(
        &'w self,
        scratch: Scratch,
        chain: &HeaderChain,
        filters: impl IntoIterator<Item = (u32, B, F)>,
    ) -> impl Iterator<Item = Scanned<'w, (u32, B)>>
    where
        B: Copy + Into<SipHash>,
        F: AsRef<[u8]>,
    {
        self.scan_verified_in(scratch, chain, filters)
    }

    #[cfg(feature = "verify")]
    fn scan_verified_in<'w, B, F>(
        &'w self,
        mut scratch: Scratch,
        chain: &HeaderChain,
        filters: impl IntoIterator<Item = (u32, B, F)>,
    ) -> impl Iterator<Item = Scanned<'w, (u32, B)>>
    where
        B: Copy + Into<SipHash>,
        F: AsRef<[u8]>,
    {
        let mut filters = filters.into_iter();
        let batches = core::iter::from_fn(move || {
            let mut batch = Vec::new();
            let mut bytes = 0;
            while batch.len() < SIDE_BY_SIDE && bytes < 1 << 20 {
                let Some(one) = filters.next() else { break };
                bytes += one.2.as_ref().len();
                batch.push(one);
            }
            (!batch.is_empty()).then_some(batch)
        });
        batches.flat_map(move |batch| self.verify_and_scan(&mut scratch, chain, &batch))
    }

    /// [`Watchlist::scan_verified`] on all threads of the current rayon pool, 256 filters at a time.
    #[cfg(all(feature = "parallel", feature = "verify"))]
    pub fn par_scan_verified<'w, B, F>(
        &'w self,
        chain: &HeaderChain,
        filters: impl IntoIterator<Item = (u32, B, F)>,
    ) -> impl Iterator<Item = Scanned<'w, (u32, B)>>
    where
        B: Copy + Into<SipHash> + Send + Sync,
        F: AsRef<[u8]> + Send + Sync,
    {
        use rayon::iter::ParallelIterator;
        use rayon::slice::ParallelSlice;

        in_batches(filters).flat_map(|batch| {
            let found = batch
                .par_chunks(SIDE_BY_SIDE)
                .map_init(Scratch::new, |scratch, few| {
                    self.verify_and_scan(scratch, chain, few)
                });
            found.flatten_iter().collect::<Vec<_>>()
        })
    }

    /// Verifies a few filters side by side, then matches them.
    #[cfg(feature = "verify")]
    fn verify_and_scan<'w, B: Copy + Into<SipHash>>(
        &'w self,
        scratch: &mut Scratch,
        chain: &HeaderChain,
        filters: &[(u32, B, impl AsRef<[u8]>)],
    ) -> Vec<Scanned<'w, (u32, B)>> {
        let each = filters.iter();
        let given = each.map(|(height, _, filter)| (*height, filter.as_ref()));
        let faults = chain.faults(Sha256::of(scratch.level()), given);
        let found = filters.iter().zip(faults);
        let found = found.filter_map(|((height, block, filter), fault)| {
            let (key, block) = ((*block).into(), (*height, *block));
            match fault {
                Some(fault) => Some(Err(ScanError { block, fault })),
                None => self.scan_with(scratch, block, key, filter),
            }
        });
        found.collect()
    }

    fn scan_one<'w, B: Copy + Into<SipHash>>(
        &'w self,
        scratch: &mut Scratch,
        block: B,
        filter: &impl AsRef<[u8]>,
    ) -> Option<Scanned<'w, B>> {
        self.scan_with(scratch, block, block.into(), filter)
    }

    fn scan_with<'w, B>(
        &'w self,
        scratch: &mut Scratch,
        block: B,
        key: SipHash,
        filter: &impl AsRef<[u8]>,
    ) -> Option<Scanned<'w, B>> {
        match self.matches(scratch, key, filter.as_ref()) {
            Ok(scripts) if scripts.is_empty() => None,
            Ok(scripts) => Some(Ok(BlockMatch { block, scripts })),
            Err(error) => {
                let fault = ScanFault::Invalid(error);
                Some(Err(ScanError { block, fault }))
            }
        }
    }
}

/// The number of filters that are verified before they are matched: while they are still in a cache.
#[cfg(feature = "verify")]
const SIDE_BY_SIDE: usize = 32;

/// Batches of 256 filters, about five megabytes.
#[cfg(feature = "parallel")]
fn in_batches<T>(filters: impl IntoIterator<Item = T>) -> impl Iterator<Item = Vec<T>> {
    let mut filters = filters.into_iter();
    core::iter::from_fn(move || {
        let batch: Vec<_> = filters.by_ref().take(256).collect();
        (!batch.is_empty()).then_some(batch)
    })
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
