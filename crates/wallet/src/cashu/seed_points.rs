//! What a seed gives for the counters of a keyset (NUT-13), and the points of a restore.

use std::collections::HashMap;
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
use crate::point_source::{Points, PointsError};

/// The points of a keyset's counters, derived from a seed. Gives them to a [`Restore`](crate::Restore), and then the
/// secrets of the notes that it found.
///
/// # Cost
///
/// For a counter, about 50 µs for `Y` of `00` keysets and those in base64, and 15 µs for `01`; half of that again for `B_`. The library
/// hides factors from who measures its time; a table of multiples would take half as long and show them.
#[derive(Clone)]
pub struct SeedPoints {
    derivation: Derivation,
    /// The counters whose `Y` was derived last: a restore asks for the `B_` of most of them next.
    last: HashMap<u32, DerivedNote>,
}

#[derive(Clone)]
enum Derivation {
    /// The parent node of all counters, by BIP32.
    Bip32(Box<Node>),
    /// By HMAC.
    Hmac { seed: Seed, id: Id },
}

/// A private key of BIP32, and the HMAC that its chain code is the key of.
#[derive(Clone)]
struct Node {
    key: Key,
    chain: HmacEngine<sha512::Hash>,
}

/// What a counter has before its blinding factor.
#[derive(Clone)]
struct DerivedNote {
    secret: Secret,
    y: Point,
    /// The parent of secret and blinding factor, and its public key.
    node: Option<(Node, [u8; 33])>,
}

impl Node {
    fn new(key: Key, chain: &[u8]) -> Self {
        let chain = HmacEngine::new(chain);
        Self { key, chain }
    }

    /// The child of a key and an index, and its chain code. `Xpriv` would multiply the generator for each: for their
    /// fingerprints, too.
    fn child(&self, data: [&[u8]; 3]) -> Option<(Key, [u8; 32])> {
        let mut engine = self.chain.clone();
        data.iter().for_each(|part| engine.input(part));
        let hash = Hmac::from_engine(engine).to_byte_array();
        let (left, right) = hash.split_first_chunk::<32>().expect("64 bytes");
        let chain = right.try_into().expect("32 bytes");
        let tweak = Scalar::from_be_bytes(*left).ok()?;
        Some((self.key.add_tweak(&tweak).ok()?, chain))
    }
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
            return Ok(Derivation::Hmac { seed, id }.into());
        }
        let index = ChildNumber::from_hardened_idx(index_of(keyset).ok_or_else(unknown)?);
        let coin = [129_372, 0].map(|index| ChildNumber::Hardened { index });
        let path = [coin[0], coin[1], index.map_err(|_| unknown())?];
        let master = Xpriv::new_master(bitcoin::Network::Bitcoin, seed.as_bytes());
        let parent = master.and_then(|master| master.derive_priv(&*SECP256K1, &path));
        let parent = parent.map_err(|_| unknown())?;
        let parent = Node::new(parent.private_key, &parent.chain_code.to_bytes());
        Ok(Derivation::Bip32(parent.into()).into())
    }

    /// The secret of a counter.
    ///
    /// # Errors
    ///
    /// [`DeriveError`].
    pub fn secret(&self, counter: u32) -> Result<Secret, DeriveError> {
        Ok(self.derive(counter)?.secret)
    }

    /// The secret of a counter, and its blinding factor.
    ///
    /// # Errors
    ///
    /// [`DeriveError`].
    pub fn note(&self, counter: u32) -> Result<(Secret, SecretKey), DeriveError> {
        let derived = self.derive(counter)?;
        Ok((derived.secret.clone(), self.r(counter, &derived)?))
    }

    /// `B_` of a counter.
    ///
    /// # Errors
    ///
    /// [`DeriveError`].
    pub fn message(&self, counter: u32) -> Result<PublicKey, DeriveError> {
        match self.last.get(&counter) {
            Some(derived) => self.blinded(counter, derived),
            None => self.blinded(counter, &self.derive(counter)?),
        }
    }

    fn blinded(&self, counter: u32, derived: &DerivedNote) -> Result<PublicKey, DeriveError> {
        let r = self.r(counter, derived)?;
        let blinded = derived.y.combine(&r.public_key());
        Ok(blinded.map_err(|_| DeriveError::NoNote(counter))?.into())
    }

    fn derive(&self, counter: u32) -> Result<DerivedNote, DeriveError> {
        let none = || DeriveError::NoNote(counter);
        let (secret, node) = match &self.derivation {
            Derivation::Hmac { seed, id } => {
                let secret = Secret::from_seed(seed.as_bytes(), *id, counter);
                (secret.map_err(|_| none())?, None)
            }
            Derivation::Bip32(parent) => {
                let index = ChildNumber::from_hardened_idx(counter);
                let index = u32::from(index.map_err(|_| DeriveError::Counter(counter))?);
                let data = [&[0], &parent.key.secret_bytes()[..], &index.to_be_bytes()];
                let (key, chain) = parent.child(data).ok_or_else(none)?;
                let (node, public) =
                    (Node::new(key, &chain), key.public_key(&SECP256K1).serialize());
                let (secret, _) = node.child([&public, &[0; 4], &[]]).ok_or_else(none)?;
                let secret = const_hex::encode(secret.secret_bytes());
                (Secret::new(secret), Some((node, public)))
            }
        };
        let y = hash_to_curve(secret.as_bytes()).ok_or_else(none)?;
        Ok(DerivedNote { secret, y, node })
    }

    /// The blinding factor.
    fn r(&self, counter: u32, derived: &DerivedNote) -> Result<SecretKey, DeriveError> {
        let r = match (&self.derivation, &derived.node) {
            (_, Some((node, public))) => {
                let r = node.child([public, &[0, 0, 0, 1], &[]]);
                r.map(|(key, _)| key.into())
            }
            (Derivation::Hmac { seed, id }, None) => {
                SecretKey::from_seed(seed.as_bytes(), *id, counter).ok()
            }
            (Derivation::Bip32(_), None) => None,
        };
        r.ok_or(DeriveError::NoNote(counter))
    }
}

impl From<Derivation> for SeedPoints {
    fn from(derivation: Derivation) -> Self {
        let last = HashMap::new();
        Self { derivation, last }
    }
}

/// Without secrets.
impl std::fmt::Debug for SeedPoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SeedPoints")
    }
}

impl Points for SeedPoints {
    fn ys(&mut self, counters: Range<u32>) -> Result<Vec<Vec<u8>>, PointsError> {
        self.last.clear();
        let mut y = |counter| {
            let derived = self.derive(counter)?;
            let y = derived.y.serialize().to_vec();
            self.last.insert(counter, derived);
            Ok(y)
        };
        counters.map(&mut y).collect()
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
        false => STANDARD.decode(text.replace('-', "+").replace('_', "/")).ok()?,
    };
    let number = bytes.iter().fold(0, |number: u128, &byte| number << 8 | u128::from(byte));
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
            let derived = derived.into_iter().chain([&ys[0], &messages[0]].map(const_hex::encode));
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
        assert!(SeedPoints::new(&seed, &new).unwrap().message(u32::MAX).is_ok());
    }

    #[test]
    fn base64_id_of_hex_digits_is_read_as_hex() {
        let index = |id: &str| index_of(&id.parse().unwrap());
        assert_eq!(index("abcdefabcdef"), Some((0xabcd_efab_cdef_u64 % 0x7fff_ffff) as u32));
        assert_eq!(index("I2yN+iRYfk/T"), index("I2yN-iRYfk_T"));
        assert_eq!(index("009a1f293253e41e"), Some(864_559_728));
    }
}
