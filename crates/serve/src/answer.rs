//! Builds the answer from an object and request headers: which coding, and all of it, a part, or nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, RANGE, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use headers::{
    ETag, HeaderMapExt as _, IfMatch, IfModifiedSince, IfNoneMatch, IfRange, IfUnmodifiedSince,
    LastModified,
};
use nutfilter_mint::Object;

use crate::error::refusal;

/// The first second of a year with five digits, which no header can have.
const YEAR_10000: u64 = 253_402_300_800;

/// Answers a request for an object, which caches may keep for `max_age` seconds.
pub(crate) fn answer(
    method: &Method,
    request: &HeaderMap,
    object: Object,
    max_age: u64,
) -> Response {
    let mut headers = HeaderMap::with_capacity(12);
    insert(
        &mut headers,
        CACHE_CONTROL,
        format!("public, max-age={max_age}"),
    );
    let modified = Some(object.date).filter(|&at| at < YEAR_10000);
    let modified = modified.map(|at| UNIX_EPOCH + Duration::from_secs(at));
    if let Some(at) = modified {
        headers.typed_insert(LastModified::from(at));
    }
    let gzip = object.body.gzip();
    let is_gzip = gzip.is_some() && accepts_gzip(request);
    // The tag of what would be sent comes first. The other coding's tag stands for the same content.
    let mut tags = vec![tag(object.etag(is_gzip))];
    if gzip.is_some() {
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        tags.push(tag(object.etag(!is_gzip)));
    }
    let body = match gzip.filter(|_| is_gzip) {
        Some(gzip) => gzip,
        None => object.body.bytes(),
    };
    headers.insert(ETAG, tags[0].clone());
    match precondition(request, &tags, modified) {
        Condition::Proceed => {}
        Condition::Failed => {
            return refusal(StatusCode::PRECONDITION_FAILED, "precondition failed", 0);
        }
        Condition::NotModified(tag) => {
            headers.insert(ETAG, tag.clone());
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
    }

    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(object.media_type));
    let length = body.len() as u64;
    // Ranges are only defined for GET.
    let part = match *method {
        Method::GET => part(request, &tags[0], length),
        _ => Ok(None),
    };
    let (status, first, end) = match part {
        Ok(None) => (StatusCode::OK, 0, length),
        Ok(Some((first, last))) => {
            let said = format!("bytes {first}-{last}/{length}");
            insert(&mut headers, CONTENT_RANGE, said);
            (StatusCode::PARTIAL_CONTENT, first, last + 1)
        }
        Err(()) => {
            let mut answer = refusal(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "range not satisfiable",
                0,
            );
            insert(
                answer.headers_mut(),
                CONTENT_RANGE,
                format!("bytes */{length}"),
            );
            return answer;
        }
    };
    if is_gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(end - first));
    let part = body.slice(first as usize..end as usize);
    (status, headers, axum::body::Body::from(part)).into_response()
}

enum Condition<'a> {
    Proceed,
    Failed,
    NotModified(&'a HeaderValue),
}

/// In the order of RFC 9110, section 13.2.2.
fn precondition<'a>(
    request: &HeaderMap,
    tags: &'a [HeaderValue],
    modified: Option<SystemTime>,
) -> Condition<'a> {
    let parsed = |tag: &HeaderValue| tag.to_str().ok()?.parse::<ETag>().ok();
    if let Some(wanted) = request.typed_get::<IfMatch>() {
        let mut tags = tags.iter().filter_map(parsed);
        if !tags.any(|tag| wanted.precondition_passes(&tag)) {
            return Condition::Failed;
        }
    } else if let (Some(since), Some(at)) = (request.typed_get::<IfUnmodifiedSince>(), modified)
        && !since.precondition_passes(at)
    {
        return Condition::Failed;
    }
    if let Some(known) = request.typed_get::<IfNoneMatch>() {
        let is_known =
            |tag: &&HeaderValue| parsed(tag).is_some_and(|tag| !known.precondition_passes(&tag));
        if let Some(tag) = tags.iter().find(is_known) {
            return Condition::NotModified(tag);
        }
    } else if let (Some(since), Some(at)) = (request.typed_get::<IfModifiedSince>(), modified)
        && !since.is_modified(at)
    {
        return Condition::NotModified(&tags[0]);
    }
    Condition::Proceed
}

/// The first and last byte of the requested part; `None` for everything, also if several parts are requested, if the
/// request is invalid, or if the client has a part of another body. An error if it begins beyond the end.
///
/// A date in `If-Range` never matches: two bodies may be of the same second.
fn part(request: &HeaderMap, tag: &HeaderValue, length: u64) -> Result<Option<(u64, u64)>, ()> {
    let Some(range) = request.get(RANGE).and_then(|range| range.to_str().ok()) else {
        return Ok(None);
    };
    let tag = tag.to_str().ok().and_then(|tag| tag.parse().ok());
    let if_range = request.typed_get::<IfRange>();
    if if_range.is_some_and(|known| known.is_modified(tag.as_ref(), None)) {
        return Ok(None);
    }
    let Ok(ranges) = http_range_header::parse_range_header(range) else {
        return Ok(None);
    };
    if ranges.len() != 1 {
        return Ok(None);
    }
    match ranges.validate(length).as_deref() {
        Ok([range]) => Ok(Some((*range.start(), *range.end()))),
        _ => Err(()),
    }
}

/// Whether a client accepts gzip, by name or by `*`. Weights count only if they are 0.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let lines = request.get_all(ACCEPT_ENCODING).into_iter();
    let members = lines.filter_map(|line| line.to_str().ok());
    let mut accepted = None;
    for member in members.flat_map(|line| line.split(',')) {
        let mut words = member.split(';').map(str::trim);
        let name = words.next().unwrap_or_default();
        let refused = words.any(|word| {
            let weight = word.strip_prefix("q=");
            weight.is_some_and(|weight| weight.parse() == Ok(0.0))
        });
        match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => return !refused,
            "*" => accepted = Some(!refused),
            _ => {}
        }
    }
    accepted.unwrap_or(false)
}

/// A tag of hex digits, which is always a valid header value.
fn tag(tag: String) -> HeaderValue {
    HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Inserts text of digits and ASCII letters, which is always a valid header value.
fn insert(headers: &mut HeaderMap, name: axum::http::HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}
