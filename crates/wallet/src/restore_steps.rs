//! Restores a wallet from two filters: finds what is issued and not spent, and asks the mint about nothing else.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use nutfilter::ItemHash;
use nutfilter_cashu::KeysetId;
use thiserror::Error;

use crate::batches::{AskedPoint, BATCH, BatchStep, Batches, MintInfo, Reply, shuffle};
use crate::error::{MintError, MintKeyset};
use crate::match_limit::match_limit;
use crate::matches::{FilterDates, FilterSource, Warning};
use crate::mint_filter::MintFilter;
use crate::point_source::Points;
use crate::policy::Policy;
use crate::query_error::QueryError;
use crate::restore_options::{COUNTERS, RestoreOptions};
use crate::search::{Finding, UNTOUCHED, messages, search, ys};
use crate::signature::{self, BlindSignature};
use crate::state::{self, NoteState};

/// The result for one counter.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The mint had not signed the message at the time of its `issued` filter. A message that it had received without
    /// signing it, such as a blank output of a pending payment, counts as unused.
    Unused,
    /// The note is spent: it is in the filter, and the mint confirmed it if it was asked. Without the confirmation, one
    /// unspent note in `M` looks like this.
    Spent,
    /// A payment with the note is pending, according to the confirmation.
    Pending,
    /// The note was not spent at the time of the `spent` filter, and this is the mint's signature.
    Live(BlindSignature),
    /// Signed, and perhaps spent: there are no filters, and the mint has not said which of the signed notes are spent. Ask
    /// it (NUT-07), or restore again, before the note counts as money.
    Unchecked(BlindSignature),
    /// In `issued`, but the mint gave no signature: a false positive, or withheld.
    Unsigned,
    /// The keyset has expired, so the mint was not asked. The note was not spent.
    Expired,
    /// Not in `issued`, but that filter may have been made with another hash, or the points are exchanged: see the warnings.
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
            Outcome::Unchecked(_) => "unchecked",
            Outcome::Unsigned => "unsigned",
            Outcome::Expired => "expired",
            Outcome::Unknown => "unknown",
            Outcome::Refused(_) => "refused",
            Outcome::Open => "open",
        }
    }
}

/// The results of a restore. Without warnings, everything is known as of [`as_of`](Self::as_of).
#[derive(Clone, PartialEq, Debug)]
pub struct Restored {
    /// One for each counter that was searched, in order.
    pub outcomes: Vec<Outcome>,
    /// How many counters [`next_counter`](Self::next_counter) leaves free.
    pub gap: u32,
    /// The times of the filters. Keep them for [`RestoreOptions::last_seen`]. `None` if the mint was asked without filters.
    pub as_of: Option<FilterDates>,
    /// What is left out, and reasons to doubt the rest; usually empty.
    pub warnings: Vec<Warning>,
    /// The chance that a live note is missing; `None` without live notes, or if the mint confirmed the spent ones.
    pub chance: Option<Chance>,
}

impl Restored {
    /// Where the wallet goes on: behind the last counter that a filter or the mint knows, and a gap. The mint may know more
    /// counters, such as the blank outputs of a payment that has not ended.
    #[must_use]
    pub fn next_counter(&self) -> u32 {
        let is_free = |outcome: &Outcome| matches!(outcome, Outcome::Unused);
        let used = self.outcomes.iter().rposition(|outcome| !is_free(outcome));
        let behind = used.map_or(0, |last| last as u32 + 1);
        behind.saturating_add(self.gap).min(COUNTERS - 1)
    }

    /// Takes for live what no filter has as spent.
    #[cfg(feature = "cashu")]
    pub(crate) fn trust(&mut self) {
        for outcome in &mut self.outcomes {
            if let Outcome::Unchecked(signature) = outcome {
                *outcome = Outcome::Live(signature.clone());
            }
        }
        self.warnings.retain(|warning| !matches!(warning, Warning::Unchecked { .. }));
    }

    /// The signatures on live notes, with their counters.
    pub fn live(&self) -> impl Iterator<Item = (u32, &BlindSignature)> {
        self.signed().filter_map(|(counter, of, is_live)| is_live.then_some((counter, of)))
    }

