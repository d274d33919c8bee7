//! The options of `serve`, and their values. Each option is a flag, an environment
//! variable and perhaps a default, in this precedence.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use clap::Args;
use nutfilter_mint::source::DatabaseLocation;
use nutfilter_mint::{InfoError, InfoMirror, Loss, MintType};
use tracing_subscriber::filter::LevelFilter;

use crate::log::{self, LogFormat};
use crate::value_parsers;

/// The effective configuration.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    /// Print the effective configuration and all errors, open the database, and exit
    #[arg(long)]
    pub(crate) check_config: bool,

    /// The mint's database: SQLite file or directory, or Postgres URL (opened read-only)
    #[arg(long, env = "MINT_DATABASE", hide_env_values = true, value_name = "PATH|URL", value_parser = DatabaseLocation::parse, help_heading = MINT)]
    pub(crate) mint_database: DatabaseLocation,

    /// Mint implementation, cdk or nutshell [default: auto-detect]
    #[arg(long, env = "MINT_TYPE", value_name = "TYPE", value_parser = value_parsers::mint_type(), ignore_case = true, hide_possible_values = true, help_heading = MINT)]
    pub(crate) mint_type: Option<MintType>,

    /// The mint's own URL, to announce the filters in its `/v1/info`
    #[arg(long, env = "MINT_API", value_name = "URL", value_parser = mint_api, help_heading = MINT)]
    pub(crate) mint_api: Option<String>,

    /// Write filters to DIR; existing files are served at startup
    #[arg(long, env = "NUTFILTER_OUTPUT", value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) output: Option<PathBuf>,

    // Variables may be those of a service, so an address to listen at is not an error.
    /// Write the files once and exit, without listening; for cron or a systemd timer
    #[arg(long, requires = "output", help_heading = OUTPUT)]
    pub(crate) once: bool,

    /// Inverse false-positive rate M (about log2(M) + 1.5 bits per note)
    #[arg(long, env = "NUTFILTER_M", value_name = "M", default_value = "784931", value_parser = number::<u64>(LEAST_M..=u32::MAX.into()), allow_negative_numbers = true, help_heading = REFRESH)]
    pub(crate) m: u64,

    /// Accept that VALUES published values of KEYSET, dated DATE, are missing from the database; the log line of a held keyset prints this option
    #[arg(long, env = "NUTFILTER_ACCEPT_LOSS", value_name = "KEYSET=VALUES@DATE", value_delimiter = ',', value_parser = Loss::from_str, help_heading = REFRESH)]
    pub(crate) accept_loss: Vec<Loss>,

    /// Refresh interval in seconds; caches may keep a filter as long
    #[arg(long, env = "NUTFILTER_REFRESH", value_name = "SECONDS", default_value = "60", value_parser = seconds(1..=DAY), allow_negative_numbers = true, help_heading = REFRESH)]
    pub(crate) refresh: Duration,

    /// Interval in seconds at which the whole database is reread
    #[arg(long, env = "NUTFILTER_REREAD", value_name = "SECONDS", default_value = "3600", value_parser = seconds(1..=DAY), allow_negative_numbers = true, help_heading = REFRESH)]
    pub(crate) reread: Duration,

    /// Maximum age of the last reading in seconds; beyond it the service is not ready [default: 10 refreshes, at least 1200]
    #[arg(long, env = "NUTFILTER_MAX_AGE", value_name = "SECONDS", value_parser = seconds(1..=DAY), allow_negative_numbers = true, help_heading = REFRESH)]
    pub(crate) max_age: Option<Duration>,

    // Loopback by default: a proxy is meant to stand in front. The port is next to 3338, the usual one of a mint.
    /// Address to listen at [default: 127.0.0.1:3339, without --output]
    #[arg(long, env = "NUTFILTER_LISTEN", value_name = "HOST:PORT", value_parser = address, help_heading = HTTP)]
    listen: Option<String>,

    // Old options, so that their errors say what replaces them.
    #[arg(long = "info-key", env = "NUTFILTER_INFO_KEY", value_name = "KEY", value_parser = removed_info_key, hide = true)]
    _info_key: Option<String>,

    #[arg(long = "rate", env = "NUTFILTER_RATE", value_name = "M", value_parser = removed_rate, hide = true, allow_hyphen_values = true)]
    _rate: Option<String>,

    /// Minimum level: error, warn, info, debug or trace; --quiet sets error
    #[arg(long, env = "LOG_LEVEL", value_name = "LEVEL", default_value = "info", value_parser = log::level(), ignore_case = true, hide_possible_values = true, help_heading = PROCESS)]
    pub(crate) log_level: LevelFilter,

    /// text, or json for one JSON object per line
    #[arg(long, env = "NUTFILTER_LOG_FORMAT", value_name = "FORMAT", default_value = "text", value_enum, ignore_case = true, hide_possible_values = true, help_heading = PROCESS)]
    pub(crate) log_format: LogFormat,
}

const DEFAULT_LISTEN: &str = "127.0.0.1:3339";

impl ServeOptions {
    /// Where to listen, if anywhere: at the default address only if there is no output directory.
    pub(crate) fn listen(&self) -> Option<&str> {
        let default = self.output.is_none().then_some(DEFAULT_LISTEN);
        self.listen.as_deref().or(default)
    }
}

const MINT: &str = "Mint";
const OUTPUT: &str = "Files";
const REFRESH: &str = "Refreshing";
const HTTP: &str = "HTTP";
const PROCESS: &str = "Process";

/// What the help says about variables.
pub(super) const VARIABLES: &str = "\
A flag takes precedence over its variable. Empty variables are errors, as are
unknown ones that begin with NUTFILTER_. All errors are reported together.";

/// The M of the drafts. Wallets refuse filters with a lower one.
const LEAST_M: u64 = 784_931;

/// The longest time that any option accepts: a day, in seconds.
const DAY: u64 = 86_400;

/// Checks `HOST:PORT`.
fn address(text: &str) -> Result<String, String> {
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err("must be HOST:PORT".to_owned());
    };
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || bare_ipv6 || host.contains(char::is_whitespace) {
        return Err("must have a host before the port; IPv6 addresses need brackets".to_owned());
    }
    number::<u16>(0..=65_535)(port).map_err(|error| format!("port: {error}"))?;
    Ok(text.to_owned())
}

/// A parser of whole numbers in a range.
fn number<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok();
        let number = number.filter(|number| range.contains(number));
        number.and_then(|number| number.try_into().ok()).ok_or_else(|| {
            format!("must be a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// A parser of whole seconds in a range.
fn seconds(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    let number = number(range);
    move |text| match number(text) {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(error) => Err(format!("{error} seconds")),
    }
}

fn mint_api(text: &str) -> Result<String, InfoError> {
    InfoMirror::new(text).map(|_| text.to_owned())
}

fn removed_info_key(_: &str) -> Result<String, &'static str> {
    Err("was removed: unset it; the filters are always announced as `filters` beside `nuts`")
}

/// `build --rate` is the inverse.
fn removed_rate(_: &str) -> Result<String, &'static str> {
    Err("is --m now (variable NUTFILTER_M): one look-up in M matches by chance")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_a_host_and_a_port() {
        for text in ["127.0.0.1:0", "localhost:65535", "[::1]:80", "0.0.0.0:3339"] {
            assert_eq!(address(text).as_deref(), Ok(text));
        }
        for text in [
            "",
            "80",
            ":80",
            "::1:80",
            "host:",
            "host:65536",
            "host:-1",
            "a b:1",
            "unix:/run/a.sock",
        ] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
