//! Basic block filters of Bitcoin (BIP158), in the order in which a light client needs them:
//!
//! 1. `HeaderChain` (feature `verify`) holds the filter headers, which commit to the filters.
//! 2. [`Watchlist`] holds the scripts of a wallet. It tests one filter, or scans many: [`Watchlist::scan`].
//! 3. [`ScanPlan`] says which scripts remain to be tested in which filters after a match reveals addresses, tests them, and
//!    remembers what was tested.
//! 4. [`build`] and [`serialize`] make a filter; [`parse`] reads one, to look into it more than once.
//!
//! The profile is [`SipHash`] with P = 19 and M = 784931. A filter is serialised as CompactSize(N), followed by
//! the coded set. It contains the scripts that a block creates and spends. Duplicate items count once, unlike
//! in the Cashu profiles.
//!
//! [`parse`] and [`Watchlist`] are stricter than Bitcoin Core in two points. Core ignores the padding bits of the
//! last byte; here they must be zero. Core accepts values at or beyond F = N * M; here they are an error. Every
//! filter made according to the specification is accepted.

mod bip157;
mod columns;
mod digest;
#[cfg(feature = "verify")]
mod headers;
mod saved;
mod scan;
mod scan_plan;
mod watchlist;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::error::{BuildError, DecodeError, DecodeFault};
use crate::filter::Filter;
use crate::hash::SipHash;
use crate::params::Params;
use crate::sorted_hashes::SortedHashes;

pub use bip157::{CFHeaders, CFilter, MessageError};
#[cfg(feature = "verify")]
pub use digest::filter_hash;
pub use digest::{FilterHash, FilterHeader};
#[cfg(feature = "verify")]
pub use headers::{HeaderChain, HeaderError};
pub use saved::SavedError;
pub use scan::{BlockMatch, ScanError, ScanFault, Scanned};
#[cfg(feature = "verify")]
pub use scan_plan::{PlanMatch, PlanScanned};
pub use scan_plan::{ScanPlan, ScanStep};
pub use watchlist::{Scratch, Watchlist};

/// P and M of the basic filter type.
pub const PARAMS: Params = Params::CASHU;

/// Builds the filter of `items` with the key of a block. Duplicates count once.
///
/// An empty item is counted like any other, as Bitcoin Core and btcd do; rust-bitcoin drops it. BIP158 omits empty
/// scripts from a block's contents.
///
/// # Errors
///
/// As [`SortedHashes::encode`].
pub fn build<I: AsRef<[u8]>>(
    hasher: SipHash,
    items: impl IntoIterator<Item = I>,
) -> Result<Filter<Vec<u8>, SipHash>, BuildError> {
    build_with(hasher, items, PARAMS)
}

/// [`build`] with other parameters than those of the basic filter.
///
/// # Errors
///
/// As [`SortedHashes::encode`].
pub fn build_with<I: AsRef<[u8]>>(
    hasher: SipHash,
    items: impl IntoIterator<Item = I>,
    params: Params,
) -> Result<Filter<Vec<u8>, SipHash>, BuildError> {
    let items: Vec<I> = items.into_iter().collect();
    let distinct: BTreeSet<&[u8]> = items.iter().map(AsRef::as_ref).collect();
    SortedHashes::builder(hasher).hash_items(distinct).encode(params)
}

/// The filter with its leading count, as it is stored and sent: what rust-bitcoin calls `BlockFilter::content`.
#[must_use]
pub fn serialize(filter: &Filter<impl AsRef<[u8]>, SipHash>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(5 + filter.bytes().len());
    let n = filter.n();
    match n {
        0..=0xfc => bytes.push(n as u8),
        0xfd..=0xffff => {
            bytes.push(0xfd);
            bytes.extend_from_slice(&(n as u16).to_le_bytes());
        }
        _ => {
            bytes.push(0xfe);
            bytes.extend_from_slice(&n.to_le_bytes());
        }
    }
    bytes.extend_from_slice(filter.bytes());
    bytes
}

/// Parses a serialised filter and validates it completely. `block` is the block hash, or another key.
///
/// # Errors
///
/// The count is truncated, longer than necessary, or at least 2^32; otherwise as [`Filter::parse`].
pub fn parse<D: AsRef<[u8]>>(
    block: impl Into<SipHash>,
    serialized: D,
) -> Result<Filter<D, SipHash>, DecodeError> {
    parse_with(block, serialized, PARAMS)
}

/// [`parse`] with other parameters than those of the basic filter.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_with<D: AsRef<[u8]>>(
    block: impl Into<SipHash>,
    serialized: D,
    params: Params,
) -> Result<Filter<D, SipHash>, DecodeError> {
    let (n, width) = compact_size(serialized.as_ref())?;
    Filter::check_length_from(block.into(), serialized, width, n, params)?.validate()
}

