//! TLS and Unix sockets.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nutfilter_serve::{Limits, Listener, Tls};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tempfile::TempDir;

use crate::server::{Reply, Server, service_of};

/// A certificate for `localhost` and its key, in two files.
struct Certificate {
    directory: TempDir,
    der: CertificateDer<'static>,
}

impl Certificate {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let der = write_pair(directory.path());
        Self { directory, der }
    }

    fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    fn open(&self) -> Tls {
        open(self.certificate(), self.key()).unwrap()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn open(certificate: PathBuf, key: PathBuf) -> std::io::Result<Tls> {
    Tls::open(certificate, key).await
}

fn write_pair(directory: &Path) -> CertificateDer<'static> {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    // Encoded by hand, because the generator's PEM support is a separate feature.
    let pem = |label: &str, der: &[u8]| {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let lines: Vec<&str> = text
            .as_bytes()
            .chunks(64)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            lines.join("\n")
        )
    };
    let certificate = pem("CERTIFICATE", own.cert.der());
    std::fs::write(directory.join("certificate.pem"), certificate).unwrap();
    let key = pem("PRIVATE KEY", &own.signing_key.serialize_der());
    std::fs::write(directory.join("key.pem"), key).unwrap();
    own.cert.der().clone()
}

/// A client that trusts one certificate and offers the given protocols.
fn client(trusted: &CertificateDer<'static>, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

fn get_over_tls(server: &Server, trusted: &CertificateDer<'static>) -> std::io::Result<Reply> {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(client(trusted, &[b"http/1.1"]), name).unwrap();
    let mut stream = rustls::StreamOwned::new(session, server.connect());
    write!(
        stream,
        "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )?;
    Ok(Reply::read(stream))
}

fn tls_server(tls: Tls, options: Limits) -> Server {
    let router = nutfilter_serve::router(service_of(50_000));
    Server::listening(router, options, |listener| vec![listener.with_tls(tls)])
}

#[test]
fn tls_port_answers_only_tls_requests() {
    let certificate = Certificate::new();
    let server = tls_server(certificate.open(), Limits::default());
    let reply = get_over_tls(&server, &certificate.der).unwrap();
    assert_eq!(reply.status, 200);
    let mut clear = server.connect();
    write!(clear, "GET /health HTTP/1.1\r\nhost: mint\r\n\r\n").unwrap();
    let mut answer = vec![];
    let _ = clear.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn http_2_is_negotiated_in_the_handshake() {
    let certificate = Certificate::new();
    let server = tls_server(certificate.open(), Limits::default());
    let config = client(&certificate.der, &[b"h2", b"http/1.1"]);
    server.runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.address)
            .await
            .unwrap();
        let connector = tokio_rustls::TlsConnector::from(config);
        let name = ServerName::try_from("localhost").unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut sender = sender.ready().await.unwrap();
        let path = format!("https://localhost/v1/filter/spent/{}", crate::V1);
        let request = axum::http::Request::get(path).body(()).unwrap();
        let answer = sender.send_request(request, true).unwrap().0.await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut body = answer.into_body();
        let mut length = 0;
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            body.flow_control().release_capacity(piece.len()).unwrap();
            length += piece.len();
        }
        assert!(length > 170_000, "{length} bytes");
        drop((sender, body));
        connection.await.unwrap().unwrap();
    });
}

#[test]
fn stalled_handshake_is_cut() {
    let certificate = Certificate::new();
    let mut options = Limits::default();
    options.first_request = Duration::from_millis(500);
    let server = tls_server(certificate.open(), options);
    let stalled: Vec<_> = (0..100)
        .map(|index| {
            let mut stream = server.connect();
            // Nothing, or the beginning of a record.
            let hello = [0x16, 3, 1, 2, 0, 1];
            stream.write_all(&hello[..index % 6]).unwrap();
            stream
        })
        .collect();
    assert_eq!(get_over_tls(&server, &certificate.der).unwrap().status, 200);
    for mut stream in stalled {
        let mut answer = vec![];
        match stream.read_to_end(&mut answer) {
            Ok(read) => assert_eq!(read, 0),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn renewed_certificate_is_used_and_bad_one_refused() {
    let mut certificate = Certificate::new();
    let tls = certificate.open();
    let server = tls_server(tls.clone(), Limits::default());
    let old = certificate.der.clone();
    certificate.der = write_pair(certificate.directory.path());
    assert_eq!(get_over_tls(&server, &old).unwrap().status, 200);
    server.runtime.block_on(tls.reload()).unwrap();
    assert!(get_over_tls(&server, &old).is_err());
    assert_eq!(get_over_tls(&server, &certificate.der).unwrap().status, 200);

    std::fs::write(certificate.key(), "no key").unwrap();
    let reloaded = server.runtime.block_on(tls.reload());
    let error = reloaded.unwrap_err().to_string();
    assert!(error.contains("key.pem"), "{error}");
    assert_eq!(get_over_tls(&server, &certificate.der).unwrap().status, 200);
}

#[test]
fn mismatched_certificate_and_key_are_refused() {
    let (one, other) = (Certificate::new(), Certificate::new());
    let error = open(one.certificate(), other.key()).unwrap_err();
    assert!(
        error.to_string().contains("invalid certificate or key"),
        "{error}"
    );
    assert!(open(one.key(), one.key()).is_err());
    let nothing = one.directory.path().join("nothing.pem");
    let error = open(nothing, one.key()).unwrap_err();
    assert!(error.to_string().contains("nothing.pem"), "{error}");
}

fn ask_unix(path: &Path) -> Reply {
    let mut stream = UnixStream::connect(path).unwrap();
    stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: mint\r\nconnection: close\r\n\r\n")
        .unwrap();
    Reply::read(stream)
}

/// Listens on a Unix socket in addition to TCP.
fn unix_server(path: &Path) -> Server {
    let runtime = tokio::runtime::Handle::try_current();
    assert!(runtime.is_err(), "the server has a runtime of its own");
    Server::listening(
        nutfilter_serve::router(service_of(3)),
        Limits::default(),
        |tcp| {
            let runtime = tokio::runtime::Handle::current();
            vec![tcp, runtime.block_on(Listener::unix(path, 0o600)).unwrap()]
        },
    )
}

async fn bind(path: PathBuf) -> std::io::Result<Listener> {
    Listener::unix(path, 0o600).await
}

#[test]
fn unix_socket_is_served_and_removed_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nutfilter.sock");
    let server = unix_server(&path);
    assert_eq!(ask_unix(&path).status, 200);
    assert_eq!(server.get("/health").status, 200);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    server.stop();
    assert!(!path.exists());
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
    let error = server.runtime.block_on(bind(path.clone())).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(ask_unix(&path).status, 200);

    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let error = server.runtime.block_on(bind(file.clone())).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn socket_of_a_successor_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nutfilter.sock");
    let server = unix_server(&path);
    std::fs::remove_file(&path).unwrap();
    let _successor = std::os::unix::net::UnixListener::bind(&path).unwrap();
    server.stop();
    assert!(path.exists());
}
