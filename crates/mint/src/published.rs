//! One filter in all the forms in which it is served.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use nutfilter::{Params, ResponseWriter};

use crate::body::{Body, BodyPlace};

/// A JSON shorter than this is not compressed, in bytes: it fits one packet either way.
const WORTH_COMPRESSING: usize = 1 << 10;

/// How much JSON a compressor is given at once, in bytes.
const PIECE: usize = 64 << 10;

/// How many bytes of JSON there are around the content: names, numbers and brackets at their longest.
const JSON_FRAME: usize = 128;

/// The level of gzip: the first that codes the 64 letters of base64 in 6 bits each, which is all there is to
/// gain in text of random bits. Of 3.5 MB, 1 makes 0.998 in 46 ms (its code is a fixed one), 2 makes
/// 0.753 in 75 ms, 6 the same in 89 ms, 9 makes 0.774 in 137 ms.
const GZIP_LEVEL: u32 = 2;

/// The level of zstd: of 3.5 MB, -1 makes 1.000 in 1.3 ms (it leaves letters as they are), 1 makes 0.750 in
/// 4.3 ms, 3 the same in 5.1 ms, 9 the same in 13 ms.
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
    /// A filter of `n` items whose bytes are `raw`, of a database that was read at the Unix second
    /// `timestamp` or later. Writes the JSON, piece by piece, and nothing compressed.
    ///
    /// # Errors
    ///
    /// Those of the place.
    ///
    /// # Cost
    ///
    /// One pass; 112 KiB of memory beside the body itself.
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

    /// The same with its JSON compressed too, unless that is too short to be worth it.
    ///
    /// # Errors
    ///
    /// Those of the place.
    ///
    /// # Cost
    ///
    /// About 80 ms for each million of items, nearly all of it for gzip. Both are three quarters as long as
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

    /// The same set as of a later moment. The raw body is shared, the JSON is written anew, and nothing is
    /// compressed.
    ///
    /// # Errors
    ///
    /// Those of the place.
    pub fn restamped(&self, timestamp: u64, place: &BodyPlace) -> io::Result<Self> {
        Self::new(self.raw.clone(), self.n, self.params, timestamp, place)
    }

    /// The number of items.
    #[must_use]
    pub fn n(&self) -> u32 {
        self.n
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> Params {
        self.params
    }

    /// The Unix second as of which the filter is complete: at or before the start of its reading.
    #[must_use]
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The length of the filter itself, in bytes.
    #[must_use]
    pub fn filter_bytes(&self) -> usize {
        self.raw.len()
    }

    /// The filter itself.
    #[must_use]
    pub fn raw(&self) -> &Body {
        &self.raw
    }

    /// The response object, as JSON.
    #[must_use]
    pub fn json(&self) -> &Body {
        &self.json
    }

    /// The JSON, compressed by gzip.
    #[must_use]
    pub fn gzip(&self) -> Option<&Body> {
        self.gzip.as_ref()
    }

    /// The JSON, compressed by zstd.
    #[must_use]
    pub fn zstd(&self) -> Option<&Body> {
        self.zstd.as_ref()
    }
}
