//! Every option of `serve`.

use nutfilter_mint::MintType;

use super::config::Secret;
use super::options::{Flag, Group, Secrecy, Setting, Shape};
use super::values::{
    base_path, host, listen, mode, number, path, seconds, switch, token, url, word,
};
use crate::log::{LEVELS, LogFormat};

/// The longest time that can be configured anywhere: a day.
const DAY: u64 = 86_400;

const OPEN: Setting = Setting {
    name: "",
    variable: "",
    flag: Flag::Own,
    shape: Shape::Switch,
    default: None,
    unset: "none",
    secrecy: Secrecy::Open,
    help: "",
    read: |_, _| Ok(()),
};

const MINT_TYPES: [&str; MintType::ALL.len()] = {
    let mut words = [""; MintType::ALL.len()];
    let mut i = 0;
    while i < words.len() {
        words[i] = MintType::ALL[i].as_str();
        i += 1;
    }
    words
};

/// All options, in the order in which they are shown.
pub(crate) const GROUPS: &[Group] = &[
    Group {
        title: "The mint",
        settings: MINT,
    },
    Group {
        title: "Disk",
        settings: STORE,
    },
    Group {
        title: "Refreshing",
        settings: REFRESH,
    },
    Group {
        title: "Listening",
        settings: LISTEN,
    },
    Group {
        title: "Limits",
        settings: LIMITS,
    },
    Group {
        title: "What is offered beside the filters",
        settings: OFFERED,
    },
    Group {
        title: "The process",
        settings: PROCESS,
    },
];

