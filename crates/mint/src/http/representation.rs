//! Builds the answer from finished bodies and request headers: which form, and all of it, a part, or nothing.

use axum::body::Body as ResponseBody;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    LAST_MODIFIED, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::conditional::{Part, http_date, is_unmodified, known_tag, part};
use super::error::CashuError;
use super::negotiate::{Coding, JSON, Media, OCTET_STREAM, coding};
use crate::body::Body;
use crate::published::PublishedFilter;
use crate::state_filters::Compressible;

/// The request headers that the body depends on, for caches.
const NEGOTIATED: HeaderValue = HeaderValue::from_static("Accept, Accept-Encoding");

/// The names of the headers with a raw filter's parameters. Lower case, as `HeaderName` requires.
pub(super) const FILTER_HEADERS: [HeaderName; 4] = [
    HeaderName::from_static("nutfilter-n"),
    HeaderName::from_static("nutfilter-p"),
    HeaderName::from_static("nutfilter-m"),
    HeaderName::from_static("nutfilter-timestamp"),
];

/// For raw filters at a URL that also gives JSON, because some caches ignore `Vary: Accept`.
const PRIVATE: HeaderValue = HeaderValue::from_static("private");

/// The requested form of a filter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Requested by URL.
    Raw,
    /// Requested by `Accept`; `None` if no form is acceptable.
    Negotiated(Option<Media>),
}

/// All forms of one resource. A client gets one of them.
struct Forms<'a> {
    media: HeaderValue,
    codings: Vec<(Coding, &'a Body)>,
    /// The modification time of the resource, as a Unix second.
    modified: Option<u64>,
    /// Headers of every answer, including a 304.
    headers: HeaderMap,
}

/// Answers a request for a filter.
pub(super) fn filter(
    method: &Method,
    headers: &HeaderMap,
    filter: &PublishedFilter,
    form: Form,
    cache_control: &HeaderValue,
) -> Response {
    let mut common = HeaderMap::with_capacity(12);
    let is_negotiated = matches!(form, Form::Negotiated(_));
    if is_negotiated {
        common.insert(VARY, NEGOTIATED);
    }
    let media = match form {
        Form::Raw => Some(Media::Raw),
        Form::Negotiated(media) => media,
    };
    common.insert(
        CACHE_CONTROL,
        match (is_negotiated, media) {
            (true, Some(Media::Raw)) => PRIVATE,
            _ => cache_control.clone(),
        },
    );
    let forms = match media {
        Some(Media::Json) => Forms {
            media: JSON,
            codings: [
                (Coding::Identity, Some(filter.json())),
                (Coding::Gzip, filter.gzip()),
            ]
            .into_iter()
            .filter_map(|(coding, body)| Some((coding, body?)))
            .collect(),
            modified: Some(filter.timestamp()),
            headers: common,
        },
        Some(Media::Raw) => {
            let numbers = [
                u64::from(filter.n()),
                u64::from(filter.params().p()),
                filter.params().m(),
                filter.timestamp(),
            ];
            common.extend(
                FILTER_HEADERS
                    .into_iter()
                    .zip(numbers.map(HeaderValue::from)),
            );
            Forms {
                media: OCTET_STREAM,
                codings: vec![(Coding::Identity, filter.raw())],
                modified: Some(filter.timestamp()),
                headers: common,
            }
        }
        None => return not_acceptable(),
    };
    match form {
        Form::Raw => forms.send(method, headers, Coding::Identity, filter.raw()),
        Form::Negotiated(_) => forms.answer(method, headers),
    }
}

/// Answers a request for JSON that has only one form.
pub(super) fn json(
    method: &Method,
    headers: &HeaderMap,
    body: &Body,
    modified: Option<u64>,
    cache_control: &HeaderValue,
) -> Response {
    let mut common = HeaderMap::with_capacity(10);
    common.insert(CACHE_CONTROL, cache_control.clone());
    let forms = Forms {
        media: JSON,
        codings: vec![(Coding::Identity, body)],
        modified,
        headers: common,
    };
    // Nothing is negotiated. A client that refuses all forms gets the JSON anyway, as from any mint.
    forms.send(method, headers, Coding::Identity, body)
}

fn not_acceptable() -> Response {
    ([(VARY, NEGOTIATED)], CashuError::NotAcceptable).into_response()
}

impl Forms<'_> {
    fn answer(self, method: &Method, headers: &HeaderMap) -> Response {
        let available: Vec<Coding> = self.codings.iter().map(|(coding, _)| *coding).collect();
        let wanted = coding(headers, &available);
        let chosen = self
            .codings
            .iter()
            .find(|(coding, _)| Some(*coding) == wanted);
        match chosen {
            Some(&(coding, body)) => self.send(method, headers, coding, body),
            None => not_acceptable(),
        }
    }

    fn send(
        mut self,
        method: &Method,
        headers: &HeaderMap,
        coding: Coding,
        body: &Body,
    ) -> Response {
        if let Some(date) = self.modified.and_then(http_date) {
            self.headers.insert(LAST_MODIFIED, date);
        }
        // The chosen form's tag comes first. The tags of the other codings also match, because the content is the
        // same.
        let others = self.codings.iter().map(|(_, other)| other.etag());
        let mut known = known_tag(headers, core::iter::once(body.etag()).chain(others));
        if known.is_none() && self.modified.is_some_and(|at| is_unmodified(headers, at)) {
            known = Some(body.etag());
        }
        if let Some(tag) = known {
            self.headers.insert(ETAG, tag.clone());
            return (StatusCode::NOT_MODIFIED, self.headers).into_response();
        }

        let mut answer = self.headers;
        answer.insert(ETAG, body.etag().clone());
        answer.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        // Ranges are only defined for GET.
        let part = match *method {
            Method::GET => part(headers, body.etag(), body.len()),
            _ => Part::Whole,
        };
        let (status, bytes) = match part {
            Part::Whole => (StatusCode::OK, body.bytes().clone()),
            Part::Bytes(range) => {
                let (first, last) = (range.start, range.end - 1);
                let said = format!("bytes {first}-{last}/{}", body.len());
                insert_text(&mut answer, CONTENT_RANGE, said);
                (StatusCode::PARTIAL_CONTENT, body.bytes().slice(range))
            }
            Part::Unsatisfiable => {
                let mut refusal = CashuError::RangeNotSatisfiable.into_response();
                let said = format!("bytes */{}", body.len());
                insert_text(refusal.headers_mut(), CONTENT_RANGE, said);
                return refusal;
            }
        };
        answer.insert(CONTENT_TYPE, self.media);
        if let Some(name) = coding.name() {
            answer.insert(CONTENT_ENCODING, name);
        }
        (status, answer, ResponseBody::from(bytes)).into_response()
    }
}

/// Answers a request for a body that is also available in gzip.
pub(super) fn compressible(
    method: &Method,
    headers: &HeaderMap,
    media: HeaderValue,
    body: &Compressible,
    cache_control: &HeaderValue,
) -> Response {
    let mut common = HeaderMap::with_capacity(10);
    common.insert(CACHE_CONTROL, cache_control.clone());
    common.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    let gzip = body.gzip.as_ref().map(|gzip| (Coding::Gzip, gzip));
    let codings = [(Coding::Identity, &body.plain)].into_iter().chain(gzip);
    let forms = Forms {
        media,
        codings: codings.collect(),
        modified: None,
        headers: common,
    };
    forms.answer(method, headers)
}

/// Inserts text of digits and spaces, which is always a valid header value.
pub(super) fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}
