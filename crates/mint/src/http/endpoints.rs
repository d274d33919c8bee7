//! The handlers. Each one turns a request into a single lookup of a finished body.

use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE,
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::error::{CashuError, refusal};
use super::guard::Route;
use super::negotiate::media;
use super::options::RouterOptions;
use super::representation::Form;
use super::{Json, NO_STORE, representation};
use crate::service::FilterService;
use crate::state_filters::StateFilters;
use crate::{Event, KeysetId, NoteKind};

/// The state of the handlers.
#[derive(Clone, Debug)]
pub(super) struct Endpoints(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    service: FilterService,
    options: RouterOptions,
    cache_control: HeaderValue,
}

impl Endpoints {
    pub(super) fn new(service: FilterService, options: RouterOptions) -> Self {
        let cache_control = format!("public, max-age={}", options.max_age.as_secs());
        // A number and ASCII letters are always a valid header value.
        let cache_control = HeaderValue::try_from(cache_control).unwrap_or(NO_STORE);
        Self(Arc::new(Shared {
            service,
            options,
            cache_control,
        }))
    }

    /// The tag of a file of state filters.
    pub(super) fn tag(
        &self,
        file: &nutfilter_sequence::SealedFile,
    ) -> Result<String, nutfilter_sequence::Error> {
        self.0.service.sequences().tag(file)
    }

    /// What is served of a kind of event.
    pub(super) fn served(&self, event: Event) -> Result<Arc<StateFilters>, CashuError> {
        let served = self.0.service.sequences().get(event);
        served.ok_or(CashuError::UnknownKind)
    }

    /// For what changes at the next refresh.
    pub(super) fn cache_control(&self) -> &HeaderValue {
        &self.0.cache_control
    }

    pub(super) fn options(&self) -> &RouterOptions {
        &self.0.options
    }
}

/// Suffix of an id in the path of the raw filter. No id contains a dot.
const RAW: &str = ".raw";

/// The decoded id; an error if it is not UTF-8.
type Id = Result<Path<String>, PathRejection>;

pub(super) async fn spent(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
    id: Id,
) -> impl IntoResponse {
    let answer = filter(&endpoints, NoteKind::Spent, &method, &headers, id);
    (Extension(Route("filter_spent")), answer)
}

pub(super) async fn issued(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
    id: Id,
) -> impl IntoResponse {
    let answer = filter(&endpoints, NoteKind::Issued, &method, &headers, id);
    (Extension(Route("filter_issued")), answer)
}

fn filter(
    endpoints: &Endpoints,
    kind: NoteKind,
    method: &Method,
    headers: &HeaderMap,
    id: Id,
) -> Result<Response, CashuError> {
    let Path(id) = id.map_err(|_| CashuError::InvalidKeysetId)?;
    let (id, wanted) = match id.strip_suffix(RAW) {
        Some(id) => (id, Form::Raw),
        None => (id.as_str(), Form::Negotiated(media(headers))),
    };
    let id = KeysetId::parse(id).map_err(|_| CashuError::InvalidKeysetId)?;
    let Shared {
        service,
        cache_control,
        ..
    } = &*endpoints.0;
    let snapshot = service.snapshot().ok_or(CashuError::NotBuilt)?;
    let keyset = snapshot.keyset(&id).ok_or(CashuError::UnknownKeyset)?;
    let filter = keyset.filter(kind).ok_or(CashuError::NotBuilt)?;
    Ok(representation::filter(
        method,
        headers,
        filter,
        wanted,
        cache_control,
    ))
}

pub(super) async fn keysets(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
) -> impl IntoResponse {
    let Shared {
        service,
        cache_control,
        ..
    } = &*endpoints.0;
    let answer = service
        .snapshot()
        .ok_or(CashuError::NotBuilt)
        .map(|snapshot| {
            let body = snapshot.keysets_body();
            let refreshed = Some(snapshot.refreshed_at());
            representation::json(&method, &headers, body, refreshed, cache_control)
        });
    (Extension(Route("keysets")), answer)
}

pub(super) async fn info(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
) -> impl IntoResponse {
    let current = endpoints
        .options()
        .info
        .as_ref()
        .and_then(|info| info.body());
    let answer = current.ok_or(CashuError::NoInfo).map(|body| {
        let cache_control = &endpoints.0.cache_control;
        representation::json(&method, &headers, &body, None, cache_control)
    });
    (Extension(Route("info")), answer)
}

