//! Listening addresses, the resources besides the filters, and access to them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};

use super::support::{PATIENCE, Server, kill, mint, sample, serve_from};
use crate::nutfilter::{Place, Ran, assert_contains};

/// Writes a new certificate for localhost, as a renewal does.
fn renew(place: &Place) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = |label: &str, der: &[u8]| {
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            STANDARD.encode(der)
        )
    };
    place.write("cert.pem", pem("CERTIFICATE", cert.der()));
    let key = KeyPair::serialize_der(&signing_key);
    place.write("key.pem", pem("PRIVATE KEY", &key));
    cert.der().clone()
}

/// The status line of `/health` over TLS, for a client that trusts only this certificate.
fn health_over_tls(
    address: &str,
    trusted: &CertificateDer<'static>,
) -> Result<String, std::io::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(address)?;
    let mut tls = rustls::Stream::new(&mut session, &mut stream);
    tls.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = vec![];
    tls.read_to_end(&mut answer)?;
    let answer = String::from_utf8(answer).unwrap();
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[cfg(unix)]
#[test]
fn sighup_renews_a_certificate_and_a_bad_one_is_ignored() {
    let (place, _) = mint();
    let first = renew(&place);
    let mut command = serve_from(place.root(), "--tls-certificate cert.pem --tls-key key.pem");
    command.current_dir(place.root());
    let mut server = Server::start(&mut command);
    let address = server.base.strip_prefix("https://").unwrap().to_owned();
    let assert_ok = |trusted| {
        let status = health_over_tls(&address, trusted).unwrap();
        assert_eq!(status, "HTTP/1.1 200 OK");
    };
    assert_ok(&first);

    let second = renew(&place);
    assert!(health_over_tls(&address, &second).is_err());
    kill(&server.child, "-HUP");
    server.wait_for("TLS certificate reloaded");
    assert_ok(&second);
    assert!(health_over_tls(&address, &first).is_err());

    let key = place.read("key.pem");
    renew(&place);
    place.write("key.pem", key);
    kill(&server.child, "-HUP");
    server.wait_for("TLS reload failed");
    assert_ok(&second);

    // A mismatched pair is also found before a start.
    let ran = Ran::from(command.arg("--check-config").output().unwrap());
    let wanted = "tls_certificate: invalid certificate or key";
    assert_contains(&ran.stderr, wanted);
}

#[cfg(unix)]
#[test]
fn several_addresses_work_and_sockets_are_removed() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    let (place, _) = mint();
    let socket = place.path("http.sock");
    let listen = format!("listen = ['127.0.0.1:0', 'unix:{}']\n", socket.display());
    place.write("n.toml", listen);
    let serve = "serve --config n.toml --mint-database .";
    let mut server = Server::start(place.command(serve));
    assert_eq!(server.get("/health").0, "HTTP/1.1 200 OK");
    assert_eq!(
        fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
        0o660
    );
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: mint\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    kill(&server.child, "-TERM");
    server.wait_for("stopped");
    assert!(!socket.exists());
}

#[test]
fn additional_resources_are_as_configured() {
    let (place, _) = mint();
    let serve = |options: &str| Server::of(&place, options);
    let status = |server: &Server, path: &str| server.get(path).0[9..12].to_owned();
    let server = serve("");
    for (path, expected) in [
        ("/ready", "200"),
        ("/metrics", "200"),
        ("/v1/keysets", "200"),
        ("/v1/info", "404"),
    ] {
        assert_eq!(status(&server, path), expected, "{path}");
    }
    let mut metrics = server.get("/metrics").1;
    // A request is counted after its last byte was sent.
    let start = Instant::now();
    while !metrics.contains("nutfilter_http_requests_total{") && start.elapsed() < PATIENCE {
        metrics = server.get("/metrics").1;
    }
    for line in [
        concat!(
            "nutfilter_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"} 1"
        ),
        "nutfilter_status{status=\"ok\"} 1",
        "nutfilter_items{kind=\"spent\"} 300",
        "nutfilter_keysets 1",
        "# TYPE nutfilter_refresh_seconds histogram",
        "nutfilter_http_requests_total{",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    let server = serve("--metrics=off");
    assert_eq!(status(&server, "/metrics"), "404");
    // While the mint does not answer, its info is unavailable, and its keysets are left to it.
    let server = serve("--mint-api http://127.0.0.1:1");
    assert_eq!(status(&server, "/v1/info"), "503");
    assert_eq!(status(&server, "/v1/keysets"), "404");
}

#[test]
fn state_is_served_after_a_restart_without_the_database() {
    let place = Place::new();
    let (mint, data) = (place.path("mint"), place.path("data"));
    fs::create_dir(&mint).unwrap();
    let sample = sample(&mint);
    let path = format!("/v1/filter/spent/{}", sample.keyset);
    let mut command = serve_from(&mint, &format!("--data-dir {}", data.display()));
    let server = Server::start(&mut command);
    let before = server.get(&path);
    assert_eq!(before.0, "HTTP/1.1 200 OK");
    drop(server);
    fs::remove_dir_all(&mint).unwrap();
    let mut server = Server::start(&mut command);
    server.wait_for("database not found");
    assert_eq!(server.get(&path), before);
    let (status, why) = server.get("/ready");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable", "{why}");
}
