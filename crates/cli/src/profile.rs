//! Which hash: profiles as they are named on the command line.

use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use nutfilter::{ItemHash, Level, Nut23, Nut25, Nut25EmptyTail, SipHash};

use crate::error::CliError;
use crate::hex;

/// A profile of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Profile {
    /// Murmur3 32-bit, twice: what NUT-25 mints and wallets speak
    Nut25,
    /// Murmur3 128-bit, low half: what the text of NUT-23 says
    Nut23,
    /// SipHash with a key: filters of Bitcoin blocks
    Bip158,
}

/// The flags that name a profile.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Which hash and serialisation.
    #[arg(long, value_enum, default_value_t = Profile::Nut25)]
    pub(crate) profile: Profile,

    /// Key of the bip158 profile: the first 16 bytes of the block hash in internal byte order, in hex.
    #[arg(long, value_name = "HEX", value_parser = hex::decode_array::<16>)]
    pub(crate) key: Option<[u8; 16]>,
}

impl ProfileArgs {
    /// The hasher of the profile; bip158 needs its key, the others have none.
    pub(crate) fn hasher(&self) -> Result<AnyHash, CliError> {
        match (self.profile, self.key) {
            (Profile::Nut25, None) => Ok(AnyHash::Nut25(Nut25)),
            (Profile::Nut23, None) => Ok(AnyHash::Nut23(Nut23)),
            (Profile::Bip158, Some(key)) => Ok(AnyHash::Sip(SipHash::from_key(key))),
            (Profile::Bip158, None) => Err(CliError::usage(
                "--profile bip158 needs --key HEX: the first 16 bytes of the block hash, in internal \
                 byte order",
            )),
            (_, Some(_)) => Err(CliError::usage("--key belongs to --profile bip158 alone")),
        }
    }
}

/// A hasher chosen at run time. The choice is made once per batch.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum AnyHash {
    Nut25(Nut25),
    Nut23(Nut23),
    Sip(SipHash),
    Nut25EmptyTail(Nut25EmptyTail),
}

macro_rules! each {
    ($self:expr, $hasher:ident => $result:expr) => {
        match $self {
            AnyHash::Nut25($hasher) => $result,
            AnyHash::Nut23($hasher) => $result,
            AnyHash::Sip($hasher) => $result,
            AnyHash::Nut25EmptyTail($hasher) => $result,
        }
    };
}

impl ItemHash for AnyHash {
    fn hash(&self, item: &[u8]) -> u64 {
        each!(self, hasher => hasher.hash(item))
    }

    fn hash_items<I: AsRef<[u8]>>(&self, level: Level, items: &[I], out: &mut [u64]) {
        each!(self, hasher => hasher.hash_items(level, items, out));
    }

    fn hash_records(
        &self,
        level: Level,
        records: &[u8],
        record_bytes: NonZeroUsize,
        out: &mut [u64],
    ) {
        each!(self, hasher => hasher.hash_records(level, records, record_bytes, out));
    }
}
