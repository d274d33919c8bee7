//! Compresses the JSON of a filter with gzip, without searching for repetitions.
//!
//! Nearly all of the JSON is base64 of uniform bytes. No compressor finds repetitions in it; all it can do is to
//! code each of the 64 letters in about 6 bits. So the code is fixed here: 6 bits for 63 letters, and 7 bits for the
//! last letter and for the end of the block. The bits are made from the raw filter, 12 bits (two letters) at a time.
//! The text before and after the letters goes into blocks with the code that the format predefines (RFC 1951, 3.2.6).

use std::io::{self, Write};

/// The letters of base64, by value.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The letter with a code of 7 bits. Any letter would do; this one has the highest symbol, so that the codes of the
/// others are their ranks.
const LONG_LETTER: u8 = b'z';

/// The symbol that ends a block.
const END: usize = 256;

/// The length of the code of all other letters, in bits.
const LETTER_BITS: u8 = 6;

/// Bytes of output that are collected before they are written.
const BUFFER: usize = 64 << 10;

/// Additional bytes of the buffer, because a store writes eight bytes of which fewer may count.
const RESERVE: usize = 16;

/// A Huffman code, first bit lowest, and its length in bits.
#[derive(Clone, Copy)]
struct Code {
    bits: u32,
    len: u32,
}

/// For each two letters: their code of 12 to 14 bits, with the number of bits above 12 in the highest two bits.
static PAIRS: [u16; 4096] = pairs();

const fn pairs() -> [u16; 4096] {
    let mut table = [0; 4096];
    let mut i = 0;
    while i < 4096 {
        let (first, second) = (letter(LETTERS[i >> 6]), letter(LETTERS[i & 63]));
        let len = first.len + second.len;
        let bits = first.bits | second.bits << first.len;
        table[i] = bits as u16 | ((len - 12) as u16) << 14;
        i += 1;
    }
    table
}

/// The code of a letter: its rank among the letters, by symbol.
const fn letter(symbol: u8) -> Code {
    if symbol == LONG_LETTER {
        return Code {
            bits: reversed(0b111_1110, 7),
            len: 7,
        };
    }
    let mut rank = 0;
    let mut i = 0;
    while i < 64 {
        rank += (LETTERS[i] < symbol) as u32;
        i += 1;
    }
    Code {
        bits: reversed(rank, 6),
        len: 6,
    }
}

/// The code that ends the block of letters: the last one of 7 bits.
const END_OF_LETTERS: Code = Code {
    bits: 0b111_1111,
    len: 7,
};

/// Huffman codes are packed from their highest bit on, all other values from their lowest.
const fn reversed(code: u32, len: u32) -> u32 {
    code.reverse_bits() >> (32 - len)
}

/// The length of the code of a symbol in the block of letters; 0 if it does not occur.
fn length_of(symbol: usize) -> u8 {
    match u8::try_from(symbol) {
        Ok(LONG_LETTER) => LETTER_BITS + 1,
        Ok(byte) if LETTERS.contains(&byte) => LETTER_BITS,
        Err(_) if symbol == END => LETTER_BITS + 1,
        _ => 0,
    }
}

/// Compresses `json`, which contains the padded base64 of `raw` at byte `content`, and nothing else of any length.
///
/// # Errors
///
/// Those of `output`.
///
/// # Cost
///
/// One pass over `json` for its checksum and one over `raw`. The result has 0.752 of the length of `json`, and never
/// more than 0.875 of the base64.
pub(crate) fn compress<W: Write>(
    output: W,
    json: &[u8],
    raw: &[u8],
    content: usize,
) -> io::Result<W> {
    let whole = raw.len() / 3 * 3;
    let (head, rest) = json.split_at(content);
    let (_, tail) = rest.split_at(whole / 3 * 4);

    let mut bits = BitWriter::new(output);
    // No name, no time, and an unknown system.
    for byte in [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255] {
        bits.put(byte, 8)?;
    }
    text(&mut bits, head, false)?;
    letters(&mut bits, &raw[..whole])?;
    text(&mut bits, tail, true)?;
    bits.align()?;
    for number in [crc32fast::hash(json), json.len() as u32] {
        bits.put(u64::from(number), 32)?;
    }
    bits.finish()
}

/// A block of text with the predefined code.
fn text<W: Write>(bits: &mut BitWriter<W>, text: &[u8], is_last: bool) -> io::Result<()> {
    bits.put(u64::from(is_last) | 0b01 << 1, 3)?;
    for &byte in text {
        let code = match byte {
            0..144 => Code {
                bits: reversed(0b0011_0000 + u32::from(byte), 8),
                len: 8,
            },
            _ => Code {
                bits: reversed(0b1_1001_0000 + u32::from(byte - 144), 9),
                len: 9,
            },
        };
        bits.put(u64::from(code.bits), code.len)?;
    }
    // The end of the block is seven zeros.
    bits.put(0, 7)
}

/// A block with the base64 of `raw`, whose length is a multiple of three.
fn letters<W: Write>(bits: &mut BitWriter<W>, raw: &[u8]) -> io::Result<()> {
    letters_header(bits)?;
    let (sixes, three) = raw.as_chunks::<6>();
    for piece in sixes.chunks(BUFFER / 8) {
        bits.make_room()?;
        for &[a, b, c, d, e, f] in piece {
            let six = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
            bits.put_pairs([six >> 36, six >> 24, six >> 12, six]);
        }
    }
    if let &[a, b, c] = three {
        let three = u64::from_be_bytes([0, 0, 0, 0, 0, a, b, c]);
        for pair in [three >> 12, three] {
            let (pair, len) = pair_code(pair);
            bits.put(pair, len)?;
        }
    }
    bits.put(u64::from(END_OF_LETTERS.bits), END_OF_LETTERS.len)
}

