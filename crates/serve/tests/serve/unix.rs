//! Unix sockets.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nutfilter_serve::{Limits, Listener};

use crate::server::{Reply, Server};
use crate::site::TestSite;

fn ask_unix(path: &Path) -> Reply {
    let mut stream = UnixStream::connect(path).unwrap();
    stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: mint\r\nconnection: close\r\n\r\n")
        .unwrap();
    Reply::read(stream)
}

/// Listens on a Unix socket in addition to TCP.
fn unix_server(path: &Path) -> Server {
    let router = nutfilter_serve::router(TestSite::in_memory());
    Server::listening(router, Limits::default(), |tcp| {
        let runtime = tokio::runtime::Handle::current();
        vec![tcp, runtime.block_on(Listener::unix(path)).unwrap()]
    })
}

#[test]
fn unix_socket_is_served_to_all_users() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nutfilter.sock");
    let server = unix_server(&path);
    assert_eq!(ask_unix(&path).status, 200);
    assert_eq!(server.get("/health").status, 200);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
}

#[test]
fn only_a_stale_socket_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nutfilter.sock");
    // As left by a killed process: the file exists, but no process listens.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = unix_server(&path);
    assert_eq!(ask_unix(&path).status, 200);
    // A socket in use is kept.
    let error = server.runtime.block_on(Listener::unix(&path)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(ask_unix(&path).status, 200);

    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let error = server.runtime.block_on(Listener::unix(&file)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}
