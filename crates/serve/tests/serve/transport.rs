//! The server on real sockets: slow, numerous, hostile and polite peers, and shutdown.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use nutfilter_serve::Limits;
use tokio::sync::Notify;

use crate::server::{Reply, Server};
use crate::site::{LARGE, TestSite};

/// Longer than any limit here. It is only reached if something fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Limits short enough for tests.
fn short() -> Limits {
    let mut options = Limits::default();
    options.head = Duration::from_millis(700);
    options.stalled = Duration::from_millis(700);
    options.grace = Duration::from_secs(2);
    options
}

fn router() -> Router {
    nutfilter_serve::router(TestSite::in_memory())
}

/// A server with [`LARGE`] bytes at `/large`, in memory and as a file.
fn large_servers(limits: Limits) -> [Server; 2] {
    TestSite::in_both_places().map(|site| {
        let router = nutfilter_serve::router(site.with_large());
        Server::limited(router, limits)
    })
}

/// Waits until the server has ended the connection, and returns what it sent before.
fn ended(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut all = vec![];
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return all,
            Ok(read) => all.extend(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("not ended: {error}"),
        }
    }
}

fn request(stream: &mut TcpStream, path: &str) {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: mint\r\n\r\n").unwrap();
}

/// Reads the head of an answer in lower case, and the length of its body.
pub(crate) fn head(stream: &mut TcpStream) -> (String, usize) {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let length = length.unwrap().parse().unwrap();
    (head, length)
}

