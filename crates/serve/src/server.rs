//! Serves a router on the network.

use core::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum_server::accept::Accept;
use axum_server::service::SendService;
use axum_server::{Address, Control, Handle, Server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::connection::{Connection, MakeConnection};
use crate::listener::Listener;

/// Maximum length of a request's head, in bytes. A browser sends 2 KB, or 8 KB with large cookies.
const MAX_HEAD: usize = 16 << 10;

/// Maximum number of request headers. A browser sends about 20, and proxies add some.
const MAX_HEADERS: usize = 64;

/// Maximum number of open requests on an HTTP/2 connection: the minimum that the protocol recommends.
const MAX_STREAMS: u32 = 100;

/// Bytes of a stream that HTTP/2 holds for its client in addition to a piece.
const MAX_SEND_BUFFER: usize = 64 << 10;

/// Interval of HTTP/2 pings, and the time limit for their answers.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum time between two log lines about connections that could not be accepted.
const ACCEPT_WARNING: Duration = Duration::from_secs(10);

/// The limits on clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of open connections, over all listeners. A thousand wallets need far fewer; this many idle ones
    /// take some tens of MiB. A further connection is closed at once: its client, perhaps a proxy, can then retry now
    /// or elsewhere, while in the backlog it would wait without notice.
    pub max_connections: usize,
    /// Time limit for a TLS handshake, and for the head of a connection's first request.
    pub first_request: Duration,
    /// Time limit for the head of each later request, from the end of the answer before.
    pub idle: Duration,
    /// Time in which a client must take some of an answer. A slow reader is honest; one that takes nothing for so long
    /// is gone. A proxy that does not buffer takes nothing while its own system holds up to 4 MB for a client: at 20
    /// kB/s for minutes.
    pub stalled: Duration,
    /// Time for open requests to finish after the shutdown signal. Service managers kill after some tens of seconds.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 4_096,
            first_request: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            stalled: Duration::from_secs(300),
            grace: Duration::from_secs(10),
        }
    }
}

/// Serves HTTP/1.1 and HTTP/2 on several listeners until `shutdown` is ready. Then no more connections are accepted,
/// and every client is told that its connection ends. Unfinished requests are cut after the grace period.
pub async fn serve(
    listeners: Vec<Listener>,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    let control = Control::new();
    let connections = MakeConnection::new(router, limits);
    let mut servers = JoinSet::new();
    for listener in listeners {
        servers.spawn(listener.serve(control.clone(), connections.clone(), limits));
    }
    shutdown.await;
    tracing::info!(
        open = control.connection_count(),
        "waiting up to {} s for open requests",
        limits.grace.as_secs()
    );
    let since = Instant::now();
    control.graceful_shutdown(Some(limits.grace));
    while let Some(ended) = servers.join_next().await {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "listener failed"),
            Err(error) => tracing::error!(%error, "listener failed"),
        }
    }
    if since.elapsed() >= limits.grace {
        tracing::warn!("closed connections with unfinished requests");
    }
}

/// Serves one listener.
pub(crate) async fn run<A, Acceptor>(
    mut server: Server<A, Acceptor>,
    control: Control,
    connections: MakeConnection,
    limits: Limits,
) -> io::Result<()>
where
    A: Address + Send + Sync + 'static,
    A::Stream: Send,
    Acceptor: Accept<A::Stream, Connection> + Clone + Send + Sync + 'static,
    Acceptor::Stream: AsyncRead + AsyncWrite + Unpin + Send,
    Acceptor::Service: SendService<Request<hyper::body::Incoming>> + Send,
    Acceptor::Future: Send,
{
    let builder = server.http_builder();
    builder
        .http1()
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS);
    builder
        .http2()
        .max_header_list_size(MAX_HEAD as u32)
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let warned = Arc::new(Mutex::new(None::<Instant>));
    server
        .handle(Handle::with_control(control))
        .first_request_timeout(limits.first_request)
        .accept_error_handler(move |peer, error| {
            if peer.is_some() {
                return tracing::debug!(%error, "connection refused or failed");
            }
            metrics::counter!("nutfilter_http_accept_failures_total").increment(1);
            let mut warned = warned.lock().unwrap_or_else(PoisonError::into_inner);
            if warned.is_none_or(|at| at.elapsed() >= ACCEPT_WARNING) {
                tracing::error!(%error, "could not accept a connection");
                *warned = Some(Instant::now());
            }
        })
        .serve(connections)
        .await
}
