//! The service itself: from a configuration to the last answer.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nutfilter_mint::http::{self, AdminOptions, Listener, RouterOptions, ServerOptions, Tls};
use nutfilter_mint::{
    DataDirectory, FilterService, InfoService, Kind, Publisher, RefreshTrigger, Refresher,
    ServiceOptions, Status,
};
use tokio::net::TcpListener;

use super::config::{Config, Listen};
use super::metrics::Metrics;
use super::notify::Manager;
use super::signals::{Hangup, stop_signal};
use super::waiting::WaitingSource;
use super::{base_path, stopped_at_once};
use crate::error::CliError;
use crate::log;

/// How long a query under way may keep the process from ending. It only reads.
const REFRESHER_PATIENCE: Duration = Duration::from_secs(5);

/// How often to look whether the first build is done. It takes seconds, and happens once.
const FIRST_BUILD_POLL: Duration = Duration::from_millis(50);

/// Serves until a signal ends it.
pub(super) async fn until_stopped(
    config: &Config,
    source: WaitingSource,
    manager: Arc<Manager>,
) -> Result<(), CliError> {
    // Caught before anything can take long.
    let (stop, at_once, hangup) = (stop_signal(1)?, stop_signal(2)?, Hangup::new()?);
    let stop = {
        let manager = Arc::clone(&manager);
        async move {
            stop.await;
            manager.say("STOPPING=1");
        }
    };
    let options = ServiceOptions::default().serve_keysets(config.serves_keysets());
    let service = FilterService::new(options);
    let tls = tls(config)?;
    let listeners = listen(config, tls.as_ref()).await?;
    for listener in &listeners {
        let path = base_path(&config.base_path);
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(target: log::SERVICE, version, "listening on {listener}{path}");
    }

    // Before anything counts.
    let metrics = match config.metrics {
        true => Some(Metrics::install()?),
        false => None,
    };
    let refresher = refresher(config, source, service.clone())?;
    let options = offered(config, &service, refresher.trigger(), metrics.as_ref())?;
    let router = http::router_with(service.clone(), options);
    let router = http::under(&config.base_path, router).map_err(CliError::failed)?;
    let orderly = async {
        tokio::select! {
            _ = http::serve_with(listeners, router, limits(config), stop) => {}
            never = attend(refresher.trigger(), hangup, tls) => match never {},
            never = report(&service, &manager) => match never {},
            never = keep_up(metrics) => match never {},
        };
        let ending = tokio::task::spawn_blocking(|| refresher.stop(REFRESHER_PATIENCE));
        if !ending.await.map_err(CliError::failed)? {
            tracing::warn!("a query is still being answered, and ends with the process");
        }
        tracing::info!(target: log::SERVICE, "stopped");
        Ok(())
    };
    tokio::select! {
        result = orderly => result,
        () = at_once => Err(stopped_at_once()),
    }
}

/// The thread that reads the database and publishes.
fn refresher(
    config: &Config,
    source: WaitingSource,
    service: FilterService,
) -> Result<Refresher, CliError> {
    let mut publisher = Publisher::new(source, service).restamp_after(config.restamp);
    if let Some(directory) = &config.data_dir {
        let directory = DataDirectory::open(directory).map_err(CliError::failed)?;
        publisher = publisher.with_data_directory(directory);
    }
    let jitter = f64::from(config.jitter_percent) / 100.0;
    Ok(Refresher::start_with_jitter(
        publisher,
        config.refresh,
        jitter,
    )?)
}

/// What is offered beside the filters.
fn offered(
    config: &Config,
    service: &FilterService,
    trigger: RefreshTrigger,
    metrics: Option<&Metrics>,
) -> Result<RouterOptions, CliError> {
    let mut options = RouterOptions::default();
    options.max_age = config.max_age;
    options.ready_within = config.ready_within();
    options.metrics = metrics.cloned().map(|metrics| {
        let service = service.clone();
        Arc::new(move || metrics.text(&service)) as Arc<dyn Fn() -> String + Send + Sync>
    });
    options.admin = config.admin_token.as_ref().map(|token| AdminOptions {
        token: token.reveal().to_owned(),
        refresh: Arc::new(move || {
            tracing::info!(target: log::SERVICE, "an administrator asks: refreshing now");
            trigger.refresh_now();
        }),
    });
    if let Some(mint) = config.mint_api.as_ref().filter(|_| config.serves_info()) {
        let info =
            InfoService::start(mint.reveal()).map_err(|error| CliError::at("mint_api", error))?;
        options.info = Some(info);
    }
    Ok(options)
}

