//! One filter in all the forms in which it is served.

use std::io;

use bytes::Bytes;
use nutfilter::Params;
use nutfilter_cashu::FilterResponse;
use zlib_rs::{DeflateConfig, ReturnCode, Strategy, compress_bound, compress_slice};

use crate::body::{Body, BodyPlace};

/// JSON below this length, in bytes, is not compressed: it fits in one packet either way.
const WORTH_COMPRESSING: usize = 1 << 10;

/// The window of 2^15 bytes, and 16 for the gzip format.
const GZIP: i32 = 15 + 16;

/// Length of the header and the trailer of gzip, in bytes.
const GZIP_FRAME: usize = 18;

/// Maximum length of the JSON around the content, in bytes: names, numbers and brackets.
const JSON_FRAME: usize = 128;

/// One finished filter. Clones share its bodies.
#[derive(Clone, Debug)]
pub struct FinishedFilter {
    n: u32,
    params: Params,
    timestamp: u64,
    raw: Bytes,
    json: Body,
}

impl FinishedFilter {
    /// Creates a filter of `n` items with the bytes `raw`. The database was read at the Unix second `timestamp` or
    /// later. This writes the JSON in pieces, and compresses it unless it is too short to be worth it.
    ///
    /// # Errors
    ///
    /// The I/O errors of `place`.
    ///
    /// # Cost
    ///
    /// About 50 ms per million items, and memory as long as the JSON while it is compressed. The compressed body is three
    /// quarters as long as the JSON.
    pub fn new(
        raw: Bytes,
        n: u32,
        params: Params,
        timestamp: u64,
        place: &BodyPlace,
    ) -> io::Result<Self> {
        let length = raw.len().div_ceil(3).saturating_mul(4);
        let mut writer = place.writer(length.saturating_add(JSON_FRAME))?;
        FilterResponse::write(&mut writer, n, params, &raw, timestamp)?;
        let json = writer.finish()?;
        let gzip = match json.len() >= WORTH_COMPRESSING {
            true => Some(compressed(&json, place)?),
            false => None,
        };
        Ok(Self {
            n,
            params,
            timestamp,
            raw,
            json: Body::new(json, gzip),
        })
    }

    /// Returns the same set with a later timestamp. The raw body is shared; the JSON is written and compressed again.
    ///
    /// # Errors
    ///
    /// The I/O errors of `place`.
    pub fn restamped(&self, timestamp: u64, place: &BodyPlace) -> io::Result<Self> {
        Self::new(self.raw.clone(), self.n, self.params, timestamp, place)
    }

    /// The number of items.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.n
    }

    /// The filter parameters.
    #[must_use]
    pub fn params(&self) -> Params {
        self.params
    }

    /// The Unix second up to which the filter is complete. It is not later than the start of the reading.
    #[must_use]
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The length of the raw filter, in bytes.
    #[must_use]
    pub fn filter_bytes(&self) -> usize {
        self.raw.len()
    }

    /// The raw filter.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The response object, as JSON and in gzip.
    #[must_use]
    pub fn json(&self) -> &Body {
        &self.json
    }
}

/// Compresses the JSON of a filter. Nearly all of it is base64 of uniform bytes, in which there are no repetitions to
/// search for: all levels come to 0.753 of its length. A Huffman code alone takes half of the time of level 2.
fn compressed(json: &[u8], place: &BodyPlace) -> io::Result<Bytes> {
    let config = DeflateConfig {
        window_bits: GZIP,
        strategy: Strategy::HuffmanOnly,
        ..DeflateConfig::default()
    };
    let most = compress_bound(json.len()).saturating_add(GZIP_FRAME);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(most)?;
    bytes.resize(most, 0);
    let length = match compress_slice(&mut bytes, json, config) {
        (compressed, ReturnCode::Ok) => compressed.len(),
        (_, code) => return Err(io::Error::other(format!("compression failed: {code:?}"))),
    };
    bytes.truncate(length);
    place.keep(bytes)
}
