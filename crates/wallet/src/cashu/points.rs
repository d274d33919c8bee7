//! What a seed gives for the counters of a keyset (NUT-13), and the points of a restore.

use std::ops::Range;

use bitcoin::base64::Engine;
use bitcoin::base64::engine::general_purpose::STANDARD;
use bitcoin::bip32::{ChildNumber, Xpriv};
use bitcoin::hashes::{Hash, HashEngine, Hmac, HmacEngine, sha256, sha512};
use bitcoin::secp256k1::{PublicKey as Point, Scalar, SecretKey as Key};
use cashu::secret::Secret;
use cashu::{Id, PublicKey, SECP256K1, SecretKey};
use nutfilter_cashu::{KeysetId, PointKind};
use thiserror::Error;

use super::seed::Seed;
use crate::points::{Points, PointsError};

/// The points of a keyset's counters, derived from a seed. Gives them to a [`Restore`](crate::Restore), and then the
/// secrets of the notes that it found.
///
/// # Cost
///
/// For a counter, about 50 µs for `Y` of `00` keysets and those in base64, and 15 µs for `01`; as much again for `B_`.
#[derive(Clone, Debug)]
pub struct SeedPoints(Derivation);

#[derive(Clone)]
enum Derivation {
    /// The parent node of all counters, by BIP32.
    Bip32 { key: Key, chain: [u8; 32] },
    /// By HMAC.
    Hmac { seed: Seed, id: Id },
}

/// Why a seed gives no notes.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DeriveError {
    /// The crate `cashu` does not derive notes of such keysets. The rule for `02` is an open draft.
    #[error("the crate cashu does not derive notes of keyset {0}")]
    Version(KeysetId),
    /// BIP32 has 2^31 hardened children.
    #[error("counter {0} is above 2^31 - 1, the last one of keyset versions before 01")]
    Counter(u32),
    /// A number that is not a key, which chance gives once in 2^127.
    #[error("counter {0} has no note")]
    NoNote(u32),
}

impl SeedPoints {
    /// The points of this keyset.
    ///
    /// # Errors
    ///
    /// [`DeriveError::Version`].
    pub fn new(seed: &Seed, keyset: &KeysetId) -> Result<Self, DeriveError> {
        let unknown = || DeriveError::Version(keyset.clone());
        if keyset.point_kind() != PointKind::Secp256k1 {
            return Err(unknown());
        }
        if keyset.as_str().len() > 16 {
            let id = keyset.as_str().parse().map_err(|_| unknown())?;
            let seed = seed.clone();
            return Ok(Self(Derivation::Hmac { seed, id }));
        }
        let index = ChildNumber::from_hardened_idx(index_of(keyset).ok_or_else(unknown)?);
        let coin = [129_372, 0].map(|index| ChildNumber::Hardened { index });
        let path = [coin[0], coin[1], index.map_err(|_| unknown())?];
        let master = Xpriv::new_master(bitcoin::Network::Bitcoin, seed.as_bytes());
        let parent = master.and_then(|master| master.derive_priv(&*SECP256K1, &path));
        let parent = parent.map_err(|_| unknown())?;
        Ok(Self(Derivation::Bip32 {
            key: parent.private_key,
            chain: parent.chain_code.to_bytes(),
        }))
    }

    /// The secret of a counter.
    ///
    /// # Errors
    ///
    /// [`DeriveError`].
    pub fn secret(&self, counter: u32) -> Result<Secret, DeriveError> {
        match &self.0 {
            Derivation::Bip32 { .. } => {
                let [secret] = self.children(counter, [0])?;
                Ok(Secret::new(const_hex::encode(secret.secret_bytes())))
            }
            Derivation::Hmac { seed, id } => Secret::from_seed(seed.as_bytes(), *id, counter)
                .map_err(|_| DeriveError::NoNote(counter)),
        }
    }

