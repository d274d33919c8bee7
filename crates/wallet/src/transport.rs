//! Sends one request, follows its redirects, and enforces one deadline over all of it.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use ureq::http::{HeaderMap, HeaderName, Response, Uri, header};
use ureq::{Agent, Body};

use crate::base_url::{resolve_location, same_origin};
use crate::error::{FetchError, printable};
use crate::policy::Policy;
use crate::proxy::Proxy;

/// Maximum size of a response head: ten times what mints behind the usual proxies send.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The same for every wallet that uses this crate, so that it does not identify the wallet.
const USER_AGENT: &str = "nutfilter-wallet";

const JSON: &str = "application/json";

/// The answer to a conditional request whose filter has not changed.
pub(crate) const NOT_MODIFIED: u16 = 304;

/// A complete response.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// For how many seconds the response stays current, if it says so.
    pub(crate) max_age: Option<u64>,
}

/// Sends requests, and checks sizes before it buffers a response.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    agent: Agent,
}

impl Transport {
    pub(crate) fn new(proxy: Option<&Proxy>) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // `get` follows redirects itself, to check their origin.
            .max_redirects(0)
            // Do not read the environment.
            .proxy(proxy.map(|proxy| proxy.inner().clone()))
            .max_response_header_size(MAX_HEAD_BYTES)
            .user_agent(USER_AGENT)
            .accept(JSON)
            .accept_encoding("identity")
            .build()
            .new_agent();
        Self { agent }
    }

    /// Follows redirects within the policy's limits. `if_none_match` is the value of that header.
    pub(crate) fn get(
        &self,
        mut url: Uri,
        if_none_match: Option<&str>,
        policy: &Policy,
    ) -> Result<Answer, FetchError> {
        self.get_accepting(&mut url, if_none_match, JSON, policy)
    }

    /// [`Transport::get`] for bytes of any type.
    pub(crate) fn get_bytes(&self, mut url: Uri, policy: &Policy) -> Result<Answer, FetchError> {
        self.get_accepting(&mut url, None, "*/*", policy)
    }

    fn get_accepting(
        &self,
        url: &mut Uri,
        if_none_match: Option<&str>,
        accept: &str,
        policy: &Policy,
    ) -> Result<Answer, FetchError> {
        let clock = Clock::start(policy.deadline);
        let mut redirects = 0;
        loop {
            let mut request = self.agent.get(&*url).header(header::ACCEPT, accept);
            if let Some(tag) = if_none_match {
                request = request.header(header::IF_NONE_MATCH, tag);
            }
            let left = clock.left()?;
            let request = request.config().timeout_global(Some(left)).build();
            let response = request.call().map_err(|error| clock.failed(error, 0))?;
            let status = response.status().as_u16();
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return read(response, policy, &clock);
            }
            if redirects == policy.max_redirects {
                return Err(FetchError::TooManyRedirects {
                    max: policy.max_redirects,
                });
            }
            redirects += 1;
            *url = redirected(url, &response, status)?;
        }
    }

    /// Sends a JSON body. Does not follow redirects: the body is meant for one recipient only.
    pub(crate) fn post(
        &self,
        url: &Uri,
        body: &str,
        policy: &Policy,
    ) -> Result<Answer, FetchError> {
        let clock = Clock::start(policy.deadline);
        let request = self
            .agent
            .post(url)
            .content_type("application/json")
            .config()
            .timeout_global(Some(clock.left()?))
            .build();
        let response = request
            .send(body.as_bytes())
            .map_err(|error| clock.failed(error, 0))?;
        read(response, policy, &clock)
    }
}

/// The target of a redirect, if it has the same origin.
fn redirected(from: &Uri, response: &Response<Body>, status: u16) -> Result<Uri, FetchError> {
    let location = response.headers().get(header::LOCATION);
    let location = location
        .and_then(|value| value.to_str().ok())
        .ok_or(FetchError::BadRedirect { status })?;
    let next = resolve_location(from, location).ok_or(FetchError::BadRedirect { status })?;
    if !same_origin(from, &next) {
        return Err(FetchError::RedirectElsewhere {
            to: printable(location),
        });
    }
    Ok(next)
}

fn read(response: Response<Body>, policy: &Policy, clock: &Clock) -> Result<Answer, FetchError> {
    let status = response.status().as_u16();
    if status == NOT_MODIFIED {
        // A 304 has no body. Its headers may describe the length and encoding of the full response.
        let body = Vec::new();
        let max_age = None;
        return Ok(Answer {
            status,
            body,
            max_age,
        });
    }
    let max_age = max_age(response.headers());
    let declared = content_length(response.headers());
    policy.admit_head(
        status,
        declared,
        values(response.headers(), header::CONTENT_ENCODING),
    )?;
    let mut counted = Timed {
        inner: response.into_body().into_reader(),
        received: 0,
        clock,
    };
    match policy.read_body(status, declared, &mut counted) {
        Ok(body) => Ok(Answer {
            status,
            body: body?,
            max_age,
        }),
        Err(_) if clock.is_late() => Err(FetchError::Deadline {
            allowed: clock.allowed,
        }),
        // Unwraps the transport's own error if there is one.
        Err(error) => Err(clock.failed(error.into(), counted.received)),
    }
}

/// One deadline for all steps of a fetch.
struct Clock {
    started: Instant,
    allowed: Duration,
}

impl Clock {
    fn start(allowed: Duration) -> Self {
        Self {
            started: Instant::now(),
            allowed,
        }
    }

    fn is_late(&self) -> bool {
        self.started.elapsed() > self.allowed
    }

    fn left(&self) -> Result<Duration, FetchError> {
        let allowed = self.allowed;
        allowed
            .checked_sub(self.started.elapsed())
            .filter(|left| !left.is_zero())
            .ok_or(FetchError::Deadline { allowed })
    }

    fn failed(&self, error: ureq::Error, received: u64) -> FetchError {
        FetchError::from_transport(error, self.allowed, received)
    }
}

/// Counts bytes and checks the deadline at every read. The transport checks it only when it waits, which never
/// happens while a fast mint keeps sending.
struct Timed<'a, R> {
    inner: R,
    received: u64,
    clock: &'a Clock,
}

impl<R: Read> Read for Timed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.clock.is_late() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let read = self.inner.read(buffer)?;
        self.received += read as u64;
        Ok(read)
    }
}

/// The largest declared length, if there are several.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    values(headers, header::CONTENT_LENGTH)
        .filter_map(|value| value.trim().parse().ok())
        .max()
}

/// The `max-age` of the cache rules.
fn max_age(headers: &HeaderMap) -> Option<u64> {
    values(headers, header::CACHE_CONTROL)
        .flat_map(|value| value.split(','))
        .find_map(|rule| rule.trim().strip_prefix("max-age=")?.parse().ok())
}

/// The values of a header. A value that is not text becomes a question mark, so that it is not overlooked.
fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .into_iter()
        .map(|value| value.to_str().unwrap_or("?"))
}
