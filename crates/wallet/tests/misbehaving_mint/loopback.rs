//! A server on the loopback interface that says exactly what a test wants it to say.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Answers each connection with `reply`, in a thread of its own, until dropped.
pub(crate) struct Loopback {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    stopped: Arc<AtomicBool>,
}

impl Loopback {
    /// `reply` gets the request, head and body, and the connection to do with as it likes. Its errors are
    /// those of a client that has gone.
    pub(crate) fn start(
        reply: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the address of a listener");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stopped = Arc::new(AtomicBool::new(false));
        let reply = Arc::new(reply);
        let (all_requests, stop) = (requests.clone(), stopped.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let (requests, reply) = (all_requests.clone(), reply.clone());
                thread::spawn(move || answer(stream, &requests, &*reply));
            }
        });
        Self {
            address,
            requests,
            stopped,
        }
    }

    /// One and the same answer for every request.
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

    /// All requests up to now, heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests
            .lock()
            .expect("no test panics while it holds this")
            .clone()
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // The listener looks at the flag when somebody comes.
        let _ = TcpStream::connect(self.address);
    }
}

fn answer(
    mut stream: TcpStream,
    requests: &Mutex<Vec<String>>,
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
    requests
        .lock()
        .expect("no test panics while it holds this")
        .push(request.clone());
    // A client that refuses what it hears hangs up, which is an error here and nowhere else.
    let _ = reply(&request, &mut stream);
}

/// A whole response: status line, the given headers, `Content-Length`, body.
pub(crate) fn response(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len().to_string();
    let mut all = head(status, &[headers, &[("Content-Length", &length)]].concat());
    all.extend_from_slice(body);
    all
}

/// The head alone, for bodies that lie about themselves.
pub(crate) fn head(status: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}
