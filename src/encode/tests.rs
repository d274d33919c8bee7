//! Compares every way of encoding with the reference, which writes bit by bit.

use alloc::vec;
use alloc::vec::Vec;

use super::coder::{Carry, Coder, StreamOutput};
use super::*;
use crate::hash::map_to_range;
use crate::tests::{Noise, sorted};

/// The maximum number of bits for the reference, which writes each of them singly.
const MOST_BITS: u128 = 1 << 18;

/// The reference's bytes for `hashes`, or `None` if they are too many.
fn reference(hashes: &[u64], params: Params) -> Option<Vec<u8>> {
    let range = params.range(hashes.len() as u32);
    let values: Vec<u64> = hashes.iter().map(|&h| map_to_range(h, range)).collect();
    let coder = Coder::of_hashes(SimdLevel::SCALAR, params, range);
    let bound = coder.bits_bound(values.len(), 0, values.last().copied().unwrap_or(0));
    (bound < MOST_BITS).then(|| nutfilter_reference::encode_values(&values, params.p()))
}

/// Checks that all levels give the reference's bytes. Returns whether the reference was used.
fn agrees(hashes: &[u64], params: Params, what: &str) -> bool {
    let Some(expected) = reference(hashes, params) else {
        return false;
    };
    let range = params.range(hashes.len() as u32);
    let values: Vec<u64> = hashes.iter().map(|&h| map_to_range(h, range)).collect();
    for level in SimdLevel::available() {
        let encoded = encode_hashes(level, hashes, params).unwrap();
        let n = hashes.len();
        assert!(encoded.bytes == expected, "{what}: {level}, n = {n}, {params:?}");
        assert_eq!(encoded.n as usize, n);
        assert_eq!(encoded.bytes.len() as u64, encoded.end.div_ceil(8));
    }
    let by_value = encode_values(&values, params).unwrap();
    assert!(by_value.bytes == expected, "{what}: values, {params:?}");
    true
}

/// M that suits P best, and M far below and above it.
fn every_params() -> impl Iterator<Item = Params> {
    (0..=32).flat_map(|p| {
        let fitting = (1_u64 << p) * 3 / 2;
        [1, fitting / 64, fitting / 2, fitting, fitting * 8, fitting * 100]
            .map(|m| Params::new(p, m.clamp(1, u64::from(u32::MAX))).unwrap())
    })
}

#[test]
fn every_p_and_length_agrees_with_the_reference() {
    let mut compared = 0;
    for params in every_params() {
        for n in (0..=65).chain([127, 128, 129, 1_000]) {
            let hashes = sorted(Noise::of(n as u64), n);
            compared += u32::from(agrees(&hashes, params, "random"));
        }
    }
    assert!(compared > 12_000, "{compared} compared");
}

#[test]
fn hostile_hashes_agree_with_the_reference() {
    let mut compared = 0;
    for params in every_params() {
        for n in [1, 2, 16, 17, 33, 64, 200] {
            for shape in 0..7 {
                let hash = |hash: u64| match shape {
                    0 => 0,
                    1 => u64::MAX,
                    2 => hash >> 63 << 63,
                    3 => hash >> 40,
                    4 => hash | !0 << 24,
                    5 => {
                        if hash.is_multiple_of(8) {
                            hash
                        } else {
                            1 << 60
                        }
                    }
                    _ => {
                        if hash.is_multiple_of(2) {
                            0
                        } else {
                            u64::MAX
                        }
                    }
                };
                let hashes = sorted(Noise::of(n as u64).map(hash), n);
                compared += u32::from(agrees(&hashes, params, "ground"));
            }
        }
    }
    assert!(compared > 5_000, "{compared} compared");
}

#[test]
fn codes_around_loop_limits_agree_with_the_reference() {
    // The tests use values directly: with F = 2^64 / 2^s, the hash v << s has the value v.
    for p in 0..=32_u32 {
        for level in SimdLevel::available() {
            for quotient in (0..=70).filter(|q| (q << p) < 1_u64 << 39) {
                for at in [0, 1, 7, 8, 14, 15, 16, 31, 47] {
                    let mut value = 0;
                    let values: Vec<u64> = (0..48)
                        .map(|i| {
                            value +=
                                if i == at { (quotient << p) | u64::from(p > 0) } else { i % 3 };
                            value
                        })
                        .collect();
                    let expected = nutfilter_reference::encode_values(&values, p);
                    let hashes: Vec<u64> = values.iter().map(|v| v << 24).collect();
                    let coder = Coder::of_hashes(level, Params::new(p, 1).unwrap(), 1 << 40);
                    let (bytes, _) = encode_run(coder, &hashes, 0, 48).unwrap();
                    assert!(bytes == expected, "{level}, P = {p}, quotient {quotient} at {at}");
                }
            }
        }
    }
}

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

#[test]
fn bits_bound_is_tight_to_a_quarter_of_the_minimum() {
    for params in every_params() {
        for n in [1, 3, 100] {
            let hashes = sorted(Noise::of(n as u64), n);
            let Some(bytes) = reference(&hashes, params) else {
                continue;
            };
            let range = params.range(n as u32);
            let coder = Coder::of_hashes(SimdLevel::SCALAR, params, range);
            let last = coder.value_of(hashes[n - 1]);
            let bound = coder.bits_bound(n, 0, last).div_ceil(8) as usize;
            let least = params.min_bytes(n as u32) as usize;
            assert!(bytes.len() <= bound && bound <= bytes.len() + least / 4 + 1);
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
