//! `nutfilter serve`: the filters of a mint's database, over HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, ArgMatches, Args};
use nutfilter_mint::{FilterService, InfoFetcher, NoteKind, Status};
use nutfilter_serve::{Limits, Listener, RouterOptions};

use super::check;
use super::manager;
use super::metrics::Metrics;
use super::options::{HTTP, Listen, Options, VARIABLES, base_path, number};
use super::signals::{Hangup, stop_signal};
use super::start::{
    REFRESHER_PATIENCE, info, logged, refresh_at_hangups, refresher, runtime, source, start,
    stopped_at_once,
};
use super::waiting::WaitingSource;
use crate::error::CliError;
use crate::globals::Globals;
use crate::log;

/// How often to check whether the first build has finished.
const FIRST_BUILD_POLL: Duration = Duration::from_millis(50);

/// Failed refreshes after which the service is not ready.
const READY_REFRESHES: u32 = 10;

/// The least of that time: restarting a mint with a migration takes minutes, and the filters are still good.
const READY_AT_LEAST: Duration = Duration::from_secs(300);

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n{VARIABLES}"))]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    options: Options,

    // Loopback by default: a proxy is meant to stand in front. The port is next to 3338, the usual one of a mint.
    /// HOST:PORT or unix:/PATH; several are possible
    #[arg(long, env = "NUTFILTER_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:3339", value_delimiter = ',', help_heading = HTTP)]
    listen: Vec<Listen>,

    /// Prefix of every path, such as `/Bitcoin`
    #[arg(long, env = "NUTFILTER_BASE_PATH", value_name = "PATH", default_value = "/", value_parser = base_path, help_heading = HTTP)]
    base_path: String,

    /// Maximum number of open connections
    #[arg(long, env = "NUTFILTER_MAX_CONNECTIONS", value_name = "N", default_value = "4096", value_parser = number::<usize>(1..=1_000_000), allow_negative_numbers = true, help_heading = HTTP)]
    max_connections: usize,

    /// Answer `/metrics`, for Prometheus
    #[arg(long, env = "NUTFILTER_METRICS", value_name = "on|off", default_value = "on",
        value_parser = BoolishValueParser::new(), action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "on", help_heading = HTTP)]
    metrics: bool,
}

const EXAMPLES: &str = "\
Examples:
  nutfilter serve --mint-database /var/lib/cdk-mintd/cdk-mintd.sqlite --mint-api https://mint.example
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
        check::print(&command, matches, options)?;
        return check::run(options, None, &args.listen, globals);
    }
    logged(options, globals, || {
        let mut source = source(options, globals);
        if !options.wait_for_database {
            source.opened()?;
        }
        let runtime = runtime(globals)?;
        let result = runtime.block_on(until_stopped(args, source));
        // Tasks that still run end with the process.
        runtime.shutdown_background();
        result
    })
}

/// Serves until a signal stops it.
async fn until_stopped(args: &ServeArgs, source: WaitingSource) -> Result<(), CliError> {
    // Catch signals before any slow step.
    let (stop, at_once, hangup) = (stop_signal(1)?, stop_signal(2)?, Hangup::new()?);
    let stop = async {
        stop.await;
        manager::tell("STOPPING=1");
    };
    let options = &args.options;
    let service = match options.mint_api {
        None => FilterService::default(),
        Some(_) => FilterService::without_keysets(),
    };
    let listeners = listen(&args.listen).await?;
    for listener in &listeners {
        let (path, version) = (&args.base_path, env!("CARGO_PKG_VERSION"));
        tracing::info!(target: log::SERVICE, version, "listening on {listener}{path}");
    }

    let metrics = args.metrics.then(Metrics::register).transpose()?;
    let refresher = refresher(options, source, service.clone())?;
    let thread = start(options, refresher)?;
    let info = info(options, &service)?;
    let _info = info
        .map(|info| info.start(InfoFetcher::INTERVAL))
        .transpose()?;
    let endpoints = endpoints(options, &service, metrics);
    let router = nutfilter_serve::router_with(service.clone(), endpoints);
    let router = nutfilter_serve::under(&args.base_path, router).map_err(CliError::failed)?;
    let mut limits = Limits::default();
    limits.max_connections = args.max_connections;
    let orderly = async {
        tokio::select! {
            () = nutfilter_serve::serve(listeners, router, limits, stop) => {}
            never = refresh_at_hangups(&thread, hangup) => match never {},
            never = manager::keep_alive() => match never {},
            never = tell_when_ready(&service) => match never {},
        };
        let ending = tokio::task::spawn_blocking(|| thread.stop(REFRESHER_PATIENCE));
        if !ending.await.map_err(CliError::failed)? {
            tracing::warn!("a database query is still running; it ends with the process");
        }
        tracing::info!(target: log::SERVICE, "stopped");
        Ok(())
    };
    tokio::select! {
        result = orderly => result,
        () = at_once => Err(stopped_at_once()),
    }
}

/// The endpoints in addition to the filters.
fn endpoints(
    options: &Options,
    service: &FilterService,
    metrics: Option<Metrics>,
) -> RouterOptions {
    let mut endpoints = RouterOptions::default();
    endpoints.max_age = options.refresh;
    endpoints.ready_within = (options.refresh * READY_REFRESHES).max(READY_AT_LEAST);
    endpoints.metrics = metrics.map(|metrics| {
        let service = service.clone();
        Arc::new(move || metrics.text(&service)) as Arc<dyn Fn() -> String + Send + Sync>
    });
    endpoints
}

/// Reports readiness to the log and the service manager.
async fn tell_when_ready(service: &FilterService) -> Infallible {
    let snapshot = loop {
        if let Some(snapshot) = service.snapshot()
            // A filter that cannot be built does not delay the others.
            && (snapshot.is_complete() || service.status() == Status::Degraded)
        {
            break snapshot;
        }
        tokio::time::sleep(FIRST_BUILD_POLL).await;
    };
    tracing::info!(
        target: log::SERVICE,
        keysets = snapshot.keysets().len(),
        spent = snapshot.items(NoteKind::Spent),
        issued = snapshot.items(NoteKind::Issued),
        "ready"
    );
    // It would keep its bodies in memory.
    drop(snapshot);
    manager::tell("READY=1\nSTATUS=serving");
    std::future::pending().await
}

/// Binds every address.
async fn listen(addresses: &[Listen]) -> Result<Vec<Listener>, CliError> {
    let mut listeners = vec![];
    for address in addresses {
        let bound = match address {
            Listen::Tcp(address) => Listener::tcp(address).await,
            #[cfg(unix)]
            Listen::Unix(path) => Listener::unix(path).await,
            #[cfg(not(unix))]
            Listen::Unix(_) => Err(std::io::ErrorKind::Unsupported.into()),
        };
        listeners.push(bound.map_err(|error| CliError::at(address, error))?);
    }
    Ok(listeners)
}