    /// The signatures on notes that may be spent, with their counters: only without filters.
    pub fn unchecked(&self) -> impl Iterator<Item = (u32, &BlindSignature)> {
        self.signed().filter_map(|(counter, of, is_live)| (!is_live).then_some((counter, of)))
    }

    /// All signatures, with their counters, and whether their notes are live.
    pub(crate) fn signed(&self) -> impl Iterator<Item = (u32, &BlindSignature, bool)> {
        let all = (0..).zip(&self.outcomes);
        all.filter_map(|(counter, outcome)| match outcome {
            Outcome::Live(signature) => Some((counter, signature, true)),
            Outcome::Unchecked(signature) => Some((counter, signature, false)),
            _ => None,
        })
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
            let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
            groups.collect::<Vec<_>>().join(",")
        };
        let (one_in, live) = (thousands(self.one_in), thousands(self.live));
        write!(f, "1 in {one_in} that one of {live} live notes was taken for spent")
    }
}

/// A conversation with a mint that restores a wallet, without a network.
///
/// [`new`](Self::new) does both look-ups, and decides what the mint may be shown. Then each [`request`](Self::request)
/// is the next body to POST. [`MintClient::restore`](crate::MintClient::restore) sends them; a wallet with its own HTTP
/// client sends them itself:
///
/// ```
/// # use nutfilter_wallet::{KeysetId, MintFilter, Points, Policy, QueryError, Restore, RestoreOptions, Restored};
/// # struct Reply { status: u16, retry_after: Option<String>, body: Vec<u8> }
/// # fn post(path: &str, body: String) -> Reply { unimplemented!() }
/// # fn now() -> u64 { unimplemented!() }
/// fn restore(
///     keyset: &KeysetId,
///     points: impl Points,
///     spent: &MintFilter,
///     issued: &MintFilter,
/// ) -> Result<Restored, QueryError> {
///     let (options, policy) = (RestoreOptions::default(), Policy::default());
///     let mut restore = Restore::new(keyset, points, spent, issued, &options, &policy)?;
///     while let Some((path, body)) = restore.request() {
///         let reply = post(path, body);
///         if let Some(wait) = restore.answer(reply.status, reply.retry_after.as_deref(), &reply.body, now())? {
///             std::thread::sleep(wait); // then the same request again
///         }
///     }
///     restore.finish()
/// }
/// ```
#[derive(Clone)]
pub struct Restore {
    keyset: KeysetId,
    /// Of the `issued` filter; `None` without filters.
    source: Option<FilterSource>,
    /// Results so far. Until it has a signature, a live note is `Open`.
    outcomes: Vec<Outcome>,
    /// For each counter, the first one with the same points: only that one is asked about.
    first: Vec<usize>,
    /// Messages, which are asked about first: no trouble with the states takes away a signature.
    signatures: Batches,
    /// Spent notes to confirm; without filters, signed ones.
    states: Batches,
    /// The messages of notes that are unspent after all, to ask about when all states are known.
    unspent: Vec<AskedPoint>,
    messages: BTreeMap<u32, Vec<u8>>,
    /// Whether every message was asked about: without filters, or after [`cut`](Self::cut).
    is_searched: bool,
    /// Whether the messages that are left are not asked about.
    is_cut: bool,
    pub(crate) is_expired: bool,
    batch: Option<NonZeroUsize>,
    max_answer_bytes: u64,
    /// `M` of the `spent` filter.
    m: u64,
    as_of: Option<FilterDates>,
    warnings: Vec<Warning>,
    now: u64,
    options: RestoreOptions,
}

/// Without points: errors carry it, and `main` prints them.
impl fmt::Debug for Restore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keyset = self.keyset.as_str();
        f.debug_struct("Restore").field("keyset", &keyset).finish_non_exhaustive()
    }
}

