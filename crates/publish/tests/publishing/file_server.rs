//! A server of static files that knows nothing but GET, and a client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

/// Where a server finds its files.
pub(crate) trait Files: Send + 'static {
    fn file(&self, path: &str) -> Option<Vec<u8>>;
}

impl Files for PathBuf {
    fn file(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.join(path)).ok()
    }
}

/// Serves files, and returns the URL.
pub(crate) fn serve_files(files: impl Files) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            let request = head.next().unwrap_or_default();
            head.find(String::is_empty);
            let path = request.split(' ').nth(1).unwrap_or("/");
            let (status, body) = match files.file(&path[1..]) {
                Some(body) => ("200 OK", body),
                None => ("404 Not Found", b"no such file".to_vec()),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    url
}

/// Head, in lower case, and body of the answer to a request.
pub(crate) fn request(method: &str, url: &str, path: &str, headers: &str) -> (String, Vec<u8>) {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}connection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|end| end == b"\r\n\r\n")
        .unwrap();
    let body = answer.split_off(end + 4);
    (String::from_utf8_lossy(&answer).to_lowercase(), body)
}
