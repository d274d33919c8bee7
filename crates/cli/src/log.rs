//! What the libraries have to say while they work, on stderr like everything that is no result.

use std::io::IsTerminal;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::globals::Globals;

/// The words for the levels. A filter of tracing's own would take any other word for the name of a
/// module, and a mistyped level would turn off everything.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// One of the levels. Let `ignore_case` be set where this is used.
pub(crate) fn level() -> impl TypedValueParser<Value = LevelFilter> {
    let words = LEVELS.map(|(word, _)| match word {
        "warn" => PossibleValue::new(word).alias("warning"),
        _ => PossibleValue::new(word),
    });
    PossibleValuesParser::new(words).map(|given| {
        let given = given.to_ascii_lowercase();
        let found = LEVELS.into_iter().find(|(word, _)| given.starts_with(word));
        found.expect("only these words are let in").1
    })
}

/// The log of a service: every line with its time, for a journal that may have none.
pub(crate) fn start_service(level: LevelFilter, globals: &Globals) {
    builder(&level.to_string(), globals).init();
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
