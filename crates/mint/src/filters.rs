//! The filters of a mint within its own process, or in one beside it.

use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use axum::Router;
use nutfilter_cashu::KeysetId;
use nutfilter_objects::{OpenError, Table};
use serde_json::{Value, json};

use crate::filter_site::{FilterSite, check_published};
use crate::refresh::{RefreshError, RefreshOptions, RefreshReport, Refresher};
use crate::source::{MintSource, MintType, SourceError};
use crate::status::{Loss, Monitor, Status, lock};
use crate::thread::{ALL, NEW, Pace, RefreshThread};

/// How [`Filters`] work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where the filters are kept, as files that any file server can send. Without a directory they are in memory, and nothing is
    /// there to compare with after a restart: an older database that was put back is then not noticed. One process publishes to a
    /// directory.
    pub directory: Option<PathBuf>,
    /// Time between two refreshes if nothing calls [`Filters::changed`]; the default is 60 s, the least is 1 s.
    pub interval: Duration,
    /// The least time between the beginnings of two refreshes that [`Filters::changed`] starts; the default is 5 s, the least is
    /// 100 ms, or 1 s with a directory. If it is as long as the interval, changes start none, and caches keep a filter for the interval.
    ///
    /// Faster publishing reveals something: who fetches two filters a swap apart learns which notes were spent and issued
    /// together. The default keeps many swaps together.
    pub min_interval: Duration,
    /// How old the last reading may be while the filters count as ready; the default is 10 intervals, at least 20 minutes.
    pub ready_within: Option<Duration>,
    /// The mint's software; by default, [`Filters::open`] detects it.
    pub mint_type: Option<MintType>,
    /// How filters are made. Their grid of dates follows from the intervals.
    pub refresh: RefreshOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            directory: None,
            interval: Duration::from_secs(60),
            min_interval: Duration::from_secs(5),
            ready_within: None,
            mint_type: None,
            refresh: RefreshOptions::default(),
        }
    }
}

/// Failed refreshes after which filters are not ready.
const READY_REFRESHES: u32 = 10;

/// The least of that time: an unchanged filter gets a new date every ten minutes, and a mint's migration takes minutes.
const READY_AT_LEAST: Duration = Duration::from_secs(1_200);

/// The mode of the files: filters are public, and a web server of another user sends them.
const FILE_MODE: u32 = 0o644;

/// Why filters could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The database cannot be read, or is not one of a mint that this version reads.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// The system cannot start a thread.
    #[error("could not start the refresh thread: {0}")]
    Thread(#[source] io::Error),
}

/// A loss that was not accepted, because it is another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LossError {
    /// Nothing of the keyset is missing.
    #[error("keyset {0} is not held, so no loss can be accepted")]
    NotHeld(KeysetId),
    /// More values are missing than so many.
    #[error("keyset {} lacks {} values, more than the {_1} that were accepted", _0.keyset, _0.values)]
    Larger(Loss, u64),
}

/// The filters of a mint, which a thread of their own keeps up to date. Clones share everything; with the last one the thread
/// ends, and routers answer what was published last. The crate's README has an example.
#[derive(Clone, Debug)]
#[must_use = "the thread that refreshes ends with the last clone"]
pub struct Filters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    site: FilterSite,
    thread: Option<RefreshThread>,
}