fn pair_code(letters: u64) -> (u64, u32) {
    let entry = PAIRS[letters as usize & 4095];
    (u64::from(entry & 0x3FFF), 12 + u32::from(entry >> 14))
}

/// The header of a block with its own code, which lists the lengths of all codes.
fn letters_header<W: Write>(bits: &mut BitWriter<W>) -> io::Result<()> {
    // Not the last block; own code; 257 symbols; 2 distances, which do not occur, but some decoders want a code
    // for them; 18 lengths of codes for lengths.
    for (value, len) in [(0, 1), (0b10, 2), (0, 5), (1, 5), (18 - 4, 4)] {
        bits.put(value, len)?;
    }
    // The lengths 0, 1, 6 and 7 have codes of 1, 3, 2 and 3 bits, in the order that the format gives.
    for length in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1] {
        let len = match length {
            0 => 1,
            6 => 2,
            1 | 7 => 3,
            _ => 0,
        };
        bits.put(len, 3)?;
    }
    let distances = [1, 1];
    for length in (0..=END).map(length_of).chain(distances) {
        // Codes of one length are in the order of what they stand for.
        let (code, len) = match length {
            0 => (0b0, 1),
            6 => (0b10, 2),
            1 => (0b110, 3),
            _ => (0b111, 3),
        };
        bits.put(u64::from(reversed(code, len)), len)?;
    }
    Ok(())
}

/// Packs bits, first bit lowest.
struct BitWriter<W> {
    output: W,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are complete.
    filled: usize,
    /// Fewer than 8 bits that are not in the buffer yet, the first one lowest.
    bits: u64,
    len: u32,
}

impl<W: Write> BitWriter<W> {
    fn new(output: W) -> Self {
        Self {
            output,
            buffer: vec![0; BUFFER + RESERVE],
            filled: 0,
            bits: 0,
            len: 0,
        }
    }

    /// Empties the buffer.
    fn make_room(&mut self) -> io::Result<()> {
        self.output.write_all(&self.buffer[..self.filled])?;
        self.filled = 0;
        Ok(())
    }

    /// Appends up to 56 bits.
    fn put(&mut self, value: u64, len: u32) -> io::Result<()> {
        if self.filled >= BUFFER {
            self.make_room()?;
        }
        self.bits |= value << self.len;
        self.len += len;
        self.store();
        Ok(())
    }

    /// Appends four pairs of letters: 48 to 56 bits. There must be room.
    #[inline]
    fn put_pairs(&mut self, pairs: [u64; 4]) {
        for letters in pairs {
            let (pair, len) = pair_code(letters);
            self.bits |= pair << self.len;
            self.len += len;
        }
        self.store();
    }

    /// Moves whole bytes to the buffer.
    #[inline]
    fn store(&mut self) {
        self.buffer[self.filled..self.filled + 8].copy_from_slice(&self.bits.to_le_bytes());
        self.filled += self.len as usize / 8;
        self.bits >>= self.len & !7;
        self.len &= 7;
    }

    /// Fills the last byte up with zeros.
    fn align(&mut self) -> io::Result<()> {
        self.put(0, self.len.wrapping_neg() & 7)
    }

    fn finish(mut self) -> io::Result<W> {
        self.make_room()?;
        self.output.flush()?;
        Ok(self.output)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// The JSON of a filter, and what is read back from its gzip.
    fn there_and_back(raw: &[u8]) -> (Vec<u8>, Vec<u8>, usize) {
        let head = br#"{"n":1,"content":""#;
        let mut json = head.to_vec();
        let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, raw);
        json.extend_from_slice(text.as_bytes());
        json.extend_from_slice(br#"","timestamp":1767225600}"#);
        let packed = compress(Vec::new(), &json, raw, head.len()).expect("memory takes everything");
        let mut read = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&packed[..]);
        decoder.read_to_end(&mut read).expect("valid gzip");
        (json, read, packed.len())
    }

    fn uniform(len: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let bytes = core::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        });
        bytes.take(len).collect()
    }

    #[test]
    fn every_length_is_read_back() {
        let bytes = uniform(300);
        for len in 0..=bytes.len() {
            let (json, read, _) = there_and_back(&bytes[..len]);
            assert!(json == read, "{len} bytes");
        }
    }

    #[test]
    fn lengths_around_the_buffer_are_read_back() {
        let bytes = uniform(4 * BUFFER);
        for around in [BUFFER / 8 * 6, BUFFER, 2 * BUFFER / 8 * 6, 4 * BUFFER - 7] {
            for len in around - 7..=around + 7 {
                let (json, read, _) = there_and_back(&bytes[..len]);
                assert!(json == read, "{len} bytes");
            }
        }
    }

    #[test]
    fn every_pair_of_letters_is_read_back() {
        let bytes: Vec<u8> = (0..4096_u32)
            .flat_map(|pair| [pair >> 4, pair << 4 | pair >> 8, pair].map(|byte| byte as u8))
            .collect();
        let (json, read, _) = there_and_back(&bytes);
        assert!(json == read);
    }

    #[test]
    fn any_bytes_shrink_to_seven_eighths_or_less() {
        let (json, _, packed) = there_and_back(&uniform(1_000_000));
        let ratio = packed as f64 / json.len() as f64;
        assert!((0.7515..0.7525).contains(&ratio), "{ratio}");

        // "zzzz..."
        let (json, read, packed) = there_and_back(&[0xCF, 0x3C, 0xF3].repeat(100_000));
        assert!(json == read);
        assert!(packed as f64 / json.len() as f64 <= 0.8755, "{packed}");
    }
}
