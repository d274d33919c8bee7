//! One filter in all the forms in which it is served.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use nutfilter::Params;
use nutfilter_cashu::ResponseWriter;

use crate::body::{Body, BodyPlace};

/// JSON below this length, in bytes, is not compressed: it fits in one packet either way.
const WORTH_COMPRESSING: usize = 1 << 10;

/// Length of the pieces given to a compressor, in bytes.
const PIECE: usize = 64 << 10;

/// Maximum length of the JSON around the content, in bytes: names, numbers and brackets.
const JSON_FRAME: usize = 128;

/// Gzip level. Level 2 is the first that codes the 64 letters of base64 in 6 bits each. Text of random bits cannot
/// be compressed further. Measured on 3.5 MB: level 1 gives a ratio of 0.998 in 46 ms (its code is fixed), level 2
/// gives 0.753 in 75 ms, level 6 the same in 89 ms, and level 9 gives 0.774 in 137 ms.
const GZIP_LEVEL: u32 = 2;

/// Zstd level. Measured on 3.5 MB: level -1 gives a ratio of 1.000 in 1.3 ms (it does not code letters), level 1
/// gives 0.750 in 4.3 ms, level 3 the same in 5.1 ms, and level 9 the same in 13 ms.
const ZSTD_LEVEL: i32 = 1;

/// One finished filter. Clones share its bodies.
#[derive(Clone, Debug)]
pub struct PublishedFilter {
    n: u32,
    params: Params,
    timestamp: u64,
    raw: Body,
    json: Body,
    gzip: Option<Body>,
    zstd: Option<Body>,
}

impl PublishedFilter {
    /// Creates a filter of `n` items with the bytes `raw`. The database was read at the Unix second `timestamp` or
    /// later. This writes the JSON in pieces and compresses nothing.
    ///
    /// # Errors
    ///
    /// The I/O errors of `place`.
    ///
    /// # Cost
    ///
    /// One pass, and 112 KiB of memory in addition to the body.
    pub fn new(
        raw: Body,
        n: u32,
        params: Params,
        timestamp: u64,
        place: &BodyPlace,
    ) -> io::Result<Self> {
        let length = raw.len().div_ceil(3).saturating_mul(4);
        let writer = place.writer_for(length.saturating_add(JSON_FRAME))?;
        let mut writer = ResponseWriter::new(writer, n, params, timestamp)?;
        writer.write_all(raw.bytes())?;
        let json = writer.finish()?.finish()?;
        Ok(Self {
            n,
            params,
            timestamp,
            raw,
            json,
            gzip: None,
            zstd: None,
        })
    }

    /// Adds the compressed JSON, unless the JSON is too short to be worth it.
    ///
    /// # Errors
    ///
    /// The I/O errors of `place`.
    ///
    /// # Cost
    ///
    /// About 80 ms per million items, nearly all of it for gzip. Each compressed body is three quarters as long as
    /// the JSON.
    pub fn with_compressed(mut self, place: &BodyPlace) -> io::Result<Self> {
        if self.json.len() < WORTH_COMPRESSING {
            return Ok(self);
        }
        let length = self.json.len() / 4 * 3 + self.json.len() / 64;
        let mut gzip = GzEncoder::new(place.writer_for(length)?, Compression::new(GZIP_LEVEL));
        for piece in self.json.bytes().chunks(PIECE) {
            gzip.write_all(piece)?;
        }
        self.gzip = Some(gzip.finish()?.finish()?);
        let mut zstd = zstd::Encoder::new(place.writer_for(length)?, ZSTD_LEVEL)?;
        zstd.set_pledged_src_size(Some(self.json.len() as u64))?;
        for piece in self.json.bytes().chunks(PIECE) {
            zstd.write_all(piece)?;
        }
        self.zstd = Some(zstd.finish()?.finish()?);
        Ok(self)
    }

    /// Returns the same set with a later timestamp. The raw body is shared, the JSON is written again, and nothing
    /// is compressed.
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
    pub fn raw(&self) -> &Body {
        &self.raw
    }

    /// The response object, as JSON.
    #[must_use]
    pub fn json(&self) -> &Body {
        &self.json
    }

    /// The JSON, compressed with gzip.
    #[must_use]
    pub fn gzip(&self) -> Option<&Body> {
        self.gzip.as_ref()
    }

    /// The JSON, compressed with zstd.
    #[must_use]
    pub fn zstd(&self) -> Option<&Body> {
        self.zstd.as_ref()
    }
}
