//! Hash profiles and their names on the command line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use nutfilter::gcs::GcsHash;
use nutfilter::{AnyHash, ItemHash, SipHash};

use crate::error::CliError;
use crate::io::hex;

/// A profile of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Profile {
    /// Murmur3 32-bit, twice: what mints and wallets use
    Nut25,
    /// Murmur3 128-bit, low half: as in the text of the draft
    Nut23,
    /// SipHash with the key of a block: filters of Bitcoin blocks
    Bip158,
    /// SipHash with a secret key: for items that can be guessed
    Siphash,
}

impl Profile {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Profile::Nut25 => "nut25",
            Profile::Nut23 => "nut23",
            Profile::Bip158 => "bip158",
            Profile::Siphash => "siphash",
        }
    }

    /// As the header of a `.gcs` file names it.
    pub(crate) fn in_header(self) -> GcsHash {
        match self {
            Profile::Nut25 => GcsHash::Nut25,
            Profile::Nut23 => GcsHash::Nut23,
            Profile::Bip158 => GcsHash::Bip158,
            Profile::Siphash => GcsHash::SipHash,
        }
    }

    pub(crate) fn of_header(hash: GcsHash) -> Self {
        match hash {
            GcsHash::Nut25 => Profile::Nut25,
            GcsHash::Nut23 => Profile::Nut23,
            GcsHash::Bip158 => Profile::Bip158,
            GcsHash::SipHash => Profile::Siphash,
        }
    }

    /// Whether the hash has a key.
    pub(crate) fn is_keyed(self) -> bool {
        matches!(self, Profile::Bip158 | Profile::Siphash)
    }

    /// The value in the header of a `.gcs` file that detects a wrong key, with which no member would match; 0 for hashes
    /// without a key.
    pub(crate) fn key_check(self, hasher: &AnyHash) -> u32 {
        match self.is_keyed() {
            true => (hasher.hash(b"nutfilter key check") >> 32) as u32,
            false => 0,
        }
    }
}

/// The options that select a profile.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Hash and serialisation [default: nut25, or the profile in the header of a .gcs file].
    #[arg(long, value_enum)]
    profile: Option<Profile>,

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
    pub(crate) fn profile(&self) -> Profile {
        self.profile.unwrap_or(Profile::Nut25)
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
    pub(crate) fn hasher_for_file(&self, profile: Profile) -> Result<AnyHash, CliError> {
        match self.profile {
            Some(asked) if asked != profile => Err(CliError::usage(format!(
                "the file was built with --profile {}, not {}",
                profile.name(),
                asked.name()
            ))),
            _ => self.hasher_of(profile),
        }
    }

    fn hasher_of(&self, profile: Profile) -> Result<AnyHash, CliError> {
        match (profile, self.key()?) {
            (Profile::Nut25, None) => Ok(AnyHash::Nut25),
            (Profile::Nut23, None) => Ok(AnyHash::Nut23),
            (Profile::Bip158 | Profile::Siphash, Some(key)) => {
                Ok(AnyHash::Sip(SipHash::from_key(key)))
            }
            (Profile::Bip158, None) => {
                Err(CliError::usage("--profile bip158 needs --block-hash HASH: 64 hex digits"))
            }
            (Profile::Siphash, None) => Err(CliError::usage(
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
