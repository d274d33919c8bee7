//! Passes requests to the router and tracks their answers.

use core::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::{Request, Response, Version};

use super::activity::{Activity, Open};
use super::error::CashuError;
use super::guard;

/// Maximum number of bytes handed to a connection at once. A body is one piece of memory. An HTTP/2 connection
/// would queue it whole and count it as sent.
const PIECE: usize = 256 << 10;

/// Answers the requests of one connection.
#[derive(Clone, Debug)]
pub(super) struct Answering {
    router: Router,
    activity: Arc<Activity>,
}

impl Answering {
    pub(super) fn new(router: Router, activity: Arc<Activity>) -> Self {
        Self { router, activity }
    }
}

impl hyper::service::Service<Request<Incoming>> for Answering {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let began = Instant::now();
        let open = Open::new(&self.activity);
        let mut router = self.router.clone();
        Box::pin(async move {
            if !has_host(&request) {
                let response = CashuError::InvalidHost.into_response();
                guard::count("other", response.status());
                return Ok(answer(response, open, began));
            }
            let answering = async { tower_service::Service::call(&mut router, request).await };
            // A panicking handler has not answered. The connection can still be used.
            let response = match AssertUnwindSafe(answering).catch_unwind().await {
                Ok(Ok(response)) => response,
                Err(_) => {
                    tracing::error!("a handler panicked");
                    CashuError::Internal.into_response()
                }
            };
            Ok(answer(response, open, began))
        })
    }
}

/// HTTP/1.1 requires exactly one `Host`, so that proxies and servers agree on the target of a request.
fn has_host(request: &Request<Incoming>) -> bool {
    request.version() != Version::HTTP_11 || request.headers().get_all(HOST).iter().count() == 1
}

fn answer(response: Response<Body>, mut open: Open, began: Instant) -> Response<Answer> {
    open.send();
    response.map(|body| Answer {
        body,
        rest: Bytes::new(),
        began,
        _open: open,
    })
}

/// A body that is handed over in pieces. Its request stays open until this is dropped.
#[derive(Debug)]
pub(super) struct Answer {
    body: Body,
    /// The rest of a frame that was too long.
    rest: Bytes,
    began: Instant,
    _open: Open,
}

impl HttpBody for Answer {
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

impl Drop for Answer {
    fn drop(&mut self) {
        metrics::histogram!("nutfilter_http_request_seconds").record(self.began.elapsed());
    }
}
