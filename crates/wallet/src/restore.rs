//! Restores a wallet from two filters: finds what is issued and not spent, and asks the mint about nothing else.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use nutfilter::ItemHash;
use nutfilter_cashu::{KeysetId, NoteKind};

use crate::batches::{Asked, BATCH, Batches, Reply, Step, batch_of, shuffle};
use crate::error::{CheckError, MintError};
use crate::match_limit::match_limit;
use crate::matches::{FilterSource, Warning};
use crate::mint_filter::{MintFilter, check_point};
use crate::policy::Policy;
use crate::query_error::QueryError;
use crate::signature::{self, BlindSignature};
use crate::state::{self, State};

/// How a wallet restores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreOptions {
    /// The number of live notes by the wallet's records, if known. Far more than that are an error, and nothing is
    /// shown to the mint; fewer than half of it are a warning.
    pub expected: Option<u64>,
    /// Ask the mint about the notes that match `spent` (NUT-07), because one in `M` matches by chance. This shows the
    /// mint every spent note of the wallet.
    pub confirm: bool,
    /// Time for one call of [`MintClient::restore`](crate::MintClient::restore) or
    /// [`resume`](crate::MintClient::resume), waits included. Default: 10 minutes.
    pub time_limit: Duration,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        Self {
            expected: None,
            confirm: false,
            // 600 batches at the 60 requests a minute that a stock nutshell allows.
            time_limit: Duration::from_secs(600),
        }
    }
}

/// The result for one candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The mint had not signed the message at the time of its `issued` filter. A message that it had received without
    /// signing it, such as a blank output of a pending payment, counts as unused.
    Unused,
    /// The note is spent: it is in both filters, and the mint confirmed it if it was asked. Without the confirmation,
    /// one unspent note in `M` looks like this.
    Spent,
    /// A payment with the note is pending, according to the confirmation.
    Pending,
    /// The note was not spent at the time of the `spent` filter, and this is the mint's signature.
    Live(BlindSignature),
    /// A false positive of `issued`: the mint never signed the message.
    Unsigned,
    /// Not in `issued`, but that filter may have been made with another hash: see the warnings.
    Unknown,
    /// The mint refuses to answer about this message.
    Refused(MintError),
    /// The mint has not answered yet. Only in the results that an error carries.
    Open,
}

impl Outcome {
    /// The word that the command prints.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Unused => "unused",
            Outcome::Spent => "spent",
            Outcome::Pending => "pending",
            Outcome::Live(_) => "live",
            Outcome::Unsigned => "unsigned",
            Outcome::Unknown => "unknown",
            Outcome::Refused(_) => "refused",
            Outcome::Open => "open",
        }
    }
}

/// The results of a restore.
#[derive(Clone, PartialEq, Debug)]
pub struct Restored {
    /// One for each candidate, in order.
    pub outcomes: Vec<Outcome>,
    /// The time of the `issued` filter, in Unix seconds.
    pub issued_as_of: u64,
    /// The time of the `spent` filter, in Unix seconds.
    pub spent_as_of: u64,
    /// Reasons to doubt the results; usually empty.
    pub warnings: Vec<Warning>,
    /// The chance that a live note is missing; `None` without live notes, or if the mint confirmed the spent ones.
    pub chance: Option<Chance>,
}

impl Restored {
    /// The index after the last candidate that was used: nothing was issued from there on.
    #[must_use]
    pub fn next_counter(&self) -> usize {
        let is_free = |outcome: &Outcome| matches!(outcome, Outcome::Unused | Outcome::Unsigned);
        let used = self.outcomes.iter().rposition(|outcome| !is_free(outcome));
        used.map_or(0, |last| last + 1)
    }
}

/// The probability that a live note was taken for spent: it matches the `spent` filter by chance, once in `M`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chance {
    /// Number of live notes found.
    pub live: u64,
    /// One in so many, rounded down to two digits.
    pub one_in: u64,
}