/// Reads the number at the start of `bytes`, and returns it with its length in bytes. Numbers from 0 to 252
/// take one byte. For others, the first byte announces 2, 4 or 8 bytes in little-endian order.
fn compact_size(bytes: &[u8]) -> Result<(u64, usize), DecodeError> {
    let cut = DecodeError(DecodeFault::CompactSizeCut { len: bytes.len() as u64 });
    let (&first, rest) = bytes.split_first().ok_or(cut)?;
    let (width, smallest) = match first {
        0xfd => (2, 0xfd),
        0xfe => (4, 0x1_0000),
        0xff => (8, 0x1_0000_0000),
        n => return Ok((u64::from(n), 1)),
    };
    let number = rest.get(..width).ok_or(cut)?;
    let n = number.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
    if n < smallest {
        let width = width as u8 + 1;
        return Err(DecodeError(DecodeFault::CompactSizeNotMinimal { n, width }));
    }
    Ok((n, width + 1))
}

#[cfg(feature = "bitcoin")]
pub use block::{block_filter, block_items};

#[cfg(feature = "bitcoin")]
mod block {
    use bitcoin::{Block, Script};

    use super::{BuildError, Filter, SipHash, Vec, build};
    use crate::error::BuildFault;

    /// The contents of the basic filter of `block`. They are every script that it creates, except empty ones
    /// and those that start with OP_RETURN, and every script that it spends, except empty ones.
    /// `previous_scripts` are the spent scripts of all inputs except the coinbase's, in any order. Duplicates
    /// remain; [`build`] removes them.
    pub fn block_items<'a, S: AsRef<Script> + 'a>(
        block: &'a Block,
        previous_scripts: &'a [S],
    ) -> impl Iterator<Item = &'a [u8]> {
        let created = block
            .txdata
            .iter()
            .flat_map(|transaction| &transaction.output)
            .map(|output| output.script_pubkey.as_script())
            .filter(|script| !script.is_op_return());
        created
            .chain(previous_scripts.iter().map(AsRef::as_ref))
            .filter(|script| !script.is_empty())
            .map(Script::as_bytes)
    }

    /// The basic filter of `block`, with the block hash as key.
    ///
    /// # Errors
    ///
    /// The number of previous scripts differs from the number of inputs (except the coinbase's): the filter
    /// would deny a missing script. Otherwise as [`build`].
    pub fn block_filter<S: AsRef<Script>>(
        block: &Block,
        previous_scripts: &[S],
    ) -> Result<Filter<Vec<u8>, SipHash>, BuildError> {
        let spending = block.txdata.iter().filter(|transaction| !transaction.is_coinbase());
        let spent = spending.map(|transaction| transaction.input.len()).sum::<usize>() as u64;
        let given = previous_scripts.len() as u64;
        if given != spent {
            return Err(BuildError(BuildFault::PreviousScripts { given, spent }));
        }
        let hasher = SipHash::from_block_hash(block.block_hash().as_ref());
        build(hasher, block_items(block, previous_scripts))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn missing_previous_scripts_are_rejected() {
            let genesis = bitcoin::blockdata::constants::genesis_block(bitcoin::Network::Regtest);
            let script = bitcoin::ScriptBuf::new();
            assert!(block_filter::<&Script>(&genesis, &[]).is_ok());
            let error = block_filter(&genesis, &[script]).unwrap_err();
            let expected = "the block spends 0 outputs, but 1 previous scripts were given";
            assert_eq!(alloc::string::ToString::to_string(&error), expected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest and the smallest count of each width.
    #[test]
    fn counts_have_their_shortest_form() {
        for (n, start) in [
            (0, &[0][..]),
            (252, &[0xfc]),
            (253, &[0xfd, 0xfd, 0]),
            (0xffff, &[0xfd, 0xff, 0xff]),
            (0x1_0000, &[0xfe, 0, 0, 1, 0]),
        ] {
            let items = (0_u32..n).map(u32::to_le_bytes);
            let bytes = serialize(&build(SipHash::new(1, 2), items).unwrap());
            assert!(bytes.starts_with(start), "{n}");
            assert_eq!(parse(SipHash::new(1, 2), &bytes).unwrap().n(), n);
        }
        for longer in [
            &[0xfd, 0xfc, 0][..],
            &[0xfe, 0xff, 0xff, 0, 0],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        ] {
            let error = compact_size(longer).unwrap_err();
            assert!(matches!(error.0, DecodeFault::CompactSizeNotMinimal { .. }), "{error}");
        }
        let widest = [0xff, 0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(compact_size(&widest), Ok((1 << 32, 9)));
    }
}
