//! Every option of `serve`, declared once. clap makes the flags, their help and their checks from it; `layers`
//! adds the environment and the file, and `template` makes a file of them.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};
use nutfilter_mint::{FilterService, MintType};
use tracing_subscriber::filter::LevelFilter;

use super::secret::Secret;
use crate::log::{self, LogFormat};
use crate::value_parsers;

/// The effective configuration. The name of a field is its key in the file and, with hyphens, its flag.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// SQLite file, its directory, or Postgres URL of the mint; only read (required)
    #[arg(long, env = "MINT_DATABASE", value_name = "PATH|URL", help_heading = MINT)]
    pub(crate) mint_database: Option<Secret>,

    /// File whose only line is the database, for a URL with a password
    #[arg(long, env = "MINT_DATABASE_FILE", value_name = "FILE", help_heading = MINT)]
    pub(crate) mint_database_file: Option<PathBuf>,

    /// Mint implementation, cdk or nutshell (default: detected)
    #[arg(long, env = "MINT_TYPE", value_name = "TYPE", value_parser = value_parsers::mint_type(), ignore_case = true, help_heading = MINT)]
    pub(crate) mint_type: Option<MintType>,

    /// The mint's own URL, to announce the filters in its `/v1/info`
    #[arg(long, env = "MINT_API", value_name = "URL", value_parser = mint_api, help_heading = MINT)]
    pub(crate) mint_api: Option<Secret>,

    /// Retry if the database cannot be opened; `off` exits instead
    #[arg(long, env = "NUTFILTER_WAIT_FOR_DATABASE", value_name = "on|off", default_value = "on",
        value_parser = BoolishValueParser::new(), action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "on", help_heading = MINT)]
    pub(crate) wait_for_database: bool,

    /// Directory for state, so that a restart serves at once (default: none)
    #[arg(long, env = "NUTFILTER_DATA_DIR", value_name = "DIR", help_heading = REFRESH)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Seconds between two reads; caches may keep a filter as long
    #[arg(long, env = "NUTFILTER_REFRESH", value_name = "SECONDS", default_value = "60", value_parser = seconds(1..=DAY), help_heading = REFRESH)]
    pub(crate) refresh: Duration,

    /// Seconds after which an unchanged filter gets a new timestamp
    #[arg(long, env = "NUTFILTER_MAX_TIMESTAMP_AGE", value_name = "SECONDS", default_value = "600", value_parser = seconds(1..=DAY), help_heading = REFRESH)]
    pub(crate) max_timestamp_age: Duration,

    /// Count all rows at every Nth read, to notice deleted ones
    #[arg(long, env = "NUTFILTER_VERIFY_EVERY", value_name = "N", default_value = "60", value_parser = number::<u32>(1..=86_400), help_heading = REFRESH)]
    pub(crate) verify_every: u32,

    // Loopback by default: a proxy is meant to stand in front. The port is next to 3338, the usual one of a mint.
    /// HOST:PORT or unix:/PATH; several are possible
    #[arg(long, env = "NUTFILTER_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:3339", help_heading = HTTP)]
    pub(crate) listen: Vec<Listen>,

    /// Certificate chain (PEM) for TLS; read again on SIGHUP
    #[arg(long, env = "NUTFILTER_TLS_CERTIFICATE", value_name = "FILE", help_heading = HTTP)]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// Private key (PEM) of the certificate
    #[arg(long, env = "NUTFILTER_TLS_KEY", value_name = "FILE", help_heading = HTTP)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Prefix of every path, such as `/Bitcoin`
    #[arg(long, env = "NUTFILTER_BASE_PATH", value_name = "PATH", default_value = "/", value_parser = base_path, help_heading = HTTP)]
    pub(crate) base_path: String,

    /// Maximum number of open connections
    #[arg(long, env = "NUTFILTER_MAX_CONNECTIONS", value_name = "N", default_value = "4096", value_parser = number::<usize>(1..=1_000_000), help_heading = HTTP)]
    pub(crate) max_connections: usize,

    /// Answer `/metrics`, for Prometheus
    #[arg(long, env = "NUTFILTER_METRICS", value_name = "on|off", default_value = "on",
        value_parser = BoolishValueParser::new(), action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "on", help_heading = HTTP)]
    pub(crate) metrics: bool,

    /// Key of the filters' entry in `nuts` of `/v1/info`
    #[arg(long, env = "NUTFILTER_INFO_KEY", value_name = "KEY", default_value = "25", value_parser = info_key, help_heading = INFO)]
    pub(crate) info_key: String,

    /// error, warn, info, debug or trace; with --quiet it is error
    #[arg(long, env = "LOG_LEVEL", value_name = "LEVEL", default_value = "info", value_parser = log::level(), ignore_case = true, help_heading = PROCESS)]
    pub(crate) log_level: LevelFilter,

    /// text, or json for one JSON object per line
    #[arg(long, env = "NUTFILTER_LOG_FORMAT", value_name = "FORMAT", default_value = "text", value_enum, ignore_case = true, help_heading = PROCESS)]
    pub(crate) log_format: LogFormat,

    /// Number of threads (default: one per CPU)
    #[arg(long, env = "NUTFILTER_THREADS", value_name = "N", value_parser = number::<usize>(1..=1024), help_heading = PROCESS)]
    pub(crate) threads: Option<usize>,
}

