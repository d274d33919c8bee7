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
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use nutfilter_objects::{Object, Opened};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::site::Refusal;

/// Seconds after which a client should retry before the first build has finished. The first build of a large mint
/// takes about this long; that of a small one is faster.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// The first second of a year with five digits, which no header can have.
const YEAR_10000: u64 = 253_402_300_800;

/// Answers a request for an object, which caches may keep for `max_age` seconds, or use only after they asked with its tag. Without
/// its bytes, the client has them.
///
/// A tag is the only precondition, as two bodies may be of the same second. There are no ranges: a refresh replaces the
/// body before a client is back for the rest.
pub(crate) async fn answer(
    object: &Object,
    opened: Option<Opened>,
    known: Option<bool>,
    is_gzip: bool,
    max_age: u64,
) -> io::Result<Response> {
    let mut headers = HeaderMap::with_capacity(16);
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
    let coding = match known.unwrap_or(is_gzip) {
        true => "-gzip",
        false => "",
    };
    insert(&mut headers, ETAG, format!("\"{}{coding}\"", object.tag()));
    let Some(opened) = opened else {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(object.media_type()));
    if is_gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let body = match opened {
        Opened::Memory(bytes) => Body::from(bytes),
        Opened::File(file, length) => {
            insert(&mut headers, CONTENT_LENGTH, length.to_string());
            body_of(file, length).await?
        }
    };
    Ok((headers, body).into_response())
}

/// Bytes of a file that are read at once, and all that a connection holds whose client takes nothing.
const PIECE: u64 = 32 << 10;

/// The bytes of a file.
async fn body_of(file: File, length: u64) -> io::Result<Body> {
    #[cfg(all(target_os = "linux", feature = "server"))]
    if length > PIECE && crate::socket::sends_files() {
        return Ok(Body::from_stream(crate::socket::pieces(file, length)));
    }
    let room = Arc::new(Mutex::new(vec![0; PIECE.min(length) as usize]));
    let (file, first) = read(file, 0, room.clone().lock_owned().await).await?;
    Ok(match first.length as u64 {
        read if read == length => Bytes::from_owner(first).into(),
        _ => Body::from_stream(pieces(file, first, length)),
    })
}

/// The bytes of a file, each piece read once the one before it is sent, into the same memory.
fn pieces(file: File, first: BodyPiece, length: u64) -> impl Stream<Item = io::Result<Bytes>> {
    let room = Arc::clone(OwnedMutexGuard::mutex(&first.room));
    stream::try_unfold((file, Some(first), 0), move |(file, first, at)| {
        let room = Arc::clone(&room);
        async move {
            if at >= length {
                return Ok(None);
            }
            let (file, piece) = match first {
                Some(first) => (file, first),
                None => read(file, at, room.lock_owned().await).await?,
            };
            match piece.length.min((length - at) as usize) {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                read => {
                    let bytes = Bytes::from_owner(piece).slice(..read);
                    Ok(Some((bytes, (file, None, at + read as u64))))
                }
            }
        }
    })
}

/// The bytes at the beginning of memory that is used again after them.
struct BodyPiece {
    room: OwnedMutexGuard<Vec<u8>>,
    length: usize,
}

impl AsRef<[u8]> for BodyPiece {
    fn as_ref(&self) -> &[u8] {
        &self.room[..self.length]
    }
}

/// Reads at most as many bytes as there is room: at once if the system has them in memory, otherwise on a thread that may
/// wait for a disk.
async fn read(
    file: File,
    at: u64,
    mut room: OwnedMutexGuard<Vec<u8>>,
) -> io::Result<(File, BodyPiece)> {
    #[cfg(target_os = "linux")]
    {
        let parts = &mut [io::IoSliceMut::new(&mut room)];
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        if let Ok(length @ 1..) = rustix::io::preadv2(&file, parts, at, flags) {
            return Ok((file, BodyPiece { room, length }));
        }
    }
    let read = tokio::task::spawn_blocking(move || {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(&file, &mut room, at);
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(&file, &mut room, at);
        let length = read?;
        Ok((file, BodyPiece { room, length }))
    });
    read.await?
}

/// Whether the tag that the client has is that of the compressed form; `None` if it has neither. The one that would be sent
/// comes first. The other coding's tag stands for the same content.
pub(crate) fn known_tag(request: &HeaderMap, object: &Object, is_gzip: bool) -> Option<bool> {
    let mut found = None;
    for word in words(request, &IF_NONE_MATCH) {
        if word == "*" {
            return Some(is_gzip);
        }
        let tag = word.strip_prefix("W/").unwrap_or(word);
        let tag = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        let coding = tag.and_then(|tag| tag.strip_prefix(object.tag()));
        if let Some(coding @ ("" | "-gzip")) = coding {
            let known = !coding.is_empty();
            if known == is_gzip {
                return Some(known);
            }
            found = Some(known);
        }
    }
    found
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
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    let mut response = (status, headers, body.to_string()).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
    }
    response
}

/// The path without its leading slash.
pub(crate) fn relative(uri: &Uri) -> &str {
    let path = uri.path();
    path.strip_prefix('/').unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    #[tokio::test]
    async fn next_piece_is_read_once_the_one_before_is_sent() {
        let text: Vec<u8> = (0..3 * PIECE + 5).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&text).unwrap();
        let length = text.len() as u64;
        let mut stream = body_of(file, length).await.unwrap().into_data_stream();
        let mut sent = vec![];
        while let Some(piece) = stream.next().await {
            let piece = piece.unwrap();
            assert!(piece.len() as u64 <= PIECE);
            sent.extend_from_slice(&piece);
            let is_last = sent.len() == text.len();
            assert_eq!(stream.next().now_or_never().is_some(), is_last);
        }
        assert!(sent == text);
    }
}
