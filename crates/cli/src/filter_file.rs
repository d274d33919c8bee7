//! Filters in files: the response object, or raw bytes with what belongs to them on the command line.

use std::path::Path;

use clap::Args;
use nutfilter::{Filter, FilterResponse, Params, SipHash, bip158};

use crate::error::CliError;
use crate::globals::Globals;
use crate::items::Input;
use crate::profile::{AnyHash, Profile};
use crate::value_parsers;

/// The flags that say what raw bytes mean.
#[derive(Debug, Args)]
pub(crate) struct RawArgs {
    /// FILTER is raw bytes instead of a response object. Needs --n, except for bip158.
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

/// A validated filter, and the time it speaks of where that is known.
pub(crate) struct FilterFile {
    pub(crate) filter: Filter<'static, AnyHash>,
    /// Unix seconds.
    pub(crate) timestamp: Option<u64>,
}

/// Reads and validates a filter.
pub(crate) fn read(
    path: &Path,
    raw: &RawArgs,
    profile: Profile,
    hasher: AnyHash,
    globals: &Globals,
) -> Result<FilterFile, CliError> {
    let input = Input::open(path)?;
    let name = input.name.clone();
    if !raw.raw {
        let response = FilterResponse::from_json(&input.read_all(globals)?)
            .map_err(|error| CliError::at(&name, error))?;
        let timestamp = Some(response.timestamp);
        let filter = response.into_filter_with(hasher);
        let filter = filter.map_err(|error| CliError::at(&name, error))?;
        return Ok(FilterFile { filter, timestamp });
    }
    let filter = match profile {
        Profile::Bip158 => read_bip158(input, raw, hasher, globals)?,
        Profile::Nut25 | Profile::Nut23 => {
            let n = raw.n.ok_or_else(|| {
                CliError::usage("--raw needs --n N: raw bytes do not say how many items they hold")
            })?;
            let params = params(raw.p, raw.m)?;
            Filter::parse_with(hasher, input.read_all(globals)?, n, params)
                .map_err(|error| CliError::at(&name, error))?
        }
    };
    Ok(FilterFile {
        filter,
        timestamp: None,
    })
}

fn read_bip158(
    input: Input,
    raw: &RawArgs,
    hasher: AnyHash,
    globals: &Globals,
) -> Result<Filter<'static, AnyHash>, CliError> {
    if raw.n.is_some() {
        return Err(CliError::usage(
            "--n does not go with --profile bip158, whose bytes begin with N",
        ));
    }
    let params = params(raw.p, raw.m)?;
    let name = input.name.clone();
    let bytes = input.read_all(globals)?;
    // The hasher has no part in parsing, and filters of blocks are small enough to be copied.
    let parsed = bip158::parse_with(SipHash::new(0, 0), bytes, params);
    let parsed = parsed.map_err(|error| CliError::at(&name, error))?;
    Ok(parsed.with_hasher(hasher).into_owned())
}

/// P and M. Without M the usual one; without P the best for M.
pub(crate) fn params(p: Option<u32>, m: Option<u64>) -> Result<Params, CliError> {
    let m = m.unwrap_or(Params::CASHU.m());
    Ok(match p {
        Some(p) => Params::new(p, m)?,
        None => Params::with_best_p(m)?,
    })
}
