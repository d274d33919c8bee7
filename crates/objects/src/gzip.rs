//! The compressed form of an object.
//!
//! Nearly all of a filter's JSON is base64 of uniform bytes, in which nothing repeats: the best code gives each letter
//! nearly 6 bits. So one constant Huffman code (RFC 1951, 3.2.7) stands for all texts, and no piece is counted before it is
//! coded:
//!
//! | bytes | bits |
//! |---|---|
//! | `0` to `9`, `A` to `Z`, `a` to `z` | 6 |
//! | `+` and `/` | 7 |
//! | other printable ASCII, and the end of a block | 11 |
//!
//! 62 / 64 + 2 / 128 + 32 / 2048 = 1, so the code is complete. A piece of other bytes, or one that would become longer, is
//! stored. A text that fits into one piece is compressed by a library: lists of keysets contain few letters of base64.

use std::io::{self, Write};
use std::sync::LazyLock;

use zlib_rs::crc32::crc32;
use zlib_rs::{DeflateConfig, ReturnCode, compress_bound, compress_slice};

/// The header: deflate, no name, no time, fastest, Unix.
pub(crate) const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 3];

/// Bytes that are coded at once, so that their codes stay in the CPU's cache. A stored block has at most 65,535.
const PIECE: usize = 16 << 10;

/// The end of a block: of the longest codes, the last one.
const END: (u64, u32) = (0x7ff, 11);

/// The head of a block that is not the last one: runs of the lengths above, of one distance that never occurs, as some decoders want
/// one, and how those are coded. Two bits that are 0 follow.
const CODE_LENGTHS: [u8; 24] = [
    4, 193, 133, 1, 195, 0, 1, 0, 176, 87, 112, 27, 176, 186, 224, 117, 119, 47, 90, 119, 247, 34,
    183, 147,
];

/// Marks a byte without a code.
const NO_CODE: u32 = 1 << 31;

/// The code of each byte, as it stands in the stream, and its length from bit 24 on.
static CODES: [u32; 256] = codes();

/// The same of each two bytes: half of the look-ups, in 30 KiB for those of base64.
static PAIRS: LazyLock<Box<[u32; 1 << 16]>> = LazyLock::new(|| {
    let mut pairs = Box::new([0; 1 << 16]);
    for (at, pair) in pairs.iter_mut().enumerate() {
        let [first, second] = [at & 0xff, at >> 8].map(|byte| CODES[byte]);
        let length = first >> 24 & 0x1f;
        *pair =
            (first | second & NO_CODE) + ((second & 0x1f00_0000) | (second & 0xff_ffff) << length);
    }
    pairs
});

/// The length of the code of a byte; 0 if it has none.
const fn length_of(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => 6,
        b'+' | b'/' => 7,
        b' '..=b'~' => 11,
        _ => 0,
    }
}

/// Codes ascend by length, and then by byte. Streams have them from the highest bit on.
const fn codes() -> [u32; 256] {
    let (mut codes, mut next, mut length) = ([NO_CODE; 256], 0_u32, 1);
    while length <= END.1 {
        next <<= 1;
        let mut byte = 0;
        while byte < 256 {
            if length_of(byte as u8) as u32 == length {
                codes[byte] = next.reverse_bits() >> (32 - length) | length << 24;
                next += 1;
            }
            byte += 1;
        }
        length += 1;
    }
    codes
}

/// Compresses bytes.
pub(crate) struct Gzip<W> {
    out: W,
    checksum: u32,
    length: u32,
    /// The first bytes, until they are more than one piece.
    first: Vec<u8>,
    is_long: bool,
    bits: Bits,
    in_block: bool,
}

