//! Runs the service until a signal stops it, or refreshes once.

use std::convert::Infallible;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use clap::{ArgMatches, Args};
use nutfilter::Params;
use nutfilter_mint::{FilterSite, Filters, InfoMirror, RefreshError};
use nutfilter_serve::Limits;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::check_config;
use super::free_memory;
use super::options::{ServeOptions, VARIABLES};
use super::process_metrics;
use super::service_manager;
use super::signals::{Hangup, stop_signal};
use super::waiting::Waiting;
use crate::error::CliError;
use crate::io::output_file::OutputFile;
use crate::log;
use crate::messages::Globals;

/// How often to look whether the service is ready: for the first time, and later.
const READY_POLL: Duration = Duration::from_millis(100);
const STATE_POLL: Duration = Duration::from_secs(1);

/// The file with the metrics of `--once`, for the textfile collector of `node_exporter`. A hidden file is not served.
const METRICS: &str = ".nutfilter.prom";

/// How long the exit waits for a running query. Ending it early is safe, as it only reads.
const REFRESHER_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n{VARIABLES}"))]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    options: ServeOptions,
}

const EXAMPLES: &str = "\
Examples:
  nutfilter serve --mint-database /var/lib/cdk-mintd/cdk-mintd.sqlite \\
      --mint-api http://127.0.0.1:3338
  nutfilter serve --mint-database postgres://filters@db/mint \\
      --output /srv/filters --once
  MINT_DATABASE=postgres://filters@db/mint nutfilter serve --check-config
";

pub(crate) fn run(
    args: &ServeArgs,
    matches: &ArgMatches,
    globals: &Globals,
) -> Result<(), CliError> {
    let options = &args.options;
    if options.check_config {
        let command = ServeArgs::augment_args(clap::Command::new("serve"));
        check_config::print(&command, matches, options)?;
        return check_config::run(options);
    }
    log::start_service(options.log_level, options.log_format, globals);
    log::catch_panics();
    log::logged(serve(options), options.log_format)
}

fn serve(options: &ServeOptions) -> Result<(), CliError> {
    process_metrics::start();
    let (source, how) = (Waiting::new(options), filter_options(options)?);
    if let (true, Some(output)) = (options.once, &options.output) {
        return once(source, how, output);
    }
    let runtime = runtime()?;
    let result = runtime.block_on(until_stopped(options, source, how));
    // Tasks that still run end with the process.
    runtime.shutdown_background();
    result
}

fn filter_options(options: &ServeOptions) -> Result<nutfilter_mint::Options, CliError> {
    let mut how = nutfilter_mint::Options::default();
    how.directory.clone_from(&options.output);
    // Nobody tells this process of changes.
    (how.interval, how.min_interval) = (options.refresh, options.refresh);
    how.ready_within = options.max_age;
    how.refresh.params = Params::with_best_p(options.m)?;
    how.refresh.reread = options.reread;
    how.refresh.accepted.clone_from(&options.accept_loss);
    // The mint itself answers for its keysets.
    how.refresh.lists_keysets = options.mint_api.is_none();
    Ok(how)
}

/// Reads the database once, publishes what could be read, and leaves the metrics beside it.
fn once(source: Waiting, how: nutfilter_mint::Options, output: &Path) -> Result<(), CliError> {
    let (filters, refreshed) = Filters::once(source, how).map_err(CliError::failed)?;
    let metrics = filters.metrics() + &process_metrics::text();
    let mut file = OutputFile::create(&output.join(METRICS))?;
    file.file().write_all(metrics.as_bytes())?;
    file.finish()?;
    // It is in the log.
    let report = refreshed.map_err(|error| match error {
        RefreshError::OtherMint { .. } => CliError::Held,
        _ => CliError::AlreadyLogged,
    })?;
    match report.failures.len() {
        _ if !filters.status().held.is_empty() => Err(CliError::Held),
        0 => Ok(()),
        failures => Err(CliError::failed(format_args!(
            "{failures} filters could not be updated; the others are published"
        ))),
    }
}

