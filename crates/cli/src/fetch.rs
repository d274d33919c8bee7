//! Shared code of `check --mint` and `restore`: fetching a filter from an untrusted mint.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nutfilter::ItemHash;
use nutfilter_wallet::{
    CachedFetch, CheckError, Dialect, FilterCache, KeysetId, Matches, MintClient, MintFilter,
    NoteKind, Policy, Proxy,
};

use crate::error::CliError;
use crate::globals::Globals;
use crate::progress::Progress;
use crate::value_parsers;

/// Maximum number of points in a request; mints reject more.
const MAX_BATCH: u32 = 1_000;

/// The limits for fetching a filter.
#[derive(Debug, Args)]
#[command(next_help_heading = "Mint filter")]
pub(crate) struct FetchArgs {
    /// Minimum M to accept [default: 784931].
    #[arg(long, value_name = "M", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>)]
    min_m: Option<u64>,

    /// Minimum P to accept [default: 16, or 0 with --min-m].
    #[arg(long, value_name = "P", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::whole::<u32>)]
    min_p: Option<u32>,

    /// Maximum P to accept [default: 32].
    #[arg(long, value_name = "P", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::whole::<u32>)]
    max_p: Option<u32>,

    /// Reject a filter older than this, in Unix seconds. Give the time of the newest filter seen before.
    #[arg(long, value_name = "SECONDS", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::whole::<u64>)]
    last_seen: Option<u64>,

    /// Expected number of items in the set. Far more matches than that are an error.
    #[arg(long, value_name = "COUNT", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>)]
    pub(crate) expected: Option<u64>,

    /// Cache the filter in this directory, download it again only if it has changed, and reject an older one.
    #[arg(long, value_name = "DIR", requires = "mint")]
    cache: Option<PathBuf>,

    /// With --cache, always download the whole filter. A conditional request tells the mint which filter was
    /// fetched before.
    #[arg(long, requires = "cache")]
    no_conditional: bool,

    /// Maximum response size to accept, in bytes [default: 1073741824].
    #[arg(long, value_name = "BYTES", requires = "mint", allow_negative_numbers = true, value_parser = value_parsers::bytes::<u64>, help_heading = "Connection")]
    max_bytes: Option<u64>,

    /// Seconds within which a response must begin, and longest pause in its body, which must come at 16 KiB/s
    /// [default: 30].
    #[arg(long, value_name = "SECONDS", requires = "mint", allow_negative_numbers = true, value_parser = parse_seconds, help_heading = "Connection")]
    timeout: Option<Duration>,

    /// Connect through this proxy: http://, socks5h:// (the proxy resolves the mint's name; for Tor) or socks5://
    /// (this machine resolves it), with user:password@ if needed. `none` connects directly. [default:
    /// ALL_PROXY, HTTPS_PROXY or HTTP_PROXY from the environment, except for the hosts in NO_PROXY]
    #[arg(
        long,
        value_name = "URL",
        requires = "mint",
        help_heading = "Connection"
    )]
    proxy: Option<String>,
}

/// The limits for revealing matches to the mint.
#[derive(Debug, Args)]
#[command(next_help_heading = "Queries about matches")]
pub(crate) struct AskArgs {
    /// Points in each request [default: 64].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_BATCH)))]
    batch: Option<u32>,

    /// Maximum number of matches to reveal to the mint; more are an error, and nothing is sent [default: 1000].
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>)]
    max_revealed: Option<u64>,
}

/// The effective limits: the wallet's defaults except where an option is given.
fn policy(fetch: &FetchArgs, ask: &AskArgs) -> Policy {
    let usual = Policy::default();
    // The best P is lower for a lower M.
    let min_p = fetch.min_m.map_or(usual.min_p, |_| 0);
    let batch = ask.batch.and_then(|batch| usize::try_from(batch).ok());
    Policy {
        max_bytes: fetch.max_bytes.unwrap_or(usual.max_bytes),
        deadline: fetch.timeout.unwrap_or(usual.deadline),
        min_m: fetch.min_m.unwrap_or(usual.min_m),
        min_p: fetch.min_p.unwrap_or(min_p),
        max_p: fetch.max_p.unwrap_or(usual.max_p),
        batch: batch.and_then(NonZeroUsize::new).unwrap_or(usual.batch),
        max_revealed: ask.max_revealed.unwrap_or(usual.max_revealed),
        ..usual
    }
}

