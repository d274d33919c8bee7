//! A minimal hyper server for finished bodies: the baseline for measurements of the service.
//!
//! ```text
//! bare_server ADDRESS FILE...
//! ```
//!
//! File number i is served at `/i` to every GET, with its SHA-256 as a tag. A request that names the tag gets a
//! 304. There are no routes, limits, time-outs, codings, ranges, metrics or errors: `e2e/test_load.py` measures
//! what those cost. The bound address is printed once the server listens.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

struct Served {
    bytes: Bytes,
    tag: HeaderValue,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().ok_or("an address is missing")?.parse()?;
    let bodies = arguments.map(|file| {
        let bytes = std::fs::read(file)?;
        let digits: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(Served {
            tag: HeaderValue::try_from(format!("\"{digits}\""))?,
            bytes: bytes.into(),
        })
    });
    let bodies: Arc<[Served]> = bodies.collect::<Result<Vec<_>, Box<dyn Error>>>()?.into();
    let listener = TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        // As in the service.
        stream.set_nodelay(true)?;
        let bodies = Arc::clone(&bodies);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&bodies, &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            // Clients that disconnect are ignored.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer(bodies: &[Served], request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let number = request.uri().path().strip_prefix('/');
    let served = number.and_then(|number| bodies.get(number.parse::<usize>().ok()?));
    let Some(served) = served else {
        let mut nothing = Response::new(Full::default());
        *nothing.status_mut() = StatusCode::NOT_FOUND;
        return nothing;
    };
    let known = request.headers().get(IF_NONE_MATCH) == Some(&served.tag);
    let mut answer = Response::new(match known {
        true => Full::default(),
        false => Full::new(served.bytes.clone()),
    });
    if known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = answer.headers_mut();
    headers.insert(ETAG, served.tag.clone());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
