//! The mint's own `/v1/info` (NUT-06), with the filters announced in it.
//!
//! A reverse proxy that sends `/v1/info` here has wallets learn of the filters from where they look first.
//! What the mint says is passed on as it came, byte for byte, with one entry more: `"25": {"supported": true}`
//! in `nuts`. If the mint has a word of its own on 25, that stands. Its `time` is as old as the copy.

use core::error::Error;
use core::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use serde_json::value::RawValue;
use ureq::Agent;
use ureq::http::Uri;
use ureq::http::header::LOCATION;

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

/// What is announced, as the NUT writes it.
const NUT: &str = "25";
const ENTRY: &str = r#"{"supported":true}"#;

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

/// The info with the entry added, everything else byte for byte as it came.
fn announced(info: &[u8]) -> Result<Vec<u8>, InfoError> {
    let malformed = |error| InfoError(Kind::Malformed(error));
    let text = str::from_utf8(info).map_err(|_| InfoError(Kind::NoText))?;
    let members: Members<'_> = serde_json::from_str(text).map_err(malformed)?;
    // Of two members of one name the last is what readers go by.
    let nuts = members.0.iter().rfind(|(name, _)| name == "nuts");
    let Some((_, nuts)) = nuts else {
        let nuts = format!(r#""nuts":{{"{NUT}":{ENTRY}}}"#);
        return Ok(with_member(
            text,
            opening(text),
            &nuts,
            members.0.is_empty(),
        ));
    };
    let entries: Members<'_> = serde_json::from_str(nuts.get()).map_err(malformed)?;
    if entries.0.iter().any(|(name, _)| name == NUT) {
        return Ok(info.to_vec());
    }
    // A raw value is borrowed from the text: the difference of addresses is its place.
    let start = nuts.get().as_ptr().addr() - text.as_ptr().addr();
    let entry = format!(r#""{NUT}":{ENTRY}"#);
    let at = start + opening(nuts.get());
    Ok(with_member(text, at, &entry, entries.0.is_empty()))
}

/// How many bytes of an object's text there are up to and with its opening brace.
fn opening(object: &str) -> usize {
    object.find('{').map_or(0, |brace| brace + 1)
}

fn with_member(text: &str, at: usize, member: &str, is_only: bool) -> Vec<u8> {
    let (before, after) = text.split_at(at);
    let comma = if is_only { "" } else { "," };
    [before, member, comma, after].concat().into_bytes()
}

/// The members of an object, in order, with their values unread.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: serde::de::MapAccess<'de>>(
                self,
                mut map: M,
            ) -> Result<Self::Value, M::Error> {
                let mut members = vec![];
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
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

    #[track_caller]
    fn assert_announced(info: &str, expected: &str) {
        let made = announced(info.as_bytes()).expect("an info");
        assert_eq!(String::from_utf8(made).expect("text"), expected);
        serde_json::from_str::<serde_json::Value>(expected).expect("JSON");
    }

    #[test]
    fn everything_else_is_passed_on_byte_for_byte() {
        assert_announced(
            "{ \"name\" : \"x\\u00e9\", \"n\":1.10, \"big\": 123456789012345678901234567890,\n\
             \"nuts\" : { \"4\":{\"methods\":[]} , \"7\": {\"supported\":true}} , \"z\":[1,2] }\n",
            "{ \"name\" : \"x\\u00e9\", \"n\":1.10, \"big\": 123456789012345678901234567890,\n\
             \"nuts\" : {\"25\":{\"supported\":true}, \"4\":{\"methods\":[]} , \"7\": {\"supported\":true}} , \
             \"z\":[1,2] }\n",
        );
    }

    #[test]
    fn an_object_without_nuts_or_with_none_in_it_gets_the_entry() {
        assert_announced("{}", r#"{"nuts":{"25":{"supported":true}}}"#);
        assert_announced(
            r#" { "a":1}"#,
            r#" {"nuts":{"25":{"supported":true}}, "a":1}"#,
        );
        assert_announced(r#"{"nuts":{ }}"#, r#"{"nuts":{"25":{"supported":true} }}"#);
        // In another object it does not count.
        assert_announced(
            r#"{"x":{"nuts":{}},"nuts":{}}"#,
            r#"{"x":{"nuts":{}},"nuts":{"25":{"supported":true}}}"#,
        );
        assert_announced(
            r#"{"n\u0075ts":{}}"#,
            r#"{"n\u0075ts":{"25":{"supported":true}}}"#,
        );
    }

    #[test]
    fn what_the_mint_itself_says_of_25_stands() {
        for info in [
            r#"{"nuts":{"25":{"supported":false,"more":1}}}"#,
            r#"{"nuts":{"4":{},"25":[]}}"#,
        ] {
            assert_announced(info, info);
        }
    }

    #[test]
    fn what_is_no_info_is_refused() {
        for info in [
            "",
            "[]",
            "null",
            "{",
            "{}x",
            "\"{}\"",
            r#"{"nuts":[]}"#,
            r#"{"nuts":null}"#,
            "{\"a\":}",
        ] {
            let error = announced(info.as_bytes()).expect_err(info);
            assert!(error.to_string().starts_with("the mint's info is not what"));
        }
        assert!(announced(b"{\"a\":\"\xff\"}").is_err());
        // Deep, and not followed down.
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let _ = announced(deep.as_bytes());
    }

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