impl Chance {
    /// The chance with `live` notes and the `M` of the `spent` filter; `None` without notes.
    ///
    /// ```
    /// # use nutfilter_wallet::Chance;
    /// let chance = Chance::of(59, 784_931).expect("59 notes").to_string();
    /// assert_eq!(chance, "1 in 13,000 that one of 59 live notes was taken for spent");
    /// ```
    #[must_use]
    pub fn of(live: u64, m: u64) -> Option<Self> {
        let one_in = m.checked_div(live)?.max(1);
        let unit = 10_u64.pow(one_in.ilog10().saturating_sub(1));
        let one_in = one_in / unit * unit;
        Some(Self { live, one_in })
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousands = |number: u64| {
            let digits = number.to_string();
            let groups = digits
                .as_bytes()
                .rchunks(3)
                .rev()
                .map(String::from_utf8_lossy);
            groups.collect::<Vec<_>>().join(",")
        };
        let (one_in, live) = (thousands(self.one_in), thousands(self.live));
        write!(
            f,
            "1 in {one_in} that one of {live} live notes was taken for spent"
        )
    }
}

/// How much older than `issued` the `spent` filter may be without a warning, in seconds. Both are made at the same time.
const STALE_SPENT: u64 = 3_600;

/// A conversation with a mint that restores a wallet, without a network.
///
/// [`new`](Self::new) does both look-ups, and decides what the mint may be shown. Then each [`request`](Self::request)
/// is the next body to POST. [`MintClient::restore`](crate::MintClient::restore) sends them; a wallet with its own HTTP
/// client sends them itself:
///
/// ```
/// # use nutfilter_wallet::{KeysetId, MintFilter, Policy, QueryError, Restore, RestoreOptions, Restored};
/// # struct Reply { status: u16, retry_after: Option<String>, body: Vec<u8> }
/// # fn post(path: &str, body: String) -> Reply { unimplemented!() }
/// fn restore(
///     keyset: &KeysetId,
///     candidates: &[([u8; 33], [u8; 33])],
///     issued: &MintFilter,
///     spent: &MintFilter,
/// ) -> Result<Restored, QueryError> {
///     let (options, policy) = (RestoreOptions::default(), Policy::default());
///     let mut restore = Restore::new(keyset, candidates, issued, spent, &options, &policy)?;
///     while let Some((path, body)) = restore.request() {
///         let reply = post(path, body);
///         if let Some(wait) = restore.answer(reply.status, reply.retry_after.as_deref(), &reply.body)? {
///             std::thread::sleep(wait); // then the same request again
///         }
///     }
///     restore.finish()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Restore {
    keyset: KeysetId,
    source: Option<FilterSource>,
    /// Results so far. Until it has a signature, a live note is `Open`.
    outcomes: Vec<Outcome>,
    /// For each candidate, the first one with the same message: only that one is asked about.
    first: Vec<usize>,
    /// The messages in `issued`, shuffled.
    messages: Vec<Asked>,
    question: Question,
    batches: Batches,
    batch: Option<NonZeroUsize>,
    points: usize,
    signature_limit: u64,
    max_answer_bytes: u64,
    /// `M` of the `spent` filter.
    m: u64,
    issued_as_of: u64,
    spent_as_of: u64,
    warnings: Vec<Warning>,
    options: RestoreOptions,
}

/// What the mint is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Question {
    States,
    Signatures,
}

