//! The client for one mint: fetches filters, and asks the mint about matches.

use std::time::Instant;

use nutfilter::{ItemHash, Nut25};
use nutfilter_cashu::{KeysetId, NoteKind, endpoint_path};

use crate::base_url::BaseUrl;
use crate::cache::{CachedFetch, FilterCache, LOCK_WAIT, Limits};
use crate::confirmation::{Confirmation, Confirmed};
use crate::error::{FetchError, RejectReason};
use crate::matches::{FilterSource, Matches};
use crate::mint_filter::MintFilter;
use crate::policy::{FetchContext, Policy};
use crate::proxy::Proxy;
use crate::query_error::QueryError;
use crate::restoration::{Restoration, Restored};
use crate::transport::{NOT_MODIFIED, Reply, Transport};

/// Fetches filters from one mint. Cheap to clone; can be used from many threads.
///
/// Connects directly unless a proxy is set ([`with_proxy`](Self::with_proxy)), and does not read the environment.
/// Keeps no cookies, requests no compression, and trusts only the Mozilla root certificates.
#[derive(Clone, Debug)]
pub struct MintClient {
    base: BaseUrl,
    policy: Policy,
    transport: Transport,
    proxy: Option<Proxy>,
}

impl MintClient {
    /// Creates a client for the mint at `base`, such as `https://mint.example` or `https://mint.example/Bitcoin`.
    ///
    /// # Errors
    ///
    /// [`FetchError::BadUrl`]. This call sends nothing.
    pub fn new(base: &str, policy: Policy) -> Result<Self, FetchError> {
        let base = BaseUrl::parse(base)?;
        Ok(Self {
            base,
            transport: Transport::new(None, &policy),
            policy,
            proxy: None,
        })
    }

    /// Returns the same client with every connection through `proxy`. [`Proxy::from_environment`] reads the usual
    /// environment variables.
    #[must_use]
    pub fn with_proxy(mut self, proxy: Proxy) -> Self {
        self.transport = Transport::new(Some(&proxy), &self.policy);
        self.proxy = Some(proxy);
        self
    }

