//! The router on loopback, with a client that sends its requests unchanged.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nutfilter_serve::Limits;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::site::{PAGE, TestSite};

/// A server in the background, stopped when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<()>>,
    pub(crate) runtime: Runtime,
}

/// The reply that a client received.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Reads everything until the end of the connection.
    pub(crate) fn read(mut stream: impl Read) -> Self {
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let end = reply
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap_or_else(|| panic!("no head: {}", String::from_utf8_lossy(&reply)));
        let head = String::from_utf8(reply[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        Self {
            status: status.parse().unwrap(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: reply[end + 4..].to_vec(),
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

impl Server {
    pub(crate) fn start(site: TestSite) -> Self {
        Self::serve(nutfilter_serve::router(site))
    }

    pub(crate) fn serve(router: axum::Router) -> Self {
        Self::limited(router, Limits::default())
    }

    pub(crate) fn limited(router: axum::Router, limits: Limits) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(nutfilter_serve::listen("127.0.0.1:0"));
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = runtime.spawn(nutfilter_serve::serve(listener, router, limits, async {
            let _ = stopped.await;
        }));
        Self { address, stop: Some(stop), served: Some(served), runtime }
    }

    /// Stops the server and waits for it.
    pub(crate) fn stop(mut self) {
        drop(self.stop.take());
        let served = self.served.take().unwrap();
        self.runtime.block_on(served).unwrap();
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[])
    }

    /// Sends a request with these headers and `host` only.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut stream = self.connect();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: mint\r\nconnection: close\r\n{headers}\r\n"
        )
        .unwrap();
        Reply::read(stream)
    }

    /// GET of the page.
    pub(crate) fn page(&self, headers: &[(&str, &str)]) -> Reply {
        self.ask("GET", PAGE, headers)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

#[track_caller]
pub(crate) fn assert_refused(reply: &Reply, status: u16, code: u32) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    let json = reply.json();
    assert_eq!(json["code"], code);
    assert!(json["detail"].as_str().is_some_and(|detail| !detail.is_empty() && detail.len() < 100));
    assert_eq!(json.as_object().unwrap().len(), 2);
}