async fn keep_up(metrics: Option<Metrics>) -> Infallible {
    match metrics {
        Some(metrics) => metrics.keep_up().await,
        None => std::future::pending().await,
    }
}

/// Does at every SIGHUP what it is for.
async fn attend(trigger: RefreshTrigger, mut hangup: Hangup, tls: Option<Tls>) -> Infallible {
    loop {
        hangup.next().await;
        tracing::info!(target: log::SERVICE, "SIGHUP: refreshing now");
        trigger.refresh_now();
        match tls.as_ref().map(Tls::reload) {
            None => {}
            Some(Ok(())) => {
                tracing::info!(target: log::SERVICE, "the TLS certificate was read again");
            }
            Some(Err(error)) => {
                tracing::error!(%error, "the TLS certificate cannot be used; the one before it stays");
            }
        }
    }
}

/// Tells the log and the service manager when there is something to serve, and the latter again and again that
/// the process lives.
async fn report(service: &FilterService, manager: &Manager) -> Infallible {
    let alive = async {
        let Some(heartbeat) = manager.heartbeat() else {
            return std::future::pending().await;
        };
        loop {
            manager.say("WATCHDOG=1");
            tokio::time::sleep(heartbeat).await;
        }
    };
    let ready = async {
        let snapshot = loop {
            if let Some(snapshot) = service.snapshot()
                // A filter that cannot be built does not keep the others waiting.
                && (snapshot.is_complete() || service.status() == Status::Degraded)
            {
                break snapshot;
            }
            tokio::time::sleep(FIRST_BUILD_POLL).await;
        };
        tracing::info!(
            target: log::SERVICE,
            keysets = snapshot.keysets().len(),
            spent = snapshot.items(Kind::Spent),
            issued = snapshot.items(Kind::Issued),
            "ready"
        );
        // Its bodies would be kept for as long as this is waited for.
        drop(snapshot);
        manager.say("READY=1\nSTATUS=serving");
        std::future::pending().await
    };
    tokio::select! {
        never = alive => never,
        never = ready => never,
    }
}

/// The certificate and its key, if there are any.
pub(super) fn tls(config: &Config) -> Result<Option<Tls>, CliError> {
    match (&config.tls_certificate, &config.tls_key) {
        (Some(certificate), Some(key)) => {
            Ok(Some(Tls::open(certificate, key).map_err(CliError::failed)?))
        }
        _ => Ok(None),
    }
}

/// Binds every address. TLS is for the network: who reaches a socket of this machine is on it.
async fn listen(config: &Config, tls: Option<&Tls>) -> Result<Vec<Listener>, CliError> {
    let mut listeners = vec![];
    for address in config.addresses() {
        let bound = match &address {
            Listen::Tcp(address) => {
                TcpListener::bind(address)
                    .await
                    .map(Listener::from)
                    .map(|listener| match tls {
                        Some(tls) => listener.with_tls(tls.clone()),
                        None => listener,
                    })
            }
            Listen::Unix(path) => unix(path, config.socket_mode).await,
        };
        listeners.push(bound.map_err(|error| CliError::at(&address, error))?);
    }
    Ok(listeners)
}

#[cfg(unix)]
async fn unix(path: &Path, mode: u32) -> io::Result<Listener> {
    Listener::unix(path, mode).await
}

#[cfg(not(unix))]
async fn unix(_: &Path, _: u32) -> io::Result<Listener> {
    Err(io::Error::other("there are no Unix sockets on this system"))
}

fn limits(config: &Config) -> ServerOptions {
    let mut options = ServerOptions::default();
    options.max_connections = config.max_connections;
    options.head_timeout = config.header_timeout;
    options.handshake_timeout = config.header_timeout;
    options.write_least = config
        .min_send_rate
        .saturating_mul(options.write_window.as_secs());
    options.shutdown_grace = config.shutdown_grace;
    options
}
