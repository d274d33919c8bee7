//! The points of notes, by the version of their keyset. Everything that differs between the versions is here.
//!
//! The rules for `02` are those of an open change of NUT-00 (nuts #371, as of September 2026). They may still change.

use crate::KeysetId;

/// The curve of a keyset's points `Y`, `B_` and `C_`.
///
/// ```
/// use nutfilter_cashu::{KeysetId, PointKind};
///
/// let id: KeysetId = ("02".to_owned() + &"ab".repeat(32)).parse()?;
/// assert_eq!(id.point_kind(), PointKind::Bls12381);
/// assert_eq!(id.point_kind().bytes(), 48);
/// # Ok::<(), nutfilter_cashu::KeysetIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PointKind {
    /// secp256k1: IDs that begin with `00` or `01`, and those in base64.
    Secp256k1,
    /// G1 of BLS12-381: IDs that begin with `02`.
    Bls12381,
}

impl PointKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Secp256k1, Self::Bls12381];

    /// The length of a compressed point.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Secp256k1 => 33,
            Self::Bls12381 => 48,
        }
    }

    /// The kind of bytes with the length and the first byte of a compressed point. Other encodings, and the point at
    /// infinity, are not points of notes. The curve is not checked.
    #[must_use]
    pub fn of(point: &[u8]) -> Option<Self> {
        let kind = Self::ALL.into_iter().find(|kind| kind.bytes() == point.len())?;
        let is_form = match kind {
            Self::Secp256k1 => matches!(point[0], 2 | 3),
            // The three highest bits: compressed, infinity, and the sign of `y`.
            Self::Bls12381 => point[0] & 0xc0 == 0x80,
        };
        is_form.then_some(kind)
    }

    /// The kind of these bytes, if they are a compressed point of a note: on the curve, in the subgroup of prime order,
    /// not infinity, in the one encoding.
    #[cfg(feature = "curves")]
    #[must_use]
    pub fn on_curve(point: &[u8]) -> Option<Self> {
        let kind = Self::of(point)?;
        let is_point = match kind {
            Self::Secp256k1 => secp256k1::PublicKey::from_slice(point).is_ok(),
            Self::Bls12381 => {
                let point = bls12_381::G1Affine::from_compressed(point.try_into().ok()?);
                bool::from(point.is_some())
            }
        };
        is_point.then_some(kind)
    }

    /// Whether signatures may have a DLEQ proof (NUT-12). Others are verified by a pairing.
    #[must_use]
    pub const fn has_dleq(self) -> bool {
        matches!(self, Self::Secp256k1)
    }
}

impl KeysetId {
    /// The curve of the keyset's points.
    #[must_use]
    pub fn point_kind(&self) -> PointKind {
        match self.as_str().len() > 16 && self.as_str().starts_with("02") {
            true => PointKind::Bls12381,
            false => PointKind::Secp256k1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_told_by_id_and_by_form() {
        let long = |version| alloc::format!("{version}{}", "aB".repeat(32));
        for (id, kind) in [
            ("009a1f293253e41e", PointKind::Secp256k1),
            // In base64, which begins by chance like a version.
            ("02///+++____", PointKind::Secp256k1),
            (&long("01"), PointKind::Secp256k1),
            (&long("02"), PointKind::Bls12381),
        ] {
            assert_eq!(KeysetId::parse(id).unwrap().point_kind(), kind, "{id}");
        }
        for first in 0..=255 {
            let secp = matches!(first, 2 | 3).then_some(PointKind::Secp256k1);
            assert_eq!(PointKind::of(&[first; 33]), secp, "{first}");
            let bls = (first >> 6 == 2).then_some(PointKind::Bls12381);
            assert_eq!(PointKind::of(&[first; 48]), bls, "{first}");
            for len in [0, 32, 34, 47, 49, 65, 96] {
                assert_eq!(PointKind::of(&[first; 96][..len]), None, "{first}, {len}");
            }
        }
    }

    #[cfg(feature = "curves")]
    fn hex(text: &str) -> alloc::vec::Vec<u8> {
        const_hex::decode(text).expect("hex")
    }

    #[cfg(feature = "curves")]
    #[test]
    fn bytes_off_secp256k1_are_not_points() {
        // `hash_to_curve` of 32 zero bytes, from the test vectors of NUT-00.
        let mut y = hex("024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725");
        for first in 0..8 {
            y[0] = first;
            let expected = matches!(first, 2 | 3).then_some(PointKind::Secp256k1);
            assert_eq!(PointKind::on_curve(&y), expected, "{first}");
        }
        // No point has x = 0, or an x above the field's prime.
        for x in [0, 255] {
            assert_eq!(PointKind::on_curve(&[&[2][..], &[x; 32]].concat()), None);
        }
    }

    /// Points of both kinds, and bytes that are not points, by other implementations.
    #[cfg(feature = "curves")]
    #[test]
    fn only_points_of_the_subgroup_are_points_of_bls12_381() {
        let file = include_str!("../../../tests/vectors/points.json");
        let vectors: serde_json::Value = serde_json::from_str(file).expect("JSON");
        for note in vectors["notes"].as_array().expect("notes") {
            for field in ["Y", "B_", "C_", "C"] {
                let mut point = hex(note[field].as_str().expect("hex"));
                assert_eq!(PointKind::on_curve(&point), Some(PointKind::Bls12381));
                // The other y.
                point[0] ^= 0x20;
                assert_eq!(PointKind::on_curve(&point), Some(PointKind::Bls12381));
                point[0] ^= 0x80;
                assert_eq!(PointKind::on_curve(&point), None, "{note}");
            }
        }
        for (name, text) in vectors["invalid"].as_object().expect("bytes") {
            let point = hex(text.as_str().expect("hex"));
            assert_eq!(PointKind::on_curve(&point), None, "{name}");
        }
    }
}
