//! A server on the loopback interface that sends exactly what a test specifies, and records all requests. When it is
//! dropped, it checks that the wallet sent no note without a reason.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::eavesdrop;

/// Maximum wait for a client to disconnect after it was told to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers each connection with `reply`, in its own thread, until dropped.
pub(crate) struct Loopback {
    address: SocketAddr,
    shared: Arc<Shared>,
    may_be_asked: bool,
    may_be_shown_all: bool,
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    stopped: AtomicBool,
}

impl Loopback {
    /// `reply` receives the request (head and body) and the connection. Its errors are ignored: they mean that the
    /// client has gone.
    pub(crate) fn start(
        reply: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the address of a listener");
        let shared = Arc::new(Shared::default());
        let reply = Arc::new(reply);
        let all = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if all.stopped.load(Ordering::SeqCst) {
                    break;
                }
                all.connections.fetch_add(1, Ordering::SeqCst);
                let (shared, reply) = (all.clone(), reply.clone());
                thread::spawn(move || {
                    answer(stream, &shared, &*reply);
                    shared.connections.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, shared, may_be_asked: false, may_be_shown_all: false }
    }

    /// Allows requests about the candidates of `conversation` that may be shown.
    pub(crate) fn asked_about_matches(mut self) -> Self {
        self.may_be_asked = true;
        self
    }

    /// Allows any candidate in the body of a POST.
    pub(crate) fn shown_anything(mut self) -> Self {
        self.may_be_shown_all = true;
        self
    }

    /// Sends the same answer to every request.
    pub(crate) fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |_, stream| stream.write_all(&answer))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far, heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        lock(&self.shared.requests).clone()
    }

    /// Checks that the requests contain no note, except matches in the bodies of requests about them.
    fn has_heard_no_note(&self) {
        for request in self.requests() {
            let asks = request.starts_with("POST ");
            assert!(self.may_be_asked || !asks, "{request}");
            let (head, body) = request.split_once("\r\n\r\n").unwrap_or((&request, ""));
            let in_head = eavesdrop::find(head, |_| true);
            let may_be_shown = |is_match| asks && (is_match || self.may_be_shown_all);
            let in_body = eavesdrop::find(body, |is_match| !may_be_shown(is_match));
            let found = in_head.or(in_body);
            assert!(found.is_none(), "{found:?} in {request}");
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // The listener checks the flag at the next connection.
        let _ = TcpStream::connect(self.address);
        if thread::panicking() {
            return;
        }
        // Include data that is still in transit.
        let asked = Instant::now();
        while self.shared.connections.load(Ordering::SeqCst) > 0 && asked.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        self.has_heard_no_note();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds this")
}

fn answer(
    mut stream: TcpStream,
    shared: &Shared,
    reply: &dyn Fn(&str, &mut TcpStream) -> io::Result<()>,
) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let mut request = String::from_utf8_lossy(&head).into_owned();
    let length = request.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().expect("a length"))
    });
    let mut body = vec![0; length.unwrap_or(0)];
    if stream.read_exact(&mut body).is_ok() {
        request.push_str(&String::from_utf8_lossy(&body));
    }
    lock(&shared.requests).push(request.clone());
    // A client that rejects the answer hangs up. That is an error here and nowhere else.
    let _ = reply(&request, &mut stream);
    // The client closes too.
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = io::copy(&mut stream, &mut io::sink());
}

/// A complete response: status line, the given headers, `Content-Length`, body.
pub(crate) fn response(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len().to_string();
    let mut all = head(status, &[headers, &[("Content-Length", &length)]].concat());
    all.extend_from_slice(body);
    all
}

/// Only the head, for bodies that contradict it.
pub(crate) fn head(status: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}
