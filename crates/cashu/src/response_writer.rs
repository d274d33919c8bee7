//! [`ResponseWriter`]: writes the response of a filter without holding all of it in memory.

use alloc::vec;
use alloc::vec::Vec;
use std::io::{self, Write};

use base64_simd::{Out, STANDARD};

use crate::response;
use nutfilter::Params;

/// Bytes of content encoded at once: a multiple of three. Their text takes 64 KiB.
const PIECE: usize = 48 << 10;

/// Writes the text of [`FilterResponse::to_json`](crate::FilterResponse::to_json) for content that comes in
/// pieces, for example from a filter larger than memory. [`finish`](Self::finish) completes the text; without
/// it the JSON is incomplete. After an output error the writer is unusable.
///
/// ```
/// use std::io::Write;
/// use nutfilter::{Params, SortedHashes};
/// use nutfilter_cashu::{FilterResponse, ResponseWriter};
///
/// let filter = SortedHashes::from_items(["one", "two"]).encode(Params::default())?;
/// let mut writer = ResponseWriter::new(Vec::new(), filter.n(), filter.params(), 1767225600)?;
/// writer.write_all(filter.bytes())?;
/// let json = writer.finish()?;
/// assert_eq!(json, FilterResponse::new(&filter, 1767225600).to_json().into_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// 112 KiB of memory.
#[derive(Debug)]
pub struct ResponseWriter<W> {
    output: W,
    timestamp: u64,
    /// Always shorter than a piece.
    pending: Vec<u8>,
    text: Vec<u8>,
}

impl<W: Write> ResponseWriter<W> {
    /// Starts the response of a filter of `n` items. The caller then writes the filter's bytes.
    ///
    /// # Errors
    ///
    /// Errors of `output`.
    pub fn new(mut output: W, n: u32, params: Params, timestamp: u64) -> io::Result<Self> {
        output.write_all(response::head(n, params).as_bytes())?;
        Ok(Self {
            output,
            timestamp,
            pending: Vec::with_capacity(PIECE),
            text: vec![0; PIECE / 3 * 4],
        })
    }

    /// Completes the response, flushes the output and returns it.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<W> {
        let len = self.pending.len();
        self.write_text(len)?;
        let tail = response::tail(self.timestamp);
        self.output.write_all(tail.as_bytes())?;
        self.output.flush()?;
        Ok(self.output)
    }

    /// Encodes the first `len` pending bytes: a multiple of three, or all that are left.
    fn write_text(&mut self, len: usize) -> io::Result<()> {
        // The text fits: the text of a full piece has the buffer's length.
        let text = STANDARD.encode(&self.pending[..len], Out::from_slice(&mut self.text));
        self.output.write_all(text)?;
        self.pending.drain(..len);
        Ok(())
    }
}

impl<W: Write> Write for ResponseWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pending.len() == PIECE {
            self.write_text(PIECE)?;
        }
        let taken = bytes.len().min(PIECE - self.pending.len());
        self.pending.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Keeps up to two bytes: their text depends on the bytes that follow.
    fn flush(&mut self) -> io::Result<()> {
        self.write_text(self.pending.len() / 3 * 3)?;
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilterResponse;

    #[test]
    fn pieces_of_any_length_give_the_same_text() {
        let content: Vec<u8> = (0..3 * PIECE + 2).map(|i| (i % 251) as u8).collect();
        for len in [0, 1, 2, 3, 4, 5, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 2] {
            let content = &content[..len];
            let expected = FilterResponse {
                n: 77,
                params: Params::default(),
                content: content.to_vec(),
                timestamp: 5,
            };
            for piece in [1, 2, 3, 1000, PIECE, PIECE + 1] {
                if piece < 1000 && len > PIECE {
                    continue;
                }
                for flushed in [false, true] {
                    let writer = ResponseWriter::new(Vec::new(), 77, Params::default(), 5);
                    let mut writer = writer.expect("memory takes everything");
                    for piece in content.chunks(piece) {
                        writer.write_all(piece).expect("memory takes everything");
                        if flushed {
                            writer.flush().expect("memory takes everything");
                        }
                    }
                    let json = writer.finish().expect("memory takes everything");
                    assert!(
                        json == expected.to_json().into_bytes(),
                        "{len} bytes in pieces of {piece}"
                    );
                }
            }
        }
    }
}