impl Restore {
    /// Looks the candidates up in both filters. A candidate is the pair of `B_` and `Y`, in the order of the counters.
    ///
    /// # Errors
    ///
    /// [`QueryError::Check`], [`QueryError::OtherSource`], [`QueryError::Randomness`].
    ///
    /// # Cost
    ///
    /// Two passes over `issued`, two over `spent`, and a check of each point: 7 µs on secp256k1, 0.4 ms on BLS12-381.
    pub fn new<I: AsRef<[u8]>, H: ItemHash>(
        keyset: &KeysetId,
        candidates: &[(I, I)],
        issued: &MintFilter<H>,
        spent: &MintFilter<H>,
        options: &RestoreOptions,
        policy: &Policy,
    ) -> Result<Self, QueryError> {
        check_candidates(keyset, candidates)?;
        for (filter, kind) in [(issued, NoteKind::Issued), (spent, NoteKind::Spent)] {
            let is_other = |of: &&FilterSource| of.kind != kind || of.keyset != *keyset;
            let is_elsewhere =
                |of: &&FilterSource| issued.source().is_some_and(|other| other.mint != of.mint);
            if let Some(of) = filter
                .source()
                .filter(|of| is_other(of) || is_elsewhere(of))
            {
                return Err(QueryError::OtherSource(Box::new(of.clone())));
            }
        }
        let blinded: Vec<_> = candidates
            .iter()
            .map(|(blinded, _)| blinded.as_ref())
            .collect();
        let (in_issued, mut warnings) = issued.look_up(&blinded)?;
        let is_doubtful = warnings.iter().any(Warning::is_about_the_hash);
        let absent = if is_doubtful {
            Outcome::Unknown
        } else {
            Outcome::Unused
        };

        let mut known = HashMap::new();
        let first = blinded.iter().enumerate();
        let first = first.map(|(place, &blinded)| *known.entry(blinded).or_insert(place));
        let first: Vec<_> = first.collect();
        let places =
            (0..candidates.len()).filter(|&place| in_issued[place] && first[place] == place);
        let places: Vec<_> = places.collect();
        let ys: Vec<_> = places
            .iter()
            .map(|&place| candidates[place].1.as_ref())
            .collect();
        let (in_spent, more) = spent.look_up(&ys)?;
        warnings.extend(more);
        if let Some(by) = issued
            .as_of()
            .checked_sub(spent.as_of())
            .filter(|&by| by > STALE_SPENT)
        {
            warnings.push(Warning::StaleSpent { by });
        }

        let lookups = candidates.len() as u64;
        let matches = in_spent.iter().filter(|&&is_spent| !is_spent).count();
        if let Some(expected) = options.expected {
            warnings.extend(issued.limit_matches(matches as u64, lookups, expected)?);
        }
        let mut outcomes = vec![absent; candidates.len()];
        let (mut messages, mut notes) = (Vec::new(), Vec::new());
        for ((&place, &y), &is_spent) in places.iter().zip(&ys).zip(&in_spent) {
            let asked = |point: &[u8]| Asked {
                point: point.to_vec(),
                place,
            };
            outcomes[place] = Outcome::Open;
            match is_spent {
                true if options.confirm => notes.push(asked(y)),
                true => outcomes[place] = Outcome::Spent,
                false => {}
            }
            messages.push(asked(blinded[place]));
        }
        shuffle(&mut messages)?;
        shuffle(&mut notes)?;
        let factor = policy.max_match_factor;
        let [issued_m, m] = [issued, spent].map(|filter| filter.params().m());
        let state_limit = match_limit(notes.len() as u64, 0, m, factor);
        let mut restore = Self {
            keyset: keyset.clone(),
            source: issued.source().cloned(),
            outcomes,
            first,
            messages,
            points: notes.len().max(matches),
            question: Question::States,
            batches: Batches::new(notes, BATCH, state_limit),
            batch: None,
            signature_limit: match_limit(lookups, 0, issued_m, factor),
            max_answer_bytes: policy.max_answer_bytes,
            m,
            issued_as_of: issued.as_of(),
            spent_as_of: spent.as_of(),
            warnings,
            options: options.clone(),
        };
        restore.advance();
        Ok(restore)
    }

    /// Whether a question has more points than the usual request: then `GET /v1/info` first, and pass its body to
    /// [`set_info`](Self::set_info).
    #[must_use]
    pub fn wants_info(&self) -> bool {
        self.batch.is_none() && self.points > BATCH.get()
    }

    /// Takes the number of points in a request from a body of `/v1/info`: its `max_array_length`, at most 1,000, or 100
    /// without one. Call it before the first request only.
    pub fn set_info(&mut self, info: &[u8]) {
        let size = batch_of(info);
        self.batch = Some(size);
        self.batches.cut(size);
    }

    /// The path and the body of the next request, a JSON object to POST. `None` if nothing is left to ask. The same
    /// until it is answered, so to send it again after a broken connection shows nothing new.
    #[must_use]
    pub fn request(&self) -> Option<(&'static str, String)> {
        let asked = self.batches.current()?;
        Some(match self.question {
            Question::States => ("/v1/checkstate", state::body(asked)),
            Question::Signatures => ("/v1/restore", signature::body(asked, &self.keyset)),
        })
    }

