//! `nutfilter serve`: the filters of a mint's database, over HTTP.
//!
//! `options` declares every option; `layers` merges flags, environment and file into one configuration.

mod check;
mod file;
mod layers;
mod metrics;
mod notify;
mod options;
pub(crate) mod publish;
mod run;
mod secret;
mod signals;
mod template;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use nutfilter_mint::Snapshot;
use nutfilter_mint::source::{DatabaseLocation, open_with_readers};
use tokio::runtime::Runtime;

use self::layers::Flags;
use self::notify::Manager;
use self::options::Options;
pub(crate) use self::signals::stop_signal;
use self::waiting::WaitingSource;
use crate::error::CliError;
use crate::globals::Globals;
use crate::log;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Configuration file (TOML); flags and environment take precedence.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the effective configuration and all errors, and exit.
    #[arg(long)]
    check_config: bool,

    /// Print a configuration file with every option, and exit.
    #[arg(long, conflicts_with = "check_config")]
    print_config_template: bool,

    #[command(flatten)]
    flags: Flags<true>,
}

const EXAMPLES: &str = "\
Examples:
  nutfilter serve --mint-database /var/lib/cdk-mintd/cdk-mintd.sqlite --mint-api https://mint.example
  nutfilter serve --print-config-template > nutfilter.toml
  nutfilter serve --config nutfilter.toml --check-config
Variables: NUTFILTER_REFRESH sets --refresh, and so on; MINT_DATABASE, MINT_TYPE, MINT_API, LOG_LEVEL.";

pub(crate) fn run(args: ServeArgs, globals: &Globals) -> Result<(), CliError> {
    if args.print_config_template {
        return output::print(template::template().as_bytes());
    }
    let resolved = layers::resolve(args.config.as_deref(), &args.flags.0, globals.threads)?;
    if args.check_config {
        return check::run(&resolved, globals);
    }
    let options = resolved.valid()?;
    logged(&options, globals, || {
        let (globals, source) = prepare(&options, globals, options.wait_for_database)?;
        let manager = Arc::new(Manager::of(&|name| std::env::var_os(name)));
        let runtime = runtime(&globals)?;
        let result = runtime.block_on(run::until_stopped(&options, source, manager));
        // Tasks that still run end with the process.
        runtime.shutdown_background();
        result
    })
}

/// Starts the log, and runs a service, whose error goes there.
fn logged(
    options: &Options,
    globals: &Globals,
    run: impl FnOnce() -> Result<(), CliError>,
) -> Result<(), CliError> {
    let format = options.log_format;
    log::start_service(options.log_level, format, globals);
    log::catch_panics();
    log::logged(run(), format)
}

/// Starts the threads, and opens the mint's database unless the first read is to open it.
fn prepare(
    options: &Options,
    globals: &Globals,
    wait_for_database: bool,
) -> Result<(Globals, WaitingSource), CliError> {
    let mut globals = *globals;
    if globals.threads.is_none() {
        // With the flag, they were started earlier.
        globals.threads = options.threads;
        globals.start_threads()?;
    }
    let mut source = source(options)?;
    if !wait_for_database {
        source.opened()?;
    }
    Ok((globals, source))
}

/// The mint's database, opened at the first read.
fn source(options: &Options) -> Result<WaitingSource, CliError> {
    let Some(database) = &options.mint_database else {
        return Err(CliError::usage(
            "mint_database is missing: set --mint-database, MINT_DATABASE, or mint_database in the file",
        ));
    };
    let location = DatabaseLocation::parse(database.reveal())?;
    let (mint_type, threads) = (options.mint_type, options.threads);
    Ok(WaitingSource::new(move || {
        open_with_readers(&location, mint_type, threads)
    }))
}

/// The error after a second stop signal.
pub(crate) fn stopped_at_once() -> CliError {
    CliError::failed("stopped at the second signal, without waiting for open requests")
}

/// Commands to paste into a shell.
pub(crate) fn curl_lines(base: &str, snapshot: &Snapshot) -> String {
    // One keyset is enough as an example, preferably an active one.
    let active = snapshot.keysets().find(|keyset| keyset.info.active);
    let mut lines = vec![
        format!("  curl -s {base}/health"),
        format!("  curl -s {base}/v1/keysets"),
    ];
    if let Some(keyset) = active.or_else(|| snapshot.keysets().next()) {
        // Legacy ids are written URL-safe.
        let id = keyset.info.id.as_str().replace('/', "_").replace('+', "-");
        // Filters are large, so they are not printed to a terminal.
        lines.extend([
            format!("  curl -sI {base}/v1/filter/spent/{id}"),
            format!("  curl -s -o issued.json {base}/v1/filter/issued/{id}"),
        ]);
    }
    lines.join("\n")
}

/// The base path with a leading and without a trailing slash; empty for `/`.
fn base_path(path: &str) -> String {
    match path.trim_matches('/') {
        "" => String::new(),
        path => format!("/{path}"),
    }
}

/// A runtime that answers requests on the configured number of threads. Filters are built on other threads.
pub(crate) fn runtime(globals: &Globals) -> Result<Runtime, CliError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = globals.threads {
        builder.worker_threads(threads);
    }
    Ok(builder.enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use nutfilter_mint::source::KeysetInfo;
    use nutfilter_mint::{KeysetEntry, KeysetId};

    use super::*;

    /// The lines for a mint with three keysets, some of them active.
    fn lines(active: [bool; 3]) -> String {
        let ids = ["001111111111111a", "002222222222222b", "003333333333333c"];
        let entry = |(id, active)| KeysetEntry {
            info: KeysetInfo {
                id: KeysetId::parse(id).unwrap(),
                unit: None,
                active,
                input_fee_ppk: 0,
            },
            spent: None,
            issued: None,
        };
        let entries = ids.into_iter().zip(active).map(entry).collect();
        curl_lines("http://mint", &Snapshot::new(entries, 0))
    }

    #[test]
    fn curl_lines_prefer_an_active_keyset() {
        for (active, id) in [
            ([true, false, false], "001111111111111a"),
            ([true, true, true], "001111111111111a"),
            ([false, true, false], "002222222222222b"),
            ([false, false, true], "003333333333333c"),
            ([false, false, false], "001111111111111a"),
        ] {
            let lines = lines(active);
            assert!(lines.contains(&format!("/v1/filter/spent/{id}")), "{lines}");
            assert_eq!(lines.lines().count(), 4, "{lines}");
        }
    }
}