/// Serves until a signal stops it.
async fn until_stopped(
    options: &ServeOptions,
    source: Waiting,
    how: nutfilter_mint::Options,
) -> Result<(), CliError> {
    // Catch signals before any slow step.
    let (stop, at_once, hangup) = (stop_signal(1)?, stop_signal(2)?, Hangup::new()?);
    let stop = async {
        stop.await;
        service_manager::tell("STOPPING=1");
    };
    let filters = Filters::with_source(source, how).map_err(CliError::failed)?;
    let limits = Limits::default();
    let listener = match options.listen() {
        Some(address) => Some(listen(address, limits).await?),
        None => None,
    };
    let router = nutfilter_serve::router(site(options, &filters)?);
    let serve = async {
        match listener {
            Some(listener) => nutfilter_serve::serve(listener, router, limits, stop).await,
            None => stop.await,
        }
    };
    let orderly = async {
        tokio::select! {
            () = serve => {}
            never = refresh_at_hangups(&filters, hangup) => match never {},
            never = service_manager::keep_alive() => match never {},
            never = tell_state(&filters) => match never {},
            never = free_memory::give_back() => match never {},
        };
        let ending = filters.clone();
        let ending = tokio::task::spawn_blocking(move || ending.stop(REFRESHER_PATIENCE));
        if !ending.await.map_err(CliError::failed)? {
            tracing::warn!("a database query is still running; it ends with the process");
        }
        tracing::info!(target: log::SERVICE, "stopped");
        Ok(())
    };
    tokio::select! {
        result = orderly => result,
        () = at_once => Err(stopped_at_once()),
        () = other_mint(&filters) => Err(CliError::Held),
    }
}

/// Ready once the first reading has found another mint's database. Until then the old filters were served.
async fn other_mint(filters: &Filters) {
    while !filters.status().other_mint {
        tokio::time::sleep(READY_POLL).await;
    }
}

/// The filters with what belongs to the process: the mint's info, and the metrics of connections.
fn site(options: &ServeOptions, filters: &Filters) -> Result<FilterSite, CliError> {
    let site = filters.site().clone().with_metrics(process_metrics::text);
    let Some(mint) = &options.mint_api else {
        return Ok(site);
    };
    let info = InfoMirror::new(mint).map_err(|error| CliError::at("--mint-api", error))?;
    let info = info.follow(site.monitor().clone())?;
    Ok(site.with_info(info))
}

/// Tells the service manager the state and the log each change of it. The manager waits for the first time that the
/// service is ready.
async fn tell_state(filters: &Filters) -> Infallible {
    let (mut told, mut was_ready) = (String::new(), None);
    loop {
        let (ready, status) = (filters.ready(), filters.status());
        let line = match (&ready, &status.failure) {
            (Err(reason), _) => format!("STATUS=not ready: {reason}"),
            (Ok(()), Some(failure)) => format!("STATUS=serving; last refresh: {failure}"),
            (Ok(()), None) => "STATUS=serving".to_owned(),
        };
        if line != told {
            let is_first = was_ready.is_none() && ready.is_ok();
            service_manager::tell(&if is_first {
                format!("READY=1\n{line}")
            } else {
                line.clone()
            });
            told = line;
        }
        match (&ready, was_ready) {
            (Ok(()), None | Some(false)) => {
                let ([spent, issued], filters) = (status.items(), status.filters.len());
                tracing::info!(target: log::SERVICE, filters, spent, issued, "ready");
                was_ready = Some(true);
            }
            (Err(reason), Some(true)) => {
                tracing::warn!(target: log::SERVICE, reason, "no longer ready");
                was_ready = Some(false);
            }
            _ => {}
        }
        tokio::time::sleep(if was_ready.is_some() { STATE_POLL } else { READY_POLL }).await;
    }
}

/// Reads everything at each SIGHUP.
async fn refresh_at_hangups(filters: &Filters, mut hangup: Hangup) -> Infallible {
    loop {
        hangup.next().await;
        tracing::info!(target: log::SERVICE, "SIGHUP: rereading everything now");
        filters.reread();
    }
}

/// Binds the address, and says so in the log.
async fn listen(address: &str, limits: Limits) -> Result<TcpListener, CliError> {
    let bound = nutfilter_serve::listen(address).await;
    let listener = bound.map_err(|error| CliError::at(address, error))?;
    let (version, max_connections) = (env!("CARGO_PKG_VERSION"), limits.max_connections);
    let at = listener.local_addr()?;
    tracing::info!(target: log::SERVICE, version, max_connections, "listening on http://{at}");
    Ok(listener)
}

/// A runtime that answers requests. Filters are built on other threads.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// The error after a second stop signal.
pub(crate) fn stopped_at_once() -> CliError {
    CliError::failed("stopped at the second signal, without waiting for open requests")
}
