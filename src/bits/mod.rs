//! Bits in a byte stream, most significant first, read and written a 64-bit word at a time.
//!
//! ```text
//!   value 5 in 3 bits     101
//!   a run of 4 ones            1111 0      (the zero-bit ends it)
//!   value 2 in 4 bits                0010
//!   the stream            1011 1110 0010 0000
//!                         0xbe      0x20    the last four bits pad the byte
//! ```
//!
//! Position 0 is the top bit of byte 0. [`BitWriter`] pads the last byte with zero-bits; [`BitReader`]
//! knows nothing of padding and treats every bit of its bytes alike.

mod reader;
mod writer;

pub use reader::BitReader;
pub use writer::BitWriter;

/// The most bits that one call reads or writes: what a refilled buffer is sure to hold.
pub const MAX_BITS: u32 = 56;
