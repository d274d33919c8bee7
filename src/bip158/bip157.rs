//! The messages of BIP157 that carry filters and headers, as they come from the network: no copies.

use super::{FilterHash, FilterHeader, compact_size};
use crate::error::error_texts;

/// The only type of filter that BIP158 defines.
const BASIC: u8 = 0;

/// Most hashes in a message `cfheaders`, by BIP157.
const MOST_HASHES: u64 = 2_000;

/// Why a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// The message has another length than its numbers say.
    Length {
        /// Its bytes.
        bytes: usize,
    },
    /// The filter is of a type that BIP158 does not define.
    FilterType(u8),
    /// More hashes than BIP157 allows in a message.
    TooMany {
        /// The hashes.
        count: u64,
    },
}

error_texts!(MessageError {
    Self::Length { bytes } => "{bytes} bytes are not a whole message";
    Self::FilterType(found) => "unknown filter type {found}, expected {BASIC}";
    Self::TooMany { count } => "{count} hashes in a message, at most {MOST_HASHES} are allowed";
});

/// A message `cfilter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CFilter<'m> {
    /// The block's hash, in internal order. If it is not that of your chain of block headers at this height, the peer answers
    /// for a stale block, and nothing is wrong with its filter.
    pub block: [u8; 32],
    /// The serialised filter.
    pub filter: &'m [u8],
}

impl<'m> CFilter<'m> {
    /// Reads the payload of a message.
    ///
    /// # Errors
    ///
    /// [`MessageError`]. The filter itself is not validated.
    pub fn parse(payload: &'m [u8]) -> Result<Self, MessageError> {
        let bytes = payload.len();
        let wrong = MessageError::Length { bytes };
        let (block, rest) = basic(payload)?;
        let (len, width) = compact_size(rest).map_err(|_| wrong.clone())?;
        let filter = &rest[width..];
        match filter.len() as u64 == len {
            true => Ok(Self { block, filter }),
            false => Err(wrong),
        }
    }
}

/// A message `cfheaders`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CFHeaders<'m> {
    /// The hash of the last block, in internal order.
    pub stop: [u8; 32],
    /// The header before the first filter.
    pub previous: FilterHeader,
    hashes: &'m [[u8; 32]],
}

impl<'m> CFHeaders<'m> {
    /// Reads the payload of a message.
    ///
    /// # Errors
    ///
    /// [`MessageError`].
    pub fn parse(payload: &'m [u8]) -> Result<Self, MessageError> {
        let bytes = payload.len();
        let wrong = MessageError::Length { bytes };
        let (stop, rest) = basic(payload)?;
        let (previous, rest) = rest.split_first_chunk().ok_or(wrong.clone())?;
        let (count, width) = compact_size(rest).map_err(|_| wrong.clone())?;
        if count > MOST_HASHES {
            return Err(MessageError::TooMany { count });
        }
        match rest[width..].as_chunks() {
            (hashes, []) if hashes.len() as u64 == count => {
                Ok(Self { stop, previous: (*previous).into(), hashes })
            }
            _ => Err(wrong),
        }
    }

    /// The hashes of the filters, in the order of their heights.
    pub fn hashes(&self) -> impl ExactSizeIterator<Item = FilterHash> + 'm {
        self.hashes.iter().copied().map(FilterHash::from)
    }
}

/// The hash behind the type of the filter, and the rest.
fn basic(payload: &[u8]) -> Result<([u8; 32], &[u8]), MessageError> {
    let bytes = payload.len();
    let wrong = MessageError::Length { bytes };
    let (&found, rest) = payload.split_first().ok_or(wrong.clone())?;
    if found != BASIC {
        return Err(MessageError::FilterType(found));
    }
    let (hash, rest) = rest.split_first_chunk().ok_or(wrong)?;
    Ok((*hash, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn message(parts: &[&[u8]]) -> Vec<u8> {
        [&[0][..], &[7; 32]].iter().chain(parts).copied().collect::<Vec<_>>().concat()
    }

    #[test]
    fn messages_are_read_whole_or_refused() {
        let filter = [3; 300];
        let long = message(&[&[0xfd, 44, 1], &filter]);
        let read = CFilter::parse(&long).unwrap();
        assert_eq!((read.block, read.filter), ([7; 32], &filter[..]));
        let headers = message(&[&[9; 32], &[2], &[1; 32], &[2; 32]]);
        let read = CFHeaders::parse(&headers).unwrap();
        assert_eq!((read.stop, read.previous), ([7; 32], [9; 32].into()));
        assert!(read.hashes().eq([[1; 32], [2; 32]].map(FilterHash::from)));
        for (message, parse) in [
            (&long, (|bytes| CFilter::parse(bytes).err()) as fn(&[u8]) -> Option<MessageError>),
            (&headers, |bytes| CFHeaders::parse(bytes).err()),
        ] {
            for bytes in 0..message.len() {
                assert_eq!(parse(&message[..bytes]), Some(MessageError::Length { bytes }));
            }
            let longer = [message.as_slice(), &[0]].concat();
            assert_eq!(parse(&longer), Some(MessageError::Length { bytes: longer.len() }));
            let mut other = message.clone();
            other[0] = 1;
            assert_eq!(parse(&other), Some(MessageError::FilterType(1)));
        }
        let most = message(&[&[9; 32], &[0xfd, 0xd0, 7], &[3; 2_000 * 32]]);
        assert_eq!(CFHeaders::parse(&most).unwrap().hashes().len(), 2_000);
        let many = message(&[&[9; 32], &[0xfd, 0xd1, 7]]);
        let error = MessageError::TooMany { count: 2_001 };
        assert_eq!(CFHeaders::parse(&many), Err(error));
    }
}
