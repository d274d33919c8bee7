//! Runs the service, from the configuration to the last response.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nutfilter_mint::{
    DataDirectory, FilterService, InfoFetcher, NoteKind, RefreshThread, Refresher,
    RefresherOptions, Status,
};
use nutfilter_serve::{Limits, Listener, RouterOptions, Tls};

use super::metrics::Metrics;
use super::notify::Manager;
use super::options::{JITTER, Listen, Options};
use super::signals::{Hangup, stop_signal};
use super::waiting::WaitingSource;
use super::{base_path, stopped_at_once};
use crate::error::CliError;
use crate::log;

/// How long the exit waits for a running query. Ending it early is safe, as it only reads.
pub(super) const REFRESHER_PATIENCE: Duration = Duration::from_secs(5);

/// A proxy needs the group of a Unix socket.
#[cfg(unix)]
const SOCKET_MODE: u32 = 0o660;

/// How often to check whether the first build has finished.
const FIRST_BUILD_POLL: Duration = Duration::from_millis(50);

/// Serves until a signal stops it.
pub(super) async fn until_stopped(
    options: &Options,
    source: WaitingSource,
    manager: Arc<Manager>,
) -> Result<(), CliError> {
    // Catch signals before any slow step.
    let (stop, at_once, hangup) = (stop_signal(1)?, stop_signal(2)?, Hangup::new()?);
    let stop = {
        let manager = Arc::clone(&manager);
        async move {
            stop.await;
            manager.send("STOPPING=1");
        }
    };
    let service = match options.mint_api {
        None => FilterService::default(),
        Some(_) => FilterService::without_keysets(),
    };
    let tls = tls(options).await?;
    let listeners = listen(options, tls.as_ref()).await?;
    for listener in &listeners {
        let path = base_path(&options.base_path);
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(target: log::SERVICE, version, "listening on {listener}{path}");
    }

    // Install the recorder before anything uses it.
    let metrics = match options.metrics {
        true => Some(Metrics::install()?),
        false => None,
    };
    tls.iter().for_each(super::metrics::certificate);
    let refresher = refresher(options, source, service.clone())?;
    let thread = start(options, refresher)?;
    let info = info(options, &service)?;
    let _info = info
        .map(|info| info.start(InfoFetcher::INTERVAL))
        .transpose()?;
    let endpoints = endpoints(options, &service, metrics.as_ref());
    let router = nutfilter_serve::router_with(service.clone(), endpoints);
    let router = nutfilter_serve::under(&options.base_path, router);
    let router = router.map_err(CliError::failed)?;
    let orderly = async {
        tokio::select! {
            () = nutfilter_serve::serve(listeners, router, limits(options), stop) => {}
            never = handle_hangups(&thread, hangup, tls) => match never {},
            never = report(&service, &manager) => match never {},
            never = keep_up(metrics) => match never {},
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

/// Starts the thread that reads the database and renews what is served.
pub(super) fn start(options: &Options, refresher: Refresher) -> Result<RefreshThread, CliError> {
    Ok(RefreshThread::start(refresher, options.refresh, JITTER)?)
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

/// Fetches the mint's info, if its URL is configured. The filters are announced in it.
pub(super) fn info(
    options: &Options,
    service: &FilterService,
) -> Result<Option<InfoFetcher>, CliError> {
    let Some(mint) = &options.mint_api else {
        return Ok(None);
    };
    let fetcher = InfoFetcher::new(mint.reveal(), service, &options.info_key);
    Ok(Some(
        fetcher.map_err(|error| CliError::at("mint_api", error))?,
    ))
}

/// The endpoints in addition to the filters.
fn endpoints(
    options: &Options,
    service: &FilterService,
    metrics: Option<&Metrics>,
) -> RouterOptions {
    let mut endpoints = RouterOptions::default();
    endpoints.max_age = options.refresh;
    endpoints.ready_within = options.ready_max_age();
    endpoints.metrics = metrics.cloned().map(|metrics| {
        let service = service.clone();
        Arc::new(move || metrics.text(&service)) as Arc<dyn Fn() -> String + Send + Sync>
    });
    endpoints
}

async fn keep_up(metrics: Option<Metrics>) -> Infallible {
    match metrics {
        Some(metrics) => metrics.keep_up().await,
        None => std::future::pending().await,
    }
}

/// On each SIGHUP, refreshes the filters and reloads the TLS certificate.
async fn handle_hangups(
    thread: &RefreshThread,
    mut hangup: Hangup,
    tls: Option<Tls>,
) -> Infallible {
    loop {
        hangup.next().await;
        tracing::info!(target: log::SERVICE, "SIGHUP: refreshing now");
        thread.refresh_now();
        let Some(tls) = &tls else { continue };
        match tls.reload().await {
            Ok(()) => {
                super::metrics::certificate(tls);
                tracing::info!(target: log::SERVICE, "TLS certificate reloaded");
            }
            Err(error) => {
                tracing::error!(%error, "TLS reload failed; keeping the previous certificate");
            }
        }
    }
}

/// Reports readiness to the log and the service manager, and sends heartbeats to the manager.
async fn report(service: &FilterService, manager: &Manager) -> Infallible {
    let alive = async {
        let Some(heartbeat) = manager.heartbeat() else {
            return std::future::pending().await;
        };
        loop {
            manager.send("WATCHDOG=1");
            tokio::time::sleep(heartbeat).await;
        }
    };
    let ready = async {
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
        manager.send("READY=1\nSTATUS=serving");
        std::future::pending().await
    };
    tokio::select! {
        never = alive => never,
        never = ready => never,
    }
}

/// The TLS certificate and key, if configured.
pub(super) async fn tls(options: &Options) -> Result<Option<Tls>, CliError> {
    match (&options.tls_certificate, &options.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(Tls::open(certificate, key).await?)),
        _ => Ok(None),
    }
}

/// Binds every address. TLS is for the network only, not for local sockets.
pub(super) async fn listen(
    options: &Options,
    tls: Option<&Tls>,
) -> Result<Vec<Listener>, CliError> {
    let mut listeners = vec![];
    for address in &options.listen {
        let bound = match address {
            Listen::Tcp(address) => Listener::tcp(address).await.map(|listener| match tls {
                Some(tls) => listener.with_tls(tls.clone()),
                None => listener,
            }),
            Listen::Unix(path) => unix(path).await,
        };
        listeners
            .push(bound.map_err(|error| CliError::at(format_args!("listen: {address}"), error))?);
    }
    Ok(listeners)
}

#[cfg(unix)]
async fn unix(path: &Path) -> io::Result<Listener> {
    Listener::unix(path, SOCKET_MODE).await
}

#[cfg(not(unix))]
async fn unix(_: &Path) -> io::Result<Listener> {
    Err(io::Error::other(
        "Unix sockets are not supported on this system",
    ))
}

fn limits(options: &Options) -> Limits {
    let mut limits = Limits::default();
    limits.max_connections = options.max_connections;
    limits
}
