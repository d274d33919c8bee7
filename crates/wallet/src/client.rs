//! The client for one mint: fetches filters, and restores.

use std::thread;
use std::time::Instant;

use nutfilter::{ItemHash, Nut25};
use nutfilter_cashu::{KeysetId, NoteKind, endpoint_path};

use crate::base_url::BaseUrl;
use crate::error::{FetchError, MintError, MintKeyset, RejectReason, UNKNOWN_KEYSET};
use crate::matches::FilterSource;
use crate::mint_filter::MintFilter;
use crate::policy::{FetchContext, Policy, check_status};
use crate::proxy::Proxy;
use crate::query_error::{QueryError, RestoreError};
use crate::restore::{Restore, RestoreOptions, Restored};
use crate::transport::{Reply, Transport};

/// Fetches filters from one mint. Cheap to clone; can be used from many threads.
///
/// Connects directly unless a proxy is set ([`with_proxy`](Self::with_proxy)), and does not read the environment.
/// Keeps no cookies, and trusts only the Mozilla root certificates.
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
        let answer = self.transport.get(&url, &self.policy)?;
        let moment = FetchContext::now(last_seen);
        let filter = self.policy.accept(answer.status, answer.body, moment);
        let filter: MintFilter<H> = filter.map_err(|reason| self.explain(keyset, reason))?;
        Ok(filter.fetched_from(FilterSource {
            mint: self.base.as_str().to_owned(),
            keyset: keyset.clone(),
            kind,
        }))
    }

    /// Restores a wallet: fetches both filters of the keyset, looks all candidates up, and asks the mint for its
    /// signatures on those that are issued and not spent (NUT-09), and about nothing else. A candidate is the pair of
    /// `B_` and `Y`, in the order of the counters. See [`Restore`] for a wallet that keeps filters, or has its own
    /// HTTP client.
    ///
    /// After an answer of 429 it waits as the mint says, within [`RestoreOptions::time_limit`]. A request whose
    /// connection broke is sent once more.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] holds what is done so far, for [`resume`](Self::resume).
    pub fn restore<I: AsRef<[u8]>>(
        &self,
        keyset: &KeysetId,
        candidates: &[(I, I)],
        options: &RestoreOptions,
    ) -> Result<Restored, RestoreError> {
        // In this order: what is spent in between is in both.
        let issued = self
            .fetch(keyset, NoteKind::Issued)
            .map_err(QueryError::from)?;
        let spent = self
            .fetch(keyset, NoteKind::Spent)
            .map_err(QueryError::from)?;
        let restore = Restore::new(keyset, candidates, &issued, &spent, options, &self.policy)?;
        self.resume(restore)
    }

    /// Continues a restore after an error, or begins one whose filters the wallet had kept.
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    pub fn resume(&self, mut restore: Restore) -> Result<Restored, RestoreError> {
        self.converse(&mut restore).map_err(|cause| RestoreError {
            cause,
            unfinished: Some(Box::new(restore)),
        })
    }

    fn converse(&self, restore: &mut Restore) -> Result<Restored, QueryError> {
        if let Some(source) = restore.source().filter(|of| of.mint != self.base.as_str()) {
            return Err(QueryError::OtherSource(Box::new(source.clone())));
        }
        let limit = restore.time_limit();
        let end = Instant::now() + limit;
        if restore.wants_info() {
            let info = self.get("/v1/info", MAX_INFO_BYTES).unwrap_or_default();
            restore.set_info(&info.body);
        }
        while let Some((path, body)) = restore.request() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(QueryError::OutOfTime { limit });
            }
            let policy = Policy {
                deadline: self.policy.deadline.min(left),
                ..self.policy.for_answers()
            };
            let url = self.base.join(path)?;
            let post = || self.transport.post(&url, &body, &policy);
            let reply = match post() {
                Err(FetchError::Transport(_) | FetchError::Cut { .. }) => post(),
                reply => reply,
            }?;
            let retry_after = reply.retry_after.as_deref();
            if let Some(wait) = restore.answer(reply.status, retry_after, &reply.body)? {
                if Instant::now() + wait >= end {
                    return Err(QueryError::RateLimited { wait });
                }
                thread::sleep(wait);
            }
        }
        restore.finish()
    }

    /// The mint's keysets (NUT-02), inactive ones too.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch).
    pub fn keysets(&self) -> Result<Vec<MintKeyset>, FetchError> {
        let reply = self.get("/v1/keysets", MAX_KEYSETS_BYTES)?;
        check_status(reply.status, &reply.body)?;
        Ok(MintKeyset::parse(&reply.body))
    }

    fn get(&self, path: &str, max_bytes: u64) -> Result<Reply, FetchError> {
        let policy = Policy {
            max_bytes,
            ..self.policy.clone()
        };
        self.transport.get(&self.base.join(path)?, &policy)
    }

    /// The reason why the mint does not serve a filter, if it is not known from the answer itself.
    fn explain(&self, keyset: &KeysetId, reason: RejectReason) -> FetchError {
        let is_missing = match &reason {
            RejectReason::Mint(error) if error.code == Some(UNKNOWN_KEYSET) => None,
            RejectReason::Mint(MintError { status, .. }) | RejectReason::Status { status }
                if matches!(status, 404 | 405 | 501) =>
            {
                Some(())
            }
            _ => return reason.into(),
        };
        let mut keysets = self.keysets().unwrap_or_default();
        let is_known = keysets.is_empty() || keysets.iter().any(|one| one.id == *keyset);
        if is_missing.is_some() && is_known {
            return FetchError::NoFilters;
        }
        keysets.truncate(MAX_KEYSETS_LISTED);
        FetchError::UnknownKeyset { keysets }
    }
}

/// Maximum sizes of the bodies of `/v1/info` and `/v1/keysets`, in bytes.
const MAX_INFO_BYTES: u64 = 64 << 10;
const MAX_KEYSETS_BYTES: u64 = 1 << 20;

/// Maximum number of keysets in an error.
const MAX_KEYSETS_LISTED: usize = 20;
