//! The mint's own `/v1/info` (NUT-06), with the filters announced in it.
//!
//! If a reverse proxy routes `/v1/info` here, wallets learn of the filters at the place that they query first. The
//! mint's JSON is passed on byte for byte, with one added entry in `nuts`, for example `"25": {"supported": true}`. If
//! the mint has its own entry of that name (25 is BOLT12 now), that entry is kept, and a warning says so once. The `time`
//! field is as old as the copy.

mod announced;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ureq::Agent;
use ureq::http::Uri;
use ureq::http::header::LOCATION;

use self::announced::announced;
use crate::body::Body;
use crate::metrics::METRICS;
use crate::object::Object;
use crate::service::FilterService;

/// Longest info that is read, in bytes. Real ones take a few thousand bytes, or tens of thousands with an embedded
/// picture.
const MAX_BYTES: u64 = 1 << 20;
/// Time limit of one fetch, from the name lookup to the last byte.
const DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a failed fetch, unless the interval is shorter. A mint that restarts is back soon.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum number of redirects. All of them must stay within the mint's own origin.
const MAX_REDIRECTS: u32 = 3;

/// The value of the added entry.
const SUPPORTED: &str = r#"{"supported":true}"#;

/// Fetches the mint's info, which its service serves at `v1/info`.
#[derive(Debug)]
pub struct InfoFetcher {
    agent: Agent,
    url: Uri,
    key: String,
    service: FilterService,
    /// Whether it was logged that the key is not free.
    is_warned: AtomicBool,
}

/// The thread of [`InfoFetcher::start`]. It ends when this is dropped.
#[derive(Debug)]
pub struct InfoThread {
    _alive: Sender<()>,
}

