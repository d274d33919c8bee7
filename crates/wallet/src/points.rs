//! Points of secp256k1 and randomness, for decoys and for shuffled requests.

use secp256k1::PublicKey;

use crate::query_error::QueryError;

/// A compressed point: one byte for the parity of `y`, then `x`.
pub(crate) const POINT_BYTES: usize = 33;

/// The first byte of every `Y`: `hash_to_curve` takes the even `y` (NUT-00). A decoy with another first byte would
/// be recognised immediately.
const EVEN: u8 = 2;

/// Every second number is the `x` of a point, so 128 failures in a row mean a broken random number generator.
const MAX_TRIES: u32 = 128;

/// Whether `bytes` are the 33 bytes of a point on the curve.
pub(crate) fn is_point(bytes: &[u8]) -> bool {
    bytes.len() == POINT_BYTES && PublicKey::from_slice(bytes).is_ok()
}

/// A decoy point for which nobody knows a secret, made as `hash_to_curve` makes a `Y`: random values of `x` until
/// one is on the curve. Decoys have the same distribution as real points.
pub(crate) fn random_y() -> Result<[u8; POINT_BYTES], QueryError> {
    let mut point = [EVEN; POINT_BYTES];
    for _ in 0..MAX_TRIES {
        fill(&mut point[1..])?;
        if is_point(&point) {
            return Ok(point);
        }
    }
    Err(QueryError::Randomness)
}

/// Shuffles uniformly (Fisher-Yates), with the operating system's random numbers.
pub(crate) fn shuffle<T>(items: &mut [T]) -> Result<(), QueryError> {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last as u64 + 1)? as usize);
    }
    Ok(())
}

/// A uniform random number below `bound`, which must not be 0.
fn below(bound: u64) -> Result<u64, QueryError> {
    // Numbers from here on are rejected; they would make the first remainders more likely than the others.
    let end = u64::MAX - u64::MAX % bound;
    for _ in 0..MAX_TRIES {
        let mut bytes = [0; 8];
        fill(&mut bytes)?;
        let number = u64::from_le_bytes(bytes);
        if number < end {
            return Ok(number % bound);
        }
    }
    Err(QueryError::Randomness)
}

fn fill(bytes: &mut [u8]) -> Result<(), QueryError> {
    getrandom::fill(bytes).map_err(|_| QueryError::Randomness)
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    #[test]
    fn is_point_rejects_bytes_off_the_curve() {
        // `hash_to_curve` of 32 zero bytes, from the test vectors of NUT-00.
        let y = "024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725";
        let mut y = HEXLOWER.decode(y.as_bytes()).expect("hex");
        assert!(is_point(&y));
        y[0] = 3;
        assert!(is_point(&y));
        for other in [0, 1, 4, 5, 6, 7] {
            y[0] = other;
            assert!(!is_point(&y), "{other}");
        }
        assert!(!is_point(&[2; 32]));
        assert!(!is_point(&[2; 34]));
        // No point has x = 0, or an x above the field's prime.
        assert!(!is_point(&[[2].as_slice(), &[0; 32]].concat()));
        assert!(!is_point(&[[2].as_slice(), &[255; 32]].concat()));
    }

    #[test]
    fn decoys_are_distinct_points_with_even_y() {
        let mut decoys: Vec<_> = (0..500).map(|_| random_y().expect("a decoy")).collect();
        assert!(decoys.iter().all(|decoy| is_point(decoy) && decoy[0] == 2));
        decoys.sort_unstable();
        decoys.dedup();
        assert_eq!(decoys.len(), 500);
    }

    #[test]
    fn shuffle_yields_every_order_about_equally_often() {
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut order = [0, 1, 2, 3];
            shuffle(&mut order).expect("an order");
            *seen.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        // Each order is expected 1,000 times with a standard deviation of 31; allow ten deviations.
        assert!(
            seen.values().all(|count| (690..1_310).contains(count)),
            "{seen:?}"
        );
    }
}
