//! [`HeaderChain`]: which filters of a range are the ones that the filter headers commit to.

use alloc::vec;
use alloc::vec::Vec;

use super::digest::{FilterHash, FilterHeader};
use super::saved::{SavedError, SavedReader, SavedWriter};
use super::scan::ScanFault;
use crate::double_sha256::Sha256;
use crate::error::error_texts;

/// Why a [`HeaderChain`] was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// The hashes do not continue the chain: they overlap it, leave a gap, or belong to another branch.
    NotConnected {
        /// The height that the first hash would have.
        height: u32,
        /// The header before the first hash.
        previous: FilterHeader,
        /// The last header of the chain.
        tip: FilterHeader,
    },
    /// The hashes lead to another header than the one that is trusted.
    OtherTip {
        /// The header that they lead to.
        tip: FilterHeader,
        /// The trusted one.
        trusted: FilterHeader,
    },
    /// The chain begins after this height, and the header that it begins with was replaced too.
    BelowFirst {
        /// The height to go back to.
        height: u32,
        /// The first height of the chain.
        first: u32,
    },
}

error_texts!(HeaderError {
    Self::NotConnected { height, .. } => "the hashes do not follow the header before height {height}";
    Self::OtherTip { .. } => "the hashes do not lead to the trusted header";
    Self::BelowFirst { height, first } => "cannot rewind to height {height}: the chain begins at {first}";
});

/// Names the bytes of headers, and their version.
const NAME: &[u8; 8] = b"nfheads\x01";

/// The filter headers of consecutive blocks, from a checkpoint on.
///
/// A filter header is the double SHA-256 of the filter hash and the previous filter header, so one header that a client
/// trusts commits to all filters before it. A client compares [`HeaderChain::tip`] with a checkpoint or with the
/// answers of several peers; then no peer can give it a wrong filter.
///
/// A filter header does not commit to the block hash, which is the key of the filter. Take block hashes from your own chain
/// of block headers, by height: with another block's hash, a filter that is verified misses payments without an error.
///
/// Hashes and headers are `[u8; 32]` in internal order, or with the feature `bitcoin` that crate's types.
///
/// ```
/// use nutfilter::SipHash;
/// use nutfilter::bip158::{self, HeaderChain, Scratch, Watchlist};
///
/// let list = Watchlist::from_iter([b"mine"]);
/// let blocks = [[1; 32], [2; 32]];
/// let filters = blocks.map(|block| {
///     let filter = bip158::build(SipHash::from(block), [b"mine"]).unwrap();
///     (block, bip158::serialize(&filter))
/// });
///
/// // From a message `cfheaders`: the height of its first block, the previous header and the hashes of the filters.
/// # let (previous, hashes) = ([0; 32], filters.each_ref().map(|(_, filter)| bip158::filter_hash(filter)));
/// let mut chain = HeaderChain::new(0, [0; 32]);
/// chain.extend_from(previous, hashes)?;
/// # let trusted = chain.tip();
/// assert_eq!(chain.tip(), trusted);
///
/// let filters: Vec<_> = (0..).zip(filters).map(|(height, (block, filter))| (height, block, filter)).collect();
/// for found in list.scan_verified(&mut Scratch::new(), &chain, &filters) {
///     let (height, block) = found?.block;
///     // Download this block.
/// }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderChain {
    /// The height of the first filter.
    first: u32,
    /// The header before the first filter, then one per filter.
    headers: Vec<FilterHeader>,
}

impl HeaderChain {
    /// An empty chain that begins with the filter at height `first`. `previous` is the filter header of the block
    /// before, or zeros before the genesis block.
    #[must_use]
    pub fn new(first: u32, previous: impl Into<FilterHeader>) -> Self {
        Self { first, headers: vec![previous.into()] }
    }

