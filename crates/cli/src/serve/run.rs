//! The service itself: from a configuration to the last answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use nutfilter_mint::{
    DataDirectory, FilterService, Kind, Publisher, RefreshTrigger, Refresher, ServiceOptions, http,
};
use tokio::net::TcpListener;

use super::config::Config;
use super::metrics::Metrics;
use super::notify::Manager;
use super::signals::{Hangup, stop_signal};
use super::waiting::WaitingSource;
use super::{base_url, stopped_at_once};
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
    let router =
        http::under(&config.base_path, http::router(service.clone())).map_err(CliError::failed)?;
    let listener = listen(config).await?;
    let base = base_url(listener.local_addr()?, &config.base_path);
    tracing::info!(target: log::SERVICE, version = env!("CARGO_PKG_VERSION"), "listening on {base}");

    let mut publisher = Publisher::new(source, service.clone()).restamp_after(config.restamp);
    if let Some(directory) = &config.data_dir {
        publisher = publisher
            .with_data_directory(DataDirectory::open(directory).map_err(CliError::failed)?);
    }
    let jitter = f64::from(config.jitter_percent) / 100.0;
    let refresher = Refresher::start_with_jitter(publisher, config.refresh, jitter)?;
    let orderly = async {
        let served = tokio::select! {
            served = http::serve(listener, router, stop) => served,
            never = attend(refresher.trigger(), hangup) => match never {},
            never = report(&service, &manager) => match never {},
        };
        let ending = tokio::task::spawn_blocking(|| refresher.stop(REFRESHER_PATIENCE));
        if !ending.await.map_err(CliError::failed)? {
            tracing::warn!("a query is still being answered, and ends with the process");
        }
        tracing::info!(target: log::SERVICE, "stopped");
        Ok(served?)
    };
    tokio::select! {
        result = orderly => result,
        () = at_once => Err(stopped_at_once()),
    }
}

/// Does at every SIGHUP what it is for.
async fn attend(trigger: RefreshTrigger, mut hangup: Hangup) -> Infallible {
    loop {
        hangup.next().await;
        tracing::info!(target: log::SERVICE, "SIGHUP: refreshing now");
        trigger.refresh_now();
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
            if let Some(snapshot) = service.snapshot() {
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
        manager.say("READY=1\nSTATUS=serving");
        std::future::pending().await
    };
    tokio::select! {
        never = alive => never,
        never = ready => never,
    }
}

async fn listen(config: &Config) -> Result<TcpListener, CliError> {
    let address = config.addresses()[0].to_string();
    let bound = TcpListener::bind(&address).await;
    bound.map_err(|error| CliError::at(&address, error))
}