    /// Takes the answer to the current request: its status, the value of its header `Retry-After`, and its body. With
    /// `Some(wait)`, send the same request again after that time.
    ///
    /// A batch that the mint refuses with status 400 is halved until the message at fault is found: its result is
    /// [`Outcome::Refused`].
    ///
    /// # Errors
    ///
    /// [`QueryError::Fetch`] and [`QueryError::Answer`]: the same request may be sent again. After
    /// [`QueryError::Contradicted`], or when more than ten messages were refused, there is no further request.
    pub fn answer(
        &mut self,
        status: u16,
        retry_after: Option<&str>,
        body: &[u8],
    ) -> Result<Option<Duration>, QueryError> {
        let reply = Reply {
            status,
            retry_after,
            body,
        };
        let (curve, max) = (self.keyset.point_kind(), self.max_answer_bytes);
        let step = match self.question {
            Question::States => self.batches.answer(reply, max, |question, body| {
                let found = state::read(question, body)?.into_iter();
                let outcome = |state| match state {
                    State::Unspent => Outcome::Open,
                    State::Pending => Outcome::Pending,
                    State::Spent => Outcome::Spent,
                };
                Ok(found
                    .map(|(place, state, in_set)| (place, outcome(state), in_set))
                    .collect())
            }),
            Question::Signatures => self.batches.answer(reply, max, |question, body| {
                let found = signature::read(question, curve, body)?.into_iter();
                let outcome =
                    |signature: Option<_>| signature.map_or(Outcome::Unsigned, Outcome::Live);
                Ok(found
                    .map(|(place, signature, is)| (place, outcome(signature), is))
                    .collect())
            }),
        }?;
        match step {
            Step::Wait(wait) => return Ok(Some(wait)),
            Step::Refused(place, error) => self.outcomes[place] = Outcome::Refused(error),
            Step::Found(found) => {
                for (place, outcome) in found {
                    self.outcomes[place] = outcome;
                }
            }
        }
        self.advance();
        Ok(None)
    }

    /// Goes on to the signatures when all states are known.
    fn advance(&mut self) {
        if self.question == Question::States && self.batches.left() == 0 {
            let mut live = std::mem::take(&mut self.messages);
            live.retain(|asked| self.outcomes[asked.place] == Outcome::Open);
            self.question = Question::Signatures;
            self.batches = Batches::new(live, self.batch.unwrap_or(BATCH), self.signature_limit);
        }
    }

    /// The results so far. Candidates that the mint has not answered about are [`Outcome::Open`].
    #[must_use]
    pub fn so_far(&self) -> Restored {
        let outcomes: Vec<_> = self
            .first
            .iter()
            .map(|&place| self.outcomes[place].clone())
            .collect();
        let live = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Live(_)))
            .count();
        Restored {
            chance: Chance::of(live as u64, self.m).filter(|_| !self.options.confirm),
            outcomes,
            issued_as_of: self.issued_as_of,
            spent_as_of: self.spent_as_of,
            warnings: self.warnings.clone(),
        }
    }

    /// The results, once every request is answered.
    ///
    /// # Errors
    ///
    /// [`QueryError::Unfinished`].
    pub fn finish(&self) -> Result<Restored, QueryError> {
        match self
            .outcomes
            .iter()
            .filter(|outcome| **outcome == Outcome::Open)
            .count()
        {
            0 => Ok(self.so_far()),
            left => Err(QueryError::Unfinished { left }),
        }
    }

    /// The origin of the `issued` filter; `None` when the wallet's own client fetched it.
    #[must_use]
    pub fn source(&self) -> Option<&FilterSource> {
        self.source.as_ref()
    }

    #[cfg(feature = "client")]
    pub(crate) fn time_limit(&self) -> Duration {
        self.options.time_limit
    }
}

/// Whether there are candidates, and all are pairs of points of the keyset's curve.
fn check_candidates<I: AsRef<[u8]>>(
    keyset: &KeysetId,
    candidates: &[(I, I)],
) -> Result<(), CheckError> {
    if candidates.is_empty() {
        return Err(CheckError::NoItems);
    }
    let curve = Some(keyset.point_kind());
    candidates
        .iter()
        .enumerate()
        .try_for_each(|(place, (blinded, y))| {
            check_point(curve, place, "B_", blinded.as_ref())?;
            check_point(curve, place, "Y", y.as_ref())
        })
}
