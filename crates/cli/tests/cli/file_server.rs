//! A server of static files that knows nothing but GET.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;

/// Serves the files of a directory, and returns the URL.
pub(crate) fn serve_files(root: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            let request = head.next().unwrap_or_default();
            head.find(String::is_empty);
            let path = request.split(' ').nth(1).unwrap_or("/");
            let (status, body) = match std::fs::read(root.join(&path[1..])) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", b"no such file".to_vec()),
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