impl Restore {
    /// Looks all counters up in both filters, and shows the mint nothing.
    ///
    /// # Errors
    ///
    /// [`QueryError::Check`], [`QueryError::OtherSource`], [`QueryError::Points`], [`QueryError::Randomness`]. After
    /// [`CheckError::SpentNotIssued`](crate::CheckError::SpentNotIssued) with filters that may come from a cache, fetch both
    /// again with `Cache-Control: no-cache`, `spent` first.
    ///
    /// # Cost
    ///
    /// The points, a few microseconds of look-ups for each counter, and one pass over each filter. The points of a list are
    /// checked: 7 µs on secp256k1, 0.4 ms on BLS12-381.
    pub fn new<H: ItemHash>(
        keyset: &KeysetId,
        points: impl Points,
        spent: &MintFilter<H>,
        issued: &MintFilter<H>,
        options: &RestoreOptions,
        policy: &Policy,
    ) -> Result<Self, QueryError> {
        let found = search(keyset, points, [spent, issued], options)?;
        let is_doubtful = found.warnings.iter().any(Warning::is_about_the_hash);
        let absent = if is_doubtful { Outcome::Unknown } else { Outcome::Unused };
        let live = found.counters(Finding::Live);
        let mut restore = Self::empty(keyset, options, policy);
        let mut known = HashMap::new();
        // By the point that the mint would be asked about.
        let point = |(place, y)| match found.findings[place] {
            Finding::Live => (true, &found.messages[&(place as u32)]),
            _ => (false, y),
        };
        let points = found.ys.iter().enumerate().map(point).enumerate();
        restore.first = points.map(|(place, point)| *known.entry(point).or_insert(place)).collect();
        let is_first = |&counter: &u32| restore.first[counter as usize] == counter as usize;
        let asked = |counter: u32, point: &[u8]| AskedPoint {
            point: point.to_vec(),
            place: counter as usize,
        };
        let mut messages: Vec<_> = live
            .into_iter()
            .filter(is_first)
            .map(|counter| asked(counter, &found.messages[&counter]))
            .collect();
        let lookups =
            restore.first.iter().enumerate().filter(|&(place, &first)| place == first).count()
                as u64;
        restore.warnings = found.warnings.clone();
        if let Some(expected) = options.expected {
            let more = issued.limit_matches(messages.len() as u64, lookups, expected)?;
            restore.warnings.extend(more);
        }
        let is_crossed = |counter: u32| {
            let is_of = |of: &Warning| matches!(of, Warning::Exchanged { counters } if counters.contains(&counter));
            found.warnings.iter().any(is_of)
        };
        restore.outcomes = found
            .findings
            .iter()
            .zip(0..)
            .map(|(finding, counter)| match finding {
                Finding::Absent if is_crossed(counter) => Outcome::Unknown,
                Finding::Absent => absent.clone(),
                Finding::Spent => Outcome::Spent,
                Finding::Live => Outcome::Open,
            })
            .collect();
        let mut notes = Vec::new();
        if options.confirm {
            let spent = found.counters(Finding::Spent).into_iter();
            // What was not issued has no message here.
            let spent =
                spent.filter(|counter| is_first(counter) && found.messages.contains_key(counter));
            notes.extend(spent.map(|counter| asked(counter, &found.ys[counter as usize])));
            for note in &notes {
                restore.outcomes[note.place] = Outcome::Open;
            }
        }
        shuffle(&mut messages)?;
        shuffle(&mut notes)?;
        let factor = policy.max_match_factor;
        let [issued_m, m] = [issued, spent].map(|filter| filter.params().m());
        restore.signatures = Batches::new(messages, match_limit(lookups, 0, issued_m, factor));
        let limit = match_limit(notes.len() as u64, 0, m, factor);
        restore.states = Batches::new(notes, limit);
        restore.messages = found.messages;
        restore.source = Some(issued.source().clone());
        restore.m = m;
        restore.now = issued.accepted_at();
        restore.as_of = Some(FilterDates { spent: spent.as_of(), issued: issued.as_of() });
        Ok(restore)
    }

