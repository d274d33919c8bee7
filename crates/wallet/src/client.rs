//! The client for one mint: fetches filters, and restores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nutfilter::{ItemHash, Nut25};
use nutfilter_cashu::{KeysetId, NoteKind, endpoint_path};

use crate::base_url::BaseUrl;
use crate::batches::{MintInfo, wait};
use crate::error::{CheckError, FetchError, MintError, MintKeyset, RejectReason, UNKNOWN_KEYSET};
use crate::matches::FilterSource;
use crate::mint_filter::{FetchContext, MintFilter, system_time};
use crate::point_source::Points;
use crate::policy::{Policy, check_status};
use crate::proxy::Proxy;
use crate::query_error::QueryError;
use crate::restore_options::RestoreOptions;
use crate::restore_steps::{Restore, RestoreError, Restored};
use crate::search::SearchError;
use crate::transport::{ABORT_CHECK, HttpReply, HttpSettings, Transport, certificates};

/// Fetches filters from one mint. Cheap to clone; can be used from many threads.
///
/// Connects directly unless a proxy is set ([`with_proxy`](Self::with_proxy)), and does not read the environment.
/// Keeps no cookies. Trusts the Mozilla root certificates, unless others are set.
#[derive(Clone, Debug)]
pub struct MintClient {
    base: BaseUrl,
    policy: Policy,
    transport: Transport,
}

impl MintClient {
    /// Creates a client for the mint at `base`, such as `https://mint.example` or `https://mint.example/Bitcoin`.
    ///
    /// # Errors
    ///
    /// [`FetchError::BadUrl`]. This call sends nothing.
    pub fn new(base: &str, policy: Policy) -> Result<Self, FetchError> {
        Ok(Self {
            base: BaseUrl::parse(base)?,
            transport: Transport::new(HttpSettings::default(), &policy),
            policy,
        })
    }

    /// Returns the same client with every connection through `proxy`. [`Proxy::from_environment`] reads the usual
    /// environment variables.
    #[must_use]
    pub fn with_proxy(self, proxy: Proxy) -> Self {
        self.with(|settings| settings.proxy = Some(proxy))
    }

    /// Returns the same client with another user agent than `nutfilter-wallet`: that of the wallet's other requests.
    #[must_use]
    pub fn with_user_agent(self, user_agent: &str) -> Self {
        self.with(|settings| user_agent.clone_into(&mut settings.user_agent))
    }

