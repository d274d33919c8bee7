//! `nutfilter publish`: the filters of a mint's database, as static files.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{ArgMatches, Args};
use nutfilter_mint::{FilterService, InfoFetcher, Snapshot};
use nutfilter_serve::{Directory, Report};
use tokio::sync::oneshot;

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
    runtime.shutdown_background();
    result
}

/// Reads the database once and publishes what could be read.
fn once(options: &Options, source: WaitingSource, mut output: Output) -> Result<(), CliError> {
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
    let stopping = Arc::new(AtomicBool::new(false));
    let (published, first) = oneshot::channel();
    let worker = {
        let stopping = Arc::clone(&stopping);
        tokio::task::spawn_blocking(move || keep_publishing(output, published, &stopping))
    };
    let tell_when_published = async {
        if first.await.is_ok() {
            manager::tell("READY=1\nSTATUS=publishing");
        }
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        () = stop => {}
        never = refresh_at_hangups(&thread, hangup) => match never {},
        never = manager::keep_alive() => match never {},
        never = tell_when_published => match never {},
    }
    manager::tell("STOPPING=1");
    stopping.store(true, Ordering::Relaxed);
    let ending = async {
        // An object that is being written is finished.
        let _ = worker.await;
        let _ = tokio::task::spawn_blocking(|| thread.stop(REFRESHER_PATIENCE)).await;
        tracing::info!(target: log::SERVICE, "stopped");
        Ok(())
    };
    tokio::select! {
        result = ending => result,
        () = at_once => Err(stopped_at_once()),
    }
}

/// Publishes each new snapshot. After a failure, tries again with the newest one.
fn keep_publishing(mut output: Output, published: oneshot::Sender<()>, stopping: &AtomicBool) {
    let mut published = Some(published);
    let mut latest: Option<Arc<Snapshot>> = None;
    let (mut retry, mut not_before) = (FIRST_RETRY, Instant::now());
    while !stopping.load(Ordering::Relaxed) {
        let snapshot = output.service.snapshot();
        let is_new = match (&snapshot, &latest) {
            (Some(new), Some(old)) => !Arc::ptr_eq(new, old),
            (new, _) => new.is_some(),
        };
        if !is_new || Instant::now() < not_before {
            thread::sleep(POLL);
            continue;
        }
        let Some(snapshot) = snapshot else { continue };
        match output.publish() {
            Ok(_) => {
                retry = FIRST_RETRY;
                latest = Some(snapshot);
                if let Some(published) = published.take() {
                    let _ = published.send(());
                }
            }
            Err(error) => {
                let pause = retry.min(output.longest_retry);
                tracing::error!(%error, retry_seconds = pause.as_secs(), "publishing failed; retrying");
                not_before = Instant::now() + pause;
                retry = retry.saturating_mul(2);
            }
        }
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
    fn publish(&mut self) -> Result<usize, CliError> {
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
