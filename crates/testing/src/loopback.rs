//! A server on the loopback interface that sends exactly what a test specifies, and records all requests.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Maximum wait for a client to disconnect after it was told to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers each connection with a reply, in its own thread, until dropped.
pub struct Loopback {
    /// `http://ADDRESS`.
    pub url: String,
    address: SocketAddr,
    shared: Arc<Shared>,
    check: fn(&str),
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    stopped: AtomicBool,
}

/// A request as tests look at it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method, path and version.
    pub line: String,
    /// The body, or null if it is not JSON.
    pub body: Value,
}

impl Request {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let line = head.lines().next().unwrap_or_default().to_owned();
        Self { line, body: serde_json::from_str(body).unwrap_or_default() }
    }

    /// The path, with its query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

impl Loopback {
    /// `reply` receives the request (head and body) and the connection. Its errors are ignored: they mean that the
    /// client has gone. Port 0 is any free one.
    ///
    /// # Errors
    ///
    /// If the port is taken.
    pub fn start(
        port: u16,
        reply: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let address = listener.local_addr()?;
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
        Ok(Self { url: format!("http://{address}"), address, shared, check: |_| {} })
    }

    /// Answers with the status and the body that `answer` returns.
    ///
    /// # Errors
    ///
    /// If the port is taken.
    pub fn answering<B: AsRef<[u8]>>(
        port: u16,
        answer: impl Fn(&Request) -> (&'static str, B) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::start(port, move |request, stream| {
            let (status, body) = answer(&Request::parse(request));
            stream.write_all(&response(status, &[], body))
        })
    }

    /// Calls `check` for every request when the server is dropped. It panics if it must not have been sent.
    #[must_use]
    pub fn checked(mut self, check: fn(&str)) -> Self {
        self.check = check;
        self
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far, heads and bodies.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        lock(&self.shared.requests).clone()
    }

    /// The same, parsed.
    #[must_use]
    pub fn seen(&self) -> Vec<Request> {
        self.requests().iter().map(|text| Request::parse(text)).collect()
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
        self.requests().iter().for_each(|request| (self.check)(request));
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
#[must_use]
pub fn response(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len().to_string();
    let mut all = head(status, &[headers, &[("Content-Length", &length)]].concat());
    all.extend_from_slice(body);
    all
}

/// Only the head, for bodies that contradict it.
#[must_use]
pub fn head(status: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}
