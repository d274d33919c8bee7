//! Every option of `serve`, declared once. clap makes the flags, their help and their checks from it; `layers`
//! adds the environment and the file; the template and the table in docs/operating.md are generated.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};
use nutfilter_mint::{Event, FilterService, MintType, ServiceOptions};
use tracing_subscriber::filter::LevelFilter;

use super::secret::Secret;
use crate::log::{self, LogFormat};
use crate::value_parsers;

/// The effective configuration. The name of a field is its key in the file and, with hyphens, its flag. An
/// option with `hide_env_values` is a secret: it has no flag, as other users of the machine see command lines.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) mint: MintOptions,
    #[command(flatten)]
    pub(crate) disk: DiskOptions,
    #[command(flatten)]
    pub(crate) refreshing: RefreshOptions,
    #[command(flatten)]
    pub(crate) listening: ListenOptions,
    #[command(flatten)]
    pub(crate) limits: LimitOptions,
    #[command(flatten)]
    pub(crate) endpoints: EndpointOptions,
    #[command(flatten)]
    pub(crate) state_filters: StateFilterFlags,
    #[command(flatten)]
    pub(crate) process: ProcessOptions,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Mint")]
pub(crate) struct MintOptions {
    /// The mint's database: a SQLite file, its directory, or a Postgres URL. Access is read-only (required)
    #[arg(long, env = "MINT_DATABASE", value_name = "PATH|URL")]
    pub(crate) mint_database: Option<Secret>,

    /// File whose only line is the mint's database, for a URL with a password
    #[arg(long, env = "MINT_DATABASE_FILE", value_name = "FILE")]
    pub(crate) mint_database_file: Option<PathBuf>,

    /// Mint implementation (default: detected from the tables)
    #[arg(long, env = "MINT_TYPE", value_name = "TYPE", value_parser = value_parsers::mint_type(), ignore_case = true)]
    pub(crate) mint_type: Option<MintType>,

    /// The mint's own URL: the mint then answers `/v1/keysets`, and `/v1/info` is made from its answer
    #[arg(long, env = "MINT_API", value_name = "URL", value_parser = mint_api)]
    pub(crate) mint_api: Option<Secret>,

    /// Start and retry when the database cannot be opened, instead of exiting
    #[arg(
        long,
        env = "NUTFILTER_WAIT_FOR_DATABASE",
        value_name = "on|off",
        default_value = "on",
        value_parser = BoolishValueParser::new(), action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "on"
    )]
    pub(crate) wait_for_database: bool,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Disk")]
pub(crate) struct DiskOptions {
    /// Directory for sets and bodies, so that a restart serves at once and reads only new rows; created if
    /// missing (default: keep everything in memory)
    #[arg(long, env = "NUTFILTER_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// The longest time that any option accepts, unless it says otherwise: a day, in seconds.
const DAY: u64 = 86_400;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Refreshing")]
pub(crate) struct RefreshOptions {
    /// Seconds between readings of the database, which begin at multiples of it by the clock
    #[arg(long, env = "NUTFILTER_REFRESH", value_name = "SECONDS", default_value = "60", value_parser = seconds(1..=DAY))]
    pub(crate) refresh: Duration,

    /// Maximum random delay of a refresh, in percent of the interval; at most 30 s
    #[arg(long, env = "NUTFILTER_JITTER", value_name = "PERCENT", default_value = "10", value_parser = number::<u32>(0..=50))]
    pub(crate) jitter: u32,

    /// At multiples of this many seconds an unchanged filter gets a new timestamp; until then wallets that have it get 304
    #[arg(long, env = "NUTFILTER_MAX_TIMESTAMP_AGE", value_name = "SECONDS", default_value = "600", value_parser = seconds(1..=DAY))]
    pub(crate) max_timestamp_age: Duration,

