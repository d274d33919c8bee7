//! HTTP/2 without TLS, with a client that can keep its windows closed.

use std::thread;

use bytes::Bytes;
use nutfilter_serve::Limits;
use tokio::net::TcpStream;

use crate::V1;
use crate::server::Server;
use crate::transport::{LARGE, PATIENCE, router, short, wait_until_closed};

type Sender = h2::client::SendRequest<Bytes>;

async fn connect(server: &Server) -> (Sender, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    (sender.ready().await.unwrap(), tokio::spawn(connection))
}

fn request(path: &str) -> axum::http::Request<()> {
    let uri = format!("http://mint{path}");
    axum::http::Request::get(uri).body(()).unwrap()
}

async fn whole(mut body: h2::RecvStream) -> Vec<u8> {
    let mut all = vec![];
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        all.extend(piece);
    }
    all
}

#[test]
fn streams_are_answered_like_http_1_requests() {
    let server = Server::limited(router(), Limits::default());
    let plain = server.spent(&[]).body;
    server.runtime.block_on(async {
        let (mut sender, connection) = connect(&server).await;
        let path = format!("/v1/filter/spent/{V1}");
        let answers: Vec<_> = (0..50)
            .map(|_| sender.send_request(request(&path), true).unwrap().0)
            .collect();
        let lost = sender.send_request(request("/nothing"), true).unwrap().0;
        // All at once: unread data of one stream takes part of the shared window.
        let reading = answers.into_iter().map(|answer| {
            tokio::spawn(async move {
                let answer = answer.await.unwrap();
                (answer.status().as_u16(), whole(answer.into_body()).await)
            })
        });
        let reading: Vec<_> = reading.collect();
        for answer in reading {
            let (status, body) = answer.await.unwrap();
            assert_eq!(status, 200);
            assert!(body == plain);
        }
        assert_eq!(lost.await.unwrap().status(), 404);
        // Alone: unread, it would fill the shared window.
        let large = sender.send_request(request("/large"), true).unwrap().0;
        assert_eq!(whole(large.await.unwrap().into_body()).await.len(), LARGE);
        drop(sender);
        connection.await.unwrap().unwrap();
    });
}

#[test]
fn peer_with_closed_window_is_cut() {
    let server = Server::limited(router(), short());
    server.runtime.block_on(async {
        let (mut sender, connection) = connect(&server).await;
        let answer = sender.send_request(request("/large"), true).unwrap().0;
        let body = answer.await.unwrap().into_body();
        let ended = tokio::time::timeout(PATIENCE, connection).await;
        assert!(ended.is_ok(), "not cut");
        drop(body);
    });
}

#[test]
fn idle_connection_gets_goaway() {
    let server = Server::limited(router(), short());
    server.runtime.block_on(async {
        for requests in [0, 1] {
            let (mut sender, connection) = connect(&server).await;
            for _ in 0..requests {
                let answer = sender.send_request(request("/health"), true).unwrap().0;
                whole(answer.await.unwrap().into_body()).await;
            }
            let ended = tokio::time::timeout(PATIENCE, connection).await.unwrap();
            assert!(ended.unwrap().is_ok(), "GOAWAY without an error");
        }
    });
}

#[test]
fn shutdown_finishes_open_streams() {
    let server = Server::limited(router(), Limits::default());
    // The server's runtime ends with the server.
    let client = tokio::runtime::Runtime::new().unwrap();
    client.block_on(async {
        let (mut sender, connection) = connect(&server).await;
        let answer = sender.send_request(request("/large"), true).unwrap().0;
        let body = answer.await.unwrap().into_body();
        let address = server.address;
        let stopping = thread::spawn(move || server.stop());
        tokio::task::spawn_blocking(move || wait_until_closed(address))
            .await
            .unwrap();
        // GOAWAY prevents new streams; open ones are completed.
        assert_eq!(whole(body).await.len(), LARGE);
        drop(sender);
        // The server may have closed the connection before the client's last frame.
        let ended = connection.await.unwrap();
        assert!(
            ended.as_ref().err().is_none_or(h2::Error::is_io),
            "{ended:?}"
        );
        let stopped = tokio::task::spawn_blocking(move || stopping.join().unwrap());
        stopped.await.unwrap();
    });
}

#[test]
fn too_long_header_list_is_refused() {
    let server = Server::limited(router(), Limits::default());
    server.runtime.block_on(async {
        let (mut sender, connection) = connect(&server).await;
        let mut long = request("/health");
        let value = axum::http::HeaderValue::try_from("b".repeat(20 << 10)).unwrap();
        long.headers_mut().insert("a", value);
        let refused = match sender.send_request(long, true) {
            Err(_) => true,
            Ok((answer, _)) => answer.await.map_or(true, |answer| answer.status() == 431),
        };
        assert!(refused);
        connection.abort();
    });
    assert_eq!(server.get("/health").status, 200);
}
