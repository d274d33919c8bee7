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
        let kind = Self::ALL
            .into_iter()
            .find(|kind| kind.bytes() == point.len())?;
        let is_form = match kind {
            Self::Secp256k1 => matches!(point[0], 2 | 3),
            // The three highest bits: compressed, infinity, and the sign of `y`.
            Self::Bls12381 => point[0] & 0xc0 == 0x80,
        };
        is_form.then_some(kind)
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
}