    /// Returns the same client with more headers, such as the tokens of NUT-21 and NUT-22. `headers` gives them for each
    /// request, by its path.
    #[must_use]
    pub fn with_headers(
        self,
        headers: impl Fn(&str) -> Vec<(String, String)> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.headers = Some(Arc::new(headers)))
    }

    /// Returns the same client trusting only the root certificates in this PEM text, such as a private authority's.
    ///
    /// # Errors
    ///
    /// [`FetchError::BadCertificates`].
    pub fn with_root_certificates(self, pem: &[u8]) -> Result<Self, FetchError> {
        let roots = certificates(pem)?;
        Ok(self.with(|settings| settings.roots = Some(roots)))
    }

    /// Returns the same client whose requests and waits end soon after `abort` is set, with [`FetchError::Aborted`]. What was
    /// answered before is kept, as after any error.
    #[must_use]
    pub fn with_abort(self, abort: Arc<AtomicBool>) -> Self {
        self.with(|settings| settings.abort = abort)
    }

    fn with(mut self, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let mut settings = self.transport.settings().clone();
        change(&mut settings);
        self.transport = Transport::new(settings, &self.policy);
        self
    }

    /// The proxy in use.
    #[must_use]
    pub fn proxy(&self) -> Option<&Proxy> {
        self.transport.settings().proxy.as_ref()
    }

    /// The mint's base URL, without a slash at the end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.base.as_str()
    }

    /// The limits in use.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Fetches and validates a filter. Blocks as long as [`Policy::deadline`] allows, plus the time for validation.
    ///
    /// # Errors
    ///
    /// Any [`FetchError`] except [`FetchError::BadUrl`]. An error never means "absent".
    pub fn fetch(&self, keyset: &KeysetId, kind: NoteKind) -> Result<MintFilter, FetchError> {
        self.fetch_as::<Nut25>(keyset, kind, None)
    }

    /// As [`fetch`](Self::fetch), for a wallet that has seen a filter of this keyset and kind before, with timestamp
    /// `last_seen`, and for mints whose filters use another hash, such as [`Nut23`](nutfilter::Nut23). A response does
    /// not name its hash. If the new filter is older, [`MintFilter::rolled_back_from`] is set and look-ups fail.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch).
    pub fn fetch_as<H: ItemHash + Default>(
        &self,
        keyset: &KeysetId,
        kind: NoteKind,
        last_seen: Option<u64>,
    ) -> Result<MintFilter<H>, FetchError> {
        let context = FetchContext::now(last_seen);
        let end = End::to_begin(self.policy.deadline);
        let filter = self.fetch_until(keyset, kind, context, end);
        filter.map_err(|error| self.explain(keyset, error, end))
    }

    fn fetch_until<H: ItemHash + Default>(
        &self,
        keyset: &KeysetId,
        kind: NoteKind,
        context: FetchContext,
        end: End,
    ) -> Result<MintFilter<H>, FetchError> {
        let source =
            FilterSource { mint: self.base.as_str().to_owned(), keyset: keyset.clone(), kind };
        let path = endpoint_path(keyset, kind);
        let answer = self.get(&path, &self.policy, context.no_cache, end)?;
        let filter = self.policy.accept(answer.status, answer.body, source, context);
        Ok(filter?)
    }

    /// Restores a keyset: fetches both filters, looks all counters up, and asks the mint for its signatures on the notes
    /// that are issued and not spent (NUT-09), and about nothing else. At a mint without filters it shows every message, if
    /// [`RestoreOptions::fallback`] allows it; [`Restored::as_of`] is then `None`. See [`Restore`] for a wallet that keeps
    /// filters, or has its own HTTP client.
    ///
    /// After an answer of 429 it waits as the mint says, or 61 s, within [`RestoreOptions::time_limit`]. A request whose
    /// connection broke is sent once more.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] holds what is done so far, for [`resume`](Self::resume).
    pub fn restore(
        &self,
        keyset: &KeysetId,
        mut points: impl Points,
        options: &RestoreOptions,
    ) -> Result<Restored, RestoreError> {
        let end = End::of(options.time_limit);
        // If the info cannot be read, the answer is no.
        let announces_none = || self.info_until(end).is_ok_and(|info| !info.has_filters);
        let mut restore = match self.search(keyset, &mut points, options, end) {
            Ok(restore) => restore,
            Err(error) if error.allows(options, announces_none) => {
                Restore::without_filters(keyset, options, &self.policy)
            }
            Err(SearchError { cause: QueryError::Fetch(error), .. }) => {
                return Err(self.explain(keyset, error, end).into());
            }
            Err(error) => return Err(error.cause.into()),
        };
        self.converse(&mut restore, points, end)
            .map_err(|cause| RestoreError { cause, unfinished: Some(Box::new(restore)) })
    }

    /// Fetches both filters and looks all counters up. Shows the mint nothing, and does not fall back.
    pub(crate) fn search(
        &self,
        keyset: &KeysetId,
        mut points: impl Points,
        options: &RestoreOptions,
        end: End,
    ) -> Result<Restore, SearchError> {
        options.check().map_err(|error| SearchError { cause: error.into(), has_filters: false })?;
        let mut no_cache = false;
        loop {
            let fetch = |kind, last_seen| {
                let context = FetchContext { no_cache, ..FetchContext::now(last_seen) };
                self.fetch_until::<Nut25>(keyset, kind, context, end)
            };
            // In this order: what is signed and spent in between is in neither, or in `issued` alone.
            let seen = options.last_seen;
            let spent = fetch(NoteKind::Spent, seen.map(|seen| seen.spent));
            let issued = fetch(NoteKind::Issued, seen.map(|seen| seen.issued));
            // Both were valid when they were fetched before.
            let has_filters = no_cache || may_be_filter(&spent) || may_be_filter(&issued);
            let failed = |cause: QueryError| SearchError { cause, has_filters };
            let limit = options.time_limit;
            let spent = spent.map_err(|error| failed(end.cause(error, limit)))?;
            let issued = issued.map_err(|error| failed(end.cause(error, limit)))?;
            match Restore::new(keyset, &mut points, &spent, &issued, options, &self.policy) {
                // The filters may be from before and after a refresh, or exchanged by a cache.
                Err(QueryError::Check(
                    CheckError::SpentNotIssued { .. }
                    | CheckError::Exchanged { .. }
                    | CheckError::EqualFilters { .. },
                )) if !no_cache => no_cache = true,
                result => return result.map_err(failed),
            }
        }
    }

    /// Continues a restore after an error, or begins to ask after [`Restore::new`].
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    pub fn resume(
        &self,
        mut restore: Restore,
        points: impl Points,
    ) -> Result<Restored, RestoreError> {
        restore.ask_again();
        let end = End::of(restore.time_limit());
        self.converse(&mut restore, points, end)
            .map_err(|cause| RestoreError { cause, unfinished: Some(Box::new(restore)) })
    }

    pub(crate) fn converse(
        &self,
        restore: &mut Restore,
        mut points: impl Points,
        end: End,
    ) -> Result<Restored, QueryError> {
        if let Some(source) = restore.source().filter(|of| of.mint != self.base.as_str()) {
            return Err(QueryError::OtherSource(Box::new(source.clone())));
        }
        let limit = restore.time_limit();
        if restore.wants_info() {
            restore.set_info(&self.info_until(end).unwrap_or_default());
            restore.set_keysets(&self.keysets_until(end).unwrap_or_default());
        }
        loop {
            restore.more(&mut points)?;
            let Some((path, body)) = restore.request() else {
                return restore.finish();
            };
            if end.left().is_zero() {
                return Err(QueryError::OutOfTime { limit });
            }
            let (policy, url) = (self.policy.for_answers(), self.base.join(path)?);
            let post = || {
                self.send(&policy, end, |policy| {
                    self.transport.post(&url, &body, policy, end.total())
                })
            };
            let reply = match post() {
                Err(error) if is_broken(&error) => post(),
                reply => reply,
            };
            let reply = reply.map_err(|error| end.cause(error, limit))?;
            let retry_after = reply.retry_after.as_deref();
            let now = system_time();
            let wait = restore.answer(reply.status, retry_after, &reply.body, now)?;
            if let Some(wait) = wait.filter(|&wait| !self.sleep(wait, end)) {
                return Err(QueryError::RateLimited { wait });
            }
        }
    }

    /// What the mint says of itself. A body that is not readable is asked for once more.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch); [`FetchError::BadInfo`].
    pub fn info(&self) -> Result<MintInfo, FetchError> {
        self.info_until(End::to_begin(self.policy.deadline))
    }

    pub(crate) fn info_until(&self, end: End) -> Result<MintInfo, FetchError> {
        let ask = || {
            let reply = self.get_small("/v1/info", end)?;
            MintInfo::parse(&reply.body).ok_or(FetchError::BadInfo)
        };
        ask().or_else(|_| ask())
    }

    /// The mint's keysets (NUT-02), inactive ones too.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch); [`FetchError::BadKeysets`].
    pub fn keysets(&self) -> Result<Vec<MintKeyset>, FetchError> {
        self.keysets_until(End::to_begin(self.policy.deadline))
    }

    fn keysets_until(&self, end: End) -> Result<Vec<MintKeyset>, FetchError> {
        let reply = self.get_small("/v1/keysets", end)?;
        MintKeyset::parse(&reply.body).ok_or(FetchError::BadKeysets)
    }

    /// A body of status 200 and at most [`MAX_SMALL_BYTES`].
    pub(crate) fn get_small(&self, path: &str, end: End) -> Result<HttpReply, FetchError> {
        let policy = Policy { max_bytes: MAX_SMALL_BYTES, ..self.policy.clone() };
        let reply = self.get(path, &policy, false, end)?;
        check_status(reply.status, &reply.body)?;
        Ok(reply)
    }

    /// Sends a GET request, and once more after a broken connection, a server's error, or the wait that the mint asks for.
    fn get(
        &self,
        path: &str,
        policy: &Policy,
        no_cache: bool,
        end: End,
    ) -> Result<HttpReply, FetchError> {
        let url = self.base.join(path)?;
        let (mut is_first, mut broken) = (true, None);
        loop {
            let reply = self.send(policy, end, |policy| {
                self.transport.get(&url, no_cache, policy, end.total())
            });
            match reply {
                Ok(reply) if is_first && reply.status == 429 => {
                    if !self.sleep(wait(reply.retry_after.as_deref(), system_time()), end) {
                        return Ok(reply);
                    }
                }
                Ok(reply) if is_first && reply.status >= 500 => {}
                Err(error) if is_first && is_broken(&error) => broken = Some(error),
                // The first error says more than that of the second try.
                Err(error) if is_broken(&error) => return Err(broken.unwrap_or(error)),
                reply => return reply,
            }
            is_first = false;
        }
    }

    fn is_aborted(&self) -> bool {
        self.transport.settings().abort.load(Ordering::Relaxed)
    }

    /// Sends a request in the time that is left.
    fn send(
        &self,
        policy: &Policy,
        end: End,
        request: impl FnOnce(&Policy) -> Result<HttpReply, FetchError>,
    ) -> Result<HttpReply, FetchError> {
        let deadline = policy.deadline.min(end.left());
        let reply = match self.is_aborted() {
            true => Err(FetchError::Aborted),
            false => request(&Policy { deadline, ..policy.clone() }),
        };
        reply.map_err(|error| match error {
            FetchError::Deadline { .. } if self.is_aborted() => FetchError::Aborted,
            error => error,
        })
    }

    /// Sleeps, unless that ends too late. Ends early if the caller aborts.
    fn sleep(&self, wait: Duration, end: End) -> bool {
        let (began, is_in_time) = (Instant::now(), wait < end.left());
        while is_in_time && began.elapsed() < wait && !self.is_aborted() {
            thread::sleep(ABORT_CHECK.min(wait.saturating_sub(began.elapsed())));
        }
        is_in_time
    }

    /// The reason why the mint does not serve a filter, if it is not known from the answer itself.
    fn explain(&self, keyset: &KeysetId, error: FetchError, end: End) -> FetchError {
        let says_unknown = match &error {
            FetchError::Refused(RejectReason::Mint(error))
                if error.code == Some(UNKNOWN_KEYSET) =>
            {
                true
            }
            FetchError::Refused(
                RejectReason::Mint(MintError { status, .. }) | RejectReason::Status { status },
            ) if matches!(status, 404 | 405 | 501) => false,
            _ => return error,
        };
        let mut keysets = self.keysets_until(end).unwrap_or_default();
        let is_listed = keysets.iter().any(|one| one.id == *keyset);
        match says_unknown {
            true if is_listed => return error,
            false if is_listed || keysets.is_empty() => return FetchError::NoFilters,
            _ => {}
        }
        keysets.truncate(MAX_KEYSETS_LISTED);
        FetchError::UnknownKeyset { keysets }
    }
}

