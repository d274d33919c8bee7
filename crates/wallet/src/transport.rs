//! Sends one request, and enforces a deadline for its head and a rate for its body.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use ureq::http::{HeaderMap, HeaderName, Response, Uri, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    self, Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout,
};
use ureq::{Agent, Body, RequestBuilder};

use crate::error::{FetchError, printable};
use crate::policy::Policy;
use crate::proxy::Proxy;

/// Maximum size of a response head: ten times what mints behind the usual proxies send.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// What a body must reach on average, in bytes per second, after the deadline: a slow mobile link. The largest body may
/// then take 18 hours, but no mint can hold a wallet for longer than its bytes justify.
const MIN_RATE: u64 = 16 << 10;

/// How long an abort may go unnoticed.
pub(crate) const ABORT_CHECK: Duration = Duration::from_millis(50);

/// The default, the same for every wallet that uses this crate.
const USER_AGENT: &str = "nutfilter-wallet";

const JSON: &str = "application/json";

const GZIP: &str = "gzip";

/// A complete response.
#[derive(Default)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// Gives the caller's headers of a request by its path.
pub(crate) type Headers = Arc<dyn Fn(&str) -> Vec<(String, String)> + Send + Sync>;

/// What the caller may set.
#[derive(Clone)]
pub(crate) struct HttpSettings {
    pub(crate) proxy: Option<Proxy>,
    pub(crate) user_agent: String,
    pub(crate) roots: Option<Vec<Certificate<'static>>>,
    pub(crate) headers: Option<Headers>,
    pub(crate) abort: Arc<AtomicBool>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        let (user_agent, abort) = (USER_AGENT.to_owned(), Arc::default());
        Self { proxy: None, user_agent, roots: None, headers: None, abort }
    }
}

/// Sends requests, and checks sizes before it buffers a response.
#[derive(Clone)]
pub(crate) struct Transport {
    agent: Agent,
    settings: HttpSettings,
}

/// Without the headers, which may be secret.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Transport");
        let debug = debug.field("proxy", &self.settings.proxy);
        debug.finish_non_exhaustive()
    }
}

/// The certificates in a PEM text.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, FetchError> {
    let items: Result<Vec<_>, _> = parse_pem(pem).collect();
    let certificates = items.unwrap_or_default().into_iter();
    let certificates = certificates.filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    match certificates.is_empty() {
        true => Err(FetchError::BadCertificates),
        false => Ok(certificates),
    }
}

impl Transport {
    /// `policy` has the deadline and the largest body of all requests.
    pub(crate) fn new(settings: HttpSettings, policy: &Policy) -> Self {
        let roots = settings.roots.as_deref();
        let roots = roots.map_or(RootCerts::WebPki, RootCerts::new_with_certs);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // Do not read the environment.
            .proxy(settings.proxy.as_ref().map(|proxy| proxy.inner().clone()))
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .max_response_header_size(MAX_HEAD_BYTES)
            .user_agent(&settings.user_agent)
            .accept(JSON)
            .accept_encoding(GZIP)
            .build();
        let meter = SpeedMeter {
            allowed: policy.deadline,
            max_bytes: policy.max_bytes.saturating_mul(2).max(MIN_RATE),
            abort: settings.abort.clone(),
        };
        let connector = DefaultConnector::new().chain(meter);
        let agent = Agent::with_parts(config, connector, DefaultResolver::default());
        Self { agent, settings }
    }

    pub(crate) fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    pub(crate) fn get(
        &self,
        url: &Uri,
        no_cache: bool,
        policy: &Policy,
        total: Option<Duration>,
    ) -> Result<HttpReply, FetchError> {
        let mut request = self.prepared(self.agent.get(url), url, policy, total)?;
        if no_cache {
            request = request.header(header::CACHE_CONTROL, "no-cache");
        }
        read(request.call(), policy)
    }

    /// Sends a JSON body.
    pub(crate) fn post(
        &self,
        url: &Uri,
        body: &str,
        policy: &Policy,
        total: Option<Duration>,
    ) -> Result<HttpReply, FetchError> {
        let request = self.agent.post(url).content_type(JSON);
        read(self.prepared(request, url, policy, total)?.send(body.as_bytes()), policy)
    }

    fn prepared<B>(
        &self,
        mut request: RequestBuilder<B>,
        url: &Uri,
        policy: &Policy,
        total: Option<Duration>,
    ) -> Result<RequestBuilder<B>, FetchError> {
        let headers = self.settings.headers.as_ref().map(|headers| headers(url.path()));
        for (name, value) in headers.unwrap_or_default() {
            request = request.header(name, value);
        }
        limited(request, policy, total)
    }
}