impl<W: Write> Gzip<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            checksum: 0,
            length: 0,
            first: vec![],
            is_long: false,
            bits: Bits::default(),
            in_block: false,
        }
    }

    /// Writes the rest, and the checksum.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if self.is_long {
            self.end_block();
            // An empty last block of the fixed code.
            self.bits.put(0b011, 3 + 7);
            self.bits.align();
        } else {
            self.out.write_all(&HEADER)?;
            self.bits.bytes.extend(deflate(&self.first)?);
        }
        self.bits.bytes.extend(self.checksum.to_le_bytes());
        self.bits.bytes.extend(self.length.to_le_bytes());
        self.bits.write_to(&mut self.out)?;
        Ok(self.out)
    }

    fn code(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            if !core::mem::replace(&mut self.in_block, true) {
                self.bits.begin_block();
            }
            if !self.bits.put_literals(piece) {
                self.store(piece);
            }
            self.bits.write_to(&mut self.out)?;
        }
        Ok(())
    }

    fn store(&mut self, piece: &[u8]) {
        self.end_block();
        let length = piece.len() as u16;
        self.bits.put(0, 3);
        self.bits.align();
        self.bits.bytes.extend(length.to_le_bytes());
        self.bits.bytes.extend((!length).to_le_bytes());
        self.bits.bytes.extend(piece);
    }

    fn end_block(&mut self) {
        if core::mem::take(&mut self.in_block) {
            self.bits.put(END.0, END.1);
        }
    }
}

impl<W: Write> Write for Gzip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.checksum = crc32(self.checksum, bytes);
        // The format has it modulo 2^32.
        self.length = self.length.wrapping_add(bytes.len() as u32);
        if !self.is_long && self.first.len() + bytes.len() <= PIECE {
            self.first.extend(bytes);
            return Ok(bytes.len());
        }
        if !core::mem::replace(&mut self.is_long, true) {
            self.out.write_all(&HEADER)?;
        }
        let first = core::mem::take(&mut self.first);
        self.code(&first)?;
        self.code(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream without header and checksum, by the library.
fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let config = DeflateConfig { window_bits: -15, ..DeflateConfig::default() };
    let mut room = vec![0; compress_bound(bytes.len())];
    match compress_slice(&mut room, bytes, config) {
        (stream, ReturnCode::Ok) => Ok(stream.to_vec()),
        (_, code) => Err(io::Error::other(format!("could not compress: {code:?}"))),
    }
}

/// A stream of bits, the lowest one of each byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// Fewer than 8 bits that are not in `bytes` yet.
    held: u64,
    count: u32,
}

