//! The mint's own `/v1/info` (NUT-06), with the filters announced in it.
//!
//! If a reverse proxy routes `/v1/info` here, wallets learn of the filters at the place that they query first. A thread
//! fetches the info and keeps it, so no request waits for the mint. The announcement is a member beside `nuts`: wallets
//! have parsers that accept integers only as keys of `nuts`. `time` is left out, because a kept time is wrong. All other
//! members are passed on as the mint wrote them. If the mint has a member of that name itself, it stays.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use nutfilter_objects::Table;
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use ureq::Agent;
use ureq::http::Uri;

use crate::filter_site::{INFO_PATH, VIA};
use crate::filters::Filters;
use crate::status::{Monitor, now};

/// Longest info that is read, in bytes. Real ones take a few thousand bytes, or some MiB with an embedded picture.
const MAX_BYTES: u64 = 16 << 20;

/// Time limit of one fetch, from the name lookup to the last byte.
const DEADLINE: Duration = Duration::from_secs(10);

/// Pause between two fetches. It is the age of what wallets get.
const PAUSE: Duration = Duration::from_secs(30);

/// Pause after the first failed fetch. It doubles up to [`PAUSE`].
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Pause after the mint refused a fetch for its limit of requests per minute. nutshell counts a refused one too, and begins the
/// minute again.
const LIMITED: Duration = Duration::from_secs(61);

/// How long the last good info stays while the mint refuses or hangs.
const KEEP: Duration = Duration::from_secs(600);

/// Fetches the mint's info and announces the filters in it.
#[derive(Debug)]
pub struct InfoMirror {
    agent: Agent,
    url: Uri,
    pause: Duration,
    keep: Duration,
}

impl InfoMirror {
    /// The info of the mint at `mint`, such as `http://127.0.0.1:3338` or `https://mint.example/Bitcoin`.
    ///
    /// # Errors
    ///
    /// If the URL is invalid.
    pub fn new(mint: &str) -> Result<Self, InfoError> {
        if !mint.starts_with("http://") && !mint.starts_with("https://") {
            return Err(InfoError::Url("must begin with http:// or https://"));
        }
        let url: Uri = format!("{}/v1/info", mint.trim_end_matches('/'))
            .parse()
            .map_err(|_| InfoError::Url("not a URL"))?;
        if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(InfoError::Url("must not contain a user name or password"));
        }
        if url.query().is_some() || mint.contains('#') {
            return Err(InfoError::Url("must not contain a query or a fragment"));
        }
        Ok(Self { agent: agent(DEADLINE), url, pause: PAUSE, keep: KEEP })
    }

    /// The mint's info of this moment, as JSON. Blocks for at most 10 s.
    ///
    /// # Errors
    ///
    /// If the mint does not answer with an info.
    pub fn fetch(&self) -> Result<Vec<u8>, InfoError> {
        let request = self.agent.get(&self.url);
        let request = request.header("via", format!("1.1 {VIA}"));
        let mut response = request.call().map_err(Box::new)?;
        if response.status() != 200 {
            return Err(InfoError::Status(response.status().as_u16()));
        }
        let body = response.body_mut().with_config().limit(MAX_BYTES);
        announce(&body.read_to_vec().map_err(Box::new)?)
    }

    /// Sets the pause between two fetches, which is their time limit too, and how long the last good info stays.
    #[cfg(test)]
    fn set_pace(&mut self, pause: Duration, keep: Duration) {
        (self.pause, self.keep) = (pause, keep);
        self.agent = agent(pause.max(Duration::from_millis(100)));
    }

    /// Fetches the info every 30 s on a thread. The table has it as [`INFO_PATH`]; if no fetch succeeded for 10 minutes,
    /// it is empty. The thread ends once the monitor is stopped or the table is dropped.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn follow(self, monitor: Arc<Monitor>) -> io::Result<Arc<Table>> {
        let table = Arc::new(Table::in_memory());
        let kept = Arc::downgrade(&table);
        thread::Builder::new()
            .name("nutfilter-info".to_owned())
            .spawn(move || self.run(&kept, &monitor))?;
        Ok(table)
    }

    fn run(&self, kept: &Weak<Table>, monitor: &Monitor) {
        let (mut last_good, mut failures) = (None::<Instant>, 0);
        while !monitor.stop.load(Ordering::Relaxed) {
            let (date, result) = (now(), self.fetch());
            let Some(table) = kept.upgrade() else { return };
            let mut pause = self.pause;
            match result {
                Ok(info) => {
                    let write = |out: &mut dyn io::Write| out.write_all(&info);
                    // Writing to memory cannot fail.
                    let _ = table.put(INFO_PATH, "application/json", date, write);
                    (last_good, failures) = (Some(Instant::now()), 0);
                }
                Err(error) => {
                    monitor.count_info_failure();
                    failures += 1;
                    pause = match error {
                        InfoError::Status(429) => LIMITED,
                        _ => pause.min(FIRST_RETRY * (1 << failures.min(6)) / 2),
                    };
                    // A mint may restart, or refuse one in a while.
                    if failures == 2 {
                        tracing::warn!(%error, "could not fetch the mint's info; keeping the last one for 10 minutes");
                    }
                }
            }
            match last_good.map(|last| self.keep.saturating_sub(last.elapsed())) {
                Some(Duration::ZERO) => table.remove(INFO_PATH),
                left => pause = left.map_or(pause, |left| pause.min(left)),
            }
            drop(table);
            thread::sleep(pause);
        }
    }
}