impl InfoFetcher {
    /// Serves the info of the mint at `mint`. Examples of `mint`: `http://127.0.0.1:3338`,
    /// `https://mint.example/Bitcoin`. `key` is the name of the entry that is added to `nuts`. A service has one fetcher.
    ///
    /// # Errors
    ///
    /// If the URL is invalid.
    pub fn new(
        mint: &str,
        service: &FilterService,
        key: impl Into<String>,
    ) -> Result<Self, InfoError> {
        let refuse = |why| InfoError(Kind::BadUrl(why));
        let url = format!("{}/v1/info", mint.trim_end_matches('/'));
        let url: Uri = url.parse().map_err(|_| refuse("not a URL"))?;
        if !matches!(url.scheme_str(), Some("http" | "https")) {
            return Err(refuse("must begin with http:// or https://"));
        }
        let authority = url.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(refuse("must not contain a user name or password"));
        }
        if url.query().is_some() || mint.contains('#') {
            return Err(refuse("must not contain a query or a fragment"));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // Redirects are followed in `download`, which checks the origin.
            .max_redirects(0)
            // The mint is on the local side. A proxy for outside traffic must not be used for it.
            .proxy(None)
            .user_agent(concat!("nutfilter/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .accept_encoding("identity")
            .build()
            .new_agent();
        service.expect_info();
        Ok(Self {
            agent,
            url,
            key: key.into(),
            service: service.clone(),
            is_warned: AtomicBool::new(false),
        })
    }

    /// Fetches the info once.
    ///
    /// # Errors
    ///
    /// If the mint does not answer with an info within 10 s. The last one is served.
    pub fn fetch(&self) -> Result<(), InfoError> {
        let mut info = self.download()?;
        match announced(&info, &self.key, SUPPORTED)? {
            Some(added) => info = added,
            None if self.is_warned.swap(true, Ordering::Relaxed) => {}
            None => tracing::warn!(
                key = self.key,
                "the mint's info has its own entry of this name in nuts, so the filters are not announced; set \
                 another info_key"
            ),
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let date = now.unwrap_or_default().as_secs();
        let object = Object::json("v1/info", Body::new(info, None), date);
        self.service.replace_info(object);
        Ok(())
    }

    /// Fetches the info at an interval, such as [`InfoFetcher::INTERVAL`], on a thread.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn start(self, interval: Duration) -> io::Result<InfoThread> {
        let (alive, dropped) = mpsc::channel();
        let thread = thread::Builder::new().name("nutfilter-info".to_owned());
        thread.spawn(move || self.run(interval, &dropped))?;
        Ok(InfoThread { _alive: alive })
    }

    /// Default time between two fetches. A mint's info changes a few times a year.
    pub const INTERVAL: Duration = Duration::from_secs(60);

    fn run(&self, interval: Duration, dropped: &Receiver<()>) {
        // Failures are logged when the state changes, not at every attempt.
        let mut failing = false;
        loop {
            let pause = match self.fetch() {
                Ok(()) => {
                    if core::mem::take(&mut failing) {
                        tracing::info!("mint info is available again");
                    }
                    interval
                }
                Err(error) => {
                    METRICS.info_failures.inc();
                    if !core::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "could not fetch the mint's info; serving the last one");
                    }
                    interval.min(RETRY)
                }
            };
            if dropped.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    fn download(&self) -> Result<Vec<u8>, InfoError> {
        let started = Instant::now();
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let left = DEADLINE.saturating_sub(started.elapsed());
            // A timeout of zero would mean no limit.
            let request = self.agent.get(&url).config();
            let request = request.timeout_global(Some(left.max(Duration::from_millis(1))));
            let mut response = request.build().call().map_err(transport)?;
            match response.status().as_u16() {
                200 => {
                    let body = response.body_mut().with_config().limit(MAX_BYTES);
                    return body.read_to_vec().map_err(transport);
                }
                301 | 302 | 303 | 307 | 308 => {
                    let location = response.headers().get(LOCATION);
                    let location = location.and_then(|value| value.to_str().ok());
                    let next = location.and_then(|location| within_origin(&url, location));
                    url = next.ok_or(InfoError(Kind::Redirect))?;
                }
                status => return Err(InfoError(Kind::Status(status))),
            }
        }
        Err(InfoError(Kind::Redirects))
    }
}

/// The target of a redirect, if it is a path or a URL with the same scheme, host and port.
fn within_origin(from: &Uri, location: &str) -> Option<Uri> {
    let (scheme, authority) = (from.scheme_str()?, from.authority()?);
    if location.starts_with('/') && !location.starts_with("//") {
        return format!("{scheme}://{authority}{location}").parse().ok();
    }
    let to: Uri = location.parse().ok()?;
    let same = to.scheme_str() == Some(scheme) && to.authority() == Some(authority);
    same.then_some(to)
}

/// Why the mint's info could not be fetched. No message contains a URL, because a URL may be confidential.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct InfoError(Kind);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("invalid mint URL: {0}")]
    BadUrl(&'static str),
    #[error("{}", of_transport(.0))]
    Transport(Box<ureq::Error>),
    #[error("the mint returned {0}")]
    Status(u16),
    #[error("the mint redirects to another origin")]
    Redirect,
    #[error("the mint redirects more than {MAX_REDIRECTS} times")]
    Redirects,
    #[error("the mint's info is not UTF-8")]
    NoText,
    #[error("invalid mint info (NUT-06): {0}")]
    Malformed(#[source] serde_json::Error),
}

fn transport(error: ureq::Error) -> InfoError {
    InfoError(Kind::Transport(Box::new(error)))
}

/// Other errors may quote the requested URL.
fn of_transport(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => format!("request to the mint failed: {error}"),
        ureq::Error::Timeout(_) => {
            format!("the mint did not answer within {} s", DEADLINE.as_secs())
        }
        ureq::Error::BodyExceedsLimit(_) => {
            format!("the mint's info is longer than {MAX_BYTES} bytes")
        }
        ureq::Error::HostNotFound => "mint host not found".into(),
        _ => "invalid HTTP response from the mint".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_within_the_origin() {
        let from: Uri = "http://mint.example:3338/v1/info".parse().expect("a URL");
        for (location, expected) in [
            ("/x", Some("http://mint.example:3338/x")),
            (
                "http://mint.example:3338/y",
                Some("http://mint.example:3338/y"),
            ),
            ("https://mint.example:3338/y", None),
            ("http://mint.example/y", None),
            ("http://other.example:3338/y", None),
            ("//other.example/y", None),
            ("http://mint.example:3338@other.example/y", None),
            ("", None),
        ] {
            let to = within_origin(&from, location).map(|to| to.to_string());
            assert_eq!(to.as_deref(), expected, "{location}");
        }
    }

    #[test]
    fn invalid_urls_are_refused_and_not_quoted() {
        for url in [
            "mint.example",
            "ftp://mint.example",
            "http://",
            "http://user:secret@mint.example",
            "http://mint.example/?a=secret",
            "http://mint.example/#secret",
            "http://a b/",
        ] {
            let made = InfoFetcher::new(url, &FilterService::default(), "25");
            let error = made.expect_err(url).to_string();
            assert!(
                !error.contains("secret") && !error.contains("mint.example"),
                "{error}"
            );
        }
    }
}