    /// The number of filters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.headers.len() - 1
    }

    /// Whether there is no filter yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last header.
    #[must_use]
    pub fn tip(&self) -> FilterHeader {
        self.headers[self.len()]
    }

    /// The header at `height`, or at the height before the first filter.
    #[must_use]
    pub fn header(&self, height: u32) -> Option<FilterHeader> {
        let place = (u64::from(height) + 1).checked_sub(u64::from(self.first))?;
        self.headers.get(usize::try_from(place).ok()?).copied()
    }

    /// Adds the headers of filters with these hashes, from a message `cfheaders`. `previous` is the previous header in that
    /// message.
    ///
    /// # Errors
    ///
    /// `previous` is not [`HeaderChain::tip`]; nothing is added. Ask for the hashes from the next height on. If the peer's
    /// header is still another one, it follows another branch: [`HeaderChain::rewind`], or ask another peer.
    pub fn extend_from<H: Into<FilterHash>>(
        &mut self,
        previous: impl Into<FilterHeader>,
        hashes: impl IntoIterator<Item = H>,
    ) -> Result<(), HeaderError> {
        let (previous, mut tip) = (previous.into(), self.tip());
        if previous != tip {
            let height = self.first.saturating_add(self.len() as u32);
            return Err(HeaderError::NotConnected { height, previous, tip });
        }
        self.headers.extend(hashes.into_iter().map(|hash| {
            tip = hash.into().filter_header(tip);
            tip
        }));
        Ok(())
    }

    /// As [`HeaderChain::extend_from`], but only if the last header is then `trusted`: of a checkpoint, or what several peers
    /// agree on.
    ///
    /// # Errors
    ///
    /// [`HeaderError`]; nothing is added. After [`HeaderError::OtherTip`] ask another peer for the hashes.
    pub fn extend_to<H: Into<FilterHash>>(
        &mut self,
        previous: impl Into<FilterHeader>,
        hashes: impl IntoIterator<Item = H>,
        trusted: impl Into<FilterHeader>,
    ) -> Result<(), HeaderError> {
        let (len, trusted) = (self.headers.len(), trusted.into());
        self.extend_from(previous, hashes)?;
        let tip = self.tip();
        if tip != trusted {
            self.headers.truncate(len);
            return Err(HeaderError::OtherTip { tip, trusted });
        }
        Ok(())
    }

    /// Adds headers that were verified before, in ascending order of heights. Nothing is checked: take those of a peer with
    /// [`HeaderChain::extend_to`].
    pub fn extend_headers<H: Into<FilterHeader>>(&mut self, headers: impl IntoIterator<Item = H>) {
        self.headers.extend(headers.into_iter().map(Into::into));
    }

    /// The headers from height `from` on as bytes, with a checksum. Append them to a file that holds those before: after a
    /// reorganisation, begin at the first height that was replaced. The whole chain takes 32 bytes for each block.
    #[must_use]
    pub fn to_bytes(&self, from: u32) -> Vec<u8> {
        let from = from.clamp(self.first, self.first.saturating_add(self.len() as u32));
        let headers = &self.headers[(from - self.first) as usize..];
        let mut out = SavedWriter::new(NAME);
        out.number(from);
        out.number(headers.len() - 1);
        headers.iter().for_each(|header| out.bytes(&header.to_byte_array()));
        out.finish()
    }

    /// Reads what [`HeaderChain::to_bytes`] made, one or several after another.
    ///
    /// # Errors
    ///
    /// [`SavedError`]. After `Torn`, cut the file to its whole bytes, and read these.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SavedError> {
        let mut chain: Option<Self> = None;
        let mut parts = SavedReader::new(bytes);
        while chain.is_none() || !parts.is_empty() {
            parts.begin(NAME)?;
            let (height, count) = (parts.number()?, parts.number()?);
            let headers = (count as usize).checked_add(1).and_then(|count| count.checked_mul(32));
            let headers = parts.bytes(headers.unwrap_or(usize::MAX))?;
            parts.finish()?;
            let headers = headers.as_chunks::<32>().0.iter().copied();
            let mut headers = headers.map(FilterHeader::from);
            let previous = headers.next().unwrap_or_default();
            let chain = chain.get_or_insert_with(|| Self::new(height, previous));
            let place = height.checked_sub(chain.first).map(|place| place as usize);
            match place.filter(|&place| chain.headers.get(place) == Some(&previous)) {
                Some(place) => chain.headers.truncate(place + 1),
                None => return Err(SavedError::NotConnected { height }),
            }
            chain.headers.extend(headers);
        }
        chain.ok_or(SavedError::NotThis)
    }

    /// Forgets the filters from `height` on: a reorganisation replaced their blocks.
    ///
    /// # Errors
    ///
    /// The chain begins after `height`; it is unchanged. Make a new one.
    pub fn rewind(&mut self, height: u32) -> Result<(), HeaderError> {
        let first = self.first;
        let len = height.checked_sub(first);
        let len = len.ok_or(HeaderError::BelowFirst { height, first })?;
        self.headers.truncate((len as usize).saturating_add(1));
        Ok(())
    }

    /// Verifies one filter. Many filters take half the time in [`Watchlist::scan_verified`](super::Watchlist::scan_verified).
    ///
    /// # Errors
    ///
    /// [`ScanFault::WrongFilter`] or [`ScanFault::NoHeader`].
    pub fn verify(&self, height: u32, filter: &[u8]) -> Result<(), ScanFault> {
        self.faults(Sha256::detect(), [(height, filter)].into_iter())
            .pop()
            .flatten()
            .map_or(Ok(()), Err)
    }

    /// What is wrong with each of `filters`, if anything.
    pub(super) fn faults<'a>(
        &self,
        kernel: Sha256,
        filters: impl ExactSizeIterator<Item = (u32, &'a [u8])> + Clone,
    ) -> Vec<Option<ScanFault>> {
        let hashes = kernel.hash_twice(filters.clone().map(|(_, filter)| filter));
        // A filter hash and the previous header.
        let mut commitments: Vec<_> = hashes.into_iter().map(|hash| [hash, [0; 32]]).collect();
        for (commitment, (height, _)) in commitments.iter_mut().zip(filters.clone()) {
            // Without a previous header there is no header either, which is the fault then.
            let previous = height.checked_sub(1).map_or_else(
                || (self.first == 0).then(|| self.headers[0]),
                |height| self.header(height),
            );
            commitment[1] = previous.unwrap_or_default().to_byte_array();
        }
        let messages = commitments.iter().map(|both| both.as_flattened());
        let headers = kernel.hash_twice(messages);
        let fault = |((height, _), header)| {
            let header = FilterHeader::from(header);
            // The header before the first filter has no filter here.
            match self.header(height).filter(|_| height >= self.first) {
                Some(expected) if expected == header => None,
                Some(expected) => Some(ScanFault::WrongFilter { height, header, expected }),
                None => Some(ScanFault::NoHeader { height, first: self.first, len: self.len() }),
            }
        };
        filters.zip(headers).map(fault).collect()
    }
}