fn agent(deadline: Duration) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        // The mint is on the local side. A proxy for outside traffic must not be used for it.
        .proxy(None)
        .user_agent(concat!("nutfilter/", env!("CARGO_PKG_VERSION")))
        .accept("application/json")
        .accept_encoding("identity")
        .timeout_global(Some(deadline))
        .build()
        .new_agent()
}

/// Why there is no info. No message contains a URL, because a URL may be confidential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InfoError {
    /// The URL of the mint is invalid.
    #[error("invalid mint URL: {0}")]
    Url(&'static str),
    /// The mint cannot be reached, or breaks off.
    #[error("could not reach the mint: {0}{hint}", hint = not_tls(.0))]
    Transport(#[from] Box<ureq::Error>),
    /// The mint answers with another status than 200; redirects are not followed.
    #[error("the mint returned {0}{hint}", hint = is_loop(*.0))]
    Status(u16),
    /// The answer is not an info.
    #[error("invalid mint info (NUT-06): {0}")]
    Malformed(String),
}

/// What rustls says of an answer that is not TLS helps nobody.
fn not_tls(error: &ureq::Error) -> &'static str {
    match error.to_string().contains("InvalidContentType") {
        true => "; the server did not respond with TLS; give its http:// address",
        false => "",
    }
}

/// What this program answers to itself.
fn is_loop(status: u16) -> &'static str {
    match status {
        508 => {
            "; MINT_API leads back to nutfilter: give the mint's own address, not the public one"
        }
        _ => "",
    }
}

/// Adds the announcement, unless the mint has one, and leaves out `time`. Every other member stays as it is.
fn announce(info: &[u8]) -> Result<Vec<u8>, InfoError> {
    let malformed = |error: &dyn fmt::Display| InfoError::Malformed(error.to_string());
    let info = std::str::from_utf8(info).map_err(|error| malformed(&error))?;
    let mut parser = serde_json::Deserializer::from_str(info);
    let members = parser.deserialize_map(Members(info));
    let members = members
        .and_then(|members| parser.end().map(|()| members))
        .map_err(|error| malformed(&error))?;
    let kept = members.iter().filter(|(name, _)| name != "time");
    let mut kept: Vec<_> = kept.map(|(_, member)| *member).collect();
    let (name, value) = Filters::announcement();
    let ours = format!("\"{name}\":{value}");
    if !members.iter().any(|(other, _)| other == name) {
        kept.push(&ours);
    }
    Ok(format!("{{{}}}", kept.join(",")).into_bytes())
}

/// Splits the text of an object into its members, each with its name.
struct Members<'a>(&'a str);

