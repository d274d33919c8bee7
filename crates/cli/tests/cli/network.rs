//! Listening addresses, the resources besides the filters, and access to them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};

use super::support::{PATIENCE, Server, kill, nutfilter, sample, serve_from};
use crate::nutfilter::assert_contains;

/// Writes a new certificate for localhost, as a renewal does.
fn renew(directory: &Path) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = |label: &str, der: &[u8]| {
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            STANDARD.encode(der)
        )
    };
    let write = |name: &str, text: String| fs::write(directory.join(name), text).unwrap();
    write("cert.pem", pem("CERTIFICATE", cert.der()));
    write(
        "key.pem",
        pem("PRIVATE KEY", &KeyPair::serialize_der(&signing_key)),
    );
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
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let first = renew(directory.path());
    let path = |name: &str| directory.path().join(name);
    let mut command = serve_from(directory.path(), "");
    command
        .arg("--tls-certificate")
        .arg(path("cert.pem"))
        .arg("--tls-key")
        .arg(path("key.pem"));
    let mut server = Server::start(&mut command);
    let address = server.base.strip_prefix("https://").unwrap().to_owned();
    assert_eq!(
        health_over_tls(&address, &first).unwrap(),
        "HTTP/1.1 200 OK"
    );

    let second = renew(directory.path());
    assert!(health_over_tls(&address, &second).is_err());
    kill(&server.child, "-HUP");
    server.wait_for("TLS certificate reloaded");
    assert_eq!(
        health_over_tls(&address, &second).unwrap(),
        "HTTP/1.1 200 OK"
    );
    assert!(health_over_tls(&address, &first).is_err());

    let key = fs::read(path("key.pem")).unwrap();
    renew(directory.path());
    fs::write(path("key.pem"), key).unwrap();
    kill(&server.child, "-HUP");
    server.wait_for("TLS reload failed");
    assert_eq!(
        health_over_tls(&address, &second).unwrap(),
        "HTTP/1.1 200 OK"
    );

    // A mismatched pair is also found before a start.
    let output = command.arg("--check-config").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_contains(&said, "tls_certificate: invalid certificate or key");
}

#[cfg(unix)]
#[test]
fn several_addresses_work_and_sockets_are_removed() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let socket = directory.path().join("http.sock");
    let file = directory.path().join("n.toml");
    fs::write(
        &file,
        format!("listen = ['127.0.0.1:0', 'unix:{}']\n", socket.display()),
    )
    .unwrap();
    let mut server = Server::start(
        nutfilter()
            .args(["serve", "--config"])
            .arg(&file)
            .arg("--mint-database")
            .arg(directory.path()),
    );
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
    let directory = tempfile::tempdir().unwrap();
    sample(directory.path());
    let serve = |options: &str| Server::start(serve_from(directory.path(), options));
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
    let directory = tempfile::tempdir().unwrap();
    let mint = directory.path().join("mint");
    fs::create_dir(&mint).unwrap();
    let sample = sample(&mint);
    let path = format!("/v1/filter/spent/{}", sample.keyset);
    let mut command = serve_from(&mint, "");
    command.arg("--data-dir").arg(directory.path().join("data"));
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