#[cfg(all(test, feature = "bitcoin"))]
mod tests {
    use super::*;
    use crate::SipHash;
    use crate::bip158::{self, BlockMatch, ScanError, Scratch, Watchlist, filter_hash};
    use alloc::string::ToString;
    use bitcoin::hashes::Hash;

    const FIRST: u32 = 7;
    const COUNT: u32 = 700;

    fn block(height: u32) -> [u8; 32] {
        let mut hash = [9; 32];
        hash[..4].copy_from_slice(&height.to_le_bytes());
        hash
    }

    fn filter(height: u32) -> Vec<u8> {
        let others = (0..height % 90).map(|i| (i + 1000 * height).to_le_bytes());
        let mine = height.is_multiple_of(100).then_some(*b"mine");
        let made = bip158::build(SipHash::from(block(height)), others.chain(mine));
        bip158::serialize(&made.unwrap())
    }

    fn heights() -> core::ops::Range<u32> {
        FIRST..FIRST + COUNT
    }

    fn chain() -> HeaderChain {
        let mut chain = HeaderChain::new(FIRST, [5; 32]);
        let hashes = heights().map(|height| filter_hash(&filter(height)));
        chain.extend_from([5; 32], hashes).unwrap();
        chain
    }

    #[test]
    fn headers_equal_those_of_rust_bitcoin() {
        let mut header = bitcoin::bip158::FilterHeader::from_byte_array([5; 32]);
        let mut given = HeaderChain::new(FIRST, header);
        let chain = chain();
        assert_eq!(chain.header(FIRST - 1), Some(header.into()));
        for height in heights() {
            let made = bitcoin::bip158::BlockFilter::new(&filter(height));
            let hash = bitcoin::bip158::FilterHash::hash(&made.content);
            assert_eq!(filter_hash(&made.content), hash.into());
            given.extend_from(header, [hash]).unwrap();
            header = made.filter_header(&header);
            assert_eq!(chain.header(height).map(Into::into), Some(header));
        }
        assert_eq!(bitcoin::bip158::FilterHeader::from(chain.tip()), header);
        assert_eq!(given, chain);
        // A lie is not kept, nor is the right tip for other hashes.
        let hashes = || heights().map(|height| filter_hash(&filter(height)));
        let mut trial = HeaderChain::new(FIRST, [5; 32]);
        let lie = trial.extend_to([5; 32], hashes().rev(), chain.tip());
        assert!(
            matches!(lie, Err(HeaderError::OtherTip { trusted, .. }) if trusted == chain.tip())
        );
        assert!(trial.is_empty());
        assert!(trial.extend_from([6; 32], hashes()).is_err() && trial.is_empty());
        let outside = [0, FIRST - 2, FIRST + COUNT, u32::MAX];
        assert!(outside.iter().all(|&height| chain.header(height).is_none()));
        trial.extend_to([5; 32], hashes(), chain.tip()).unwrap();
        assert_eq!(trial, chain);
        let mut copy = HeaderChain::new(FIRST, [5; 32]);
        copy.extend_headers(heights().map(|height| chain.header(height).unwrap()));
        assert_eq!(copy, chain);
    }

