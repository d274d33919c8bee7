//! The handlers of state filters: the draft's, and those of manifests and segments.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Extension;
use axum::body::{Body as ResponseBody, HttpBody};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use nutfilter_cashu::state_filters::Event;
use nutfilter_sequence::SealedFile;

use super::conditional::{Part, known_tag, part};
use super::endpoints::Endpoints;
use super::error::CashuError;
use super::guard::Route;
use super::negotiate::{JSON, OCTET_STREAM};
use super::representation;
use crate::state_filters::{BlockBody, Compressible, StateFilters};

/// For bytes that never change.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// Bytes of a file that are read at once.
const PIECE: usize = 64 << 10;

type Name = Result<Path<String>, PathRejection>;
type Names = Result<Path<(String, String)>, PathRejection>;

fn event(name: &str) -> Result<Event, CashuError> {
    Event::from_name(name).ok_or(CashuError::UnknownKind)
}

/// A number as this service writes it, so that each object has one URL.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

pub(super) async fn manifest(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
    name: Name,
) -> impl IntoResponse {
    let answer = document(&endpoints, &method, &headers, name, |served| {
        served.manifest().ok_or(CashuError::NotBuilt)
    });
    (Extension(Route("manifest")), answer)
}

pub(super) async fn block_info(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
    name: Name,
) -> impl IntoResponse {
    let answer = document(&endpoints, &method, &headers, name, |served| {
        served.info().ok_or(CashuError::UnknownKind)
    });
    (Extension(Route("block_info")), answer)
}

/// Answers with JSON that the next refresh may change.
fn document(
    endpoints: &Endpoints,
    method: &Method,
    headers: &HeaderMap,
    name: Name,
    body: impl FnOnce(&StateFilters) -> Result<&Compressible, CashuError>,
) -> Result<Response, CashuError> {
    let Path(name) = name.map_err(|_| CashuError::UnknownKind)?;
    let served = endpoints.served(event(&name)?)?;
    let cache_control = endpoints.cache_control();
    Ok(representation::compressible(
        method,
        headers,
        JSON,
        body(&served)?,
        cache_control,
    ))
}

pub(super) async fn old_manifest(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
    names: Names,
) -> impl IntoResponse {
    let answer = object(&endpoints, names).and_then(|(served, wanted)| {
        let file = number(&wanted).and_then(|number| served.view().old_manifest(number));
        sealed(&endpoints, &method, &headers, JSON, file)
    });
    (Extension(Route("manifest")), answer)
}

pub(super) async fn segment(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
    names: Names,
) -> impl IntoResponse {
    let answer = object(&endpoints, names).and_then(|(served, interval)| {
        let interval = interval.split_once('-');
        let interval = interval.and_then(|(start, end)| Some((number(start)?, number(end)?)));
        let file = interval.and_then(|(start, end)| served.view().segment(start, end));
        sealed(&endpoints, &method, &headers, OCTET_STREAM, file)
    });
    (Extension(Route("segment")), answer)
}

/// What is served of the kind in a path, and the name of the object.
fn object(endpoints: &Endpoints, names: Names) -> Result<(Arc<StateFilters>, String), CashuError> {
    let Path((name, wanted)) = names.map_err(|_| CashuError::UnknownKind)?;
    Ok((endpoints.served(event(&name)?)?, wanted))
}

pub(super) async fn block(
    State(endpoints): State<Endpoints>,
    method: Method,
    headers: HeaderMap,
    names: Names,
) -> impl IntoResponse {
    let answer = || -> Result<Response, CashuError> {
        let (served, height) = object(&endpoints, names)?;
        if served.info().is_none() {
            return Err(CashuError::UnknownKind);
        }
        match number(&height).and_then(|height| served.block(height)) {
            Some(BlockBody::Open(body, seconds)) => {
                let cache_control = format!("public, max-age={seconds}");
                // Digits and letters are always a valid header value.
                let cache_control = HeaderValue::try_from(cache_control).unwrap_or(super::NO_STORE);
                let media = OCTET_STREAM;
                let body =
                    representation::compressible(&method, &headers, media, &body, &cache_control);
                Ok(body)
            }
            Some(BlockBody::Sealed(file)) => {
                sealed(&endpoints, &method, &headers, OCTET_STREAM, Some(file))
            }
            None => Err(CashuError::UnknownObject),
        }
    };
    (Extension(Route("block")), answer())
}

/// Answers with a file that never changes.
fn sealed(
    endpoints: &Endpoints,
    method: &Method,
    headers: &HeaderMap,
    media: HeaderValue,
    file: Option<SealedFile>,
) -> Result<Response, CashuError> {
    let sealed: SealedFile = file.ok_or(CashuError::UnknownObject)?;
    let refuse = |error: &dyn core::fmt::Display| {
        tracing::error!(path = %sealed.path.display(), %error, "could not serve a published file");
        CashuError::Internal
    };
    let etag = endpoints.tag(&sealed).map_err(|error| refuse(&error))?;
    let open = || -> io::Result<(File, u64)> {
        let file = File::open(&sealed.path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    };
    let (mut file, length) = open().map_err(|error| refuse(&error))?;
    let etag = HeaderValue::try_from(etag).map_err(|_| CashuError::Internal)?;
    let mut answer = HeaderMap::with_capacity(8);
    answer.insert(CACHE_CONTROL, IMMUTABLE);
    answer.insert(ETAG, etag.clone());
    if known_tag(headers, core::iter::once(&etag)).is_some() {
        return Ok((StatusCode::NOT_MODIFIED, answer).into_response());
    }
    answer.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let part = match *method {
        Method::GET => part(
            headers,
            &etag,
            usize::try_from(length).unwrap_or(usize::MAX),
        ),
        _ => Part::Whole,
    };
    let (status, first, end) = match part {
        Part::Whole => (StatusCode::OK, 0, length),
        Part::Bytes(range) => {
            let (first, end) = (range.start as u64, range.end as u64);
            let said = format!("bytes {first}-{}/{length}", end - 1);
            representation::insert_text(&mut answer, CONTENT_RANGE, said);
            (StatusCode::PARTIAL_CONTENT, first, end)
        }
        Part::Unsatisfiable => {
            let mut refusal = CashuError::RangeNotSatisfiable.into_response();
            let said = format!("bytes */{length}");
            representation::insert_text(refusal.headers_mut(), CONTENT_RANGE, said);
            return Ok(refusal);
        }
    };
    answer.insert(CONTENT_TYPE, media);
    answer.insert(CONTENT_LENGTH, HeaderValue::from(end - first));
    let sought = file.seek(SeekFrom::Start(first));
    sought.map_err(|_| CashuError::Internal)?;
    let left = end - first;
    Ok((status, answer, ResponseBody::new(FileBody { file, left })).into_response())
}

/// The next bytes of a file. It is read as it is sent, so that no request holds more than a piece in memory. A read
/// may wait for the disk, as a page of a mapped file does.
struct FileBody {
    file: File,
    left: u64,
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let length = self.left.min(PIECE as u64) as usize;
        if length == 0 {
            return Poll::Ready(None);
        }
        let mut piece = vec![0; length];
        Poll::Ready(Some(self.file.read_exact(&mut piece).map(|()| {
            self.left -= length as u64;
            Frame::data(piece.into())
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