const MINT: &[Setting] = &[
    Setting {
        name: "mint_database",
        variable: "MINT_DATABASE",
        shape: Shape::Text("PATH|URL"),
        secrecy: Secrecy::Place,
        unset: "required",
        help: "The mint's database: a SQLite file, the directory it is in, or a Postgres URL. It is only read",
        read: |config, text| {
            config.mint_database = Some(Secret(text.to_owned()));
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "mint_database_file",
        variable: "MINT_DATABASE_FILE",
        shape: Shape::Text("FILE"),
        help: "A file whose only line is the mint's database, for a URL with a password",
        read: |config, text| {
            config.mint_database_file = path(text)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "mint_type",
        variable: "MINT_TYPE",
        shape: Shape::Words(&MINT_TYPES),
        unset: "by its tables",
        help: "Whose database it is",
        read: |config, text| {
            config.mint_type = Some(MintType::ALL[word(text, &MINT_TYPES)?]);
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "mint_api",
        variable: "MINT_API",
        shape: Shape::Text("URL"),
        secrecy: Secrecy::Place,
        help: "The mint's own URL: `/v1/keysets` is then left to the mint, and `/v1/info` made from its",
        read: |config, text| {
            config.mint_api = url(text)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "wait_for_database",
        variable: "NUTFILTER_WAIT_FOR_DATABASE",
        default: Some("on"),
        help: "Whether to start and try again where the database cannot be opened, rather than to end",
        read: |config, text| {
            config.wait_for_database = switch(text)?;
            Ok(())
        },
        ..OPEN
    },
];

const STORE: &[Setting] = &[Setting {
    name: "data_dir",
    variable: "NUTFILTER_DATA_DIR",
    shape: Shape::Text("DIR"),
    unset: "everything in memory",
    help: "Where sets and bodies are kept, so that a restart serves at once and reads only what is new; made unless it is there",
    read: |config, text| {
        config.data_dir = path(text)?;
        Ok(())
    },
    ..OPEN
}];

const REFRESH: &[Setting] = &[
    Setting {
        name: "refresh",
        variable: "NUTFILTER_REFRESH",
        shape: Shape::Number("SECONDS"),
        default: Some("60"),
        help: "Seconds from one reading of the database to the next",
        read: |config, text| {
            config.refresh = seconds(text, 1..=DAY)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "jitter",
        variable: "NUTFILTER_JITTER",
        shape: Shape::Number("PERCENT"),
        default: Some("10"),
        help: "By how many hundredths of that it is longer or shorter, at random, so that services do not read in step",
        read: |config, text| {
            config.jitter_percent = number(text, 0..=50)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "restamp",
        variable: "NUTFILTER_RESTAMP",
        shape: Shape::Number("SECONDS"),
        default: Some("600"),
        help: "Seconds after which a filter in which nothing changed gets a new timestamp; until then wallets \
               that have it are answered 304",
        read: |config, text| {
            config.restamp = seconds(text, 1..=DAY)?;
            Ok(())
        },
        ..OPEN
    },
];

const LISTEN: &[Setting] = &[
    Setting {
        name: "host",
        variable: "SERVER_HOST",
        shape: Shape::Text("ADDRESS"),
        // Loopback, until somebody decides otherwise: a proxy is meant to stand in front.
        default: Some("127.0.0.1"),
        help: "Address to listen at",
        read: |config, text| {
            config.host = host(text)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "port",
        variable: "SERVER_PORT",
        shape: Shape::Number("PORT"),
        // Next to 3338, the port that mints are found at.
        default: Some("3339"),
        help: "Port to listen at; 0 takes any that is free",
        read: |config, text| {
            config.port = number(text, 0..=u16::MAX)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "listen",
        variable: "NUTFILTER_LISTEN",
        shape: Shape::List("ADDRESS"),
        unset: "host and port",
        help: "Where to listen, instead of host and port: `HOST:PORT` or `unix:/PATH`, one or several",
        read: |config, text| {
            config.listen.push(listen(text)?);
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "socket_mode",
        variable: "NUTFILTER_SOCKET_MODE",
        shape: Shape::Text("MODE"),
        default: Some("660"),
        help: "Permissions of Unix sockets, in octal digits",
        read: |config, text| {
            config.socket_mode = mode(text)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "tls_certificate",
        variable: "NUTFILTER_TLS_CERTIFICATE",
        shape: Shape::Text("FILE"),
        unset: "no TLS",
        help: "Certificate chain (PEM) for TLS at every `HOST:PORT`; read again on SIGHUP",
        read: |config, text| {
            config.tls_certificate = path(text)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "tls_key",
        variable: "NUTFILTER_TLS_KEY",
        shape: Shape::Text("FILE"),
        unset: "no TLS",
        help: "Its private key (PEM)",
        read: |config, text| {
            config.tls_key = path(text)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "base_path",
        variable: "NUTFILTER_BASE_PATH",
        shape: Shape::Text("PATH"),
        default: Some("/"),
        help: "Path that everything is served under, as in `/Bitcoin/v1/filter/...`",
        read: |config, text| {
            config.base_path = base_path(text)?;
            Ok(())
        },
        ..OPEN
    },
];

const LIMITS: &[Setting] = &[
    Setting {
        name: "max_connections",
        variable: "NUTFILTER_MAX_CONNECTIONS",
        shape: Shape::Number("N"),
        default: Some("4096"),
        help: "Connections at the same time, over all listeners",
        read: |config, text| {
            config.max_connections = number(text, 1..=1_000_000)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "header_timeout",
        variable: "NUTFILTER_HEADER_TIMEOUT",
        shape: Shape::Number("SECONDS"),
        default: Some("10"),
        help: "Seconds within which a request's head has to be there, and a TLS handshake be over",
        read: |config, text| {
            config.header_timeout = seconds(text, 1..=600)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "min_send_rate",
        variable: "NUTFILTER_MIN_SEND_RATE",
        shape: Shape::Number("BYTES"),
        default: Some("6554"),
        help: "Bytes a second that a peer has to take while there is something to send, on an average of 10 s",
        read: |config, text| {
            config.min_send_rate = number(text, 1..=1 << 30)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "max_age",
        variable: "NUTFILTER_MAX_AGE",
        shape: Shape::Number("SECONDS"),
        default: Some("60"),
        help: "Seconds for which caches may keep an answer (`Cache-Control`)",
        read: |config, text| {
            config.max_age = seconds(text, 0..=DAY)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "shutdown_grace",
        variable: "NUTFILTER_SHUTDOWN_GRACE",
        shape: Shape::Number("SECONDS"),
        default: Some("10"),
        help: "Seconds that requests under way have to end after SIGTERM",
        read: |config, text| {
            config.shutdown_grace = seconds(text, 0..=600)?;
            Ok(())
        },
        ..OPEN
    },
];

const OFFERED: &[Setting] = &[
    Setting {
        name: "keysets",
        variable: "NUTFILTER_KEYSETS",
        unset: "on without `mint_api`",
        help: "Whether to answer `/v1/keysets` from the database",
        read: |config, text| {
            config.keysets = Some(switch(text)?);
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "info",
        variable: "NUTFILTER_INFO",
        unset: "on with `mint_api`",
        help: "Whether to answer `/v1/info` with the mint's own and `nuts.25` in it",
        read: |config, text| {
            config.info = Some(switch(text)?);
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "metrics",
        variable: "NUTFILTER_METRICS",
        default: Some("on"),
        help: "Whether to answer `/metrics`, for Prometheus",
        read: |config, text| {
            config.metrics = switch(text)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "ready_within",
        variable: "NUTFILTER_READY_WITHIN",
        shape: Shape::Number("SECONDS"),
        unset: "ten refreshes, at least 300",
        help: "Seconds since the last good refresh after which `/ready` says 503",
        read: |config, text| {
            config.ready_within = Some(seconds(text, 1..=30 * DAY)?);
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "admin_token",
        variable: "NUTFILTER_ADMIN_TOKEN",
        flag: Flag::None,
        shape: Shape::Text("TOKEN"),
        secrecy: Secrecy::Secret,
        unset: "no `/admin`",
        help: "Token (16 characters or more) with which `POST /admin/refresh` refreshes at once",
        read: |config, text| {
            config.admin_token = token(text)?;
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "admin_token_file",
        variable: "NUTFILTER_ADMIN_TOKEN_FILE",
        shape: Shape::Text("FILE"),
        unset: "no `/admin`",
        help: "A file whose only line is that token",
        read: |config, text| {
            config.admin_token_file = path(text)?;
            Ok(())
        },
        ..OPEN
    },
];

const LEVEL_WORDS: [&str; LEVELS.len()] = {
    let mut words = [""; LEVELS.len()];
    let mut i = 0;
    while i < words.len() {
        words[i] = LEVELS[i].0;
        i += 1;
    }
    words
};

const PROCESS: &[Setting] = &[
    Setting {
        name: "log_level",
        variable: "LOG_LEVEL",
        shape: Shape::Words(&LEVEL_WORDS),
        default: Some("info"),
        help: "The least that is worth a line in the log; with `--quiet` it is `error`",
        read: |config, text| {
            // The word that Python has for it, and so nutshell.
            let text = if text.eq_ignore_ascii_case("warning") {
                "warn"
            } else {
                text
            };
            config.log_level = Some(LEVELS[word(text, &LEVEL_WORDS)?].1);
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "log_format",
        variable: "NUTFILTER_LOG_FORMAT",
        shape: Shape::Words(&LogFormat::WORDS),
        default: Some("text"),
        help: "Lines for people, or a JSON object a line",
        read: |config, text| {
            config.log_format = LogFormat::ALL[word(text, &LogFormat::WORDS)?];
            Ok(())
        },
        ..OPEN
    },
    Setting {
        name: "threads",
        variable: "NUTFILTER_THREADS",
        flag: Flag::Global,
        shape: Shape::Number("N"),
        unset: "one for each CPU",
        help: "Threads that sort and code large sets, and as many that answer",
        read: |config, text| {
            config.threads = Some(number(text, 1..=1024)?);
            Ok(())
        },
        ..OPEN
    },
];