    fn empty(keyset: &KeysetId, options: &RestoreOptions, policy: &Policy) -> Self {
        Self {
            keyset: keyset.clone(),
            source: None,
            outcomes: Vec::new(),
            first: Vec::new(),
            signatures: Batches::new(Vec::new(), u64::MAX),
            states: Batches::new(Vec::new(), u64::MAX),
            unspent: Vec::new(),
            messages: BTreeMap::new(),
            is_searched: false,
            is_cut: false,
            is_expired: false,
            batch: None,
            max_answer_bytes: policy.max_answer_bytes,
            m: 0,
            as_of: None,
            warnings: Vec::new(),
            now: 0,
            options: options.clone(),
        }
    }

    /// A restore that shows the mint every message, for a mint without filters: [`more`](Self::more) before each request.
    #[cfg(feature = "client")]
    #[must_use]
    pub fn without_filters(keyset: &KeysetId, options: &RestoreOptions, policy: &Policy) -> Self {
        let mut restore = Self::empty(keyset, options, policy);
        restore.warnings = vec![Warning::WithoutFilters];
        restore.now = crate::mint_filter::system_time();
        restore
    }

    /// Without filters, derives what is shown next if nothing is left to ask: messages until 300 counters in a row are
    /// unused, then the signed notes, to learn which are spent. With filters it does nothing.
    ///
    /// # Errors
    ///
    /// [`QueryError::Points`], [`QueryError::Check`], [`QueryError::Randomness`].
    pub fn more(&mut self, mut points: impl Points) -> Result<(), QueryError> {
        self.options.check()?;
        let is_asked = self.signatures.left() == 0;
        let is_over = self.as_of.is_some() && !self.is_cut;
        if is_over || self.is_searched || self.is_expired || !is_asked {
            return Ok(());
        }
        let first = self.outcomes.len() as u32;
        let used = self.outcomes.iter().rposition(|one| *one != Outcome::Unused);
        let behind = used.map_or(0, |last| last as u32 + 1);
        let end = points.end().unwrap_or(behind.saturating_add(UNTOUCHED.min(self.options.search)));
        let end = if self.is_cut { first } else { end };
        let size = self.batch.unwrap_or(BATCH);
        let counters: Vec<_> = (first..end.min(first.saturating_add(size.get() as u32))).collect();
        self.is_searched = counters.is_empty();
        let (counters, points) = if self.is_searched {
            let signed = self.so_far();
            let signed: Vec<_> = signed.unchecked().map(|(counter, _)| counter).collect();
            let mut given = Vec::new();
            for &counter in &signed {
                given.extend(ys(&self.keyset, &mut points, counter..counter + 1)?);
            }
            (signed, given)
        } else {
            let messages = messages(&self.keyset, &mut points, &counters)?;
            self.outcomes.resize(counters.len() + first as usize, Outcome::Open);
            self.first.extend(first as usize..self.outcomes.len());
            (counters, messages)
        };
        let asked = counters.into_iter().zip(points);
        let mut asked: Vec<_> =
            asked.map(|(counter, point)| AskedPoint { point, place: counter as usize }).collect();
        shuffle(&mut asked)?;
        match self.is_searched {
            true => self.states.add(asked, size),
            false => self.signatures.add(asked, size),
        }
        Ok(())
    }

    /// Asks about no further message, but which of the signed notes are spent or pending: without filters after an error, and with
    /// `confirm`. Returns whether some are signed.
    #[cfg(feature = "cashu")]
    pub(crate) fn cut(&mut self) -> bool {
        let is_confirmed = self.as_of.is_none() || self.options.confirm;
        if self.is_searched || self.is_expired || !is_confirmed {
            return false;
        }
        self.is_cut = true;
        self.signatures.stop();
        self.states.stop();
        for outcome in &mut self.outcomes {
            if let Outcome::Live(signature) = outcome {
                *outcome = Outcome::Unchecked(signature.clone());
            }
        }
        self.so_far().unchecked().next().is_some()
    }

    /// Whether something is shown, and the mint has not said how many points a request may have, nor whether the keyset has
    /// expired: then GET `/v1/info` and `/v1/keysets` first, for [`set_info`](Self::set_info) and
    /// [`set_keysets`](Self::set_keysets).
    #[must_use]
    pub fn wants_info(&self) -> bool {
        self.batch.is_none() && (self.left() > 0 || self.as_of.is_none())
    }

