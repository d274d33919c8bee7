//! `nutfilter publish`: the filters of a mint's database, as static files.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{ArgMatches, Args};
use nutfilter_mint::{FilterService, InfoFetcher, Snapshot};
use nutfilter_serve::{Directory, Report};

use super::check;
use super::manager;
use super::options::{Options, VARIABLES};
use super::signals::{Hangup, stop_signal};
use super::start::{
    REFRESHER_PATIENCE, info, logged, refresh_at_hangups, refresher, runtime, source, start,
    stopped_at_once,
};
use super::waiting::WaitingSource;
use crate::error::CliError;
use crate::globals::Globals;
use crate::log;

/// How often to look for new filters.
const POLL: Duration = Duration::from_millis(100);

/// First pause after a failure. It doubles up to the refresh interval.
const FIRST_RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n{VARIABLES}"))]
pub(crate) struct PublishArgs {
    /// Directory for the files; created if it is missing.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Publish once and exit, instead of after every refresh.
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    options: Options,
}

const EXAMPLES: &str = "\
Examples:
  nutfilter publish /srv/filters --mint-database /var/lib/cdk-mintd/cdk-mintd.sqlite
  nutfilter publish /srv/filters --once --mint-database postgres://filters@db/mint
  nutfilter check --mint https://files.example/mint --keyset 009a1f293253e41e mine.hex
";

pub(crate) fn run(
    args: &PublishArgs,
    matches: &ArgMatches,
    globals: &Globals,
) -> Result<(), CliError> {
    let options = &args.options;
    if options.check_config {
        let command = PublishArgs::augment_args(clap::Command::new("publish"));
        check::print(&command, matches, options)?;
        return check::run(options, Some(&args.directory), &[], globals);
    }
    let directory = Directory::open(&args.directory).map_err(CliError::failed)?;
    logged(options, globals, || {
        publish(args, options, directory, globals)
    })
}

fn publish(
    args: &PublishArgs,
    options: &Options,
    directory: Directory,
    globals: &Globals,
) -> Result<(), CliError> {
    let mut source = source(options, globals);
    if args.once || !options.wait_for_database {
        source.opened()?;
    }
    // There is no mint behind a directory that would answer for the keysets.
    let service = FilterService::default();
    let output = Output {
        directory,
        info: info(options, &service)?,
        service,
        longest_retry: options.refresh,
    };
    if args.once {
        return once(options, source, output);
    }
    let runtime = runtime(globals)?;
    let result = runtime.block_on(until_stopped(options, source, output));
    // A file that is being written is finished.
    runtime.shutdown_timeout(REFRESHER_PATIENCE);
    result
}

/// Reads the database once and publishes what could be read.
fn once(options: &Options, source: WaitingSource, output: Output) -> Result<(), CliError> {
    let service = output.service.clone();
    let mut refresher = refresher(options, source, service.clone())?;
    refresher.restore();
    let report = refresher.refresh().map_err(CliError::failed)?;
    if service.snapshot().is_some() && output.publish()? == 0 {
        tracing::info!("nothing new to publish");
    }
    match report.failures.len() {
        0 => Ok(()),
        failures => Err(CliError::failed(format_args!(
            "{failures} filters could not be updated; the others are published"
        ))),
    }
}

/// Publishes after every refresh until a signal ends it.
async fn until_stopped(
    options: &Options,
    source: WaitingSource,
    output: Output,
) -> Result<(), CliError> {
    let (stop, at_once, hangup) = (stop_signal(1)?, stop_signal(2)?, Hangup::new()?);
    let refresher = refresher(options, source, output.service.clone())?;
    let thread = start(options, refresher)?;
    tokio::select! {
        () = stop => {}
        never = keep_publishing(Arc::new(output)) => match never {},
        never = refresh_at_hangups(&thread, hangup) => match never {},
        never = manager::keep_alive() => match never {},
    }
    manager::tell("STOPPING=1");
    let ending = tokio::task::spawn_blocking(|| thread.stop(REFRESHER_PATIENCE));
    tokio::select! {
        _ = ending => {}
        () = at_once => return Err(stopped_at_once()),
    }
    tracing::info!(target: log::SERVICE, "stopped");
    Ok(())
}

/// Publishes each new snapshot. After a failure, tries again with the newest one.
async fn keep_publishing(output: Arc<Output>) -> Infallible {
    let mut latest: Option<Arc<Snapshot>> = None;
    let mut retry = FIRST_RETRY;
    loop {
        let snapshot = output.service.snapshot();
        let is_new = match (&snapshot, &latest) {
            (Some(new), Some(old)) => !Arc::ptr_eq(new, old),
            (new, _) => new.is_some(),
        };
        if !is_new {
            tokio::time::sleep(POLL).await;
            continue;
        }
        let output = Arc::clone(&output);
        let longest = output.longest_retry;
        let published = tokio::task::spawn_blocking(move || output.publish()).await;
        if let Err(error) = published
            .map_err(CliError::failed)
            .and_then(|result| result)
        {
            let pause = retry.min(longest);
            tracing::error!(%error, retry_seconds = pause.as_secs(), "publishing failed; retrying");
            tokio::time::sleep(pause).await;
            retry = retry.saturating_mul(2);
            continue;
        }
        if latest.is_none() {
            manager::tell("READY=1\nSTATUS=publishing");
        }
        (latest, retry) = (snapshot, FIRST_RETRY);
    }
}

/// The directory and what is published to it.
struct Output {
    directory: Directory,
    service: FilterService,
    info: Option<InfoFetcher>,
    longest_retry: Duration,
}

impl Output {
    /// Returns the number of files that were written. The info comes last, because it announces the filters.
    fn publish(&self) -> Result<usize, CliError> {
        let start = Instant::now();
        let mut objects = self.service.objects().to_vec();
        if let Some(info) = &self.info {
            match info.fetch() {
                Ok(()) => objects.push(self.service.object("v1/info").map_err(CliError::failed)?),
                Err(error) => {
                    tracing::warn!(%error, "could not fetch the mint's info; leaving the last one");
                }
            }
        }
        let published = self.directory.publish(&objects);
        let Report {
            written,
            bytes,
            unchanged,
            superseded: paths,
            ..
        } = published.map_err(CliError::failed)?;
        if written > 0 {
            let ms = start.elapsed().as_millis();
            tracing::info!(objects = written, bytes, unchanged, ms, "published");
        }
        if !paths.is_empty() {
            tracing::info!(?paths, "another publisher has later files");
        }
        Ok(written)
    }
}
