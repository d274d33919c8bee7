//! The router on loopback, and two clients: an ordinary one, and one that says exactly what it is told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nutfilter_mint::{FilterService, Kind, http};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// A server in the background, stopped when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    agent: ureq::Agent,
    stop: Option<oneshot::Sender<()>>,
    _runtime: Runtime,
}

/// What a client saw.
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

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

impl Server {
    pub(crate) fn start(service: FilterService) -> Self {
        Self::serve(http::router(service))
    }

    pub(crate) fn serve(router: axum::Router) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        runtime.spawn(http::serve(listener, router, async {
            let _ = stopped.await;
        }));
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .new_agent();
        Self {
            address,
            agent,
            stop: Some(stop),
            _runtime: runtime,
        }
    }

    /// GET by the ordinary client.
    pub(crate) fn get(&self, path: &str) -> Reply {
        let response = self
            .agent
            .get(format!("http://{}{path}", self.address))
            .call()
            .unwrap();
        Self::reply(response)
    }

    pub(crate) fn head(&self, path: &str) -> Reply {
        let response = self
            .agent
            .head(format!("http://{}{path}", self.address))
            .call()
            .unwrap();
        Self::reply(response)
    }

    fn reply(mut response: ureq::http::Response<ureq::Body>) -> Reply {
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let (status, headers) = (response.status().as_u16(), headers.collect());
        Reply {
            status,
            headers,
            body: response.body_mut().read_to_vec().unwrap(),
        }
    }

    /// The filter of a keyset whose id needs no escaping.
    pub(crate) fn filter(&self, kind: Kind, keyset: &str) -> Reply {
        self.get(&format!("/v1/filter/{kind}/{keyset}"))
    }

    /// A request line taken as it is: an ordinary client would tidy the path up first.
    pub(crate) fn raw(&self, method: &str, path: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: mint\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let end = reply
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .expect("a complete head");
        let head = String::from_utf8(reply[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines
            .next()
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Reply {
            status,
            headers,
            body: reply[end + 4..].to_vec(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}
