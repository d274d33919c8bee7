//! The transport: one GET, its redirects, and a clock over all of it.

use std::io::{self, Read};
use std::time::Instant;

use nutfilter::{ItemHash, KeysetId, Kind, Nut25, endpoint_path};
use ureq::http::{HeaderMap, HeaderName, Response, Uri, header};
use ureq::{Agent, Body};

use crate::base_url::{BaseUrl, resolve_location, same_origin};
use crate::error::{FetchError, printable};
use crate::policy::{Moment, Policy};
use crate::restore_filter::RestoreFilter;

/// Largest head of a response. Ten times what mints behind the usual proxies send.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The same from every wallet that uses this: it tells the mint nothing about which one asks.
const USER_AGENT: &str = "nutfilter-wallet";

/// Fetches filters from one mint. Cheap to clone, and may be used from many threads.
///
/// Connects directly, whatever the environment says about proxies; keeps no cookies; asks for no
/// compression; takes TLS certificates on the word of the Mozilla roots alone.
#[derive(Clone, Debug)]
pub struct MintClient {
    base: BaseUrl,
    policy: Policy,
    agent: Agent,
}

impl MintClient {
    /// A client for the mint at `base`, such as `https://mint.example` or `https://mint.example/Bitcoin`.
    ///
    /// # Errors
    ///
    /// [`FetchError::BadUrl`]. Nothing is sent yet.
    pub fn new(base: &str, policy: Policy) -> Result<Self, FetchError> {
        let base = BaseUrl::parse(base)?;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // Redirects are followed here, where the origin is looked at.
            .max_redirects(0)
            .proxy(None)
            .max_response_header_size(MAX_HEAD_BYTES)
            .user_agent(USER_AGENT)
            .accept("application/json")
            .accept_encoding("identity")
            .build()
            .new_agent();
        Ok(Self {
            base,
            policy,
            agent,
        })
    }

    /// The mint's base URL, without a slash at the end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.base.as_str()
    }

    /// The limits in force.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Fetches and validates a filter. Blocks for [`Policy::deadline`] at most, and the time that
    /// validation takes.
    ///
    /// # Errors
    ///
    /// Any [`FetchError`] but [`FetchError::BadUrl`]. Never to be read as "absent".
    pub fn fetch(&self, keyset: &KeysetId, kind: Kind) -> Result<RestoreFilter, FetchError> {
        self.fetch_as::<Nut25>(keyset, kind, None)
    }

    /// As [`fetch`](Self::fetch), for a wallet that has seen a filter of this keyset and kind before, dated
    /// `last_seen`. An older one then comes with [`RestoreFilter::rollback`] set and does not answer.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch).
    pub fn fetch_since(
        &self,
        keyset: &KeysetId,
        kind: Kind,
        last_seen: u64,
    ) -> Result<RestoreFilter, FetchError> {
        self.fetch_as::<Nut25>(keyset, kind, Some(last_seen))
    }

    /// As [`fetch_since`](Self::fetch_since), for mints whose filters use another hash, such as
    /// [`Nut23`](nutfilter::Nut23). Nothing in a response tells which.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch).
    pub fn fetch_as<H: ItemHash + Default>(
        &self,
        keyset: &KeysetId,
        kind: Kind,
        last_seen: Option<u64>,
    ) -> Result<RestoreFilter<H>, FetchError> {
        let started = Instant::now();
        let url = self.base.join(&endpoint_path(keyset, kind))?;
        let response = self.follow(url, started)?;

        let status = response.status().as_u16();
        let declared = content_length(response.headers());
        self.policy.admit_head(
            declared,
            values(response.headers(), header::CONTENT_ENCODING),
        )?;
        let body = self.read(response, status, declared, started)?;
        Ok(self.policy.accept(status, &body, Moment::now(last_seen))?)
    }

    /// Follows redirects as far as the policy goes; the answer is not a redirect.
    fn follow(&self, mut url: Uri, started: Instant) -> Result<Response<Body>, FetchError> {
        let mut redirects = 0;
        loop {
            let response = self.request(&url, started)?;
            let status = response.status().as_u16();
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            if redirects == self.policy.max_redirects {
                return Err(FetchError::TooManyRedirects {
                    max: self.policy.max_redirects,
                });
            }
            redirects += 1;
            let location = response.headers().get(header::LOCATION);
            let location = location
                .and_then(|value| value.to_str().ok())
                .ok_or(FetchError::BadRedirect { status })?;
            let next =
                resolve_location(&url, location).ok_or(FetchError::BadRedirect { status })?;
            if !same_origin(&url, &next) {
                return Err(FetchError::RedirectElsewhere {
                    to: printable(location),
                });
            }
            url = next;
        }
    }

    fn request(&self, url: &Uri, started: Instant) -> Result<Response<Body>, FetchError> {
        let allowed = self.policy.deadline;
        let left = allowed
            .checked_sub(started.elapsed())
            .filter(|left| !left.is_zero())
            .ok_or(FetchError::Deadline { allowed })?;
        let request = self
            .agent
            .get(url)
            .config()
            .timeout_global(Some(left))
            .build();
        request
            .call()
            .map_err(|error| FetchError::from_transport(error, allowed, 0))
    }

    fn read(
        &self,
        response: Response<Body>,
        status: u16,
        declared: Option<u64>,
        started: Instant,
    ) -> Result<Vec<u8>, FetchError> {
        let allowed = self.policy.deadline;
        let mut counted = Timed {
            inner: response.into_body().into_reader(),
            received: 0,
            is_late: || started.elapsed() > allowed,
        };
        match self.policy.read_body(status, declared, &mut counted) {
            Ok(body) => Ok(body?),
            Err(_) if started.elapsed() > allowed => Err(FetchError::Deadline { allowed }),
            // Unwraps the transport's own error where there is one.
            Err(error) => Err(FetchError::from_transport(
                error.into(),
                allowed,
                counted.received,
            )),
        }
    }
}

/// Counts bytes, and looks at the clock at every read: the transport does so only when it waits, which
/// it need not do while a fast mint goes on sending.
struct Timed<R, L> {
    inner: R,
    received: u64,
    is_late: L,
}

impl<R: Read, L: Fn() -> bool> Read for Timed<R, L> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.is_late)() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let read = self.inner.read(buffer)?;
        self.received += read as u64;
        Ok(read)
    }
}

/// The largest length that is declared, should there be several.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    values(headers, header::CONTENT_LENGTH)
        .filter_map(|value| value.trim().parse().ok())
        .max()
}

/// A header's values. One that is not text stands as a question mark, so that it is not overlooked.
fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .into_iter()
        .map(|value| value.to_str().unwrap_or("?"))
}
