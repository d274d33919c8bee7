//! Reads filters from files: a response object, a `.gcs` file, or what Bitcoin Core prints.

use std::path::Path;

use nutfilter::gcs::{GcsHash, GcsHeader, is_gcs};
use nutfilter::{AnyHash, Filter, Params, SipHash, bip158};
use nutfilter_cashu::FilterResponse;
use serde_json::Value;

use crate::error::CliError;
use crate::io::hex;
use crate::io::items::Input;
use crate::profile::{ProfileArgs, key_check};

/// A validated filter, and the metadata of its file.
pub(crate) struct FilterFile {
    pub(crate) filter: Filter<Vec<u8>, AnyHash>,
    /// The profile from the file or from the options.
    pub(crate) profile: GcsHash,
    /// Whether the file itself names the profile.
    pub(crate) names_profile: bool,
    /// Unix seconds.
    pub(crate) timestamp: Option<u64>,
}

/// The hasher for a filter of this profile, if its file names one. A filter that is only validated needs none.
fn hasher(args: Option<&ProfileArgs>, named: Option<GcsHash>) -> Result<AnyHash, CliError> {
    match (args, named) {
        (None, _) => Ok(AnyHash::Nut25),
        (Some(args), None) => args.hasher(),
        (Some(args), Some(profile)) => args.hasher_for_file(profile),
    }
}

/// Reads and validates a filter: a response object, a .gcs file, or a block's filter in hex. Without `args` it cannot be
/// matched: its hasher may be another one.
pub(crate) fn read(path: &Path, args: Option<&ProfileArgs>) -> Result<FilterFile, CliError> {
    let input = Input::open(path)?;
    let name = &input.name.clone();
    let bytes = input.read_all()?;
    if is_gcs(&bytes) {
        return read_gcs(name, bytes, args);
    }
    if let Some(filter) = printed_by_node(&bytes) {
        let filter = filter.map_err(|error| CliError::at(name, error))?;
        let hasher = hasher(args, Some(GcsHash::Bip158))?;
        // Parsing does not use the hasher. Filters of blocks are small enough to copy.
        let parsed = bip158::parse(SipHash::new(0, 0), filter);
        let parsed = parsed.map_err(|error| CliError::at(name, error))?;
        return Ok(FilterFile {
            filter: parsed.with_hasher(hasher).into_owned(),
            profile: GcsHash::Bip158,
            names_profile: true,
            timestamp: None,
        });
    }
    let expected = "expected a response in JSON, a .gcs file, or the output of getblockfilter";
    let response = FilterResponse::from_json(bytes)
        .map_err(|error| CliError::at(name, format_args!("{error}; {expected}")))?;
    let timestamp = Some(response.timestamp);
    let filter = response.into_filter_with(hasher(args, None)?);
    let filter = filter.map_err(|error| CliError::at(name, error))?;
    Ok(FilterFile {
        filter,
        profile: args.map_or(GcsHash::Nut25, ProfileArgs::profile),
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
    args: Option<&ProfileArgs>,
) -> Result<FilterFile, CliError> {
    let (header, coded) = GcsHeader::parse(&bytes).map_err(|error| CliError::at(name, error))?;
    let length = coded.len();
    let profile = header.hash;
    let hasher = hasher(args, Some(profile))?;
    if args.is_some() && key_check(profile, &hasher) != header.key_check {
        return Err(CliError::at(name, "built with a different key"));
    }
    bytes.drain(..GcsHeader::BYTES);
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

/// P and M. The default M is the usual one; the default P is the best for M.
pub(crate) fn params(p: Option<u32>, m: Option<u64>) -> Result<Params, CliError> {
    let m = m.unwrap_or(Params::CASHU.m());
    Ok(match p {
        Some(p) => Params::new(p, m)?,
        None => Params::with_best_p(m)?,
    })
}
