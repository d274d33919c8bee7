//! What the libraries have to say while they work, on stderr like everything that is no result.

use std::io::IsTerminal;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::error::CliError;
use crate::globals::Globals;

/// Parses a log level. `warning` is what Python, and so nutshell, calls `warn`.
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
    /// For people.
    #[default]
    Text,
    /// A JSON object, for programs.
    Json,
}

/// The name under which a service says that it starts, is ready, and stops: few lines, which are in the log
/// whatever its level is. Only `--quiet` silences them.
pub(crate) const SERVICE: &str = "service";

/// The log of a service: every line with its time, for a journal that may have none.
pub(crate) fn start_service(level: LevelFilter, format: LogFormat, globals: &Globals) {
    let builder = builder(&service_directives(level), globals);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}

/// Libraries that warn of what a peer does, once a connection or more often: whoever connects could fill the
/// log with them. The service counts the connections that it refuses and cuts.
const ABOUT_PEERS: [&str; 3] = ["h2", "hyper", "rustls"];

fn service_directives(level: LevelFilter) -> String {
    let mut directives = format!("{level},{SERVICE}=info");
    // Who asks for more than the usual wants to see it.
    if level <= LevelFilter::INFO {
        for library in ABOUT_PEERS {
            directives.push_str(&format!(",{library}=error"));
        }
    }
    directives
}

/// The end of a service whose log is for programs: its error is in the log, as everything else is, and not
/// said a second time in words that are no JSON.
pub(crate) fn logged(result: Result<(), CliError>, format: LogFormat) -> Result<(), CliError> {
    match (result, format) {
        (Err(error), LogFormat::Json) => {
            tracing::error!(target: SERVICE, %error, "ended");
            Err(CliError::AlreadyLogged)
        }
        (result, _) => result,
    }
}

/// Lets a panic be a line of the log, where it would be lines of text in between.
pub(crate) fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let payload = panic.payload();
        let said = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no words");
        tracing::error!(place, panic = said, "a panic");
    }));
}

/// The log of a command, which a person reads at once: warnings and errors.
pub(crate) fn start_command(globals: &Globals) {
    builder("warn", globals).without_time().init();
}

/// The same for a command that reads a database of its own making, of which there is nothing to warn.
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

    fn lines_of(level: LevelFilter, say: impl FnOnce()) -> usize {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(service_directives(level)))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, say);
        let written = written.0.lock().expect("no panic");
        written.split(|&byte| byte == b'\n').count() - 1
    }

    #[test]
    fn what_a_peer_does_fills_no_log_unless_it_is_asked_for() {
        let peers = || {
            warn!(target: "h2::proto::streams::recv", "too many resets");
            warn!(target: "rustls::msgs::handshake", "a name that is none");
        };
        assert_eq!(lines_of(LevelFilter::WARN, peers), 0);
        assert_eq!(lines_of(LevelFilter::INFO, peers), 0);
        assert_eq!(lines_of(LevelFilter::DEBUG, peers), 2);
    }

    #[test]
    fn what_the_service_says_is_in_the_log_at_its_level() {
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
