//! Shared code of `check --mint` and `restore`: reaching an untrusted mint, and fetching its filters.

use std::time::Duration;

use clap::Args;
use nutfilter::ItemHash;
use nutfilter_wallet::{
    CheckError, Dialect, FetchError, KeysetId, MintClient, MintFilter, NoteKind, Policy, Proxy,
    Warning,
};

use crate::error::CliError;
use crate::messages::Globals;

/// The options for fetching a filter.
#[derive(Debug, Args)]
#[command(next_help_heading = "Mint")]
pub(crate) struct FetchArgs {
    /// Connect through this proxy: http://, socks5h:// (the proxy resolves the
    /// mint's name; for Tor) or socks5:// (this machine does). `none` connects
    /// directly. [default: ALL_PROXY, HTTPS_PROXY or HTTP_PROXY from the
    /// environment, except for the hosts in NO_PROXY]
    #[arg(long, value_name = "URL", requires = "mint")]
    proxy: Option<String>,

    /// Timeout in seconds for each step until the response body begins, and for
    /// each pause within it [default: 30].
    #[arg(long, value_name = "SECONDS", requires = "mint", allow_negative_numbers = true, value_parser = parse_seconds)]
    timeout: Option<Duration>,
}

/// The mint's client, with the proxy from the command line or the environment, and the root certificates of `SSL_CERT_FILE`
/// instead of Mozilla's.
pub(crate) fn client(
    url: &str,
    args: &FetchArgs,
    globals: &Globals,
) -> Result<MintClient, CliError> {
    let usual = Policy::default();
    let deadline = args.timeout.unwrap_or(usual.deadline);
    let mut client = MintClient::new(url, Policy { deadline, ..usual })?;
    if let Some(file) = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty()) {
        let at = |error: &dyn std::fmt::Display| {
            CliError::at(format_args!("SSL_CERT_FILE {}", file.display()), error)
        };
        let pem = std::fs::read(&file).map_err(|error| at(&error))?;
        client = client.with_root_certificates(&pem).map_err(|error| at(&error))?;
    }
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

/// Parses a keyset ID from the command line. The error of an invalid one lists those of the mint.
pub(crate) fn keyset(client: &MintClient, text: &str) -> Result<KeysetId, CliError> {
    text.parse().map_err(|error| {
        let keysets = client.keysets().unwrap_or_default();
        let unknown = match keysets.is_empty() {
            true => String::new(),
            false => format!("; {}", FetchError::UnknownKeyset { keysets }),
        };
        CliError::at("--keyset", format_args!("{error}{unknown}"))
    })
}

/// Fetches the mint's filter.
pub(crate) fn filter<H: ItemHash + Default>(
    client: &MintClient,
    keyset: &KeysetId,
    kind: NoteKind,
) -> Result<MintFilter<H>, CliError> {
    let filter = client.fetch_as(keyset, kind, None);
    filter.map_err(|error| CliError::at(place(client), error))
}

/// A rejected look-up, with advice on what to do.
pub(crate) fn refused(place: &str, error: CheckError) -> CliError {
    match &error {
        CheckError::OtherDialect(other) => match other.dialect {
            Dialect::Nut25 | Dialect::Nut23 => {
                CliError::at(place, format_args!("{error}; use --profile {}", other.dialect))
            }
            _ => CliError::at(
                place,
                format_args!("{error}; this is a bug in the mint, and its filters are unusable"),
            ),
        },
        CheckError::TooManyMatches { .. } => {
            CliError::at(place, format_args!("{error}; if that is plausible, correct --expected"))
        }
        _ => CliError::at(place, error),
    }
}

/// Prints the warnings of a look-up on stderr.
pub(crate) fn warn(warnings: &[Warning], globals: &Globals) {
    for warning in warnings {
        globals.warn(warning);
    }
}

pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "must be greater than 0".to_owned())
}