    /// The secret of a counter, and its blinding factor.
    ///
    /// # Errors
    ///
    /// [`DeriveError`].
    pub fn note(&self, counter: u32) -> Result<(Secret, SecretKey), DeriveError> {
        match &self.0 {
            Derivation::Bip32 { .. } => {
                let [secret, r] = self.children(counter, [0, 1])?;
                let secret = Secret::new(const_hex::encode(secret.secret_bytes()));
                Ok((secret, r.into()))
            }
            Derivation::Hmac { seed, id } => {
                let r = SecretKey::from_seed(seed.as_bytes(), *id, counter);
                let r = r.map_err(|_| DeriveError::NoNote(counter))?;
                Ok((self.secret(counter)?, r))
            }
        }
    }

    /// `B_` of a counter.
    ///
    /// # Errors
    ///
    /// [`DeriveError`].
    pub fn message(&self, counter: u32) -> Result<PublicKey, DeriveError> {
        let (secret, r) = self.note(counter)?;
        let y = hash_to_curve(secret.as_bytes()).ok_or(DeriveError::NoNote(counter))?;
        let blinded = y.combine(&r.public_key());
        Ok(blinded.map_err(|_| DeriveError::NoNote(counter))?.into())
    }

    /// The keys at `counter'/child`. `Xpriv` would multiply the generator five times for the two of them: for their
    /// fingerprints, too.
    fn children<const N: usize>(
        &self,
        counter: u32,
        children: [u32; N],
    ) -> Result<[Key; N], DeriveError> {
        let Derivation::Bip32 { key, chain } = &self.0 else {
            return Err(DeriveError::NoNote(counter));
        };
        let child = |chain: &[u8; 32], key: &Key, data: &[&[u8]]| {
            let mut engine = HmacEngine::<sha512::Hash>::new(chain);
            data.iter().for_each(|part| engine.input(part));
            let hash = Hmac::from_engine(engine).to_byte_array();
            let (left, right) = hash.split_first_chunk::<32>().expect("64 bytes");
            let tweak = Scalar::from_be_bytes(*left).ok();
            let key = tweak.and_then(|tweak| key.add_tweak(&tweak).ok());
            let chain = <[u8; 32]>::try_from(right).expect("32 bytes");
            key.map(|key| (key, chain))
                .ok_or(DeriveError::NoNote(counter))
        };
        let index = ChildNumber::from_hardened_idx(counter);
        let index = u32::from(index.map_err(|_| DeriveError::Counter(counter))?).to_be_bytes();
        let (key, chain) = child(chain, key, &[&[0], &key.secret_bytes(), &index])?;
        let public = key.public_key(&SECP256K1).serialize();
        let mut keys = [key; N];
        for (place, number) in keys.iter_mut().zip(children) {
            *place = child(&chain, &key, &[&public, &number.to_be_bytes()])?.0;
        }
        Ok(keys)
    }
}

impl std::fmt::Debug for Derivation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Derivation::Bip32 { .. } => "Bip32",
            Derivation::Hmac { .. } => "Hmac",
        })
    }
}

impl Points for SeedPoints {
    fn ys(&mut self, counters: Range<u32>) -> Result<Vec<Vec<u8>>, PointsError> {
        let y = |counter| {
            let y = hash_to_curve(self.secret(counter)?.as_bytes());
            let y = y.ok_or(DeriveError::NoNote(counter))?;
            Ok(y.serialize().to_vec())
        };
        counters.map(y).collect()
    }

    fn messages(&mut self, counters: &[u32]) -> Result<Vec<Vec<u8>>, PointsError> {
        let message = |&counter| Ok(self.message(counter)?.to_bytes().to_vec());
        counters.iter().map(message).collect()
    }
}

/// `Y` of a secret (NUT-00). The crate's own function takes a square root more.
fn hash_to_curve(secret: &[u8]) -> Option<Point> {
    let sha256 = |parts: [&[u8]; 2]| {
        let mut engine = sha256::Hash::engine();
        parts.iter().for_each(|part| engine.input(part));
        sha256::Hash::from_engine(engine).to_byte_array()
    };
    let hash = sha256([b"Secp256k1_HashToCurve_Cashu_", secret]);
    let mut point = [2; 33];
    (0..1_u32 << 16).find_map(|counter| {
        point[1..].copy_from_slice(&sha256([&hash, &counter.to_le_bytes()]));
        Point::from_slice(&point).ok()
    })
}

