//! What the cases of `crates/harness` cannot reach: ranges of many items, and the room of an output.

use alloc::vec;
use alloc::vec::Vec;

use super::coder::{Carry, Coder, StreamOutput};
use super::*;
use crate::hash::map_to_range;
use crate::tests::{Noise, sorted};

#[test]
fn every_range_maps_exactly() {
    // The larger the range, the closer together the hashes. The differences have 22 bits, so remainders keep
    // every bit of the values and an incorrect bit is visible.
    for bits in 30..64_u32 {
        let random = Noise::of(bits.into()).next().unwrap();
        for range in [1 << bits, u64::MAX >> (63 - bits), 1 << bits | random >> (64 - bits)] {
            for base in [0, random, !0 << 40] {
                let near = Noise::of(7).map(|hash| base.saturating_add(hash >> (bits - 30)));
                let hashes = sorted(near, 160);
                let of = |hash: u64| map_to_range(hash, range);
                let values: Vec<u64> = hashes.iter().map(|&h| of(h) - of(hashes[0])).collect();
                for p in [20, 22, 24, 27] {
                    let expected = nutfilter_reference::encode_values(&values, p);
                    for level in SimdLevel::available() {
                        let coder = Coder::of_hashes(level, Params::new(p, 1).unwrap(), range);
                        let (bytes, _) = encode_run(coder, &hashes, of(hashes[0]), 160).unwrap();
                        assert!(bytes == expected, "{level}, F = {range}, P = {p}");
                    }
                }
            }
        }
    }
}

/// An output with rooms of the given sizes. Its buffer shows writes beyond them.
struct Rooms<I> {
    bytes: Vec<u8>,
    used: usize,
    sizes: I,
    end: usize,
}

const UNTOUCHED: u8 = 0xa5;

impl<I: Iterator<Item = usize>> StreamOutput for Rooms<I> {
    type Error = BuildError;

    fn room(&mut self) -> Result<&mut [u8], BuildError> {
        assert!(self.bytes[self.end..].iter().all(|&byte| byte == UNTOUCHED));
        self.end = self.used + self.sizes.next().unwrap();
        self.bytes.truncate(self.used);
        self.bytes.resize(self.end + 600, UNTOUCHED);
        Ok(&mut self.bytes[self.used..self.end])
    }

    fn commit(&mut self, bytes: usize) {
        self.used += bytes;
        assert!(self.used <= self.end);
    }
}

#[test]
fn encoder_writes_nothing_beyond_the_room() {
    let hashes = sorted(Noise::of(3), 300);
    for level in SimdLevel::available() {
        for (p, m) in [
            (19, 784_931),
            (3, 12),
            (24, 1 << 24),
            (1, 3),
            (32, u64::from(u32::MAX)),
            (19, 1 << 24),
        ] {
            let params = Params::new(p, m).unwrap();
            let range = params.range(300);
            let expected = encode_hashes(SimdLevel::SCALAR, &hashes, params).unwrap();
            for size in LEAST_ROOM..400 {
                let mut output = Rooms {
                    bytes: vec![],
                    used: 0,
                    sizes: Noise::of(size as u64).map(|x| size + (x % 3) as usize),
                    end: 0,
                };
                let mut carry = Carry::default();
                let coder = Coder::of_hashes(level, params, range);
                coder.push(&mut carry, &hashes, &mut output).unwrap();
                let used = output.used;
                let _ = output.room();
                output.bytes.truncate(used);
                if carry.filled > 0 {
                    output.bytes.push(carry.last_byte());
                }
                assert!(output.bytes == expected.bytes, "{level}, rooms of {size}, {params:?}");
            }
        }
    }
}

#[test]
fn values_out_of_order_or_range_are_errors() {
    let params = Params::new(3, 10).unwrap();
    assert!(encode_values(&[3, 5, 29], params).is_ok());
    let fault = |values: &[u64]| encode_values(values, params).unwrap_err().0;
    assert_eq!(fault(&[5, 3]), BuildFault::Unsorted { item: 1 });
    assert_eq!(fault(&[5, 20]), BuildFault::ValueOutOfRange { item: 1, value: 20, range: 20 });
}

#[test]
fn filter_larger_than_memory_is_an_error() {
    let params = Params::new(0, u64::from(u32::MAX)).unwrap();
    let mut hashes = vec![u64::MAX; 1 << 20];
    hashes[0] = 0;
    // F = 2^20 * M, so the code takes about 2^52 bits.
    for level in SimdLevel::available() {
        let error = encode_hashes(level, &hashes, params).unwrap_err();
        assert!(matches!(error.0, BuildFault::OutOfMemory { .. }), "{error}");
    }
}

#[test]
fn more_bytes_than_a_vector_holds_are_rejected() {
    let most = (isize::MAX as u128 - LEAST_ROOM as u128) * 8;
    assert_eq!(bytes_for(most, 7), Ok(isize::MAX as usize - LEAST_ROOM));
    for bits in [most + 1, most + 8, u128::MAX] {
        let fault = BuildFault::TooManyBits { n: 7, bits };
        assert_eq!(bytes_for(bits, 7), Err(BuildError(fault)));
    }
}
