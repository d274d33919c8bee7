//! Bit streams, most significant bit first, read in 64-bit words.
//!
//! ```text
//!   value 5 in 3 bits     101
//!   a run of 4 ones            1111 0      (the zero-bit ends it)
//!   value 2 in 4 bits                0010
//!   the stream            1011 1110 0010 0000
//!                         0xbe      0x20    the last four bits pad the byte
//! ```
//!
//! Position 0 is the top bit of byte 0. An encoder pads the last byte with zero bits. [`BitReader`] has no notion
//! of padding and treats all bits of its bytes alike. A call reads at most [`MAX_BITS`] bits, from streams of any length.

mod reader;

pub(crate) use reader::BitReader;

/// The maximum number of bits per call. A refilled buffer always holds this many, unless the stream ends.
pub(crate) const MAX_BITS: u32 = 56;