/// The keyset's index in BIP32: its bytes as a number, modulo 2^31 - 1.
fn index_of(keyset: &KeysetId) -> Option<u32> {
    let text = keyset.as_str();
    // nutshell and cashu-ts read a base64 id that happens to be hex digits as those.
    let bytes = match text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => const_hex::decode(text).ok()?,
        false => STANDARD
            .decode(text.replace('-', "+").replace('_', "/"))
            .ok()?,
    };
    let number = bytes
        .iter()
        .fold(0, |number: u128, &byte| number << 8 | u128::from(byte));
    u32::try_from(number % ((1 << 31) - 1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of nutshell, by tests/vectors/make_seed_notes.py; more of them in the file of `NUTFILTER_SEED_NOTES`.
    #[test]
    fn notes_equal_those_of_nutshell_and_of_the_crate() {
        let file = std::env::var("NUTFILTER_SEED_NOTES")
            .map(|path| std::fs::read_to_string(path).expect("a file"))
            .unwrap_or_else(|_| include_str!("../../../../tests/vectors/seed-notes.json").into());
        let notes: Vec<serde_json::Value> = serde_json::from_str(&file).expect("JSON");
        assert!(notes.len() >= 24);
        for note in &notes {
            let text = |name: &str| note[name].as_str().expect(name);
            let seed: Seed = text("words").parse().expect("words");
            assert_eq!(const_hex::encode(seed.as_bytes()), text("seed"), "{note}");
            let counter = note["counter"].as_u64().expect("a counter") as u32;
            let mut points = SeedPoints::new(&seed, &text("keyset").parse().unwrap()).unwrap();
            let (secret, r) = points.note(counter).unwrap();
            let ys = points.ys(counter..counter + 1).unwrap();
            let messages = points.messages(&[counter]).unwrap();
            let derived = [secret.to_string(), r.to_secret_hex()];
            let derived = derived
                .into_iter()
                .chain([&ys[0], &messages[0]].map(const_hex::encode));
            assert!(derived.eq(["secret", "r", "Y", "B_"].map(text)), "{note}");
            assert_eq!(points.secret(counter).unwrap(), secret, "{note}");
            // The crate has no ids in base64.
            if let Ok(id) = text("keyset").parse::<Id>() {
                let theirs = Secret::from_seed(seed.as_bytes(), id, counter).unwrap();
                assert_eq!(theirs, secret, "{note}");
                let theirs = SecretKey::from_seed(seed.as_bytes(), id, counter).unwrap();
                assert_eq!(theirs, r, "{note}");
            }
        }
    }

    #[test]
    fn notes_that_the_crate_does_not_derive_are_errors() {
        let seed = Seed::from([7; 64]);
        let bls: KeysetId = format!("02{}", "ab".repeat(32)).parse().unwrap();
        let error = SeedPoints::new(&seed, &bls).expect_err("an open draft");
        assert_eq!(error, DeriveError::Version(bls));
        let old = SeedPoints::new(&seed, &"009a1f293253e41e".parse().unwrap()).unwrap();
        assert_eq!(old.message(1 << 31), Err(DeriveError::Counter(1 << 31)));
        let new = format!("01{}", "ab".repeat(32)).parse().unwrap();
        assert!(
            SeedPoints::new(&seed, &new)
                .unwrap()
                .message(u32::MAX)
                .is_ok()
        );
    }

    #[test]
    fn base64_id_of_hex_digits_is_read_as_hex() {
        let index = |id: &str| index_of(&id.parse().unwrap());
        assert_eq!(
            index("abcdefabcdef"),
            Some((0xabcd_efab_cdef_u64 % 0x7fff_ffff) as u32)
        );
        assert_eq!(index("I2yN+iRYfk/T"), index("I2yN-iRYfk_T"));
        assert_eq!(index("009a1f293253e41e"), Some(864_559_728));
    }
}
