//! The logs of services and commands, on stderr.

use std::io::IsTerminal;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::error::CliError;
use crate::globals::Globals;

/// Parses a log level. `warning` is the name of `warn` in Python, and so in nutshell.
pub(crate) fn level() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new([
        PossibleValue::new("error"),
        PossibleValue::new("warn").alias("warning"),
        PossibleValue::new("info"),
        PossibleValue::new("debug"),
        PossibleValue::new("trace"),
    ])
    .map(|word| match word.to_ascii_lowercase().as_str() {
        "error" => LevelFilter::ERROR,
        "warn" | "warning" => LevelFilter::WARN,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => LevelFilter::INFO,
    })
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// A JSON object, for programs.
    Json,
}

/// The log target of a service's start, readiness and stop. These few lines are logged at every level; only
/// `--quiet` suppresses them.
pub(crate) const SERVICE: &str = "service";

/// Starts the log of a service. Every line has its time, in case the journal adds none.
pub(crate) fn start_service(level: LevelFilter, format: LogFormat, globals: &Globals) {
    let builder = builder(&service_directives(level), globals);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}

/// Libraries that warn about the behaviour of a peer, at least once per connection. Any client could flood the log
/// with them. The service itself counts the connections that it rejects and closes.
const ABOUT_PEERS: [&str; 3] = ["h2", "hyper", "rustls"];

fn service_directives(level: LevelFilter) -> String {
    let mut directives = format!("{level},{SERVICE}=info");
    // The levels debug and trace ask for these warnings.
    if level <= LevelFilter::INFO {
        for library in ABOUT_PEERS {
            directives.push_str(&format!(",{library}=error"));
        }
    }
    directives
}

/// Handles the result of a service with a JSON log. The error is already in the log, and must not follow as text
/// that is not JSON.
pub(crate) fn logged(result: Result<(), CliError>, format: LogFormat) -> Result<(), CliError> {
    match (result, format) {
        (Err(error), LogFormat::Json) => {
            tracing::error!(target: SERVICE, %error, "ended");
            Err(CliError::AlreadyLogged)
        }
        (result, _) => result,
    }
}

/// Writes a panic as one log line, instead of lines of text between the log lines.
pub(crate) fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let payload = panic.payload();
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        tracing::error!(place, panic = message, "panic");
    }));
}

/// Starts the log of a command: warnings and errors, for a person who reads them immediately.
pub(crate) fn start_command(globals: &Globals) {
    builder("warn", globals).without_time().init();
}

/// Starts the log of a demo, which reads its own database and so needs no warnings about it.
pub(crate) fn start_demo(globals: &Globals) {
    builder("warn,nutfilter_mint::source=error", globals)
        .without_time()
        .init();
}

type Builder = tracing_subscriber::fmt::SubscriberBuilder<
    tracing_subscriber::fmt::format::DefaultFields,
    tracing_subscriber::fmt::format::Format,
    EnvFilter,
    fn() -> std::io::Stderr,
>;

fn builder(directives: &str, globals: &Globals) -> Builder {
    let directives = if globals.quiet { "error" } else { directives };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(directives))
        .with_ansi(std::io::stderr().is_terminal())
        // It would report a closed stderr on stderr, and panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr as fn() -> std::io::Stderr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing::{error, info, warn};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines_of(level: LevelFilter, log: impl FnOnce()) -> usize {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(service_directives(level)))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let written = written.0.lock().expect("no panic");
        written.split(|&byte| byte == b'\n').count() - 1
    }

    #[test]
    fn peers_cannot_flood_the_log_at_the_default_level() {
        let peers = || {
            warn!(target: "h2::proto::streams::recv", "too many resets");
            warn!(target: "rustls::msgs::handshake", "invalid server name");
        };
        assert_eq!(lines_of(LevelFilter::WARN, peers), 0);
        assert_eq!(lines_of(LevelFilter::INFO, peers), 0);
        assert_eq!(lines_of(LevelFilter::DEBUG, peers), 2);
    }

    #[test]
    fn service_events_are_logged_at_their_level() {
        let service = || {
            info!(target: SERVICE, "ready");
            warn!(target: "nutfilter_mint::refresh", "the database is away");
            error!(target: "h2::server", "out of order");
        };
        assert_eq!(lines_of(LevelFilter::ERROR, service), 2);
        assert_eq!(lines_of(LevelFilter::WARN, service), 3);
        assert_eq!(lines_of(LevelFilter::INFO, service), 3);
    }
}
