//! Hash profiles and their names on the command line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nutfilter::gcs::GcsHash;
use nutfilter::{AnyHash, ItemHash, SipHash};

use crate::error::CliError;
use crate::io::hex;

/// The profiles of the format, each with its name and its help on the command line.
const PROFILES: [(GcsHash, &str, &str); 4] = [
    (GcsHash::Nut25, "nut25", "Murmur3 32-bit, twice: what mints and wallets use"),
    (GcsHash::Nut23, "nut23", "Murmur3 128-bit, low half: as in the text of the draft"),
    (GcsHash::Bip158, "bip158", "SipHash with the key of a block: filters of Bitcoin blocks"),
    (GcsHash::SipHash, "siphash", "SipHash with a secret key: for items that can be guessed"),
];

fn parser() -> impl TypedValueParser<Value = GcsHash> {
    let values = PROFILES.map(|(_, name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).map(|given| {
        let found = PROFILES.iter().find(|(_, name, _)| *name == given);
        found.expect("the parser accepts only these words").0
    })
}

pub(crate) fn name_of(profile: GcsHash) -> &'static str {
    let found = PROFILES.iter().find(|(one, ..)| *one == profile);
    found.expect("all have names").1
}

/// Whether the hash has a key.
pub(crate) fn is_keyed(profile: GcsHash) -> bool {
    matches!(profile, GcsHash::Bip158 | GcsHash::SipHash)
}

/// The value in the header of a `.gcs` file that detects a wrong key, with which no member would match; 0 for hashes
/// without a key.
pub(crate) fn key_check(profile: GcsHash, hasher: &AnyHash) -> u32 {
    match is_keyed(profile) {
        true => (hasher.hash(b"nutfilter key check") >> 32) as u32,
        false => 0,
    }
}

/// The options that select a profile.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Hash and serialisation [default: nut25, or the profile in the header of a .gcs file].
    #[arg(long, value_parser = parser())]
    profile: Option<GcsHash>,

    /// Block hash, whose last 16 bytes are the key of the bip158 profile: 64 hex digits as they are printed, or the key
    /// alone, 32 digits.
    #[arg(long, value_name = "HASH", value_parser = block_key)]
    block_hash: Option<[u8; 16]>,

    /// File with the key of the siphash or bip158 profile: 16 bytes, or 32 hex digits. With the key anyone can
    /// check any item against the filter; without it the filter looks like random bits.
    #[arg(long, value_name = "FILE", conflicts_with = "block_hash")]
    key_file: Option<PathBuf>,
}

impl ProfileArgs {
    /// The selected profile.
    pub(crate) fn profile(&self) -> GcsHash {
        self.profile.unwrap_or(GcsHash::Nut25)
    }

    /// The given key.
    pub(crate) fn key(&self) -> Result<Option<[u8; 16]>, CliError> {
        match &self.key_file {
            Some(path) => read_key(path).map(Some),
            None => Ok(self.block_hash),
        }
    }

    /// The hasher of the selected profile.
    pub(crate) fn hasher(&self) -> Result<AnyHash, CliError> {
        self.hasher_of(self.profile())
    }

    /// The hasher for a file that names its profile. An error if the command line selects another profile.
    pub(crate) fn hasher_for_file(&self, profile: GcsHash) -> Result<AnyHash, CliError> {
        match self.profile {
            Some(asked) if asked != profile => Err(CliError::usage(format!(
                "the file was built with --profile {}, not {}",
                name_of(profile),
                name_of(asked)
            ))),
            _ => self.hasher_of(profile),
        }
    }

    fn hasher_of(&self, profile: GcsHash) -> Result<AnyHash, CliError> {
        match (profile, self.key()?) {
            (GcsHash::Nut25, None) => Ok(AnyHash::Nut25),
            (GcsHash::Nut23, None) => Ok(AnyHash::Nut23),
            (GcsHash::Bip158 | GcsHash::SipHash, Some(key)) => {
                Ok(AnyHash::Sip(SipHash::from_key(key)))
            }
            (GcsHash::Bip158, None) => {
                Err(CliError::usage("--profile bip158 needs --block-hash HASH: 64 hex digits"))
            }
            (GcsHash::SipHash, None) => Err(CliError::usage(
                "--profile siphash needs --key-file FILE: 16 secret bytes, or 32 hex digits",
            )),
            (_, Some(_)) => Err(CliError::usage(
                "--block-hash and --key-file require --profile bip158 or siphash",
            )),
        }
    }
}

/// Reads a block hash, or the key itself (32 digits).
fn block_key(text: &str) -> Result<[u8; 16], String> {
    if let Ok(key) = hex::decode_array(text) {
        return Ok(key);
    }
    let mut hash = hex::decode_array::<32>(text)?;
    // Proof of work: a hash ends with zeros, and is printed in reverse. With another key nothing would match.
    if hash.ends_with(&[0; 4]) && !hash.starts_with(&[0; 4]) {
        return Err(
            "is in internal byte order; give the printed form, which begins with zeros".to_owned()
        );
    }
    hash.reverse();
    let mut key = [0; 16];
    key.copy_from_slice(&hash[..16]);
    Ok(key)
}

/// Reads 16 bytes, or 32 hex digits with an optional line end.
fn read_key(path: &Path) -> Result<[u8; 16], CliError> {
    /// More than the length of a key in hex with line ends.
    const MAX: u64 = 64;
    let at = |error: &dyn std::fmt::Display| CliError::at(path.display(), error);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX).read_to_end(&mut bytes))
        .map_err(|error| at(&error))?;
    if let Ok(key) = <[u8; 16]>::try_from(&bytes[..]) {
        return Ok(key);
    }
    let text = str::from_utf8(&bytes).unwrap_or_default().trim();
    hex::decode_array(text).map_err(|error| {
        at(&format_args!("invalid key: expected 16 bytes or 32 hex digits ({error})"))
    })
}