impl Bits {
    /// Puts fewer than 57 bits.
    fn put(&mut self, bits: u64, count: u32) {
        self.held |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// Fills the last byte up.
    fn align(&mut self) {
        self.put(0, self.count.wrapping_neg() % 8);
    }

    /// Begins a block of the constant code.
    fn begin_block(&mut self) {
        CODE_LENGTHS.iter().for_each(|&byte| self.put(byte.into(), 8));
        self.put(0, 2);
    }

    /// Puts the codes of bytes. Puts nothing, and returns `false`, if one of them has no code, or the codes are longer than
    /// the bytes.
    fn put_literals(&mut self, bytes: &[u8]) -> bool {
        let (start, mut held, mut count) = (self.bytes.len(), self.held, self.count);
        let most = (bytes.len() * END.1 as usize).div_ceil(8);
        self.bytes.resize(start + most + 16, 0);
        let (mut at, mut seen) = (start, 0);
        let mut put = |bits: u64, length: u32| {
            held |= bits << count;
            count += length;
            self.bytes[at..at + 8].copy_from_slice(&held.to_le_bytes());
            at += (count / 8) as usize;
            held >>= count & !7;
            count %= 8;
        };
        let pairs = &**PAIRS;
        let mut pair = |first: u8, second: u8| {
            let code = pairs[usize::from(u16::from_le_bytes([first, second]))];
            seen |= code;
            (u64::from(code & 0xff_ffff), code >> 24 & 0x1f)
        };
        let after = |(first, length): (u64, u32), (second, more): (u64, u32)| {
            (first | second << length, length + more)
        };
        let (eights, rest) = bytes.as_chunks();
        for &[a, b, c, d, e, f, g, h] in eights {
            let left = after(pair(a, b), pair(c, d));
            let right = after(pair(e, f), pair(g, h));
            // Up to 7 bits are held.
            if left.1 + right.1 <= 56 {
                let (bits, length) = after(left, right);
                put(bits, length);
            } else {
                put(left.0, left.1);
                put(right.0, right.1);
            }
        }
        for &byte in rest {
            let code = CODES[usize::from(byte)];
            seen |= code;
            put(u64::from(code & 0xff_ffff), code >> 24 & 0x1f);
        }
        let is_coded = seen & NO_CODE == 0 && at - start <= bytes.len();
        self.bytes.truncate(if is_coded { at } else { start });
        if is_coded {
            (self.held, self.count) = (held, count);
        }
        is_coded
    }

    fn write_to(&mut self, mut out: impl Write) -> io::Result<()> {
        out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::contains;

    /// Letters of base64 that do not repeat.
    fn letters(length: usize) -> Vec<u8> {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            LETTERS[(state >> 58) as usize]
        };
        (0..length).map(|_| next()).collect()
    }

    fn compressed<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Vec<u8> {
        let mut gzip = Gzip::new(vec![]);
        for piece in pieces {
            gzip.write_all(piece).unwrap();
        }
        gzip.finish().unwrap()
    }

    /// Texts of each length around a limit, with each byte at its ends, and mixed ones.
    fn texts() -> Vec<Vec<u8>> {
        let limits = [0, PIECE, 2 * PIECE, 65_535, 65_536];
        let lengths = limits.into_iter().flat_map(|at: usize| at.saturating_sub(9)..at + 9);
        let mut texts: Vec<Vec<u8>> = lengths.map(letters).collect();
        for byte in 0..=u8::MAX {
            let mut text = letters(2 * PIECE + 5);
            for at in [0, 6, PIECE, 2 * PIECE + 4] {
                text[at] = byte;
            }
            texts.push(text);
        }
        texts.push(vec![b'~'; 3 * PIECE]);
        texts.push((0..400_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect());
        texts.push(
            [letters(PIECE + 1), vec![200; PIECE], letters(40_000), vec![b' '; PIECE], letters(3)]
                .concat(),
        );
        texts
    }

    #[test]
    fn every_decoder_reads_what_was_compressed() {
        let mut all = [vec![], vec![]];
        for text in texts() {
            let gzip = compressed([&text[..]]);
            contains(&gzip, &text)
                .unwrap_or_else(|reason| panic!("{} bytes: {reason}", text.len()));
            let pieces = compressed(text.chunks(PIECE - 4000));
            contains(&pieces, &text)
                .unwrap_or_else(|reason| panic!("{} bytes: {reason}", text.len()));
            all[0].extend(text);
            all[1].extend(gzip);
        }
        #[cfg(unix)]
        for command in [
            &["gzip", "-dc"][..],
            &[
                "python3",
                "-c",
                "import gzip, sys; sys.stdout.buffer.write(gzip.decompress(sys.stdin.buffer.read()))",
            ],
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&all[1]).unwrap();
            std::io::Seek::rewind(&mut file).unwrap();
            let read = std::process::Command::new(command[0])
                .args(&command[1..])
                .stdin(file)
                .output()
                .unwrap();
            assert!(read.status.success() && read.stdout == all[0], "{command:?}");
        }
    }

    #[test]
    fn base64_takes_its_six_bits_and_nothing_grows() {
        let text = letters(4_000_000);
        let gzip = compressed([&text[..]]);
        assert!(gzip.len() * 1000 < text.len() * 754, "{} bytes", gzip.len());
        for text in texts() {
            let longest = text.len() + (text.len() / PIECE + 2) * 90;
            assert!(compressed([&text[..]]).len() <= longest, "{} bytes", text.len());
        }
    }
}
