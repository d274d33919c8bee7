//! One connection, from its handshake to its end.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use super::activity::{Activity, Overdue, Verdict};
use super::answer::Answering;
use super::limits::{MAX_ERROR_RESETS, MAX_RESET_STREAMS, ServerOptions};
use super::socket::{Socket, Watched};
use super::tls::Tls;

/// The minimum buffer size of hyper, in bytes.
const LEAST_HEAD: usize = 8 << 10;

/// Time for a peer to react to the notice that its connection is being closed.
const PARTING: Duration = Duration::from_secs(1);

/// Shared by all connections of a server.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    router: Router,
    options: ServerOptions,
    builder: auto::Builder<TokioExecutor>,
    /// True once the server shuts down. The sender is not dropped before that.
    ending: watch::Receiver<bool>,
}

impl Connections {
    pub(super) fn new(
        router: Router,
        options: ServerOptions,
        ending: watch::Receiver<bool>,
    ) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            // The watchdog covers all stages of a connection; see `activity`.
            .header_read_timeout(None)
            .max_buf_size(options.max_head.max(LEAST_HEAD))
            .max_headers(options.max_headers);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(options.max_head).unwrap_or(u32::MAX))
            .max_concurrent_streams(options.max_streams)
            .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
            .max_local_error_reset_streams(MAX_ERROR_RESETS)
            .keep_alive_interval(options.ping_interval)
            .keep_alive_timeout(options.ping_timeout);
        Self {
            router,
            options,
            builder,
            ending,
        }
    }

    /// Serves one connection to its end.
    pub(super) async fn serve(mut self, socket: Socket, tls: Option<Tls>) {
        let _counted = Counted::new();
        let activity = Activity::new();
        let socket = Watched::new(socket, Arc::clone(&activity));
        let Some(tls) = tls else {
            return self.drive(socket, activity).await;
        };
        let limit = self.options.handshake_timeout;
        let handshake = timeout(limit, tls.acceptor().accept(socket));
        let shaken = tokio::select! {
            shaken = handshake => shaken,
            () = end(&mut self.ending) => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.drive(stream, activity).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => cut("handshake"),
        }
    }

    async fn drive<I>(mut self, stream: I, activity: Arc<Activity>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let ServerOptions {
            head_timeout,
            write_window,
            ..
        } = self.options;
        // The notice is sent a little early, so that the connection ends in time.
        let parting = PARTING.min(head_timeout / 10);
        let idle = head_timeout - parting;

        let service = Answering::new(self.router, Arc::clone(&activity));
        let connection = self.builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let mut closing: Option<Closing> = None;
        loop {
            let parted = closing
                .as_ref()
                .and_then(|closing| Some(closing.until.max(activity.parted_at(write_window)?)));
            let wake = match (activity.judge(idle, write_window), parted) {
                (Verdict::SlowReader, _) => {
                    activity.abort();
                    return cut("slow_reader");
                }
                (_, Some(parted)) if parted <= Instant::now() => {
                    return closing.iter().for_each(Closing::note);
                }
                (_, Some(parted)) => parted,
                (Verdict::Idle(overdue), None) => {
                    connection.as_mut().graceful_shutdown();
                    closing = Some(Closing::new(parting, Some(overdue)));
                    continue;
                }
                (Verdict::Until(deadline), None) => deadline,
            };
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection failed");
                    }
                    return closing.iter().for_each(Closing::note);
                }
                () = sleep_until(wake.into()) => {}
                () = end(&mut self.ending), if closing.is_none() => {
                    connection.as_mut().graceful_shutdown();
                    closing = Some(Closing::new(parting, None));
                }
            }
        }
    }
}

/// Ready once the server shuts down.
pub(super) async fn end(ending: &mut watch::Receiver<bool>) {
    // An error would mean that the server is gone.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// A connection whose peer was told that it ends.
#[derive(Clone, Copy, Debug)]
struct Closing {
    /// How long the peer may react. It is extended while an answer is still being sent.
    until: Instant,
    /// The overdue step; `None` if the server shuts down.
    overdue: Option<Overdue>,
}

impl Closing {
    fn new(parting: Duration, overdue: Option<Overdue>) -> Self {
        Self {
            until: Instant::now() + parting,
            overdue,
        }
    }

    fn note(&self) {
        match self.overdue {
            Some(Overdue::Head) => cut("head"),
            Some(Overdue::Next) => cut("idle"),
            None => {}
        }
    }
}

/// Counts a connection that the server ended.
pub(super) fn cut(reason: &'static str) {
    tracing::debug!(reason, "closing a connection");
    metrics::counter!("nutfilter_http_connections_cut_total", "reason" => reason).increment(1);
}

/// Counts an open connection in the gauge until it is dropped.
struct Counted;

impl Counted {
    fn new() -> Self {
        metrics::gauge!("nutfilter_http_connections").increment(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!("nutfilter_http_connections").decrement(1.0);
    }
}