impl Filters {
    /// Filters of a mint's own database. It is opened read-only for each reading, while the mint writes.
    ///
    /// Keep them in a directory ([`Options::directory`]): without one, nothing is there to compare with after a restart.
    ///
    /// # Errors
    ///
    /// If the database is not one of a mint that this version reads, the directory cannot be used, or the system cannot start
    /// a thread.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub fn open(
        database: &crate::source::DatabaseLocation,
        options: Options,
    ) -> Result<Self, StartError> {
        let source = crate::source::open(database, options.mint_type)?;
        Self::with_source(source, options)
    }

    /// Filters of a store of any kind.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used, or the system cannot start a thread.
    pub fn with_source(
        source: impl MintSource + 'static,
        options: Options,
    ) -> Result<Self, StartError> {
        let (site, refresher, pace) = prepare(source, options)?;
        let thread = RefreshThread::start(refresher, pace).map_err(StartError::Thread)?;
        let thread = Some(thread);
        Ok(Self(Arc::new(Inner { site, thread })))
    }

    /// Filters that are refreshed once, now. Blocks.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used, or the system cannot start a thread. The second result is that of [`Refresher::refresh`].
    pub fn once(
        source: impl MintSource + 'static,
        options: Options,
    ) -> Result<(Self, Result<RefreshReport, RefreshError>), StartError> {
        let (site, mut refresher, pace) = prepare(source, options)?;
        refresher.set_grid(pace.grid());
        // A source may have a runtime of its own, which an async thread cannot enter.
        let report = thread::scope(|scope| {
            let thread = thread::Builder::new();
            let thread = thread.spawn_scoped(scope, move || refresher.refresh(true));
            thread.map(ScopedJoinHandle::join)
        });
        let report = report.map_err(StartError::Thread)?;
        let report = report.unwrap_or_else(|panic| resume_unwind(panic));
        Ok((Self(Arc::new(Inner { site, thread: None })), report))
    }

    /// The routes of the filters, `/v1/filter/...`, to be merged into those of the mint.
    pub fn router(&self) -> Router {
        nutfilter_serve::object_router(self.site().clone(), "/v1/filter")
    }

    /// The member that announces the filters in the mint's `/v1/info`, beside `nuts`: its name and its value.
    #[must_use]
    pub fn announcement() -> (&'static str, Value) {
        ("filters", json!({"supported": true}))
    }

    /// Tells that notes were spent or issued. Call it after the commit, from any thread; it never waits. A refresh starts at the
    /// earliest [`Options::min_interval`] after the last one began, and after ten times its CPU time. All calls until then are one;
    /// a call while a refresh runs is followed by another one. A call that is forgotten costs time, at most
    /// [`Options::interval`], and no note.
    pub fn changed(&self) {
        self.ask(NEW);
    }

    /// Reads everything now, as is done every [`RefreshOptions::reread`]; for an operator who changed the database.
    pub fn reread(&self) {
        self.ask(ALL);
    }

    fn ask(&self, wish: usize) {
        if let Some(thread) = &self.0.thread {
            thread.ask(wish);
        }
    }

    /// Whether the filters should be sent; otherwise the reason.
    ///
    /// # Errors
    ///
    /// The first condition of [`Monitor::ready`] that is not met.
    pub fn ready(&self) -> Result<(), String> {
        self.site().state().ready.clone()
    }

    /// The numbers of the refreshes, and the state of each filter.
    #[must_use]
    pub fn status(&self) -> Status {
        self.site().monitor().status()
    }

    /// The status as JSON, as `/health` of the command tells it.
    #[must_use]
    pub fn health(&self) -> Value {
        self.site().health()
    }

    /// The metrics in the text format of Prometheus. Their names begin with `nutfilter_`.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.site().metrics()
    }

    /// Accepts that the store lacks at most `number` values of what was published of a keyset, which is held for that. Its filters
    /// are then replaced by ones that claim less. Read why they are missing first: a wallet that restores from too small a
    /// filter can take spent notes for its own.
    ///
    /// # Errors
    ///
    /// If the keyset is not held, or lacks more.
    pub fn accept_loss(&self, keyset: &KeysetId, number: u64) -> Result<(), LossError> {
        let monitor = self.site().monitor();
        let held = monitor.with(|status| {
            let mut held = status.held.iter();
            held.find(|loss| loss.keyset == *keyset).cloned()
        });
        match held {
            Some(loss) if loss.values <= number => {
                lock(&monitor.accepted).push(loss);
                self.reread();
                Ok(())
            }
            Some(loss) => Err(LossError::Larger(loss, number)),
            None => Err(LossError::NotHeld(keyset.clone())),
        }
    }

    /// The filters as clients see them, for [`nutfilter_serve::router`], which also has `/health` and `/ready`.
    #[must_use]
    pub fn site(&self) -> &FilterSite {
        &self.0.site
    }

    /// Ends the thread, and waits for at most `patience`. Returns whether it has ended. A thread that has not ended is in the
    /// middle of a query; it only reads, so it can be left running.
    #[must_use]
    pub fn stop(&self, patience: Duration) -> bool {
        let thread = self.0.thread.as_ref();
        thread.is_none_or(|thread| thread.stop(patience))
    }
}

fn prepare(
    source: impl MintSource + 'static,
    options: Options,
) -> Result<(FilterSite, Refresher, Pace), StartError> {
    let table = match &options.directory {
        None => {
            tracing::info!(
                "filters are in memory only, so a backup restored before a start goes unnoticed; set a directory"
            );
            Table::in_memory()
        }
        Some(directory) => Table::in_directory(directory, FILE_MODE, check_published)?,
    };
    for file in table.refused() {
        let (path, reason) = (file.path.display(), &file.reason);
        tracing::warn!(%path, reason, "not serving a file of the output directory");
    }
    let objects = table.objects().len();
    if objects > 0 {
        tracing::info!(objects, "serving what was published before");
    }
    let has_files = !table.is_in_memory();
    let pace = Pace::new(options.interval, options.min_interval, has_files);
    let default = options.interval.saturating_mul(READY_REFRESHES);
    let ready_within = options.ready_within.unwrap_or(default.max(READY_AT_LEAST));
    let mut refresh = options.refresh;
    refresh.restamp = refresh.restamp.min(ready_within / 2);
    let monitor = Monitor::new(Arc::new(table));
    let site = FilterSite::new(
        Arc::clone(&monitor),
        options.interval,
        pace.follows_changes(),
        ready_within,
    );
    Ok((site, Refresher::new(source, monitor, refresh), pace))
}