impl AskArgs {
    /// An error if a limit is given without --confirm.
    pub(crate) fn needs(&self, confirm: bool) -> Result<(), CliError> {
        match !confirm && (self.batch.is_some() || self.max_revealed.is_some()) {
            true => Err(CliError::usage(
                "--batch and --max-revealed require --confirm",
            )),
            false => Ok(()),
        }
    }
}

/// The mint's client, with the proxy from the command line or the environment.
pub(crate) fn client(
    url: &str,
    args: &FetchArgs,
    ask: &AskArgs,
    globals: &Globals,
) -> Result<MintClient, CliError> {
    let client = MintClient::new(url, policy(args, ask))?;
    let proxy = match args.proxy.as_deref() {
        Some("none") => None,
        Some(proxy) => Some(Proxy::parse(proxy)?),
        None => Proxy::from_environment(url)?,
    };
    let Some(proxy) = proxy else {
        return Ok(client);
    };
    if proxy.resolves_locally() {
        globals.note(format_args!(
            "warning: the mint's name is resolved on this machine, not by the proxy {proxy}; use socks5h:// to avoid this"
        ));
    }
    Ok(client.with_proxy(proxy))
}

/// The URLs of the mint and of the proxy, as the place of an error.
pub(crate) fn place(client: &MintClient) -> String {
    match client.proxy() {
        None => client.base_url().to_owned(),
        Some(proxy) => format!("{} through proxy {proxy}", client.base_url()),
    }
}

/// Parses a keyset ID from the command line.
pub(crate) fn keyset(text: &str) -> Result<KeysetId, CliError> {
    text.parse()
        .map_err(|error| CliError::at("--keyset", error))
}

/// Fetches the mint's filter, through the cache if there is one.
pub(crate) fn filter<H: ItemHash + Default>(
    client: &MintClient,
    args: &FetchArgs,
    keyset: &KeysetId,
    kind: NoteKind,
    globals: &Globals,
) -> Result<MintFilter<H>, CliError> {
    let _progress = Progress::uncounted(globals, format!("fetching from {}", client.base_url()));
    let at = |error| CliError::at(place(client), error);
    let Some(directory) = &args.cache else {
        return client.fetch_as(keyset, kind, args.last_seen).map_err(at);
    };
    let cache = FilterCache::open(directory);
    let mut cache = cache.map_err(|error| CliError::at(directory.display(), error))?;
    if args.no_conditional {
        cache = cache.without_etag();
    }
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
            "warning: cached filter discarded ({damage}); the time of the newest filter seen is unknown"
        ));
    }
    if let Some(error) = not_kept {
        globals.note(format_args!("warning: filter not cached: {error}"));
    }
    if from_cache {
        globals.note("the mint has no newer filter than the cached one");
    }
    Ok(filter)
}

/// A rejected look-up, with advice on what to do.
pub(crate) fn refused(place: &str, error: CheckError) -> CliError {
    match &error {
        CheckError::OtherDialect(other) => match other.dialect {
            Dialect::Nut25 | Dialect::Nut23 => CliError::at(
                place,
                format_args!("{error}; use --profile {}", other.dialect),
            ),
            _ => CliError::at(
                place,
                format_args!("{error}; this is a bug in the mint, and its filters are unusable"),
            ),
        },
        _ => CliError::at(place, error),
    }
}

/// Prints the warnings of a look-up on stderr.
pub(crate) fn warn(matches: &Matches<'_>, globals: &Globals) {
    for warning in matches.warnings() {
        globals.warn(warning);
    }
}

pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "must be greater than 0".to_owned())
}