impl<'a> Visitor<'a> for Members<'a> {
    type Value = Vec<(String, &'a str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut members, mut at) = (vec![], 0);
        while let Some((name, value)) = map.next_entry::<String, &'a RawValue>()? {
            // The value is a part of the text. Before it is its name, and before that the end of the member before.
            let start = value.get().as_ptr().addr() - self.0.as_ptr().addr();
            let end = start + value.get().len();
            let from = at + self.0[at..].find('"').unwrap_or(0);
            members.push((name, &self.0[from..end]));
            at = end;
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Mutex;

    use nutfilter_testing::loopback::{Loopback, response};

    use super::*;

    #[test]
    fn other_members_are_unchanged() {
        let ours = r#""filters":{"supported":true}"#;
        for (info, expected) in [
            (
                r#"{ "name" : "x\u00e9", "big":1.10e30,"time" : 17, "nuts": { "4":{ "methods":[] } , "7": {}}
                   , "z":[1, 2.0] }"#,
                format!(
                    r#"{{"name" : "x\u00e9","big":1.10e30,"nuts": {{ "4":{{ "methods":[] }} , "7": {{}}}},"z":[1, 2.0],{ours}}}"#
                ),
            ),
            ("{}", format!("{{{ours}}}")),
            ("{ }", format!("{{{ours}}}")),
            (r#"{"time":1}"#, format!("{{{ours}}}")),
            // Only a member of the info itself counts, by its name and not by how that is written. A repeated one stays.
            (
                r#"{"a\"b":{"time":1,"filters":2},"t\u0069me":1,"a":1,"a":2,"nuts":null}"#,
                format!(r#"{{"a\"b":{{"time":1,"filters":2}},"a":1,"a":2,"nuts":null,{ours}}}"#),
            ),
            // The mint's own entry stays.
            (r#"{"f\u0069lters":[],"b":1}"#, r#"{"f\u0069lters":[],"b":1}"#.to_owned()),
        ] {
            let made = announce(info.as_bytes()).expect("an info");
            assert_eq!(String::from_utf8(made).expect("text"), expected);
        }
        // Deep nesting must not overflow the stack.
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let _ = announce(deep.as_bytes());
    }

    #[test]
    fn invalid_info_is_refused() {
        for info in ["", "[]", "null", "{", "{}x", "\"{}\"", "{\"a\":}"] {
            let error = announce(info.as_bytes()).expect_err(info);
            assert!(error.to_string().starts_with("invalid mint info"));
        }
        assert!(announce(b"{\"a\":\"\xff\"}").is_err());
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
            let error = InfoMirror::new(url).expect_err(url).to_string();
            assert!(!error.contains("secret") && !error.contains("mint.example"), "{error}");
        }
    }

    /// A status, or 0 for a mint that hangs, and a body.
    type Answer = Arc<Mutex<(u16, String)>>;

    fn mint(answer: &Answer) -> Loopback {
        let answer = Arc::clone(answer);
        let reply = move |_: &str, stream: &mut TcpStream| {
            let (code, body) = answer.lock().unwrap().clone();
            match code {
                0 => io::copy(stream, &mut io::sink()).map(drop),
                _ => stream.write_all(&response(&format!("{code} x"), &[], body)),
            }
        };
        Loopback::start(0, reply).unwrap()
    }

    #[test]
    fn answer_that_is_not_an_info_is_named() {
        let long = |mib: usize| format!(r#"{{"name":"{}"}}"#, "x".repeat(mib << 20));
        for (code, body, said) in [
            (200, "{}".to_owned(), ""),
            (200, long(8), ""),
            (200, long(17), "could not reach the mint"),
            (200, "[]".to_owned(), "invalid mint info"),
            (200, "<html>".to_owned(), "invalid mint info"),
            (307, "{}".to_owned(), "the mint returned 307"),
            (500, "{}".to_owned(), "the mint returned 500"),
            (508, "{}".to_owned(), "give the mint's own address"),
        ] {
            let mint = mint(&Arc::new(Mutex::new((code, body))));
            let result = InfoMirror::new(&mint.url).unwrap().fetch();
            assert_eq!(result.is_ok(), said.is_empty(), "{code}");
            let error = result.map_or_else(|error| error.to_string(), |_| String::new());
            assert!(error.contains(said), "{error}");
        }
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (vacant, plain) = (listen().local_addr().unwrap(), listen());
        let no_tls = format!("https://{}", plain.local_addr().unwrap());
        thread::spawn(move || plain.accept().unwrap().0.write_all(b"HTTP/1.1 400 x\r\n\r\n"));
        for (url, said) in
            [(no_tls, "give its http:// address"), (format!("http://{vacant}"), "refused")]
        {
            let error = InfoMirror::new(&url).unwrap().fetch().unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    /// Waits until this holds.
    fn until(what: &str, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(30), "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn last_good_info_stays_for_a_while() {
        for broken in [503, 0] {
            let answer = Arc::new(Mutex::new((200, "{}".to_owned())));
            let mint = mint(&answer);
            let mut info = InfoMirror::new(&mint.url).unwrap();
            info.set_pace(Duration::from_millis(20), Duration::from_millis(600));
            let monitor = Monitor::new(Arc::new(Table::in_memory()));
            let table = info.follow(Arc::clone(&monitor)).unwrap();
            until("an info", || table.get(INFO_PATH).is_some());
            let first = Instant::now();
            answer.lock().unwrap().0 = broken;
            until("a failure", || monitor.status().info_failures > 0);
            let elapsed = first.elapsed();
            let stays = table.get(INFO_PATH).is_some();
            assert!(stays || elapsed > Duration::from_millis(550), "{broken}");
            until("it is taken away", || table.get(INFO_PATH).is_none());
            answer.lock().unwrap().0 = 200;
            until("it comes back", || table.get(INFO_PATH).is_some());
            let is_named = |request: &String| request.contains("via: 1.1 nutfilter");
            assert!(mint.requests().iter().all(is_named));
        }
    }
}
