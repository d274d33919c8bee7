//! What `check --mint` and `restore` have in common: a mint that is not trusted, and its filter.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nutfilter::ItemHash;
use nutfilter_wallet::{
    CachedFetch, CheckError, Dialect, FilterCache, KeysetId, Kind, Matches, MintClient, Policy,
    RestoreFilter,
};

use crate::error::CliError;
use crate::globals::Globals;
use crate::progress::Progress;
use crate::value_parsers;

/// Points in a request; mints refuse more.
const MAX_BATCH: u32 = 1_000;

/// What a wallet would put up with, fetching a filter.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filter of a mint")]
pub(crate) struct FetchArgs {
    /// Least M that is accepted [default: 784931].
    #[arg(long, value_name = "M", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>)]
    min_m: Option<u64>,

    /// Largest response that is accepted, in bytes [default: 67108864].
    #[arg(long, value_name = "BYTES", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::bytes::<u64>)]
    max_bytes: Option<u64>,

    /// Seconds for each request as a whole [default: 30].
    #[arg(long, value_name = "SECONDS", requires = "mint", allow_negative_numbers = true, value_parser = parse_seconds)]
    timeout: Option<Duration>,

    /// Refuse a filter older than this, in Unix seconds: the time of the newest one seen before.
    #[arg(long, value_name = "SECONDS", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::whole::<u64>)]
    last_seen: Option<u64>,

    /// How many of the items are believed to be in the set. Far more matches than that are an error.
    #[arg(long, value_name = "COUNT", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>)]
    pub(crate) expected: Option<u64>,

    /// Keep the filter in this directory, ask again only whether it has changed, and refuse an older one.
    #[arg(long, value_name = "DIR", requires = "mint")]
    cache: Option<PathBuf>,

    /// With --cache, fetch the whole filter even so: asking whether it has changed tells the mint which one
    /// was fetched before.
    #[arg(long, requires = "cache")]
    whole: bool,
}

/// How matches are shown to the mint.
#[derive(Debug, Args)]
#[command(next_help_heading = "Asking about matches")]
pub(crate) struct AskArgs {
    /// Points in each request [default: 64].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BATCH)))]
    pub(crate) batch: Option<u32>,

    /// Most matches that may be shown to the mint; more are an error, and none is [default: 1000].
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>)]
    pub(crate) reveal_at_most: Option<u64>,
}

/// The limits in force: the wallet's own where nothing else was said.
pub(crate) fn policy(fetch: &FetchArgs, ask: &AskArgs) -> Policy {
    let usual = Policy::default();
    let batch = ask
        .batch
        .and_then(|batch| NonZeroUsize::new(usize::try_from(batch).ok()?));
    Policy {
        min_m: fetch.min_m.unwrap_or(usual.min_m),
        max_bytes: fetch.max_bytes.unwrap_or(usual.max_bytes),
        deadline: fetch.timeout.unwrap_or(usual.deadline),
        batch: batch.unwrap_or(usual.batch),
        max_revealed: ask.reveal_at_most.unwrap_or(usual.max_revealed),
        ..usual
    }
}

/// A keyset as it was given on the command line.
pub(crate) fn keyset(text: &str) -> Result<KeysetId, CliError> {
    text.parse()
        .map_err(|error| CliError::at("--keyset", error))
}

/// The mint's filter, by way of the cache if there is one.
pub(crate) fn filter<H: ItemHash + Default>(
    client: &MintClient,
    args: &FetchArgs,
    keyset: &KeysetId,
    kind: Kind,
    globals: &Globals,
) -> Result<RestoreFilter<H>, CliError> {
    let cache = match &args.cache {
        Some(directory) => Some(
            FilterCache::open(directory)
                .map_err(|error| CliError::at(directory.display(), error))?,
        ),
        None => None,
    };
    let _progress = Progress::spinner(globals, format!("fetching from {}", client.base_url()));
    let at = |error| CliError::at(client.base_url(), error);
    let Some(cache) = cache else {
        return client.fetch_as(keyset, kind, args.last_seen).map_err(at);
    };
    let cache = if args.whole {
        cache.without_etag()
    } else {
        cache
    };
    let CachedFetch {
        filter,
        from_cache,
        discarded,
        not_kept,
    } = client
        .fetch_cached(&cache, keyset, kind, args.last_seen)
        .map_err(at)?;
    if let Some(damage) = discarded {
        globals.note(format_args!(
            "cached filter thrown away ({damage}), and with it the time of the newest one seen"
        ));
    }
    if let Some(error) = not_kept {
        globals.note(format_args!("filter not kept in the cache: {error}"));
    }
    if from_cache {
        globals.note("the mint has no newer filter than the cached one");
    }
    Ok(filter)
}

/// A refused look-up, with what to do about it.
pub(crate) fn refused(place: &str, error: CheckError) -> CliError {
    match &error {
        CheckError::OtherDialect(other) => match other.dialect {
            Dialect::Nut25 | Dialect::Nut23 => CliError::at(
                place,
                format_args!("{error}; look up with --profile {}", other.dialect),
            ),
            _ => CliError::at(
                place,
                format_args!(
                    "{error}; this is a fault of the mint, and its filters cannot be used"
                ),
            ),
        },
        _ => CliError::at(place, error),
    }
}

/// Prints what is suspicious about a look-up to stderr.
pub(crate) fn warn(matches: &Matches<'_>, globals: &Globals) {
    for warning in matches.warnings() {
        globals.warn(warning);
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "must be greater than 0".to_owned())
}
