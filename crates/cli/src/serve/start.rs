//! What `serve` and `publish` start: the log, the threads, and the refresher with its source.

use std::convert::Infallible;
use std::time::Duration;

use nutfilter_mint::source::open_with_readers;
use nutfilter_mint::{
    DataDirectory, FilterService, InfoFetcher, RefreshThread, Refresher, RefresherOptions,
};
use tokio::runtime::Runtime;

use super::options::Options;
use super::signals::Hangup;
use super::waiting::WaitingSource;
use crate::error::CliError;
use crate::globals::Globals;
use crate::log;

/// How long the exit waits for a running query. Ending it early is safe, as it only reads.
pub(super) const REFRESHER_PATIENCE: Duration = Duration::from_secs(5);

/// Random variation of the refresh interval, so that services do not read in step.
const JITTER: f64 = 0.1;

/// Starts the log, and runs a service, whose error goes there.
pub(super) fn logged(
    options: &Options,
    globals: &Globals,
    run: impl FnOnce() -> Result<(), CliError>,
) -> Result<(), CliError> {
    let format = options.log_format;
    log::start_service(options.log_level, format, globals);
    log::catch_panics();
    log::logged(run(), format)
}

/// The mint's database, opened at the first read.
pub(super) fn source(options: &Options, globals: &Globals) -> WaitingSource {
    let (location, mint_type) = (options.mint_database.clone(), options.mint_type);
    let threads = globals.threads;
    WaitingSource::new(move || open_with_readers(&location, mint_type, threads))
}

/// What reads the database and builds the filters.
pub(super) fn refresher(
    options: &Options,
    source: WaitingSource,
    service: FilterService,
) -> Result<Refresher, CliError> {
    let data_directory = options.data_dir.as_ref().map(DataDirectory::open);
    let options = RefresherOptions {
        data_directory: data_directory.transpose().map_err(CliError::failed)?,
        restamp_after: options.max_timestamp_age,
        // That of a `RefreshThread`, also for a single refresh.
        timestamp_grid: options.refresh.min(Duration::from_secs(60)),
        verify_every: options.verify_every,
        clock: None,
    };
    Ok(Refresher::with_options(source, service, options))
}

/// Starts the thread that reads the database and renews what is served.
pub(super) fn start(options: &Options, refresher: Refresher) -> Result<RefreshThread, CliError> {
    Ok(RefreshThread::start(refresher, options.refresh, JITTER)?)
}

/// Refreshes at each SIGHUP.
pub(super) async fn refresh_at_hangups(thread: &RefreshThread, mut hangup: Hangup) -> Infallible {
    loop {
        hangup.next().await;
        tracing::info!(target: log::SERVICE, "SIGHUP: refreshing now");
        thread.refresh_now();
    }
}

/// Fetches the mint's info, if its URL is configured. The filters are announced in it.
pub(super) fn info(
    options: &Options,
    service: &FilterService,
) -> Result<Option<InfoFetcher>, CliError> {
    let Some(mint) = &options.mint_api else {
        return Ok(None);
    };
    let fetcher = InfoFetcher::new(mint, service, &options.info_key);
    let fetcher = fetcher.map_err(|error| CliError::at("--mint-api", error));
    fetcher.map(Some)
}

/// A runtime that answers requests on the configured number of threads. Filters are built on other threads.
pub(crate) fn runtime(globals: &Globals) -> Result<Runtime, CliError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = globals.threads {
        builder.worker_threads(threads);
    }
    Ok(builder.enable_all().build()?)
}

/// The error after a second stop signal.
pub(crate) fn stopped_at_once() -> CliError {
    CliError::failed("stopped at the second signal, without waiting for open requests")
}