    /// Count all rows at every Nth refresh, to notice deleted ones; 1 counts at each, which scans the tables
    #[arg(long, env = "NUTFILTER_VERIFY_EVERY", value_name = "N", default_value = "60", value_parser = number::<u32>(1..=86_400))]
    pub(crate) verify_every: u32,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenOptions {
    // Loopback by default: a proxy is meant to stand in front.
    /// Address to listen on
    #[arg(long, env = "SERVER_HOST", value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = host)]
    pub(crate) host: String,

    // Next to 3338, the usual port of a mint.
    /// Port to listen on; 0 takes any free port
    #[arg(long, env = "SERVER_PORT", value_name = "PORT", default_value = "3339", value_parser = number::<u16>(0..=65_535))]
    pub(crate) port: u16,

    /// Where to listen instead of host and port: `HOST:PORT` or `unix:/PATH`, one or several
    #[arg(long, env = "NUTFILTER_LISTEN", value_name = "ADDRESS")]
    pub(crate) listen: Vec<Listen>,

    /// Permissions of Unix sockets, in octal digits
    #[arg(long, env = "NUTFILTER_SOCKET_MODE", value_name = "MODE", default_value = "660", value_parser = socket_mode)]
    pub(crate) socket_mode: u32,

    /// Certificate chain (PEM) for TLS on every `HOST:PORT`; read again on SIGHUP (default: no TLS)
    #[arg(long, env = "NUTFILTER_TLS_CERTIFICATE", value_name = "FILE")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// Private key (PEM) of the certificate
    #[arg(long, env = "NUTFILTER_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Path prefix of every endpoint, as in `/Bitcoin/v1/filter/...`
    #[arg(long, env = "NUTFILTER_BASE_PATH", value_name = "PATH", default_value = "/", value_parser = base_path)]
    pub(crate) base_path: String,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitOptions {
    /// Maximum number of open connections, over all listeners
    #[arg(long, env = "NUTFILTER_MAX_CONNECTIONS", value_name = "N", default_value = "4096", value_parser = number::<usize>(1..=1_000_000))]
    pub(crate) max_connections: usize,

    /// Timeout for TLS handshake and request headers, in seconds
    #[arg(long, env = "NUTFILTER_HEADER_TIMEOUT", value_name = "SECONDS", default_value = "10", value_parser = seconds(1..=600))]
    pub(crate) header_timeout: Duration,

    /// Seconds for which caches may keep a response (`Cache-Control`)
    #[arg(long, env = "NUTFILTER_MAX_AGE", value_name = "SECONDS", default_value = "60", value_parser = seconds(0..=DAY))]
    pub(crate) max_age: Duration,

    /// Seconds that open requests have to finish after SIGTERM
    #[arg(long, env = "NUTFILTER_SHUTDOWN_GRACE", value_name = "SECONDS", default_value = "10", value_parser = seconds(0..=600))]
    pub(crate) shutdown_grace: Duration,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Other endpoints")]
pub(crate) struct EndpointOptions {
    /// Answer `/v1/keysets` from the database (default: on without `mint_api`)
    #[arg(
        long,
        env = "NUTFILTER_KEYSETS",
        value_name = "on|off",
        value_parser = BoolishValueParser::new(), action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "on"
    )]
    pub(crate) keysets: Option<bool>,

    /// Answer `/v1/info` with the mint's own info plus an entry for the filters (default: on with `mint_api`)
    #[arg(
        long,
        env = "NUTFILTER_INFO",
        value_name = "on|off",
        value_parser = BoolishValueParser::new(), action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "on"
    )]
    pub(crate) info: Option<bool>,

    /// Name of that entry in `nuts`: letters, digits, `_` or `-`
    #[arg(long, env = "NUTFILTER_INFO_KEY", value_name = "KEY", default_value = "25", value_parser = info_key)]
    pub(crate) info_key: String,

    /// Answer `/metrics`, for Prometheus
    #[arg(
        long,
        env = "NUTFILTER_METRICS",
        value_name = "on|off",
        default_value = "on",
        value_parser = BoolishValueParser::new(), action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "on"
    )]
    pub(crate) metrics: bool,

    /// Seconds since the last good refresh after which `/ready` answers 503 (default: ten refresh intervals, at
    /// least 300)
    #[arg(long, env = "NUTFILTER_READY_MAX_AGE", value_name = "SECONDS", value_parser = seconds(1..=30 * DAY))]
    pub(crate) ready_max_age: Option<Duration>,

    /// Token (16 to 512 characters) that `POST /admin/refresh` requires (default: no `/admin`)
    #[arg(long, env = "NUTFILTER_ADMIN_TOKEN", value_name = "TOKEN", value_parser = admin_token, hide_env_values = true)]
    pub(crate) admin_token: Option<Secret>,

    /// File whose only line is the admin token
    #[arg(long, env = "NUTFILTER_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "State filters")]
pub(crate) struct StateFilterFlags {
    /// Publish state filters of these kinds, for wallets that follow the mint; needs `data_dir` (default: none)
    #[arg(long, env = "NUTFILTER_STATE_FILTERS", value_name = "KINDS", value_delimiter = ',', value_parser = value_parsers::event())]
    pub(crate) state_filters: Vec<Event>,

    /// Bits of a value in segments; the sequences keep the one that they began with
    #[arg(long, env = "NUTFILTER_UNIVERSE", value_name = "BITS", default_value = "36", value_parser = number::<u32>(8..=56))]
    pub(crate) universe: u32,

    /// The draft's `b`: an open block has 2^b bits
    #[arg(long, env = "NUTFILTER_BLOCK_WIDTH", value_name = "BITS", default_value = "20", value_parser = number::<u32>(5..=26))]
    pub(crate) block_width: u32,

    /// Seconds after which a block is sealed
    #[arg(long, env = "NUTFILTER_BLOCK_TIMEOUT", value_name = "SECONDS", default_value = "604800", value_parser = seconds(3600..=3650 * DAY))]
    pub(crate) block_timeout: Duration,