/// Whether the mint may have filters: one came, perhaps beyond the wallet's own limits, or no answer did.
fn may_be_filter<T>(fetched: &Result<T, FetchError>) -> bool {
    use RejectReason::{Future, TooLarge, TooManyItems};
    match fetched {
        Ok(_) => true,
        Err(FetchError::Refused(reason)) => {
            matches!(reason, Future { .. } | TooLarge { .. } | TooManyItems { .. })
        }
        Err(error) => !error.is_answer(),
    }
}

/// Whether the connection broke, so that another may do.
fn is_broken(error: &FetchError) -> bool {
    matches!(error, FetchError::Transport(_) | FetchError::Cut { .. })
}

/// When a call is over.
#[derive(Clone, Copy)]
pub(crate) struct End {
    at: Instant,
    /// Whether an answer that has begun may come later, if it keeps its rate.
    is_soft: bool,
}

impl End {
    /// The end of all requests, so long from now; in thirty years if the clock has no such time.
    pub(crate) fn of(limit: Duration) -> Self {
        const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);
        let now = Instant::now();
        let at = now.checked_add(limit).unwrap_or_else(|| now + LONGEST);
        let is_soft = false;
        Self { at, is_soft }
    }

    /// The time in which one answer must begin.
    fn to_begin(limit: Duration) -> Self {
        let is_soft = true;
        Self { is_soft, ..Self::of(limit) }
    }

    fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    fn total(self) -> Option<Duration> {
        (!self.is_soft).then(|| self.left())
    }

    /// The error of a request, or that the time is over.
    fn cause(self, error: FetchError, limit: Duration) -> QueryError {
        match error {
            FetchError::Deadline { .. } if self.left().is_zero() => QueryError::OutOfTime { limit },
            error => error.into(),
        }
    }
}

/// Maximum size of the bodies of `/v1/info` and `/v1/keysets`, in bytes: an info may hold pictures.
const MAX_SMALL_BYTES: u64 = 8 << 20;

/// Maximum number of keysets in an error.
const MAX_KEYSETS_LISTED: usize = 20;
