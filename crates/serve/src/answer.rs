//! Builds the answer from an object and request headers: which coding, or a 304. Errors have the form of every Cashu mint.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, LAST_MODIFIED, RETRY_AFTER, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use nutfilter_objects::{Object, Opened};

use crate::site::Refusal;

/// Seconds after which a client should retry before the first build has finished. The first build of a large mint
/// takes about this long; that of a small one is faster.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// The first second of a year with five digits, which no header can have.
const YEAR_10000: u64 = 253_402_300_800;

/// Answers a request for an object, which caches may keep for `max_age` seconds, or use only after they asked with its tag.
///
/// A tag is the only precondition, as two bodies may be of the same second. There are no ranges: a refresh replaces the
/// body before a client is back for the rest.
pub(crate) fn answer(
    request: &HeaderMap,
    object: &Object,
    opened: Opened,
    is_gzip: bool,
    max_age: u64,
) -> Response {
    let mut headers = HeaderMap::with_capacity(8);
    let caching = match max_age {
        0 => "no-cache".to_owned(),
        _ => format!("public, max-age={max_age}"),
    };
    insert(&mut headers, CACHE_CONTROL, caching);
    if object.date() < YEAR_10000 {
        let at = UNIX_EPOCH + Duration::from_secs(object.date());
        insert(&mut headers, LAST_MODIFIED, httpdate::fmt_http_date(at));
    }
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    // The tag of what would be sent comes first. The other coding's tag stands for the same content.
    let mut tags = [is_gzip, !is_gzip].map(|gzip| etag(object, gzip));
    if let Some(known) = known_tag(request, &tags) {
        insert(&mut headers, ETAG, known.clone());
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    insert(&mut headers, ETAG, core::mem::take(&mut tags[0]));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(object.media_type()));
    if is_gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let body = match opened {
        Opened::Memory(bytes) => Body::from(bytes),
        Opened::File(file, length) => {
            insert(&mut headers, CONTENT_LENGTH, length.to_string());
            Body::from_stream(pieces(Arc::new(file), length))
        }
    };
    (headers, body).into_response()
}

/// Bytes of a file that are read at once. A connection whose client takes nothing holds one or two pieces.
const PIECE: u64 = 8 << 10;

/// The bytes of a file, each piece read when the one before it is nearly sent.
fn pieces(file: Arc<File>, length: u64) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(0, move |at| {
        let file = Arc::clone(&file);
        async move {
            if at >= length {
                return Ok(None);
            }
            // At most PIECE.
            let piece = read(file, at, PIECE.min(length - at) as usize).await?;
            match piece.len() as u64 {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                read => Ok(Some((piece, at + read))),
            }
        }
    })
}

/// Reads at most so many bytes: at once if the system has them in memory, otherwise on a thread that may wait for a disk.
async fn read(file: Arc<File>, at: u64, length: usize) -> io::Result<Bytes> {
    let mut piece = vec![0; length];
    #[cfg(target_os = "linux")]
    {
        let parts = &mut [io::IoSliceMut::new(&mut piece)];
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        if let Ok(read @ 1..) = rustix::io::preadv2(&file, parts, at, flags) {
            piece.truncate(read);
            return Ok(piece.into());
        }
    }
    let read = tokio::task::spawn_blocking(move || {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(&*file, &mut piece, at);
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(&*file, &mut piece, at);
        piece.truncate(read?);
        Ok(piece.into())
    });
    read.await?
}

fn etag(object: &Object, gzip: bool) -> String {
    let coding = if gzip { "-gzip" } else { "" };
    format!("\"{}{coding}\"", object.tag())
}

/// The first of these tags that the client has. No tag contains a comma.
fn known_tag<'a>(request: &HeaderMap, tags: &'a [String]) -> Option<&'a String> {
    let known: Vec<_> = words(request, &IF_NONE_MATCH)
        .map(|tag| tag.strip_prefix("W/").unwrap_or(tag))
        .collect();
    let is_known = |tag: &&String| known.iter().any(|&known| known == "*" || known == **tag);
    tags.iter().find(is_known)
}

/// Whether a client accepts gzip, by name or by `*`. Weights count only if they are 0.
pub(crate) fn accepts_gzip(request: &HeaderMap) -> bool {
    let mut accepted = None;
    for member in words(request, &ACCEPT_ENCODING) {
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

/// The members of the lists in all headers of this name.
fn words<'a>(request: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = request.get_all(name).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',').map(str::trim))
}

/// Inserts text of digits, ASCII letters and quotes, which is always a valid header value.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}

/// An error response. It must not be cached: without `no-store`, some caches keep a 404 for hours. A 503 tells the
/// client when to retry.
pub(crate) fn refused(refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::json!({ "detail": refusal.detail, "code": refusal.code });
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
    ];
    let mut response = (status, headers, body.to_string()).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
    }
    response
}