    #[test]
    fn rewind_forgets_filters_from_a_height_on() {
        let whole = chain();
        let mut chain = whole.clone();
        chain.rewind(FIRST + COUNT).unwrap();
        assert_eq!(chain, whole);
        // A height, although there are more filters than this.
        chain.rewind(FIRST + 3).unwrap();
        assert_eq!((chain.len(), Some(chain.tip())), (3, whole.header(FIRST + 2)));
        let error = chain.rewind(FIRST - 1).unwrap_err();
        assert_eq!(error.to_string(), "cannot rewind to height 6: the chain begins at 7");
        assert_eq!(chain.len(), 3);
        chain.rewind(FIRST).unwrap();
        assert!(chain.is_empty());
    }

    #[test]
    fn hashes_that_do_not_continue_the_chain_are_refused() {
        let whole = chain();
        let hash = |height: u32| filter_hash(&filter(height));
        let mut chain = whole.clone();
        chain.rewind(FIRST + 10).unwrap();
        for previous in [FIRST + 8, FIRST + 10] {
            // An overlap and a gap.
            let header = whole.header(previous).unwrap();
            let error = chain.extend_from(header, [hash(previous + 1)]).unwrap_err();
            let expected = "the hashes do not follow the header before height 17";
            assert_eq!((error.to_string().as_str(), chain.len()), (expected, 10));
        }
        let rest = (FIRST + 10..FIRST + COUNT).map(hash);
        chain.extend_from(whole.header(FIRST + 9).unwrap(), rest).unwrap();
        assert_eq!(chain, whole);
    }