const MINT: &str = "Mint";
const REFRESH: &str = "Refreshing";
pub(super) const HTTP: &str = "HTTP";
const INFO: &str = "Announcing";
const PROCESS: &str = "Process";

/// The longest time that any option accepts: a day, in seconds.
const DAY: u64 = 86_400;

/// Random variation of the refresh interval, so that services do not read in step.
pub(super) const JITTER: f64 = 0.1;

/// Failed refreshes after which the service is not ready.
const READY_REFRESHES: u32 = 10;

/// The least of that time: restarting a mint with a migration takes minutes, and the filters are still good.
const READY_AT_LEAST: Duration = Duration::from_secs(300);

impl Options {
    /// How old the last good refresh may be for the service to count as ready.
    pub(crate) fn ready_max_age(&self) -> Duration {
        (self.refresh * READY_REFRESHES).max(READY_AT_LEAST)
    }
}

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// `HOST:PORT`
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => f.write_str(address),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///run/x.sock` is as common.
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.starts_with('/') {
                true => Ok(Listen::Unix(path.into())),
                false => Err("the path of a socket must be absolute".to_owned()),
            };
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err("must be HOST:PORT or unix:/PATH".to_owned());
        };
        let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || bare_ipv6 || host.contains(char::is_whitespace) {
            return Err(
                "must have a host before the port; IPv6 addresses need brackets".to_owned(),
            );
        }
        number::<u16>(0..=65_535)(port).map_err(|error| format!("port: {error}"))?;
        Ok(Listen::Tcp(text.to_owned()))
    }
}

/// A parser of whole numbers in a range.
fn number<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = value_parsers::count(text).ok();
        let number = number.filter(|number| range.contains(number));
        number
            .and_then(|number| number.try_into().ok())
            .ok_or_else(|| {
                format!(
                    "must be a whole number from {} to {}",
                    range.start(),
                    range.end()
                )
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

fn base_path(text: &str) -> Result<String, String> {
    let router = nutfilter_serve::router(FilterService::default());
    match nutfilter_serve::under(text, router) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("must be segments of letters, digits and -._~, separated by /".to_owned()),
    }
}

fn mint_api(text: &str) -> Result<Secret, String> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    match rest {
        None => Err("must begin with http:// or https://".to_owned()),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            Err("the URL has no host".to_owned())
        }
        // Never needed: a mint's info is public.
        Some(rest) if rest.contains('@') => {
            Err("must not contain a user name or password".to_owned())
        }
        Some(rest) if rest.contains(|c: char| c.is_whitespace() || c.is_control()) => {
            Err("must not contain white space".to_owned())
        }
        Some(_) => Ok(Secret::new(text.trim_end_matches('/'))),
    }
}

/// The longest key that is accepted. Keys of `nuts` are short numbers.
const LONGEST_KEY: usize = 32;

fn info_key(text: &str) -> Result<String, String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match (1..=LONGEST_KEY).contains(&text.len()) && text.chars().all(is_valid) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "must be 1 to {LONGEST_KEY} letters, digits, `_` or `-`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_accepts_host_and_port_or_socket() {
        for text in ["127.0.0.1:0", "localhost:65535", "[::1]:80", "0.0.0.0:3339"] {
            assert_eq!(text.parse(), Ok(Listen::Tcp(text.to_owned())));
        }
        for text in ["unix:/run/a.sock", "unix:///run/a.sock"] {
            assert_eq!(text.parse(), Ok(Listen::Unix("/run/a.sock".into())));
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
            "unix:",
            "unix:a.sock",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn mint_api_is_a_plain_http_url() {
        let url = mint_api("https://mint.example/").unwrap();
        assert_eq!(url.reveal(), "https://mint.example");
        for text in [
            "https://user:hunter2@mint.example",
            "mint.example",
            "ftp://mint",
            "https://",
            "http:///x",
            "https://a b",
        ] {
            assert!(mint_api(text).is_err(), "{text}");
        }
    }

    #[test]
    fn info_key_is_a_short_word() {
        for text in ["25", "XX", "state-filters", &"x".repeat(32)] {
            assert_eq!(info_key(text).as_deref(), Ok(text));
        }
        for text in ["", "a b", "\"", "é", "2.5", &"x".repeat(33)] {
            assert!(info_key(text).is_err(), "{text}");
        }
    }
}
