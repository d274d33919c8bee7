//! The service itself: from a configuration to the last answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use nutfilter_mint::http::{self, AdminOptions, RouterOptions};
use nutfilter_mint::{
    DataDirectory, FilterService, InfoService, Kind, Publisher, RefreshTrigger, Refresher,
    ServiceOptions,
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
    let listener = listen(config).await?;
    let base = base_url(listener.local_addr()?, &config.base_path);
    tracing::info!(target: log::SERVICE, version = env!("CARGO_PKG_VERSION"), "listening on {base}");

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
        let served = tokio::select! {
            served = http::serve(listener, router, stop) => served,
            never = attend(refresher.trigger(), hangup) => match never {},
            never = report(&service, &manager) => match never {},
            never = keep_up(metrics) => match never {},
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
