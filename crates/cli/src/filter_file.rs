//! Reads filters from files: a response object, a `.gcs` file, what Bitcoin Core prints, or raw bytes described by options.

use std::path::Path;

use clap::Args;
use nutfilter::gcs::{FilterHeader, is_gcs};
use nutfilter::{Filter, Params, SipHash, bip158};
use nutfilter_cashu::FilterResponse;
use serde_json::Value;

use crate::error::CliError;
use crate::globals::Globals;
use crate::hex;
use crate::items::Input;
use crate::profile::{AnyHash, Profile, ProfileArgs};
use crate::value_parsers;

/// The options that describe raw bytes.
#[derive(Debug, Default, Args)]
pub(crate) struct RawArgs {
    /// FILTER is raw bytes without a header. Needs --n, except for bip158.
    #[arg(long)]
    pub(crate) raw: bool,

    /// Number of items in a raw filter.
    #[arg(long, value_name = "N", requires = "raw", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>)]
    n: Option<u64>,

    /// Remainder bits of a raw filter [default: the best for M].
    #[arg(long, value_name = "P", requires = "raw", allow_negative_numbers = true, value_parser = value_parsers::whole::<u32>)]
    p: Option<u32>,

    /// Inverse false-positive rate of a raw filter [default: 784931].
    #[arg(long, value_name = "M", requires = "raw", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>)]
    m: Option<u64>,
}

/// A validated filter, and the metadata of its file.
pub(crate) struct FilterFile {
    pub(crate) filter: Filter<Vec<u8>, AnyHash>,
    /// The profile from the file or from the options.
    pub(crate) profile: Profile,
    /// Whether the file itself names the profile.
    pub(crate) names_profile: bool,
    /// Unix seconds.
    pub(crate) timestamp: Option<u64>,
}

/// Whether a keyed hash requires its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Needed,
    /// Only validate the filter. Without a key, its hasher uses a zero key.
    Optional,
}

impl Key {
    fn hasher(
        self,
        args: &ProfileArgs,
        profile: Profile,
        of_file: bool,
    ) -> Result<AnyHash, CliError> {
        if self == Key::Optional && profile.is_keyed() && args.key()?.is_none() {
            return Ok(AnyHash::Sip(SipHash::new(0, 0)));
        }
        match of_file {
            true => args.hasher_for_file(profile),
            false => args.hasher(),
        }
    }
}

/// Reads and validates a filter: a response object, a .gcs file, a block's filter in hex, or raw bytes with --raw.
pub(crate) fn read(
    path: &Path,
    raw: &RawArgs,
    profile: &ProfileArgs,
    key: Key,
    globals: &Globals,
) -> Result<FilterFile, CliError> {
    let input = Input::open(path)?;
    profile.note_order(globals);
    let name = input.name.clone();
    let asked = profile.profile();
    if raw.raw {
        let hasher = key.hasher(profile, asked, false)?;
        let filter = read_raw(input, raw, asked, hasher, globals)?;
        return Ok(FilterFile {
            filter,
            profile: asked,
            names_profile: false,
            timestamp: None,
        });
    }
    let bytes = input.read_all(globals)?;
    parse(&name, bytes, profile, key)
}

/// Validates the filter of a response object or a .gcs file.
fn parse(
    name: &str,
    bytes: Vec<u8>,
    profile: &ProfileArgs,
    key: Key,
) -> Result<FilterFile, CliError> {
    let asked = profile.profile();
    if is_gcs(&bytes) {
        return read_gcs(name, bytes, profile, key);
    }
    if let Some(filter) = printed_by_node(&bytes) {
        let filter = filter.map_err(|error| CliError::at(name, error))?;
        let hasher = key.hasher(profile, Profile::Bip158, true)?;
        return Ok(FilterFile {
            filter: parse_bip158(name, filter, bip158::PARAMS, hasher)?,
            profile: Profile::Bip158,
            names_profile: true,
            timestamp: None,
        });
    }
    let hasher = key.hasher(profile, asked, false)?;
    let expected = "expected a response in JSON, a .gcs file, the output of getblockfilter, or raw bytes with --raw --n N";
    let response = FilterResponse::from_json(bytes)
        .map_err(|error| CliError::at(name, format_args!("{error}; {expected}")))?;
    let timestamp = Some(response.timestamp);
    let filter = response.into_filter_with(hasher);
    let filter = filter.map_err(|error| CliError::at(name, error))?;
    Ok(FilterFile {
        filter,
        profile: asked,
        names_profile: false,
        timestamp,
    })
}

