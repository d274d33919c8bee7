//! Serves a router on the network: HTTP/1.1, with limits on clients. TLS and HTTP/2 are for the proxy in front.

use core::future::Future;
use core::pin::{Pin, pin};
use std::io;
use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use crate::metrics::METRICS;

/// Maximum length of a request's head, in bytes. A browser sends 2 KB, or 8 KB with large cookies.
const MAX_HEAD: usize = 16 << 10;

/// Maximum number of request headers. A browser sends about 20, and proxies add some.
const MAX_HEADERS: usize = 64;

/// Bytes that the system may hold unsent for a client. By default it takes up to 4 MB at once, and a client that reads
/// 20 kB/s then seems to take nothing for minutes.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MAX_UNSENT: u32 = 128 << 10;

/// Descriptors that are left for everything but connections: databases, listeners, files that are written.
const OTHER_DESCRIPTORS: usize = 64;

/// Descriptors of a connection: its socket and the file that is sent.
const DESCRIPTORS: usize = 2;

/// Pause after a connection could not be accepted for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The default maximum of open connections.
const MAX_CONNECTIONS: usize = 4_096;

/// The number of descriptors that this process may have; `None` if there is no limit.
fn descriptors() -> Option<usize> {
    #[cfg(not(unix))]
    return None;
    #[cfg(unix)]
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current?.try_into().ok()
}

/// The limits on clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of open connections; the default is 4,096, or what the process' limit of
    /// descriptors allows if that is fewer. A thousand wallets need far fewer, and so many idle ones take some tens of
    /// MiB. A further connection is closed at once: its client, perhaps a proxy, can then retry now
    /// or elsewhere, while in the backlog it would wait without notice.
    pub max_connections: usize,
    /// Time limit for the head of a request, from the start of the connection or the end of the answer before.
    pub head: Duration,
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
            max_connections: descriptors()
                .map_or(MAX_CONNECTIONS, |all| all.saturating_sub(OTHER_DESCRIPTORS) / DESCRIPTORS)
                .clamp(1, MAX_CONNECTIONS),
            head: Duration::from_secs(10),
            stalled: Duration::from_secs(300),
            grace: Duration::from_secs(10),
        }
    }
}

/// Binds a socket at `HOST:PORT`, whose connections have the right options for [`serve`].
///
/// # Errors
///
/// If the host is unknown, or if binding fails.
pub async fn listen(address: &str) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    // Accepted sockets inherit these options. Answers are written whole, so waiting for more data has no benefit.
    let socket = socket2::SockRef::from(&listener);
    socket.set_tcp_nodelay(true)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_notsent_lowat(MAX_UNSENT)?;
    Ok(listener)
}

/// Serves HTTP/1.1 until `shutdown` is ready. Then no more connections are accepted, and idle
/// ones are closed. Unfinished requests are cut after the grace period.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    // Counters start at 0.
    LazyLock::force(&METRICS);
    let graceful = GracefulShutdown::new();
    // Dropped, it ends all of them.
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            // The memory of a connection is free once its task is joined.
            Some(_) = connections.join_next() => continue,
            stream = accept(&listener) => stream,
        };
        if connections.len() >= limits.max_connections {
            METRICS.refused.inc();
            tracing::debug!(limits.max_connections, "refused a connection");
            continue;
        }
        let connection = graceful.watch(connection(stream, &router, limits));
        let connection = async move {
            let _open = Open::new();
            if let Err(error) = connection.await {
                ended(&error);
            }
        };
        #[cfg(target_os = "linux")]
        let connection = crate::socket::with_files(connection);
        connections.spawn(connection);
    }
    drop(listener);
    tracing::info!(
        open = graceful.count(),
        "waiting up to {} s for open requests",
        limits.grace.as_secs()
    );
    if timeout(limits.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("closed connections with unfinished requests");
    }
}

/// Accepts the next connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client has gone already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                METRICS.accept_failures.inc();
                tracing::error!(%error, "could not accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn connection(stream: TcpStream, router: &Router, limits: Limits) -> Connection {
    // The body timeouts of tower-http cannot notice that a client takes nothing: their clock runs while hyper asks for the
    // next frame of a body, and a body here is one frame. This clock runs while the socket takes nothing.
    #[cfg(target_os = "linux")]
    let stream = crate::socket::Socket(stream);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.stalled));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router.clone()))
}

#[cfg(target_os = "linux")]
type Socket = crate::socket::Socket;
#[cfg(not(target_os = "linux"))]
type Socket = TcpStream;

type Connection =
    http1::Connection<TokioIo<Pin<Box<TimeoutStream<Socket>>>>, TowerToHyperService<Router>>;

/// Counts an open connection.
struct Open;

impl Open {
    fn new() -> Self {
        METRICS.connections.inc();
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        METRICS.connections.dec();
    }
}

/// Counts a connection that the server ended.
fn ended(error: &hyper::Error) {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    let reason = match cause.map(io::Error::kind) {
        Some(io::ErrorKind::TimedOut) => "slow_reader",
        _ if error.is_timeout() => "idle",
        _ => return tracing::debug!(%error, "connection failed"),
    };
    tracing::debug!(reason, "closed a connection");
    METRICS.cut.with_label_values(&[reason]).inc();
}
