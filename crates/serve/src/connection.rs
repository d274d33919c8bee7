//! One connection: its place among the others, its progress, and its end.
//!
//! axum-server limits the handshake and the time to the first request. The rules here need both sides of a connection:
//! it may be idle between requests for a while, and it ends if its client takes nothing of the answers that it
//! requested. A body is handed over in pieces, and the next piece is only taken once the client has taken the one
//! before, up to the buffers of a connection. That holds for HTTP/1 and, by its windows, for HTTP/2. So every piece is
//! progress, and nothing else is: HTTP/2 pings, for example, are not.

use core::convert::Infallible;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::Response;
use axum_server::ConnectionShutdown;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::{sleep, sleep_until};
use tower::{Service, ServiceExt as _};

use crate::server::Limits;

/// Maximum number of bytes handed to a connection at once. A body of 3.7 MB takes 1.20 ms of CPU in pieces of 64 KiB, 0.84
/// ms in these, 0.76 ms in pieces of 1 MiB. The client must take one within the limits of a connection.
const PIECE: usize = 256 << 10;

/// Interval of checks while a handler runs. Handlers have no time limit here.
const HANDLER_CHECK: Duration = Duration::from_secs(1);

/// Makes the service of each connection, and refuses connections for which there is no place.
#[derive(Clone)]
pub(crate) struct MakeConnection {
    router: Router,
    limits: Limits,
    places: Arc<Semaphore>,
}

impl MakeConnection {
    pub(crate) fn new(router: Router, limits: Limits) -> Self {
        let places = Arc::new(Semaphore::new(limits.max_connections));
        Self {
            router,
            limits,
            places,
        }
    }
}

impl<A> Service<A> for MakeConnection {
    type Response = Connection;
    type Error = TryAcquireError;
    type Future = core::future::Ready<Result<Connection, TryAcquireError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TryAcquireError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: A) -> Self::Future {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.inspect_err(|_| {
            metrics::counter!("nutfilter_http_connections_refused_total").increment(1);
        });
        core::future::ready(place.map(|place| {
            metrics::gauge!("nutfilter_http_connections").increment(1.0);
            let state = State {
                requests: 0,
                open: 0,
                sending: 0,
                progress: Instant::now(),
            };
            Connection {
                router: self.router.clone(),
                shared: Arc::new(Shared {
                    since: Instant::now(),
                    limits: self.limits,
                    state: Mutex::new(state),
                    _place: place,
                }),
            }
        }))
    }
}

/// Answers the requests of one connection.
#[derive(Clone)]
pub(crate) struct Connection {
    router: Router,
    shared: Arc<Shared>,
}

struct Shared {
    since: Instant,
    limits: Limits,
    state: Mutex<State>,
    _place: OwnedSemaphorePermit,
}

struct State {
    /// All requests so far.
    requests: u64,
    /// Requests whose answers are not fully handed over yet.
    open: usize,
    /// Open requests that have an answer.
    sending: usize,
    /// When a piece was last taken, or a request began or ended.
    progress: Instant,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Plain counters: a panic cannot leave them half updated.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        metrics::gauge!("nutfilter_http_connections").decrement(1.0);
        // Ended by the server before its first request, which had not come whole.
        if self.state().requests == 0 && self.since.elapsed() >= self.limits.first_request {
            cut("head");
        }
    }
}

impl<B> Service<Request<B>> for Connection
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response<Pieces>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Pieces>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let open = Open::new(&self.shared);
        if let Some(control) = request.extensions().get::<ConnectionShutdown>()
            && self.shared.state().requests == 1
        {
            tokio::spawn(watch(Arc::downgrade(&self.shared), control.clone()));
        }
        let answering = self.router.clone().oneshot(request.map(Body::new));
        Box::pin(async move { Ok(answering.await?.map(|body| open.send(body))) })
    }
}

/// Ends a connection that is idle, or whose client does not read.
async fn watch(connection: Weak<Shared>, control: ConnectionShutdown) {
    let mut parting = false;
    while let Some(shared) = connection.upgrade() {
        let limits = shared.limits;
        let (deadline, is_idle) = {
            let state = shared.state();
            match (state.open, state.sending) {
                (0, _) => (state.progress + limits.idle, true),
                (_, 0) => (Instant::now() + HANDLER_CHECK, false),
                _ => (state.progress + limits.stalled, false),
            }
        };
        drop(shared);
        if Instant::now() < deadline {
            parting = false;
            // The state may change to one with an earlier deadline.
            let next = deadline.min(Instant::now() + limits.idle);
            sleep_until(next.into()).await;
        } else if !is_idle {
            cut("slow_reader");
            return control.shutdown();
        } else if parting {
            // It began a request and does not end it, or does not close its side of HTTP/2.
            cut("idle");
            return control.shutdown();
        } else {
            parting = true;
            control.graceful_shutdown();
            sleep(limits.idle / 10).await;
        }
    }
}

/// Counts a connection that the server ended.
fn cut(reason: &'static str) {
    tracing::debug!(reason, "closing a connection");
    metrics::counter!("nutfilter_http_connections_cut_total", "reason" => reason).increment(1);
}

/// An open request; it ends when this value is dropped.
struct Open {
    shared: Arc<Shared>,
    sending: bool,
    began: Instant,
}

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        let mut state = shared.state();
        state.requests += 1;
        state.open += 1;
        state.progress = Instant::now();
        drop(state);
        Self {
            shared: Arc::clone(shared),
            sending: false,
            began: Instant::now(),
        }
    }

    fn send(mut self, body: Body) -> Pieces {
        let mut state = self.shared.state();
        state.sending += 1;
        state.progress = Instant::now();
        drop(state);
        self.sending = true;
        Pieces {
            body,
            rest: Bytes::new(),
            open: self,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.open -= 1;
        state.sending -= usize::from(self.sending);
        state.progress = Instant::now();
        metrics::histogram!("nutfilter_http_request_seconds").record(self.began.elapsed());
    }
}

/// A body that is handed over in pieces. Its request stays open until this is dropped.
pub(crate) struct Pieces {
    body: Body,
    /// The rest of a frame that was too long.
    rest: Bytes,
    open: Open,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return Poll::Ready(other),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        this.open.shared.state().progress = Instant::now();
        metrics::counter!("nutfilter_http_response_bytes_total").increment(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(rest));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