/// The bytes of a block's filter, if this is what Bitcoin Core's `getblockfilter` prints: hex, or JSON with hex.
fn printed_by_node(bytes: &[u8]) -> Option<Result<Vec<u8>, hex::HexError>> {
    /// Far more than a block's filter in hex, which has at most 0.6 MB.
    const MOST: usize = 8 << 20;
    let text = bytes.trim_ascii();
    let object: Option<Value> = match text {
        [b'{', ..] if text.len() <= MOST => serde_json::from_slice(text).ok(),
        _ => None,
    };
    let digits = match &object {
        Some(object) => object["filter"].as_str()?.as_bytes(),
        None if !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit) => text,
        None => return None,
    };
    let mut filter = Vec::new();
    Some(hex::decode_into(digits, &mut filter).map(|()| filter))
}

fn read_gcs(
    name: &str,
    mut bytes: Vec<u8>,
    args: &ProfileArgs,
    key: Key,
) -> Result<FilterFile, CliError> {
    let (header, coded) = FilterHeader::parse(&bytes).map_err(|error| CliError::at(name, error))?;
    let length = coded.len();
    let profile = Profile::of_header(header.hash);
    let hasher = key.hasher(args, profile, true)?;
    let is_given = !profile.is_keyed() || args.key()?.is_some();
    if is_given && profile.key_check(&hasher) != header.key_check {
        return Err(CliError::at(name, "built with a different key"));
    }
    bytes.drain(..FilterHeader::BYTES);
    bytes.truncate(length);
    let filter = Filter::parse_with(hasher, bytes, header.n, header.params)
        .map_err(|error| CliError::at(name, error))?;
    Ok(FilterFile {
        filter,
        profile,
        names_profile: true,
        timestamp: (header.timestamp > 0).then_some(header.timestamp),
    })
}

fn read_raw(
    input: Input,
    raw: &RawArgs,
    profile: Profile,
    hasher: AnyHash,
    globals: &Globals,
) -> Result<Filter<Vec<u8>, AnyHash>, CliError> {
    let n = match (profile, raw.n) {
        (Profile::Bip158, None) => None,
        (Profile::Bip158, Some(_)) => {
            return Err(CliError::usage(
                "--n cannot be used with --profile bip158: its bytes begin with N",
            ));
        }
        (_, Some(n)) => Some(n),
        (_, None) => {
            return Err(CliError::usage(
                "--raw needs --n N: raw bytes do not say how many items they hold",
            ));
        }
    };
    let params = params(raw.p, raw.m)?;
    let name = input.name.clone();
    let bytes = input.read_all(globals)?;
    let Some(n) = n else {
        return parse_bip158(&name, bytes, params, hasher);
    };
    let has_header = is_gcs(&bytes);
    Filter::parse_with(hasher, bytes, n, params).map_err(|error| {
        let hint = if has_header {
            "; the file has a .gcs header: leave out --raw"
        } else {
            ""
        };
        CliError::at(name, format_args!("{error}{hint}"))
    })
}

fn parse_bip158(
    name: &str,
    bytes: Vec<u8>,
    params: Params,
    hasher: AnyHash,
) -> Result<Filter<Vec<u8>, AnyHash>, CliError> {
    // Parsing does not use the hasher. Filters of blocks are small enough to copy.
    let parsed = bip158::parse_with(SipHash::new(0, 0), bytes, params);
    let parsed = parsed.map_err(|error| CliError::at(name, error))?;
    Ok(parsed.with_hasher(hasher).into_owned())
}

/// P and M. The default M is the usual one; the default P is the best for M.
pub(crate) fn params(p: Option<u32>, m: Option<u64>) -> Result<Params, CliError> {
    let m = m.unwrap_or(Params::CASHU.m());
    Ok(match p {
        Some(p) => Params::new(p, m)?,
        None => Params::with_best_p(m)?,
    })
}