    /// Takes the number of points in a request. Call it before the first request only.
    pub fn set_info(&mut self, info: &MintInfo) {
        self.batch = Some(info.batch);
        self.signatures.cut(info.batch);
        self.states.cut(info.batch);
    }

    /// Takes the mint's keysets. If that of this restore has expired, nothing is shown: live notes are
    /// [`Outcome::Expired`].
    pub fn set_keysets(&mut self, keysets: &[MintKeyset]) {
        let ours = keysets.iter().find(|keyset| keyset.id == self.keyset);
        let expiry = ours.and_then(|keyset| keyset.final_expiry);
        if expiry.is_some_and(|expiry| expiry <= self.now) {
            self.is_expired = true;
            // By the filter: nobody is asked to confirm it.
            for place in self.states.places() {
                if self.outcomes[place] == Outcome::Open {
                    self.outcomes[place] = Outcome::Spent;
                }
            }
            for outcome in &mut self.outcomes {
                if *outcome == Outcome::Open {
                    *outcome = Outcome::Expired;
                }
            }
            for batches in [&mut self.signatures, &mut self.states] {
                *batches = Batches::new(Vec::new(), 0);
            }
        }
    }

    /// The path and the body of the next request, a JSON object to POST. `None` if nothing is left to ask. The same
    /// until it is answered, so to send it again after a broken connection shows nothing new.
    #[must_use]
    pub fn request(&self) -> Option<(&'static str, String)> {
        if let Some(asked) = self.signatures.current() {
            return Some(("/v1/restore", signature::body(asked, &self.keyset)));
        }
        let states = self.states.current();
        let states = states.filter(|_| !self.signatures.is_over());
        states.map(|asked| ("/v1/checkstate", state::body(asked)))
    }

    /// The messages that are still to be shown, the different counters that were looked up, and the `M` of the filters.
    #[cfg(feature = "cashu")]
    pub(crate) fn matches(&self) -> [u64; 3] {
        [self.signatures.left() as u64, self.outcomes.len() as u64, self.m]
    }

    fn left(&self) -> usize {
        self.signatures.left() + self.states.left()
    }