/// Limits each step of a request up to the end of the response's head, and all of it if there is a limit in total.
fn limited<B>(
    request: RequestBuilder<B>,
    policy: &Policy,
    total: Option<Duration>,
) -> Result<RequestBuilder<B>, FetchError> {
    let allowed = policy.deadline;
    if allowed.is_zero() {
        return Err(FetchError::Deadline { allowed });
    }
    Ok(request
        .config()
        .timeout_global(total)
        .timeout_resolve(Some(allowed))
        .timeout_connect(Some(allowed))
        .timeout_send_request(Some(allowed))
        .timeout_send_body(Some(allowed))
        .timeout_recv_response(Some(allowed))
        .build())
}

fn read(
    response: Result<Response<Body>, ureq::Error>,
    policy: &Policy,
) -> Result<HttpReply, FetchError> {
    let failed = |error, received| FetchError::from_transport(error, policy.deadline, received);
    let response = response.map_err(|error| failed(error, 0))?;
    let status = response.status().as_u16();
    if response.status().is_redirection()
        && let Some(to) = values(response.headers(), header::LOCATION).next()
    {
        let to = printable(to);
        return Err(FetchError::Redirect { status, to });
    }
    let retry_after = values(response.headers(), header::RETRY_AFTER).next();
    let retry_after = retry_after.map(str::to_owned);
    let declared = content_length(response.headers());
    let encodings: Vec<_> = values(response.headers(), header::CONTENT_ENCODING).collect();
    let is_gzip = matches!(encodings[..], [only] if only.trim().eq_ignore_ascii_case(GZIP));
    let encodings = encodings.iter().copied().filter(|_| !is_gzip);
    policy.admit_head(status, declared, encodings)?;
    let mut counted = CountedBody { inner: response.into_body().into_reader(), received: 0 };
    let body = match is_gzip {
        true => policy.read_body(status, None, MultiGzDecoder::new(&mut counted)),
        false => policy.read_body(status, declared, &mut counted),
    };
    match body {
        Ok(body) => Ok(HttpReply { status, retry_after, body: body? }),
        // Unwraps the transport's own error if there is one.
        Err(error) => Err(failed(error.into(), counted.received)),
    }
}

/// Counts the bytes of a body.
struct CountedBody<R> {
    inner: R,
    received: u64,
}

impl<R: Read> Read for CountedBody<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.received += read as u64;
        Ok(read)
    }
}

/// Makes every connection a [`Metered`] one. The library's own timeouts know no rate.
#[derive(Clone, Debug)]
struct SpeedMeter {
    allowed: Duration,
    max_bytes: u64,
    abort: Arc<AtomicBool>,
}

impl<In: transport::Transport> Connector<In> for SpeedMeter {
    type Out = Metered<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Metered<In>>, ureq::Error> {
        Ok(chained.map(|inner| Metered {
            inner,
            meter: self.clone(),
            started: Instant::now(),
            received: 0,
        }))
    }
}

/// Requires the rate from each response, with all that belongs to it: heads, the lines of chunks, trailers.
#[derive(Debug)]
struct Metered<T> {
    inner: T,
    meter: SpeedMeter,
    /// When the last part of the request was sent, and what has come since.
    started: Instant,
    received: u64,
}

impl<T: transport::Transport> transport::Transport for Metered<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.inner.transmit_output(amount, timeout)?;
        (self.started, self.received) = (Instant::now(), 0);
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let SpeedMeter { allowed, max_bytes, .. } = self.meter;
        if self.received > max_bytes {
            return Err(ureq::Error::BodyExceedsLimit(max_bytes));
        }
        let earned = Duration::from_millis(self.received * 1_000 / MIN_RATE);
        let left = allowed.saturating_add(earned);
        let left = left.saturating_sub(self.started.elapsed()).min(allowed).min(*timeout.after);
        let began = Instant::now();
        loop {
            let left = left.saturating_sub(began.elapsed());
            if left.is_zero() || self.meter.abort.load(Ordering::Relaxed) {
                return Err(ureq::Error::Timeout(ureq::Timeout::RecvBody));
            }
            let before = self.buffers().input().len();
            let piece = NextTimeout { after: left.min(ABORT_CHECK).into(), ..timeout };
            match self.inner.await_input(piece) {
                Err(ureq::Error::Timeout(_)) => {}
                progress => {
                    self.received += (self.buffers().input().len() - before) as u64;
                    return progress;
                }
            }
        }
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// The largest declared length, if there are several.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    values(headers, header::CONTENT_LENGTH).filter_map(|value| value.trim().parse().ok()).max()
}

/// The values of a header. A value that is not text becomes a question mark, so that it is not overlooked.
fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"))
}