/// Reads one answer from a connection that stays open.
fn answer(stream: &mut TcpStream) -> (u16, Vec<u8>) {
    let (head, length) = head(stream);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

#[test]
fn slowly_sent_head_is_cut() {
    let server = Server::limited(router(), short());
    for beginning in ["", "G", "GET /health HTTP/1.1\r\nx: "] {
        let mut stream = server.connect();
        stream.write_all(beginning.as_bytes()).unwrap();
        let since = Instant::now();
        let mut dripping = stream.try_clone().unwrap();
        let drip = thread::spawn(move || {
            while !beginning.is_empty() {
                if dripping.write_all(b"y").is_err() || since.elapsed() > PATIENCE {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        assert_eq!(ended(stream), b"", "{beginning}");
        assert!(since.elapsed() < PATIENCE, "{beginning}");
        drip.join().unwrap();
    }
    // This also holds for a later head on a connection that already had a good request.
    let mut stream = server.connect();
    request(&mut stream, "/health");
    assert_eq!(answer(&mut stream).0, 200);
    stream.write_all(b"GET /hea").unwrap();
    assert_eq!(ended(stream), b"");
}

/// A client with a receive buffer of so many bytes.
fn reader(server: &Server, buffer: Option<usize>) -> TcpStream {
    let domain = socket2::Domain::for_address(server.address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
    if let Some(bytes) = buffer {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    socket.connect(&server.address.into()).unwrap();
    socket.into()
}

#[test]
fn slow_peers_do_not_block_others() {
    for server in large_servers(short()) {
        let heads = Vec::from_iter((0..200).map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
            stream
        }));
        let readers = Vec::from_iter((0..60).map(|index| {
            let mut stream = reader(&server, (index % 2 == 0).then_some(4 << 10));
            request(&mut stream, "/large");
            stream
        }));
        for _ in 0..20 {
            assert_eq!(server.get("/health").status, 200);
        }
        for stream in heads {
            assert_eq!(ended(stream), b"");
        }
        // Reading any earlier would take the answer.
        thread::sleep(short().stalled * 3);
        for stream in readers {
            assert!(ended(stream).len() < LARGE, "not cut");
        }
        assert_eq!(server.get("/health").status, 200);
    }
}

#[test]
fn slow_reader_is_not_cut() {
    // As a reader of 20 kB/s with the usual window of 60 s, forty times as fast. The system's own buffer of 4 MB would
    // take 5 s to drain.
    let mut options = short();
    options.stalled = Duration::from_millis(1_500);
    let servers = large_servers(options);
    let readers = [(0, Some(64 << 10)), (0, None), (1, Some(64 << 10)), (1, None)];
    let readers = readers.map(|(place, buffer)| {
        let mut stream = reader(&servers[place], buffer);
        thread::spawn(move || {
            request(&mut stream, "/large");
            let (start, mut came) = (Instant::now(), 0);
            let mut piece = vec![0; 8 << 10];
            while came < 5 << 20 {
                let read = stream.read(&mut piece).unwrap();
                assert_ne!(read, 0, "cut after {came} bytes, buffer {buffer:?}");
                came += read;
                let due = Duration::from_secs_f64(came as f64 / 800e3);
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
        })
    });
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn http_1_1_needs_one_host() {
    let server = Server::limited(router(), Limits::default());
    for (version, hosts, status) in [
        ("1.1", "host: mint\r\n", 200),
        ("1.1", "", 400),
        ("1.1", "host: mint\r\nhost: mint\r\n", 400),
        ("1.0", "", 200),
    ] {
        let mut stream = server.connect();
        write!(stream, "GET /health HTTP/{version}\r\nconnection: close\r\n{hosts}\r\n").unwrap();
        assert_eq!(Reply::read(stream).status, status, "{version} {hosts}");
    }
}

#[test]
fn too_large_heads_are_431() {
    let server = Server::limited(router(), Limits::default());
    let ask = |headers: &str| {
        let mut stream = server.connect();
        // The server may answer and close before this has arrived.
        let _ = write!(
            stream,
            "GET /health HTTP/1.1\r\nhost: mint\r\nconnection: close\r\n{headers}\r\n"
        );
        match ended(stream) {
            none if none.is_empty() => 431,
            answer => Reply::read(&answer[..]).status,
        }
    };
    assert_eq!(ask(&"a: b\r\n".repeat(60)), 200);
    assert_eq!(ask(&"a: b\r\n".repeat(70)), 431);
    assert_eq!(ask(&format!("a: {}\r\n", "b".repeat(15 << 10))), 200);
    assert_eq!(ask(&format!("a: {}\r\n", "b".repeat(17 << 10))), 431);
}

#[test]
fn connection_over_the_limit_is_closed_until_one_ends() {
    let mut options = Limits::default();
    options.max_connections = 3;
    let server = Server::limited(router(), options);
    let mut held: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    for stream in &mut held {
        request(stream, "/health");
        assert_eq!(answer(stream).0, 200);
    }
    let mut refused = server.connect();
    // The connection may be closed before or after this arrives.
    let _ = write!(refused, "GET /health HTTP/1.1\r\nhost: mint\r\n\r\n");
    assert_eq!(ended(refused), b"");
    held.pop().unwrap().shutdown(Shutdown::Both).unwrap();
    let since = Instant::now();
    loop {
        let mut stream = server.connect();
        let _ = write!(stream, "GET /health HTTP/1.1\r\nhost: mint\r\nconnection: close\r\n\r\n");
        if !ended(stream).is_empty() {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "the place stays taken");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn panicking_site_is_500_and_server_continues() {
    let server = Server::serve(router());
    let mut stream = server.connect();
    request(&mut stream, "/panic");
    assert_eq!(answer(&mut stream).0, 500);
    // The same connection, and another one.
    request(&mut stream, "/health");
    assert_eq!(answer(&mut stream).0, 200);
    assert_eq!(server.get("/panic").status, 500);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn shutdown_finishes_requests_and_closes_idle() {
    let started = Arc::new(Notify::new());
    let go_on = Arc::new(Notify::new());
    let (begin, wait) = (Arc::clone(&started), Arc::clone(&go_on));
    let slow = move || async move {
        begin.notify_one();
        wait.notified().await;
        "done"
    };
    let server = Server::serve(router().route("/slow", get(slow)));
    let mut idle = server.connect();
    request(&mut idle, "/health");
    assert_eq!(answer(&mut idle).0, 200);
    let fresh = server.connect();
    let mut busy = server.connect();
    request(&mut busy, "/slow");
    server.runtime.block_on(started.notified());
    let address = server.address;
    let stopping = thread::spawn(move || server.stop());
    assert_eq!(ended(idle), b"");
    assert_eq!(ended(fresh), b"");
    wait_until_closed(address);
    go_on.notify_one();
    let (status, body) = answer(&mut busy);
    assert_eq!((status, &body[..]), (200, &b"done"[..]));
    assert_eq!(ended(busy), b"");
    stopping.join().unwrap();
}

/// Waits until no new connections are accepted. Open ones may be told to close before that.
fn wait_until_closed(address: SocketAddr) {
    let start = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(start.elapsed() < PATIENCE, "still accepts connections");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn requests_over_the_grace_period_are_cut() {
    let begun = Arc::new(Notify::new());
    let begin = Arc::clone(&begun);
    let never = move || async move {
        begin.notify_one();
        std::future::pending::<&'static str>().await
    };
    let mut options = short();
    options.grace = Duration::from_millis(200);
    let server = Server::limited(router().route("/never", get(never)), options);
    let mut stream = server.connect();
    request(&mut stream, "/never");
    server.runtime.block_on(begun.notified());
    server.stop();
    assert_eq!(ended(stream), b"");
}

#[test]
fn answer_in_progress_at_shutdown_is_completed() {
    for server in large_servers(Limits::default()) {
        let mut stream = server.connect();
        write!(stream, "GET /large HTTP/1.1\r\nhost: mint\r\n\r\n").unwrap();
        let mut first = [0; 1024];
        stream.read_exact(&mut first).unwrap();
        let address = server.address;
        let stopping = thread::spawn(move || server.stop());
        wait_until_closed(address);
        let rest = ended(stream);
        assert!(first.len() + rest.len() > LARGE, "{} bytes came", rest.len());
        stopping.join().unwrap();
    }
}
