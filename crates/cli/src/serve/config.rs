//! The configuration of the service, as it is once every text was read.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use nutfilter_mint::MintType;
use tracing_subscriber::filter::LevelFilter;

use crate::log::LogFormat;

/// Everything that can be configured. The fields are filled by the table in `options.rs` alone, and every
/// option has a field.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) mint_database: Option<Secret>,
    pub(crate) mint_database_file: Option<PathBuf>,
    pub(crate) mint_type: Option<MintType>,
    pub(crate) mint_api: Option<Secret>,
    pub(crate) wait_for_database: bool,

    pub(crate) data_dir: Option<PathBuf>,

    pub(crate) refresh: Duration,
    /// By how many hundredths of it an interval is longer or shorter.
    pub(crate) jitter_percent: u32,
    pub(crate) restamp: Duration,

    pub(crate) host: String,
    pub(crate) port: u16,
    /// Instead of host and port, if there are any.
    pub(crate) listen: Vec<Listen>,
    pub(crate) socket_mode: u32,
    pub(crate) tls_certificate: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) base_path: String,

    pub(crate) max_connections: usize,
    pub(crate) header_timeout: Duration,
    /// Bytes a second that a peer has to take while there is something to send.
    pub(crate) min_send_rate: u64,
    pub(crate) max_age: Duration,
    pub(crate) shutdown_grace: Duration,

    /// `None`: unless the mint's own URL is known.
    pub(crate) keysets: Option<bool>,
    /// `None`: if the mint's own URL is known.
    pub(crate) info: Option<bool>,
    pub(crate) metrics: bool,
    pub(crate) ready_within: Option<Duration>,
    pub(crate) admin_token: Option<Secret>,
    pub(crate) admin_token_file: Option<PathBuf>,

    pub(crate) log_level: Option<LevelFilter>,
    pub(crate) log_format: LogFormat,
    pub(crate) threads: Option<usize>,
}

/// Refreshes that may fail before the service says that it is not ready, unless told otherwise.
const READY_REFRESHES: u32 = 10;

/// The least of that: a mint that is restarted with a migration takes minutes, and the filters are good.
const READY_AT_LEAST: Duration = Duration::from_secs(300);

impl Config {
    /// Whether `/v1/keysets` is answered here: by the mint itself where it is known, so that there is one
    /// truth about keysets.
    pub(crate) fn serves_keysets(&self) -> bool {
        self.keysets.unwrap_or(self.mint_api.is_none())
    }

    /// Whether `/v1/info` is answered here, from what the mint says.
    pub(crate) fn serves_info(&self) -> bool {
        self.info.unwrap_or(self.mint_api.is_some())
    }

    /// How old the last good refresh may be for the service to count as ready.
    pub(crate) fn ready_within(&self) -> Duration {
        self.ready_within
            .unwrap_or((self.refresh * READY_REFRESHES).max(READY_AT_LEAST))
    }

    /// The most by which a refresh comes later than the interval says.
    pub(crate) fn jitter(&self) -> Duration {
        self.refresh * self.jitter_percent / 100
    }

    /// Where to listen.
    pub(crate) fn addresses(&self) -> Vec<Listen> {
        match self.listen.is_empty() {
            true => vec![Listen::Tcp(join(&self.host, self.port))],
            false => self.listen.clone(),
        }
    }
}

fn join(host: &str, port: u16) -> String {
    // An address of IPv6 has colons of its own.
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// `HOST:PORT`
    Tcp(String),
    /// The path of a socket.
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

/// A text that no output may show: it is, or may hold, a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(super) String);

impl Secret {
    /// The text itself, for the one who has to know.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// What stands in the place of a secret.
pub(super) const HIDDEN: &str = "***";

/// A path or URL without what may be a password. Passwords hold `@`, `/` and `?` although they should not:
/// where it is not certain which part is which, nothing is shown but the scheme.
pub(super) fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        let like_a_connection =
            text.contains('@') || (text.contains('=') && text.contains("passw"));
        return if like_a_connection { HIDDEN } else { text }.to_owned();
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    let shown = match place.rsplit_once('@') {
        _ if query.is_some_and(|query| query.contains('@')) => {
            return format!("{scheme}://{HIDDEN}");
        }
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => place.to_owned(),
    };
    match query {
        Some(_) => format!("{scheme}://{shown}?{HIDDEN}"),
        None => format!("{scheme}://{shown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_left_wherever_it_stands() {
        for (text, shown) in [
            ("/var/lib/mint/mint.sqlite3", "/var/lib/mint/mint.sqlite3"),
            (
                "sqlite:/var/lib/mint.sqlite3",
                "sqlite:/var/lib/mint.sqlite3",
            ),
            ("postgres://db:5432/mint", "postgres://db:5432/mint"),
            ("postgres://mint:hunter2@db/mint", "postgres://***@db/mint"),
            (
                "postgres://mint:hunter2@db/mint?sslmode=require",
                "postgres://***@db/mint?***",
            ),
            (
                "postgres://mint:h@hunter2/x@db/mint",
                "postgres://***@db/mint",
            ),
            ("postgres://mint:h?hunter2@db/mint", "postgres://***"),
            (
                "postgres://db/mint?user=a&password=hunter2",
                "postgres://db/mint?***",
            ),
            ("postgres://db/mint?password=hunter2@x", "postgres://***"),
            ("mint:hunter2@db/mint", "***"),
            ("host=db password=hunter2", "***"),
            (
                "https://user:hunter2@mint.example/Bitcoin",
                "https://***@mint.example/Bitcoin",
            ),
        ] {
            assert_eq!(without_password(text), shown);
            assert_eq!(format!("{:?}", Secret(text.to_owned())), "***");
        }
    }

    #[test]
    fn an_address_of_ipv6_gets_its_brackets() {
        assert_eq!(join("::1", 80), "[::1]:80");
        assert_eq!(join("[::1]", 80), "[::1]:80");
        assert_eq!(join("localhost", 80), "localhost:80");
    }
}
