//! Points of secp256k1, and chance: what a request is padded with, and in which order it is sent.

use secp256k1::PublicKey;

use crate::query_error::QueryError;

/// A compressed point: a byte for the sign of `y`, then `x`.
pub(crate) const POINT_BYTES: usize = 33;

/// Every `Y` begins with it: `hash_to_curve` takes the even `y` (NUT-00). A decoy that did not would be
/// told apart at a glance.
const EVEN: u8 = 2;

/// Every other number is the `x` of a point, so 128 failures in a row are a broken source of chance.
const MAX_TRIES: u32 = 128;

/// Whether these are the 33 bytes of a point on the curve.
pub(crate) fn is_point(bytes: &[u8]) -> bool {
    bytes.len() == POINT_BYTES && PublicKey::from_slice(bytes).is_ok()
}

/// A point that nobody knows a secret to, made the way `hash_to_curve` makes a `Y`: a random `x`, taken when
/// it is on the curve. It has the distribution of real ones.
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

/// Every order equally likely (Fisher and Yates), by the operating system's randomness.
pub(crate) fn shuffle<T>(items: &mut [T]) -> Result<(), QueryError> {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last as u64 + 1)? as usize);
    }
    Ok(())
}

/// A number below `bound`, each equally likely; `bound` is not 0.
fn below(bound: u64) -> Result<u64, QueryError> {
    // The numbers from here on would make the first remainders likelier than the others.
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
    use crate::hex;

    #[test]
    fn points_are_told_from_other_bytes() {
        // `hash_to_curve` of 32 zero bytes, as NUT-00's test vectors have it.
        let y = "024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725";
        let mut y = hex::decode(y).expect("hex");
        assert!(is_point(&y));
        y[0] = 3;
        assert!(is_point(&y));
        for other in [0, 1, 4, 5, 6, 7] {
            y[0] = other;
            assert!(!is_point(&y), "{other}");
        }
        assert!(!is_point(&[2; 32]));
        assert!(!is_point(&[2; 34]));
        // No point has x = 0, nor one above the field's prime.
        assert!(!is_point(&[[2].as_slice(), &[0; 32]].concat()));
        assert!(!is_point(&[[2].as_slice(), &[255; 32]].concat()));
    }

    #[test]
    fn decoys_are_points_with_an_even_y_and_no_two_are_equal() {
        let mut decoys: Vec<_> = (0..500).map(|_| random_y().expect("a decoy")).collect();
        assert!(decoys.iter().all(|decoy| is_point(decoy) && decoy[0] == 2));
        decoys.sort_unstable();
        decoys.dedup();
        assert_eq!(decoys.len(), 500);
    }

    #[test]
    fn every_order_comes_up_about_equally_often() {
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut order = [0, 1, 2, 3];
            shuffle(&mut order).expect("an order");
            *seen.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        // 1,000 are expected of each, with a standard deviation of 31: ten of those.
        assert!(
            seen.values().all(|count| (690..1_310).contains(count)),
            "{seen:?}"
        );
    }
}
