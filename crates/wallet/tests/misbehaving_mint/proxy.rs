//! Proxies between the wallet and a mint: what they receive, and that nothing bypasses them.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use crate::*;
use nutfilter_wallet::{MintClient, Proxy};

/// The requested name or address with a port, and the credentials if there were any.
type Asked = (String, Option<String>);

/// Serves one client at a time and connects each one to `target`, whatever it requests. Its thread ends with the
/// process.
struct FakeProxy {
    address: SocketAddr,
    asked: Receiver<Asked>,
}

impl FakeProxy {
    fn start(target: SocketAddr, handshake: fn(&mut TcpStream) -> io::Result<Asked>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (tell, asked) = channel();
        thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let Ok(heard) = handshake(&mut client) else {
                    continue;
                };
                if tell.send(heard).is_err() {
                    return;
                }
                let mut mint = TcpStream::connect(target).expect("the mint");
                let mut back =
                    (mint.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
                let forth = thread::spawn(move || io::copy(&mut client, &mut mint));
                let _ = io::copy(&mut back.0, &mut back.1);
                let _ = back.1.shutdown(std::net::Shutdown::Both);
                let _ = forth.join();
            }
        });
        Self { address, asked }
    }
}

/// RFC 1928, with RFC 1929 for clients that offer a password.
fn socks5(client: &mut TcpStream) -> io::Result<Asked> {
    let head = take(client, 2)?;
    assert_eq!(head[0], 5, "not SOCKS5");
    let methods = take(client, usize::from(head[1]))?;
    let has_password = methods.contains(&2);
    client.write_all(&[5, if has_password { 2 } else { 0 }])?;
    let mut credentials = None;
    if has_password {
        let user_len = take(client, 2)?[1];
        let user = text(take(client, usize::from(user_len))?);
        let password_len = take(client, 1)?[0];
        credentials = Some(format!("{user}:{}", text(take(client, usize::from(password_len))?)));
        client.write_all(&[1, 0])?;
    }
    let head = take(client, 4)?;
    assert_eq!(head[..3], [5, 1, 0], "not CONNECT");
    assert_eq!(head[3], 3, "not a name");
    let len = take(client, 1)?[0];
    let host = text(take(client, usize::from(len))?);
    let port = take(client, 2)?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    Ok((format!("{host}:{port}"), credentials))
}

fn take(client: &mut TcpStream, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    client.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// `CONNECT` of RFC 9110.
fn http_connect(client: &mut TcpStream) -> io::Result<Asked> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = text(head);
    let target = head.strip_prefix("CONNECT ").expect("CONNECT");
    let target = target.split(' ').next().expect("a target").to_owned();
    let credentials = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("proxy-authorization").then(|| value.to_owned())
    });
    client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    Ok((target, credentials))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

fn fetch_via(mint: &str, proxy: &str, policy: Policy) -> Fetched {
    let proxy = Proxy::parse(proxy).expect("a proxy");
    let client = MintClient::new(mint, policy).expect("a good URL");
    client.with_proxy(proxy).fetch(&keyset(), NoteKind::Spent)
}

/// No name server resolves a name that ends in `.invalid` (RFC 6761).
const UNRESOLVABLE: &str = "http://mint.invalid:8333/Bitcoin";

#[test]
fn proxies_receive_the_mints_name_and_the_credentials() {
    let mint = saying(json(honest(now()).to_json()));
    for (scheme, handshake, wanted) in [
        ("socks5h", socks5 as fn(&mut TcpStream) -> io::Result<Asked>, "alice:hunter2"),
        ("http", http_connect, "basic YWxpY2U6aHVudGVyMg=="),
    ] {
        let proxy = FakeProxy::start(mint.address(), handshake);
        for credentials in [None, Some(wanted)] {
            let user = credentials.map_or("", |_| "alice:hunter2@");
            let url = format!("{scheme}://{user}{}", proxy.address);
            fetch_via(UNRESOLVABLE, &url, Policy::default()).expect("a filter");
            let (name, heard) = proxy.asked.recv().expect("a client");
            assert_eq!(name, "mint.invalid:8333");
            let heard = heard.map(|text| text.replace("Basic", "basic"));
            assert_eq!(heard.as_deref(), credentials);
        }
    }
    assert_eq!(mint.requests().len(), 4);
    assert!(mint.requests()[0].starts_with("GET /Bitcoin/v1/filter/spent/"));
    let requests = mint.requests().concat();
    assert!(!requests.contains("hunter2"), "{requests}");
}

#[test]
fn failing_proxy_is_an_error_without_credentials_or_fallback() {
    let mint = saying(json(honest(now()).to_json()));
    for scheme in ["socks5h", "socks5", "http"] {
        // Nothing listens on the discard port.
        let url = format!("{scheme}://alice:hunter2@127.0.0.1:9");
        let fetched = fetch_via(&mint.url, &url, Policy::default());
        let error = fetched.as_ref().expect_err("no proxy");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert_failed!(fetched, FetchError::Transport(_));
    }
    let refusing = saying("HTTP/1.1 403 Forbidden\r\n\r\n");
    let url = format!("http://{}", refusing.address());
    let refused = fetch_via(&mint.url, &url, Policy::default());
    let error = refused.expect_err("refused").to_string();
    assert!(error.contains("403"), "{error}");
    assert_eq!(mint.requests().len(), 0);
}

#[test]
fn silent_proxy_is_ended_by_the_deadline() {
    // The system accepts connections for this listener, but nothing reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    for scheme in ["socks5h", "http"] {
        let policy = policy!(deadline: Duration::from_millis(200));
        let url = format!("{scheme}://{address}");
        let fetched = fetch_via(UNRESOLVABLE, &url, policy);
        assert_failed!(fetched, FetchError::Deadline { .. });
    }
}
