//! From sorted hashes, or sorted values, to the bytes of a filter.
//!
//! One linear pass maps, takes differences and writes codes. The size is known before the first bit is
//! written (by a bound, or exactly where the bound says little), so a set whose filter does not fit in
//! memory is an error and not an abort.

use alloc::vec::Vec;

#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::Avx2;
use crate::arch::{Kind, Level};
use crate::bits::BitWriter;
use crate::error::{BuildError, BuildFault};
use crate::hash::map_to_range;
use crate::params::Params;
use crate::rice;

/// What the encoder makes.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The filter.
    pub(crate) bytes: Vec<u8>,
    /// N.
    pub(crate) n: u32,
    /// The bit position where the last item ends.
    pub(crate) end: u64,
}

/// The filter of `hashes`, which are sorted.
///
/// # Errors
///
/// More than 2^32 - 1 hashes, or no memory for the bytes.
pub(crate) fn encode_hashes(
    level: Level,
    hashes: &[u64],
    params: Params,
) -> Result<Encoded, BuildError> {
    let range = params.range(count(hashes)?);
    match level.kind() {
        Kind::Portable => encode(hashes, params, |hash| map_to_range(hash, range)),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2(avx2) => encode_compiled(avx2, hashes, params, range),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512(avx512) => encode_compiled(avx512.avx2(), hashes, params, range),
    }
}

#[cfg(target_arch = "x86_64")]
fn encode_compiled(
    avx2: Avx2,
    hashes: &[u64],
    params: Params,
    range: u64,
) -> Result<Encoded, BuildError> {
    avx2.compiled(
        #[inline(always)]
        || encode(hashes, params, |hash| map_to_range(hash, range)),
    )
}

/// The filter of `values`, which are sorted and below F.
///
/// # Errors
///
/// As above, and a value that is not where it should be.
pub(crate) fn encode_values(values: &[u64], params: Params) -> Result<Encoded, BuildError> {
    let range = params.range(count(values)?);
    let mut previous = 0;
    for (item, &value) in (0_u64..).zip(values) {
        if value < previous {
            return Err(BuildError(BuildFault::Unsorted { item }));
        }
        if value >= range {
            return Err(BuildError(BuildFault::ValueOutOfRange {
                item,
                value,
                range,
            }));
        }
        previous = value;
    }
    encode(values, params, |value| value)
}

/// N, or an error where the format has no room for it.
fn count(items: &[u64]) -> Result<u32, BuildError> {
    let n = items.len() as u64;
    u32::try_from(n).map_err(|_| BuildError(BuildFault::TooManyItems { n }))
}

#[inline(always)]
fn encode(
    sorted: &[u64],
    params: Params,
    value_of: impl Fn(u64) -> u64 + Copy,
) -> Result<Encoded, BuildError> {
    let n = count(sorted)?;
    let p = params.p();
    let bytes = bytes_needed(sorted, n, params, value_of)?;
    let mut writer = BitWriter::with_capacity(bytes.saturating_mul(8))
        .map_err(|_| BuildError(BuildFault::OutOfMemory { bytes }))?;
    let mut previous = 0;
    for &item in sorted {
        let value = value_of(item);
        rice::write(&mut writer, value - previous, p);
        previous = value;
    }
    let end = writer.position();
    let bytes = writer.into_bytes();
    Ok(Encoded { bytes, n, end })
}

/// How many bytes to have ready: at least as many as the filter takes.
fn bytes_needed(
    sorted: &[u64],
    n: u32,
    params: Params,
    value_of: impl Fn(u64) -> u64,
) -> Result<u64, BuildError> {
    let (least, bound) = (params.min_bytes(n), params.max_bytes(n));
    // Within a quarter of the least the bound is as good as the truth, and saves a pass over the set.
    // Beyond it (P far below log2 M) hashes that lie close together make the bound thousands of times
    // the truth.
    if bound <= least + least / 4 {
        return Ok(bound);
    }
    let mut quotients = 0_u128;
    let mut previous = 0;
    for &item in sorted {
        let value = value_of(item);
        quotients += u128::from((value - previous) >> params.p());
        previous = value;
    }
    let bits = u128::from(n) * u128::from(params.p() + 1) + quotients;
    // A vector holds at most isize::MAX bytes.
    match u64::try_from(bits.div_ceil(8)) {
        Ok(bytes) if bytes <= isize::MAX as u64 => Ok(bytes),
        _ => Err(BuildError(BuildFault::TooManyBits { n, bits })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn values_out_of_order_or_range_are_errors() {
        let params = Params::new(3, 10).unwrap();
        assert!(encode_values(&[3, 5, 29], params).is_ok());
        let fault = |values: &[u64]| encode_values(values, params).unwrap_err().0;
        assert_eq!(fault(&[5, 3]), BuildFault::Unsorted { item: 1 });
        assert_eq!(
            fault(&[5, 20]),
            BuildFault::ValueOutOfRange {
                item: 1,
                value: 20,
                range: 20
            }
        );
    }

    #[test]
    fn a_filter_beyond_memory_is_an_error() {
        let params = Params::new(0, u64::from(u32::MAX)).unwrap();
        let mut hashes = vec![u64::MAX; 1 << 20];
        hashes[0] = 0;
        // F = 2^20 * M, so the code takes about 2^52 bits.
        let error = encode_hashes(Level::detect(), &hashes, params).unwrap_err();
        assert!(matches!(error.0, BuildFault::OutOfMemory { .. }), "{error}");
    }
}