    /// The proxy in use.
    #[must_use]
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
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
        let url = self.base.join(&endpoint_path(keyset, kind))?;
        let answer = self.transport.get(&url, None, &self.policy)?;
        self.accept(answer.status, answer.body, keyset, kind, last_seen)
    }

    /// As [`fetch_as`](Self::fetch_as), through a cache. A cached body is revalidated by the hash of its bytes,
    /// and the newest timestamp seen is remembered. The later of that timestamp and `last_seen` counts.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch), and [`FetchError::Cache`] when the cached file cannot be read.
    ///
    /// A damaged file is not an error, see [`CachedFetch::discarded`]. A filter that cannot be stored is not an
    /// error either, see [`CachedFetch::not_kept`]. One cause is another process that holds the cache's lock for five seconds.
    pub fn fetch_cached<H: ItemHash + Default>(
        &self,
        cache: &FilterCache,
        keyset: &KeysetId,
        kind: NoteKind,
        last_seen: Option<u64>,
    ) -> Result<CachedFetch<H>, FetchError> {
        let url = self.base.join(&endpoint_path(keyset, kind))?;
        let limits = Limits {
            max_bytes: self.policy.max_bytes,
            latest: self.policy.latest(FetchContext::now(None).now),
        };
        let entry = cache.entry::<H>(self.base.as_str(), keyset, kind, limits);
        let mut body = Vec::new();
        let (kept, discarded) = entry.load(&mut body).map_err(FetchError::Cache)?;
        let newest = last_seen.max(kept.as_ref().map(|kept| kept.timestamp));
        // A cached body must pass the same policy as a fetched one. If it fails, do not revalidate it: a 304 would
        // then refer to a body that cannot be used.
        let kept = kept.and_then(|kept| {
            let filter = self.accept(200, body, keyset, kind, newest).ok()?;
            Some((cache.tag(kept)?, filter))
        });
        let tag = kept.as_ref().map(|(tag, _)| tag.as_str());
        let answer = self.transport.get(&url, tag, &self.policy)?;
        let cached = |filter: MintFilter<H>| CachedFetch {
            filter,
            from_cache: true,
            discarded,
            not_kept: None,
        };
        if answer.status == NOT_MODIFIED {
            let (_, filter) = kept.ok_or(RejectReason::Status {
                status: NOT_MODIFIED,
            })?;
            return Ok(cached(filter));
        }
        let status = answer.status;
        let unfinished =
            (status == 200).then(|| entry.begin(&answer.body, Instant::now() + LOCK_WAIT));
        let filter = self.accept(status, answer.body, keyset, kind, newest)?;
        if let (Some(last_seen), Some((_, newer))) = (filter.rolled_back_from(), kept)
            && last_seen - filter.as_of() <= REPLICA_LAG
            && newer.as_of() == last_seen
        {
            return Ok(cached(newer));
        }
        let not_kept = match (filter.rolled_back_from(), unfinished) {
            (None, Some(body)) => body.and_then(|body| body.store(filter.as_of())).err(),
            _ => None,
        };
        Ok(CachedFetch {
            filter,
            from_cache: false,
            discarded,
            not_kept,
        })
    }

    fn accept<H: ItemHash + Default>(
        &self,
        status: u16,
        body: Vec<u8>,
        keyset: &KeysetId,
        kind: NoteKind,
        last_seen: Option<u64>,
    ) -> Result<MintFilter<H>, FetchError> {
        let moment = FetchContext::now(last_seen);
        let filter = self.policy.accept(status, body, moment)?;
        Ok(filter.fetched_from(FilterSource {
            mint: self.base.as_str().to_owned(),
            keyset: keyset.clone(),
            kind,
        }))
    }

    /// Asks the mint which of the matches are spent (NUT-07), see [`Confirmation`]. Returns one answer for each
    /// item that was looked up, in order. Reveals only the matches to the mint. The crate's documentation says
    /// what the mint can learn from them.
    ///
    /// Each request has its own [`Policy::deadline`]. Requests are not retried.
    ///
    /// # Errors
    ///
    /// Any [`QueryError`] except [`QueryError::Unfinished`]. Nothing more is sent after an error. An error never
    /// means "unspent".
    pub fn confirm(&self, matches: &Matches<'_>) -> Result<Vec<Confirmed>, QueryError> {
        self.is_of_this_mint(matches)?;
        let mut confirmation = Confirmation::new(matches, &self.policy)?;
        while let Some(body) = confirmation.request() {
            let answer = self.ask(Confirmation::PATH, &body)?;
            confirmation.answer(answer.status, &answer.body)?;
        }
        confirmation.finish()
    }

    /// Asks the mint for its signatures on the matches (NUT-09), see [`Restoration`]. Returns one answer for each
    /// item that was looked up, in order.
    ///
    /// # Errors
    ///
    /// As [`confirm`](Self::confirm). An error never means "not signed".
    pub fn restore(
        &self,
        keyset: &KeysetId,
        matches: &Matches<'_>,
    ) -> Result<Vec<Restored>, QueryError> {
        self.is_of_this_mint(matches)?;
        let mut restoration = Restoration::new(matches, keyset, &self.policy)?;
        while let Some(body) = restoration.request() {
            let answer = self.ask(Restoration::PATH, &body)?;
            restoration.answer(answer.status, &answer.body)?;
        }
        restoration.finish()
    }

    fn ask(&self, path: &str, body: &str) -> Result<Reply, FetchError> {
        let url = self.base.join(path)?;
        self.transport.post(&url, body, &self.policy.for_answers())
    }

    fn is_of_this_mint(&self, matches: &Matches<'_>) -> Result<(), QueryError> {
        match matches.source() {
            Some(source) if source.mint != self.base.as_str() => {
                Err(QueryError::OtherSource(Box::new(source.clone())))
            }
            _ => Ok(()),
        }
    }
}

/// How much older the filter of another replica of the mint may be, in seconds. The cached one is then used: what it
/// says remains true.
const REPLICA_LAG: u64 = 3_600;
