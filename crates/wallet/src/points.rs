//! Points of both curves, and randomness, for decoys and for shuffled requests.

use bls12_381::{G1Affine, G1Projective, Scalar};
use nutfilter_cashu::PointKind;
use secp256k1::PublicKey;

use crate::query_error::QueryError;

/// The first byte of every `Y` on secp256k1: `hash_to_curve` takes the even `y` (NUT-00). A decoy with another first
/// byte would be recognised immediately.
const EVEN: u8 = 2;

/// Every second number is the `x` of a point, so 128 failures in a row mean a broken random number generator.
const MAX_TRIES: u32 = 128;

/// The kind of these bytes, if they are a compressed point of a note: on the curve, in the subgroup of prime order,
/// not infinity, in the one encoding.
pub(crate) fn point_kind(bytes: &[u8]) -> Option<PointKind> {
    let kind = PointKind::of(bytes)?;
    let is_point = match kind {
        PointKind::Secp256k1 => PublicKey::from_slice(bytes).is_ok(),
        PointKind::Bls12381 => {
            let bytes = bytes.try_into().ok()?;
            Option::<G1Affine>::from(G1Affine::from_compressed(bytes)).is_some()
        }
    };
    is_point.then_some(kind)
}

/// A decoy point for which nobody knows a secret, with the distribution of real points.
pub(crate) fn random_y(kind: PointKind) -> Result<Vec<u8>, QueryError> {
    match kind {
        PointKind::Secp256k1 => {
            // As `hash_to_curve` makes a `Y`: random values of `x` until one is on the curve.
            let mut point = vec![EVEN; kind.bytes()];
            for _ in 0..MAX_TRIES {
                fill(&mut point[1..])?;
                if point_kind(&point).is_some() {
                    return Ok(point);
                }
            }
            Err(QueryError::Randomness)
        }
        PointKind::Bls12381 => {
            // Multiples of the generator are all of the group, and `hash_to_curve` is uniform in it. The bias of the
            // reduction is below 2^-256.
            let mut wide = [0; 64];
            fill(&mut wide)?;
            let point = G1Projective::generator() * Scalar::from_bytes_wide(&wide);
            Ok(G1Affine::from(point).to_compressed().to_vec())
        }
    }
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
    use bls12_381::hash_to_curve::{ExpandMsgXmd, HashToCurve};
    use data_encoding::HEXLOWER;

    /// Points of both kinds, and bytes that are not points, by other implementations.
    fn vectors() -> serde_json::Value {
        let file = include_str!("../../../tests/vectors/points.json");
        serde_json::from_str(file).expect("JSON")
    }

    fn hex(text: &str) -> Vec<u8> {
        HEXLOWER.decode(text.as_bytes()).expect("hex")
    }

    #[test]
    fn bytes_off_secp256k1_are_not_points() {
        // `hash_to_curve` of 32 zero bytes, from the test vectors of NUT-00.
        let mut y = hex("024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725");
        for first in 0..8 {
            y[0] = first;
            let expected = matches!(first, 2 | 3).then_some(PointKind::Secp256k1);
            assert_eq!(point_kind(&y), expected, "{first}");
        }
        assert_eq!(point_kind(&[2; 32]), None);
        assert_eq!(point_kind(&[2; 34]), None);
        // No point has x = 0, or an x above the field's prime.
        assert_eq!(point_kind(&[[2].as_slice(), &[0; 32]].concat()), None);
        assert_eq!(point_kind(&[[2].as_slice(), &[255; 32]].concat()), None);
    }

    #[test]
    fn only_points_of_the_subgroup_are_points_of_bls12_381() {
        let vectors = vectors();
        for note in vectors["notes"].as_array().expect("notes") {
            for field in ["Y", "B_", "C_", "C"] {
                let mut point = hex(note[field].as_str().expect("hex"));
                assert_eq!(point_kind(&point), Some(PointKind::Bls12381), "{note}");
                // The other y.
                point[0] ^= 0x20;
                assert_eq!(point_kind(&point), Some(PointKind::Bls12381), "{note}");
                point[0] ^= 0x80;
                assert_eq!(point_kind(&point), None, "{note}");
            }
        }
        for (name, text) in vectors["invalid"].as_object().expect("bytes") {
            assert_eq!(
                point_kind(&hex(text.as_str().expect("hex"))),
                None,
                "{name}"
            );
        }
    }

    /// For each bit of the points, how often it is set, and the same for the order among each other.
    fn counts(points: &[Vec<u8>]) -> Vec<u32> {
        let mut counts = vec![0; points[0].len() * 8];
        for point in points {
            for (at, count) in counts.iter_mut().enumerate() {
                *count += u32::from(point[at / 8] >> (7 - at % 8) & 1);
            }
        }
        counts
    }

    #[test]
    fn decoys_cannot_be_told_from_real_points() {
        const COUNT: usize = 400;
        // Real ones: `Y` is a hash to the curve, of which only every second has an even `y` on secp256k1.
        let real: Vec<Vec<u8>> = (0..COUNT as u32)
            .map(|number| {
                let dst = b"CASHU_BLS12_381_G1_XMD:SHA-256_SSWU_RO_";
                let y = <G1Projective as HashToCurve<
                        ExpandMsgXmd<sha2_for_bls12_381::Sha256>,
                    >>::hash_to_curve([number.to_be_bytes()], dst);
                G1Affine::from(y).to_compressed().to_vec()
            })
            .collect();
        for kind in PointKind::ALL {
            let mut decoys: Vec<_> = (0..COUNT)
                .map(|_| random_y(kind).expect("a decoy"))
                .collect();
            assert!(decoys.iter().all(|decoy| point_kind(decoy) == Some(kind)));
            let real = match kind {
                PointKind::Bls12381 => counts(&real),
                // All of them begin with 02, and the other bits are those of random numbers.
                PointKind::Secp256k1 => {
                    assert!(decoys.iter().all(|decoy| decoy[0] == EVEN));
                    let half = |at| {
                        if at < 8 {
                            COUNT * usize::from(at == 6)
                        } else {
                            COUNT / 2
                        }
                    };
                    (0..8 * 33).map(|at| half(at) as u32).collect()
                }
            };
            for (at, (real, decoy)) in real.iter().zip(counts(&decoys)).enumerate() {
                // Seven deviations of the difference of two binomial counts.
                assert!(
                    real.abs_diff(decoy) <= 100,
                    "bit {at}: {real} and {decoy} of {COUNT}"
                );
            }
            decoys.sort_unstable();
            decoys.dedup();
            assert_eq!(decoys.len(), COUNT);
        }
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