    /// Takes the answer to the current request: its status, the value of its header `Retry-After`, its body, and the time in
    /// Unix seconds. With `Some(wait)`, send the same request again after that time, and nothing before it.
    ///
    /// A batch that the mint refuses with status 400, 413 or 422 is halved until the message at fault is found: its result
    /// is [`Outcome::Refused`]. What an answer says is kept, even if other parts of it are invalid.
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
        now: u64,
    ) -> Result<Option<Duration>, QueryError> {
        let reply = Reply { status, retry_after, body, now };
        let (curve, max) = (self.keyset.point_kind(), self.max_answer_bytes);
        let has_filters = self.as_of.is_some();
        let step = if self.signatures.current().is_some() {
            self.signatures.answer(reply, max, |question, body| {
                let said = signature::read(question, curve, body)?;
                Ok(said.map(|signature| match signature {
                    Some(signature) if has_filters => Some(Outcome::Live(signature)),
                    Some(signature) => Some(Outcome::Unchecked(signature)),
                    None if has_filters => Some(Outcome::Unsigned),
                    None => Some(Outcome::Unused),
                }))
            })
        } else {
            self.states.answer(reply, max, |question, body| {
                let said = state::read(question, body)?;
                Ok(said.map(|state| match state {
                    NoteState::Unspent => None,
                    NoteState::Pending => Some(Outcome::Pending),
                    NoteState::Spent => Some(Outcome::Spent),
                }))
            })
        }?;
        match step {
            BatchStep::Wait(wait) => return Ok(Some(wait)),
            // A signature is kept, whatever the mint says of the note's state.
            BatchStep::Refused(place, _)
                if matches!(self.outcomes[place], Outcome::Unchecked(_)) => {}
            BatchStep::Refused(place, error) => self.outcomes[place] = Outcome::Refused(error),
            BatchStep::Found(found, error) => {
                for (place, outcome) in found {
                    let message = self.messages.get(&(place as u32));
                    match (outcome, &self.outcomes[place]) {
                        (Some(outcome), _) => self.outcomes[place] = outcome,
                        (None, Outcome::Unchecked(signature)) => {
                            self.outcomes[place] = Outcome::Live(signature.clone());
                        }
                        (None, _) => self.unspent.extend(
                            message.map(|message| AskedPoint { point: message.clone(), place }),
                        ),
                    }
                }
                if let Some(error) = error {
                    return Err(error);
                }
            }
        }
        if self.left() == 0 {
            // The states came in random order.
            let unspent = std::mem::take(&mut self.unspent);
            self.signatures.add(unspent, self.batch.unwrap_or(BATCH));
        }
        Ok(None)
    }

    /// Asks once more about what odd answers left open.
    pub fn ask_again(&mut self) {
        self.signatures.ask_again();
        self.states.ask_again();
    }

    /// The results so far. Counters that the mint has not answered about are [`Outcome::Open`].
    #[must_use]
    pub fn so_far(&self) -> Restored {
        let live = self.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Live(_)));
        let chance = Chance::of(live.count() as u64, self.m);
        let outcomes: Vec<_> =
            self.first.iter().map(|&place| self.outcomes[place].clone()).collect();
        let mut warnings = self.warnings.clone();
        type About = fn(Vec<u32>) -> Warning;
        let left: [(&str, About); 5] = [
            ("unchecked", |counters| Warning::Unchecked { counters }),
            ("unsigned", |counters| Warning::Unsigned { counters }),
            ("pending", |counters| Warning::Pending { counters }),
            ("refused", |counters| Warning::Refused { counters }),
            ("expired", |counters| Warning::Expired { counters }),
        ];
        for (word, warning) in left {
            let all = (0..).zip(&outcomes);
            let all = all.filter(|(_, outcome)| outcome.word() == word);
            let counters: Vec<_> = all.map(|(counter, _)| counter).collect();
            let is_unknown = word == "expired" && self.is_expired && self.as_of.is_none();
            if is_unknown || !counters.is_empty() {
                warnings.push(warning(counters));
            }
        }
        for batches in [&self.signatures, &self.states] {
            if let Some((fault, false)) = batches.fault() {
                warnings.push(Warning::OddAnswer(fault.clone()));
            }
        }
        Restored {
            chance: chance.filter(|_| self.as_of.is_some() && !self.options.confirm),
            gap: self.options.gap,
            outcomes,
            as_of: self.as_of,
            warnings,
        }
    }

    /// The results, once every request is answered.
    ///
    /// # Errors
    ///
    /// [`QueryError::Answer`] if odd answers left notes open, and [`QueryError::Unfinished`].
    pub fn finish(&self) -> Result<Restored, QueryError> {
        for batches in [&self.signatures, &self.states] {
            if let Some((fault, true)) = batches.fault() {
                return Err(QueryError::Answer(fault.clone()));
            }
        }
        let places = self.first.iter().enumerate();
        let places = places.filter(|&(place, &first)| place == first);
        let open = places.filter(|&(place, _)| self.outcomes[place] == Outcome::Open);
        let open = open.count();
        match open.max(self.left()) {
            0 => Ok(self.so_far()),
            left => Err(QueryError::Unfinished { left }),
        }
    }

    /// The origin of the `issued` filter; `None` without filters.
    #[must_use]
    pub fn source(&self) -> Option<&FilterSource> {
        self.source.as_ref()
    }

    #[cfg(feature = "client")]
    pub(crate) fn time_limit(&self) -> Duration {
        self.options.time_limit
    }
}

/// A restore that ended before its end. Nothing that the mint answered is lost.
#[derive(Debug, Error)]
#[error("{cause}")]
pub struct RestoreError {
    /// Why it ended.
    #[source]
    pub cause: QueryError,
    /// The restore with its results so far ([`Restore::so_far`]), for
    /// [`MintClient::resume`](crate::MintClient::resume). `None` if nothing was asked.
    pub unfinished: Option<Box<Restore>>,
}

impl<E: Into<QueryError>> From<E> for RestoreError {
    fn from(cause: E) -> Self {
        Self { cause: cause.into(), unfinished: None }
    }
}
