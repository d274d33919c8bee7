//! The mint's own `/v1/info` (NUT-06), with the filters announced in it.
//!
//! A reverse proxy that sends `/v1/info` here has wallets learn of the filters from where they look first.
//! What the mint says is passed on as it came, byte for byte, with one entry more: `"25": {"supported": true}`
//! in `nuts`. If the mint has a word of its own on 25, that stands. Its `time` is as old as the copy.

mod announced;

use core::error::Error;
use core::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use ureq::Agent;
use ureq::http::Uri;
use ureq::http::header::LOCATION;

use self::announced::announced;
use crate::body::Body;

/// The longest info that is read, in bytes. Real ones have a few thousand; a mint with a picture in it has
/// tens of thousands.
const MAX_BYTES: u64 = 1 << 20;
/// Time for one fetch, from the look-up of the name to the last byte.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often the mint is asked, unless told otherwise. A mint's info changes a few times a year.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
/// The pause after a fetch that failed, unless the interval is shorter: a mint that restarts is soon back.
const RETRY: Duration = Duration::from_secs(5);
/// How many redirects are followed, all of them within the mint's own origin.
const MAX_REDIRECTS: u32 = 3;

/// Keeps a copy of the mint's info. A thread of its own asks for it, until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct InfoService {
    current: Arc<ArcSwapOption<Body>>,
    /// Disconnected when nobody is left who could ask.
    _alive: Sender<()>,
}

impl InfoService {
    /// Begins to ask the mint at `mint`, such as `http://127.0.0.1:3338` or `https://mint.example/Bitcoin`,
    /// once a minute.
    ///
    /// # Errors
    ///
    /// If the URL is none, or the system has no thread to give.
    pub fn start(mint: &str) -> Result<Self, InfoError> {
        Self::start_every(mint, DEFAULT_INTERVAL)
    }

    /// As [`InfoService::start`], with another interval.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start_every(mint: &str, interval: Duration) -> Result<Self, InfoError> {
        let fetcher = Fetcher::new(mint)?;
        let current = Arc::new(ArcSwapOption::empty());
        let (alive, dropped) = mpsc::channel();
        let shared = Arc::clone(&current);
        thread::Builder::new()
            .name("nutfilter-info".to_owned())
            .spawn(move || run(&fetcher, &shared, interval, &dropped))
            .map_err(|error| InfoError(Kind::Io(error)))?;
        Ok(Self {
            current,
            _alive: alive,
        })
    }

    /// The last info that was had; `None` before the first. While the mint is down it stays.
    #[must_use]
    pub fn body(&self) -> Option<Arc<Body>> {
        self.current.load_full()
    }
}

fn run(
    fetcher: &Fetcher,
    current: &ArcSwapOption<Body>,
    interval: Duration,
    dropped: &Receiver<()>,
) {
    // Said when it changes, and not at every attempt.
    let mut failing = false;
    loop {
        let pause = match fetcher.fetch().and_then(|info| announced(&info)) {
            Ok(info) => {
                current.store(Some(Arc::new(Body::from_bytes(info))));
                if core::mem::take(&mut failing) {
                    tracing::info!("the mint's info can be had again");
                }
                interval
            }
            Err(error) => {
                metrics::counter!("nutfilter_info_failures_total").increment(1);
                if !core::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "the mint's info cannot be had; the last one is served");
                }
                interval.min(RETRY)
            }
        };
        if dropped.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

struct Fetcher {
    agent: Agent,
    url: Uri,
}

impl Fetcher {
    fn new(mint: &str) -> Result<Self, InfoError> {
        let refuse = |why| InfoError(Kind::BadUrl(why));
        let url = format!("{}/v1/info", mint.trim_end_matches('/'));
        let url: Uri = url.parse().map_err(|_| refuse("is not a URL"))?;
        if !matches!(url.scheme_str(), Some("http" | "https")) {
            return Err(refuse("does not begin with http:// or https://"));
        }
        let authority = url.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(refuse("holds a user name or password"));
        }
        if url.query().is_some() || mint.contains('#') {
            return Err(refuse("holds a query or a fragment"));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // Followed here, where the origin is looked at.
            .max_redirects(0)
            // The mint is beside us: a proxy for the world outside is not meant for it.
            .proxy(None)
            .user_agent(concat!("nutfilter/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .accept_encoding("identity")
            .build()
            .new_agent();
        Ok(Self { agent, url })
    }

    fn fetch(&self) -> Result<Vec<u8>, InfoError> {
        let started = Instant::now();
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let left = DEADLINE.saturating_sub(started.elapsed());
            // Zero would mean that there is no limit.
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

/// Where a redirect leads, if it is a path or a URL of the same scheme, host and port.
fn within_origin(from: &Uri, location: &str) -> Option<Uri> {
    let (scheme, authority) = (from.scheme_str()?, from.authority()?);
    if location.starts_with('/') && !location.starts_with("//") {
        return format!("{scheme}://{authority}{location}").parse().ok();
    }
    let to: Uri = location.parse().ok()?;
    let same = to.scheme_str() == Some(scheme) && to.authority() == Some(authority);
    same.then_some(to)
}

/// Why the mint's info cannot be had. No message holds a URL, which may be nobody else's business.
#[derive(Debug)]
pub struct InfoError(Kind);

#[derive(Debug)]
enum Kind {
    BadUrl(&'static str),
    Io(io::Error),
    Transport(Box<ureq::Error>),
    Status(u16),
    Redirect,
    Redirects,
    NoText,
    Malformed(serde_json::Error),
}

fn transport(error: ureq::Error) -> InfoError {
    InfoError(Kind::Transport(Box::new(error)))
}

impl fmt::Display for InfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::BadUrl(why) => write!(f, "the mint's URL {why}"),
            Kind::Io(error) => error.fmt(f),
            Kind::Transport(error) => match &**error {
                ureq::Error::Io(error) => write!(f, "the mint cannot be asked: {error}"),
                ureq::Error::Timeout(_) => {
                    write!(f, "the mint did not answer within {} s", DEADLINE.as_secs())
                }
                ureq::Error::BodyExceedsLimit(_) => {
                    write!(f, "the mint's info is longer than {MAX_BYTES} bytes")
                }
                ureq::Error::HostNotFound => f.write_str("the mint's host is not found"),
                // Others may quote what was asked for.
                _ => f.write_str("the mint's answer is not understood"),
            },
            Kind::Status(status) => write!(f, "the mint answered {status}"),
            Kind::Redirect => f.write_str("the mint sends elsewhere, to another origin"),
            Kind::Redirects => write!(f, "the mint redirects more than {MAX_REDIRECTS} times"),
            Kind::NoText => f.write_str("the mint's info is not UTF-8"),
            Kind::Malformed(error) => write!(f, "the mint's info is not what NUT-06 has: {error}"),
        }
    }
}

impl Error for InfoError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Kind::Io(error) => Some(error),
            Kind::Malformed(error) => Some(error),
            _ => None,
        }
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
    fn urls_that_are_none_are_refused_and_not_repeated() {
        for url in [
            "mint.example",
            "ftp://mint.example",
            "http://",
            "http://user:secret@mint.example",
            "http://mint.example/?a=secret",
            "http://mint.example/#secret",
            "http://a b/",
        ] {
            let error = Fetcher::new(url).err().expect(url).to_string();
            assert!(
                !error.contains("secret") && !error.contains("mint.example"),
                "{error}"
            );
        }
    }
}
