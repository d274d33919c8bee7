//! Connections that cannot be authenticated.

use crate::*;

#[test]
fn answer_without_tls_is_named_and_nothing_is_asked_in_plain_text() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("its address"));
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut heard = [0; 1024];
        let _ = stream.read(&mut heard);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        heard
    });
    let client = MintClient::new(&url, Policy::default()).expect("a good URL");
    let error = client.fetch(&keyset(), NoteKind::Spent).expect_err("refused");
    // A handshake, and no `GET`.
    assert_eq!(server.join().expect("the server")[0], 22);
    assert!(error.to_string().contains("did not respond with TLS"), "{error}");
}

#[test]
fn only_a_trusted_certificate_is_accepted() {
    fetch_by_tls(false);
    fetch_by_tls(true);
    let client = MintClient::new("https://mint.example", Policy::default()).expect("a good URL");
    for pem in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n-----END"] {
        let error = client.clone().with_root_certificates(pem.as_bytes());
        assert_failed!(error, FetchError::BadCertificates);
    }
}

/// Fetches a filter from a mint with a certificate of its own, which the wallet may trust.
fn fetch_by_tls(is_trusted: bool) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())
        .expect("a server configuration");
    let config = Arc::new(config);
    let body = json(honest(now()).to_json());
    let asked = Arc::new(AtomicU64::new(0));
    let counter = asked.clone();

    // Not a `Loopback`, which reads an unencrypted request.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        drop(listener);
        let mut session = rustls::ServerConnection::new(config).expect("a session");
        let mut tls = rustls::Stream::new(&mut session, &mut stream);
        if tls.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {
            counter.fetch_add(1, Ordering::SeqCst);
            // With pauses in which the client looks whether to go on.
            for piece in body.chunks(body.len() / 2 + 1) {
                thread::sleep(Duration::from_millis(200));
                let _ = tls.write_all(piece);
            }
        }
    });
    let url = format!("https://localhost:{}", address.port());
    let mut client = MintClient::new(&url, Policy::default()).expect("a good URL");
    if is_trusted {
        let pem = own.cert.pem().into_bytes();
        client = client.with_root_certificates(&pem).expect("a certificate");
    }
    let fetched = client.fetch(&keyset(), NoteKind::Spent);
    server.join().expect("the server");
    if is_trusted {
        assert_eq!(fetched.expect("a filter").n(), ITEMS);
        return;
    }
    let error = fetched.expect_err("refused");
    assert!(matches!(error, FetchError::Transport(_)), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "something was asked all the same");
}
