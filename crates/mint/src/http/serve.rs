//! Serves a router on the network.

use core::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::connection::{Connections, cut, end};
use super::limits::ServerOptions;
use super::listener::Listener;

/// Pause when the system has no descriptor or memory for another connection. Existing connections end within
/// seconds; new ones wait in the backlog meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Minimum time between two log lines about this.
const ACCEPT_WARNING: Duration = Duration::from_secs(10);

/// How a server ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// Number of connections with unfinished requests at the end of the grace period.
    pub cut: usize,
}

/// Serves until `shutdown` is ready, then lets open requests finish within 10 s.
///
/// # Errors
///
/// None at present: after an error, the listener accepts again.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listeners = vec![listener.into()];
    serve_with(listeners, router, ServerOptions::default(), shutdown).await;
    Ok(())
}

/// Serves HTTP/1.1 and HTTP/2 on several listeners until `shutdown` is ready. Then no more connections are
/// accepted, and every peer is told that its connection ends. Unfinished requests are cut after the grace period.
///
/// The limits of `options` apply before and after a handler. A handler that reads a body must set its own limits;
/// the handlers of this crate refuse bodies.
pub async fn serve_with(
    listeners: Vec<Listener>,
    router: Router,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Served {
    let (signal, ending) = watch::channel(false);
    let connections = Connections::new(router, options, ending.clone());
    let places = Arc::new(Semaphore::new(options.max_connections));
    let mut servers = JoinSet::new();
    for listener in listeners {
        servers.spawn(accept_all(
            listener,
            connections.clone(),
            Arc::clone(&places),
            ending.clone(),
            options.shutdown_grace,
        ));
    }
    tokio::pin!(shutdown);
    shutdown.await;
    let open = options.max_connections - places.available_permits();
    tracing::info!(
        open,
        "waiting up to {} s for open requests",
        options.shutdown_grace.as_secs()
    );
    let _ = signal.send(true);
    let mut served = Served::default();
    while let Some(ended) = servers.join_next().await {
        match ended {
            Ok(cut) => served.cut += cut,
            Err(error) => tracing::error!(%error, "listener failed"),
        }
    }
    if served.cut > 0 {
        tracing::warn!(
            connections = served.cut,
            "closing connections with unfinished requests"
        );
    }
    served
}

/// Accepts connections until shutdown, then waits for them. Returns how many had to be cut.
async fn accept_all(
    listener: Listener,
    connections: Connections,
    places: Arc<Semaphore>,
    mut ending: watch::Receiver<bool>,
    grace: Duration,
) -> usize {
    let mut open = JoinSet::new();
    let mut warned: Option<Instant> = None;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(socket) => {
                    let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                        metrics::counter!("nutfilter_http_connections_refused_total").increment(1);
                        continue;
                    };
                    let (connections, tls) = (connections.clone(), listener.tls());
                    open.spawn(async move {
                        connections.serve(socket, tls).await;
                        drop(place);
                    });
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    metrics::counter!("nutfilter_http_accept_failures_total").increment(1);
                    if warned.is_none_or(|at| at.elapsed() >= ACCEPT_WARNING) {
                        tracing::error!(%error, "could not accept a connection");
                        warned = Some(Instant::now());
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = open.join_next(), if !open.is_empty() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "connection task failed");
                }
            }
            () = end(&mut ending) => break,
        }
    }
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    if timeout(grace, all).await.is_ok() {
        return 0;
    }
    let left = open.len();
    for _ in 0..left {
        cut("shutdown");
    }
    open.shutdown().await;
    left
}

/// Whether the error only concerns the connection that was about to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
