//! The logs of services and commands, on stderr.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, registry};

use crate::error::CliError;
use crate::messages::Globals;

/// Parses a log level. `warning` is the name of `warn` in Python, and so in nutshell.
pub(crate) fn level() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new([
        PossibleValue::new("error"),
        PossibleValue::new("warn").alias("warning"),
        PossibleValue::new("info"),
        PossibleValue::new("debug"),
        PossibleValue::new("trace"),
    ])
    // `warning` alone has no such name.
    .map(|word| word.parse().unwrap_or(LevelFilter::WARN))
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
    let lines = match format {
        LogFormat::Text => lines().boxed(),
        LogFormat::Json => lines().json().boxed(),
    };
    start(lines, service_targets(level), globals);
}

/// Warns about the behaviour of clients, at least once per connection: any of them could flood the log. The service itself
/// counts the connections that it rejects and closes.
const ABOUT_PEERS: &str = "hyper";

fn service_targets(level: LevelFilter) -> Targets {
    let targets = Targets::new().with_default(level).with_target(SERVICE, LevelFilter::INFO);
    // The levels debug and trace ask for these warnings.
    match level <= LevelFilter::INFO {
        true => targets.with_target(ABOUT_PEERS, LevelFilter::ERROR),
        false => targets,
    }
}

/// Handles the result of a service with a JSON log. The error is already in the log, and must not follow as text
/// that is not JSON.
pub(crate) fn logged(result: Result<(), CliError>, format: LogFormat) -> Result<(), CliError> {
    match (result, format) {
        (Err(error), LogFormat::Json)
            if !matches!(error, CliError::Held | CliError::AlreadyLogged) =>
        {
            tracing::error!(target: SERVICE, %error, "ended");
            Err(CliError::AlreadyLogged)
        }
        (result, _) => result,
    }
}

/// Writes a panic as one log line, instead of lines of text between the log lines.
pub(crate) fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        tracing::error!(place, panic = message, "panic");
    }));
}

/// Starts the log of a demo, which reads its own database and so needs no warnings about it.
pub(crate) fn start_demo(globals: &Globals) {
    let targets = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("nutfilter_mint::source", LevelFilter::ERROR);
    start(lines().without_time(), targets, globals);
}

type Stderr = fn() -> std::io::Stderr;

fn lines() -> fmt::Layer<Registry, fmt::format::DefaultFields, fmt::format::Format, Stderr> {
    fmt::layer()
        // It would report a closed stderr on stderr, and panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr as Stderr)
}

fn start(lines: impl Layer<Registry> + Send + Sync, targets: Targets, globals: &Globals) {
    let targets = match globals.quiet {
        true => Targets::new().with_default(LevelFilter::ERROR),
        false => targets,
    };
    registry().with(lines).with(targets).init();
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
        let lines = fmt::layer().with_writer(move || writer.clone());
        let subscriber = registry().with(lines).with(service_targets(level));
        tracing::subscriber::with_default(subscriber, log);
        let written = written.0.lock().expect("no panic");
        written.split(|&byte| byte == b'\n').count() - 1
    }

    #[test]
    fn peers_cannot_flood_the_log_at_the_default_level() {
        let peers = || {
            warn!(target: "hyper::proto::h1::conn", "read header from client timeout");
        };
        assert_eq!(lines_of(LevelFilter::WARN, peers), 0);
        assert_eq!(lines_of(LevelFilter::INFO, peers), 0);
        assert_eq!(lines_of(LevelFilter::DEBUG, peers), 1);
    }

    #[test]
    fn service_events_are_logged_at_their_level() {
        let service = || {
            info!(target: SERVICE, "ready");
            warn!(target: "nutfilter_mint::refresh", "the database is away");
            error!(target: "hyper::server", "out of order");
        };
        assert_eq!(lines_of(LevelFilter::ERROR, service), 2);
        assert_eq!(lines_of(LevelFilter::WARN, service), 3);
        assert_eq!(lines_of(LevelFilter::INFO, service), 3);
    }
}