    /// Seconds between two versions of the open block; 0 does not serve it
    #[arg(long, env = "NUTFILTER_OPEN_INTERVAL", value_name = "SECONDS", default_value = "600", value_parser = seconds(0..=DAY))]
    pub(crate) open_interval: Duration,

    /// Name of the draft's entry in `nuts` of `/v1/info`, for `blind_signature` (default: no entry)
    #[arg(long, env = "NUTFILTER_STATE_FILTERS_INFO_KEY", value_name = "KEY", value_parser = info_key)]
    pub(crate) state_filters_info_key: Option<String>,

    /// Name of the entry of the segments in `nuts` of `/v1/info`, for all published kinds (default: no entry)
    #[arg(long, env = "NUTFILTER_SEGMENTS_INFO_KEY", value_name = "KEY", value_parser = info_key)]
    pub(crate) segments_info_key: Option<String>,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Process")]
pub(crate) struct ProcessOptions {
    /// Minimum log level; with `--quiet` it is `error`
    #[arg(long, env = "LOG_LEVEL", value_name = "LEVEL", default_value = "info", value_parser = log::level(), ignore_case = true)]
    pub(crate) log_level: LevelFilter,

    /// Log lines as text, or as one JSON object per line
    #[arg(
        long,
        env = "NUTFILTER_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text",
        value_enum,
        ignore_case = true
    )]
    pub(crate) log_format: LogFormat,

    /// Threads that read, sort and encode large sets, and that answer requests (default: one per CPU)
    #[arg(long, env = "NUTFILTER_THREADS", value_name = "N", value_parser = number::<usize>(1..=1024))]
    pub(crate) threads: Option<usize>,
}

/// Failed refreshes after which the service is not ready, unless configured.
const READY_REFRESHES: u32 = 10;

/// The least of that time: restarting a mint with a migration takes minutes, and the filters are still good.
const READY_AT_LEAST: Duration = Duration::from_secs(300);

impl Options {
    /// Whether `/v1/keysets` is answered here. Where the mint's URL is known the mint answers it, so that there
    /// is one truth about keysets.
    pub(crate) fn serves_keysets(&self) -> bool {
        self.endpoints
            .keysets
            .unwrap_or(self.mint.mint_api.is_none())
    }

    /// Whether `/v1/info` is answered here, from the mint's own answer.
    pub(crate) fn serves_info(&self) -> bool {
        self.endpoints.info.unwrap_or(self.mint.mint_api.is_some())
    }

    /// How old the last good refresh may be for the service to count as ready.
    pub(crate) fn ready_max_age(&self) -> Duration {
        let refreshes = self.refreshing.refresh * READY_REFRESHES;
        self.endpoints
            .ready_max_age
            .unwrap_or(refreshes.max(READY_AT_LEAST))
    }

    /// The longest time between two refreshes.
    pub(crate) fn slowest_refresh(&self) -> Duration {
        self.refreshing.refresh + self.refreshing.refresh * self.refreshing.jitter / 100
    }

    /// Where to listen.
    pub(crate) fn addresses(&self) -> Vec<Listen> {
        let ListenOptions {
            host, port, listen, ..
        } = &self.listening;
        if !listen.is_empty() {
            return listen.clone();
        }
        // An IPv6 address has colons of its own.
        let bare_ipv6 = host.contains(':') && !host.starts_with('[');
        vec![Listen::Tcp(match bare_ipv6 {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        })]
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

fn host(text: &str) -> Result<String, String> {
    match text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/') {
        true => Err("must be a host name or an address".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn base_path(text: &str) -> Result<String, String> {
    let router = nutfilter_serve::router(FilterService::new(ServiceOptions::default()));
    match nutfilter_serve::under(text, router) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("must be segments of letters, digits and -._~, separated by /".to_owned()),
    }
}

fn socket_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(mode),
        _ => Err("must be three octal digits, as in 660".to_owned()),
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

/// The shortest admin token. Anyone who guesses it can keep the database busy.
const SHORTEST_TOKEN: usize = 16;

/// The longest, so that it fits into a header.
const LONGEST_TOKEN: usize = 512;

fn admin_token(text: &str) -> Result<Secret, String> {
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("must be printable ASCII without spaces".to_owned());
    }
    if !(SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&text.len()) {
        return Err(format!(
            "must have from {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters"
        ));
    }
    Ok(Secret::new(text))
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
    fn socket_mode_is_octal() {
        assert_eq!(socket_mode("660"), Ok(0o660));
        assert_eq!(socket_mode("0600"), Ok(0o600));
        for text in ["", "668", "1777", "rw", "+60"] {
            assert!(socket_mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn admin_token_must_be_long_and_printable() {
        assert!(admin_token("0123456789abcdef").is_ok());
        let long = "x".repeat(513);
        for text in [
            "0123456789abcde",
            "0123456789 abcdef",
            "0123456789abcde\u{e9}",
            &long,
        ] {
            assert!(admin_token(text).is_err(), "{text}");
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