/// Answers with the service's status. The HTTP status is always 200, because a process that answers is alive.
pub(super) async fn health(State(endpoints): State<Endpoints>) -> impl IntoResponse {
    let service = &endpoints.0.service;
    let snapshot = service.snapshot();
    let items = |kind| snapshot.as_ref().map_or(0, |snapshot| snapshot.items(kind));
    let health = serde_json::json!({
        "status": service.status().as_str(),
        "ready": service.ready(endpoints.options().ready_within).is_ok(),
        "version": env!("CARGO_PKG_VERSION"),
        "keysets": snapshot.as_ref().map_or(0, |snapshot| snapshot.keysets().len()),
        "last_refresh": snapshot.as_ref().map(|snapshot| snapshot.refreshed_at()),
        "seconds_since_good": service.since_good().map(|age| age.as_secs()),
        "spent": items(NoteKind::Spent),
        "issued": items(NoteKind::Issued),
    });
    let headers = [(CACHE_CONTROL, NO_STORE)];
    (
        Extension(Route("health")),
        headers,
        Json(health.to_string().into()),
    )
}

/// Tells whether requests should be sent here.
pub(super) async fn ready(State(endpoints): State<Endpoints>) -> impl IntoResponse {
    let within = endpoints.options().ready_within;
    let answer = match endpoints.0.service.ready(within) {
        Ok(()) => {
            let ready = Json(r#"{"ready":true}"#.into());
            ([(CACHE_CONTROL, NO_STORE)], ready).into_response()
        }
        Err(reason) => refusal(StatusCode::SERVICE_UNAVAILABLE, &reason.to_string(), 0),
    };
    (Extension(Route("ready")), answer)
}

/// The metrics as Prometheus text.
pub(super) async fn metrics(State(endpoints): State<Endpoints>) -> impl IntoResponse {
    let render = endpoints.options().metrics.as_ref();
    let answer = render.ok_or(CashuError::NotFound).map(|render| {
        let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        ([(CONTENT_TYPE, plain), (CACHE_CONTROL, NO_STORE)], render())
    });
    (Extension(Route("metrics")), answer)
}

/// Requests a refresh, if the token is right.
pub(super) async fn refresh(
    State(endpoints): State<Endpoints>,
    headers: HeaderMap,
) -> impl IntoResponse {
    let admin = endpoints.options().admin.as_ref();
    let answer = admin.ok_or(CashuError::NotFound).and_then(|admin| {
        if !is_token(&headers, &admin.token) {
            return Err(CashuError::Unauthorized);
        }
        (admin.refresh)();
        let accepted = Json(r#"{"refresh":"requested"}"#.into());
        Ok((StatusCode::ACCEPTED, [(CACHE_CONTROL, NO_STORE)], accepted))
    });
    (Extension(Route("admin_refresh")), answer)
}

/// Whether a request bears the token. It compares all bytes of two hashes, so that the time reveals neither the
/// correct part of a guess nor the length of the token.
fn is_token(headers: &HeaderMap, token: &str) -> bool {
    const SCHEME: &[u8] = b"Bearer ";
    let sent = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let Some((scheme, sent)) = sent.and_then(|sent| sent.split_at_checked(SCHEME.len())) else {
        return false;
    };
    let (sent, known) = (Sha256::digest(sent), Sha256::digest(token));
    let difference = sent.iter().zip(known).fold(0, |all, (a, b)| all | (a ^ b));
    let same = core::hint::black_box(difference) == 0;
    same && scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty()
}

/// Answers CORS preflight requests, which browsers send when a wallet sets its own headers.
pub(super) async fn preflight() -> impl IntoResponse {
    let allowed = [
        (
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("GET, HEAD, OPTIONS"),
        ),
        // Headers are listed by name for browsers that take `*` for a header name.
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static(
                "Accept, Accept-Encoding, Cache-Control, Content-Type, If-Modified-Since, \
                 If-None-Match, If-Range, Range, *",
            ),
        ),
        // One day, the maximum of all browsers.
        (ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400")),
    ];
    (
        StatusCode::NO_CONTENT,
        Extension(Route("preflight")),
        allowed,
    )
}

pub(super) async fn not_found() -> CashuError {
    CashuError::NotFound
}

pub(super) async fn method_not_allowed() -> CashuError {
    CashuError::MethodNotAllowed
}