    #[test]
    fn kept_parts_of_other_branches_are_refused() {
        let (whole, mut other) = (chain(), chain());
        other.rewind(FIRST + 20).unwrap();
        other.extend_headers([[1; 32], [2; 32], [3; 32]]);
        let read = |parts: [Vec<u8>; 2]| HeaderChain::from_bytes(&parts.concat());
        // The part begins before, at and behind the first block that differs.
        assert_eq!(read([whole.to_bytes(0), other.to_bytes(FIRST + 20)]), Ok(other.clone()));
        let height = FIRST + 22;
        let error = Err(SavedError::NotConnected { height });
        assert_eq!(read([whole.to_bytes(0), other.to_bytes(height)]), error);
        assert_eq!(read([whole.to_bytes(0), whole.to_bytes(u32::MAX)]), Ok(whole.clone()));
        assert!(read([other.to_bytes(0), whole.to_bytes(u32::MAX)]).is_err());
    }

    #[test]
    fn wrong_filters_are_reported_with_their_heights() {
        let chain = chain();
        for kernel in Sha256::available() {
            for wrong in [FIRST, FIRST + 1, FIRST + 33, FIRST + COUNT - 1] {
                let filters: Vec<(u32, Vec<u8>)> = heights()
                    .map(|height| {
                        let mut bytes = filter(height);
                        bytes[0] ^= u8::from(height == wrong);
                        (height, bytes)
                    })
                    .collect();
                let given = filters.iter().map(|(height, bytes)| (*height, &bytes[..]));
                for (height, fault) in heights().zip(chain.faults(kernel, given)) {
                    match fault {
                        Some(ScanFault::WrongFilter { height, .. }) => assert_eq!(height, wrong),
                        fault => assert!(fault.is_none() && height != wrong, "{fault:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn heights_outside_the_chain_have_no_header() {
        let chain = chain();
        for height in [0, FIRST - 1, FIRST + COUNT, u32::MAX] {
            let expected = ScanFault::NoHeader { height, first: FIRST, len: COUNT as usize };
            assert_eq!(chain.verify(height, &filter(height % 5)), Err(expected));
        }
        let mut last = HeaderChain::new(u32::MAX, [0; 32]);
        last.extend_headers([[0; 32]]);
        assert!(last.verify(0, &[]).is_err());
        assert!(last.verify(u32::MAX, &[]).is_err());
        let mut genesis = HeaderChain::new(0, [0; 32]);
        genesis.extend_from([0; 32], [filter_hash(&[0])]).unwrap();
        assert_eq!(genesis.verify(0, &[0]), Ok(()));
    }

    #[test]
    fn verified_scan_reports_matches_wrong_and_invalid_filters_in_order() {
        let list = Watchlist::from_iter([b"mine"]);
        // Its header commits to an invalid filter.
        let invalid = FIRST + 300;
        let honest = |height| match height == invalid {
            true => Vec::from([1]),
            false => filter(height),
        };
        let mut chain = HeaderChain::new(FIRST, [5; 32]);
        let hashes = heights().map(|height| filter_hash(&honest(height)));
        chain.extend_from([5; 32], hashes).unwrap();
        let filters: Vec<_> = (FIRST..FIRST + COUNT + 1)
            .map(|height| {
                let mut bytes = honest(height);
                if height == 400 {
                    bytes.push(0);
                }
                (height, block(height), bytes)
            })
            .collect();
        type Found = (u32, [u8; 32]);
        let check = |found: Vec<Result<BlockMatch<'_, Found>, ScanError<Found>>>| {
            let heights = found.iter().map(|found| match found {
                Ok(found) => found.block.0,
                Err(error) => {
                    let height = error.block.0;
                    match error.fault {
                        ScanFault::Invalid(_) => assert_eq!(height, invalid),
                        ScanFault::WrongFilter { .. } => assert_eq!(height, 400),
                        ScanFault::NoHeader { .. } => assert_eq!(height, FIRST + COUNT),
                    }
                    height
                }
            });
            assert!(heights.eq([100, 200, 300, invalid, 400, 500, 600, 700, FIRST + COUNT]));
        };
        check(list.scan_verified(&mut Scratch::new(), &chain, &filters));
        #[cfg(feature = "parallel")]
        check(list.par_scan_verified(&chain, &filters));
    }
}
