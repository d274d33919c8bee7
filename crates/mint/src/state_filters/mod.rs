//! State filters: sequences of what was spent or signed, for wallets that follow the mint.
//!
//! A reading passes its items to the [`Sequence`] of its kind, which publishes those that are new, before the
//! watermark moves on. So no item is lost between the two, and the sequence drops the items that come again. Kinds
//! that no database shows completely are reported by the mint through an [`EventFeed`].

mod feed;

use core::fmt;
use std::path::Path;

use nutfilter::segment::Universe;
use nutfilter_cashu::state_filters::manifest::DEFAULT_WIDTH;
use nutfilter_cashu::state_filters::{Element, ElementHash, Event};
use nutfilter_sequence::{Added, Batch, BlockOptions, Error, Options, Sequence};
use serde_json::json;

pub use self::feed::{EventFeed, ReportError};
use crate::sequence_objects::{OpenBlock, Served};
use crate::source::ItemBatch;
use crate::{FilterService, NoteKind};

/// Directory of the sequences, inside the data directory.
pub(crate) const DIRECTORY: &str = "state-filters";

/// Which sequences a mint publishes, and how. The defaults are those of the command line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StateFilterOptions {
    /// The kinds to publish from the mint's records: [`Event::BlindSignature`], [`Event::ProofState`] or both. Proofs
    /// are published in the state `SPENT` only, because a database shows no other change reliably. So they get segments
    /// but not the draft's blocks, which need every state.
    pub kinds: Vec<Event>,
    /// The kinds whose events the mint reports through an [`EventFeed`]. They have all states, segments and blocks. A
    /// kind that is also in `kinds` is only reported. A sequence keeps the states that it began with.
    pub reported: Vec<Event>,
    /// The universe of the segments. A sequence keeps the one that it began with.
    pub universe: Universe,
    /// b of the draft: an open block has 2^b bits.
    pub block_width: u32,
    /// Seconds after which a block is sealed.
    pub block_timeout: u64,
    /// Seconds between two versions of the open block; `None` if it is not served.
    pub open_interval: Option<u64>,
}

impl StateFilterOptions {
    /// Default of [`StateFilterOptions::block_width`]: a block has room for 45,426 events.
    pub const BLOCK_WIDTH: u32 = 20;

    /// Default of [`StateFilterOptions::block_timeout`]: a week, as the draft advises.
    pub const BLOCK_TIMEOUT: u64 = 604_800;

    /// Default of [`StateFilterOptions::open_interval`].
    pub const OPEN_INTERVAL: u64 = 600;

    /// Publishes these kinds, with the defaults.
    #[must_use]
    pub fn new(kinds: &[Event]) -> Self {
        Self {
            kinds: kinds.to_vec(),
            reported: vec![],
            // The default is a valid width.
            universe: Universe::new(DEFAULT_WIDTH).unwrap_or_else(|_| unreachable!()),
            block_width: Self::BLOCK_WIDTH,
            block_timeout: Self::BLOCK_TIMEOUT,
            open_interval: Some(Self::OPEN_INTERVAL),
        }
    }

    /// The published kinds, each with the states of its segments.
    fn published(&self) -> impl Iterator<Item = (Event, &'static [&'static str])> {
        Event::ALL.into_iter().filter_map(|event| {
            let polled = NoteKind::ALL.into_iter().map(event_of);
            let polled = polled.into_iter().find(|polled| polled.0 == event);
            match polled {
                _ if self.reported.contains(&event) => Some((event, all_states(event))),
                Some((_, states, _)) if self.kinds.contains(&event) => Some((event, states)),
                _ => None,
            }
        })
    }

    /// The draft's entry for `/v1/info`, as JSON: the kinds of which every event is served. `None` without such kinds.
    #[must_use]
    pub fn draft_info(&self) -> Option<String> {
        let kinds = self.published();
        let kinds = kinds.filter(|&(event, states)| states.len() == all_states(event).len());
        let kinds: Vec<&str> = kinds.map(|(event, _)| event.as_str()).collect();
        (!kinds.is_empty()).then(|| json!({"supported": true, "kinds": kinds}).to_string())
    }

    /// The entry of the segments for `/v1/info`, as JSON: their universe, and all published kinds with their states.
    /// `None` without kinds.
    #[must_use]
    pub fn segments_info(&self) -> Option<String> {
        let kinds = self.published().map(|(event, states)| match states {
            [] => json!({"kind": event.as_str()}),
            states => json!({"kind": event.as_str(), "states": states}),
        });
        let (kinds, w): (Vec<_>, _) = (kinds.collect(), self.universe.width());
        (!kinds.is_empty()).then(|| json!({"supported": true, "w": w, "kinds": kinds}).to_string())
    }
}

/// The states of a kind; empty for a kind without states.
fn all_states(event: Event) -> &'static [&'static str] {
    match event.states() {
        [""] => &[],
        states => states,
    }
}

/// The sequence of a kind of note, or what stands for it if the kind is not served.
#[derive(Default)]
pub(crate) struct KindSequence {
    served: Option<(ServedSequence, ElementHash)>,
    behind: Option<Behind>,
}

/// The sequence lacks items of a reading, because they could not be added. A full reading adds them.
#[derive(Clone, Copy, Debug)]
struct Behind {
    /// Refreshes from the failure to the full reading. They double with each failure.
    wait: u32,
    left: u32,
}

impl Behind {
    const MAX_WAIT: u32 = 64;
}

/// The sequences of the kinds that the mint reports.
#[derive(Debug, Default)]
pub(crate) struct ReportedSequences {
    served: Vec<ServedSequence>,
    /// Kinds whose sequence cannot be used.
    damaged: Vec<Event>,
}

#[derive(Debug)]
struct ServedSequence {
    event: Event,
    sequence: Sequence,
    open_interval: Option<u64>,
    /// The number of changes when it was served last.
    commits: Option<u64>,
    /// The last served copy of the open block.
    open: Option<OpenBlock>,
    service: FilterService,
    /// Elements that the mint has lost, as it was logged last.
    missing: u64,
    /// Items since the last whole reading that are not points. While there are any, the kind is not served.
    invalid: u64,
}

impl fmt::Debug for KindSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = self.served.as_ref().map(|(served, _)| served.event);
        f.debug_tuple("KindSequence").field(&event).finish()
    }
}

/// The kind of event that a kind of note becomes.
pub(crate) fn event_of(kind: NoteKind) -> (Event, &'static [&'static str], &'static str) {
    match kind {
        NoteKind::Spent => (Event::ProofState, &["SPENT"], "SPENT"),
        NoteKind::Issued => (Event::BlindSignature, &[], ""),
    }
}

impl KindSequence {
    /// Opens the sequence of a kind below the data directory, if `options` name it.
    pub(crate) fn open(
        kind: NoteKind,
        data: &Path,
        options: &StateFilterOptions,
        service: FilterService,
        now: u64,
    ) -> Result<Self, Error> {
        let (event, states, state) = event_of(kind);
        if !options.kinds.contains(&event) || options.reported.contains(&event) {
            return Ok(Self::default());
        }
        let served = ServedSequence::open(event, states, data, options, service, now)?;
        // Every kind above has its state.
        let hash = ElementHash::new(event, state).unwrap_or_else(|_| unreachable!());
        Ok(Self {
            served: Some((served, hash)),
            behind: None,
        })
    }

    /// Begins another sequence if its directory was removed. Only a whole reading fills it.
    pub(crate) fn begin_again_if_removed(&mut self, now: u64) -> Result<(), Error> {
        if let Some((served, _)) = &mut self.served
            && served.sequence.begin_again_if_removed(now)?
        {
            served.commits = None;
            served.open = None;
            served.show(now);
        }
        Ok(())
    }

    /// Whether a watermark that was stored with the number `recorded` can be used: the sequence has every element
    /// before it.
    pub(crate) fn has_all_until(&self, recorded: Option<u64>) -> bool {
        self.served.as_ref().is_none_or(|(served, _)| {
            let commits = served.sequence.commits();
            !served.sequence.is_new() && recorded.is_some_and(|recorded| recorded <= commits)
        })
    }

    /// The number that is stored with a watermark; `None` if the sequence lacks elements before it, or items are missing
    /// that only a whole reading finds again.
    pub(crate) fn commits(&self) -> Option<u64> {
        let (served, _) = self.served.as_ref().filter(|_| self.behind.is_none())?;
        (served.invalid == 0).then(|| served.sequence.commits())
    }

    /// Whether this refresh should read everything, because an earlier reading could not be added.
    pub(crate) fn needs_whole_reading(&mut self) -> bool {
        let Some(behind) = &mut self.behind else {
            return false;
        };
        behind.left = behind.left.saturating_sub(1);
        behind.left == 0
    }

    /// Starts to collect the elements of a reading of all or only the new items.
    pub(crate) fn intake(&self, whole: bool) -> Intake {
        let served = self.served.as_ref();
        let collected = served.filter(|_| whole || self.behind.is_none());
        let elements = collected.map(|(served, hash)| Elements {
            hash: hash.clone(),
            batch: served.sequence.batch(),
            buffer: vec![],
            invalid: 0,
        });
        Intake(elements.map(Ok))
    }

    /// Publishes what is new in a reading. If the reading was `whole`, what it lacks is gone from the database.
    pub(crate) fn add(
        &mut self,
        intake: Intake,
        whole: bool,
        now: u64,
    ) -> Result<(), (Event, Error)> {
        let (Some((served, _)), Some(elements)) = (&mut self.served, intake.0) else {
            return Ok(());
        };
        let added = elements.and_then(|elements| served.add(elements, whole, now));
        self.behind = match &added {
            Ok(()) => None,
            Err(_) => {
                let wait = self.behind.map_or(1, |behind| behind.wait * 2);
                let wait = wait.min(Behind::MAX_WAIT);
                Some(Behind { wait, left: wait })
            }
        };
        added.map_err(|error| (served.event, error))
    }
}

impl ReportedSequences {
    /// Opens the sequences below the data directory that `options` name.
    pub(crate) fn open(
        data: &Path,
        options: &StateFilterOptions,
        service: &FilterService,
        now: u64,
    ) -> Result<Self, Error> {
        let reported = |event: &Event| options.reported.contains(event);
        let open = |event| {
            let service = service.clone();
            ServedSequence::open(event, all_states(event), data, options, service, now)
        };
        let mut sequences = Self::default();
        for event in Event::ALL.into_iter().filter(reported) {
            let opened = unless_damaged(event, open(event), &mut sequences.damaged)?;
            sequences.served.extend(opened);
        }
        Ok(sequences)
    }

    pub(crate) fn feed(&self) -> EventFeed {
        let inboxes = self.served.iter();
        let inboxes = inboxes.map(|served| (served.event, served.sequence.inbox()));
        EventFeed::new(inboxes.collect(), self.damaged.clone())
    }

    pub(crate) fn damaged(&self) -> &[Event] {
        &self.damaged
    }

    /// Adds what the mint has reported. Returns the kinds for which that failed.
    pub(crate) fn add(&mut self, now: u64) -> Vec<(Event, Error)> {
        let mut failures = vec![];
        for served in &mut self.served {
            match served.sequence.add_reported(now) {
                Ok(added) => served.show_added(added, now),
                Err(error) => {
                    let event = served.event;
                    tracing::error!(kind = %event, %error, "could not publish reported events; retrying at the next refresh");
                    failures.push((event, error));
                }
            }
        }
        failures
    }
}

/// Logs and notes that the sequence of a kind is damaged and cannot be used.
pub(crate) fn unless_damaged<T>(
    event: Event,
    opened: Result<T, Error>,
    damaged: &mut Vec<Event>,
) -> Result<Option<T>, Error> {
    match opened {
        Err(error) if error.is_damage() => {
            metrics::counter!("nutfilter_data_discarded_total").increment(1);
            tracing::error!(kind = %event, %error, "not publishing state filters of this kind");
            damaged.push(event);
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

impl ServedSequence {
    /// Opens the sequence of a kind below the data directory, and serves what is in it.
    fn open(
        event: Event,
        states: &'static [&'static str],
        data: &Path,
        options: &StateFilterOptions,
        service: FilterService,
        now: u64,
    ) -> Result<Self, Error> {
        let mut sequence = Options::new(event, states, options.universe);
        if states.len() == all_states(event).len() {
            sequence.blocks = Some(BlockOptions {
                width: options.block_width,
                timeout: options.block_timeout,
            });
        }
        let directory = data.join(DIRECTORY).join(event.as_str());
        let mut served = Self {
            event,
            sequence: Sequence::open(directory, sequence, now)?,
            open_interval: options.open_interval,
            commits: None,
            open: None,
            service,
            missing: 0,
            invalid: 0,
        };
        for damage in served.sequence.damage() {
            let error = &damage.error;
            metrics::counter!("nutfilter_data_discarded_total").increment(1);
            match damage.is_rebuilt {
                true => tracing::warn!(kind = %event, %error, "rebuilt a damaged segment"),
                false => tracing::error!(kind = %event, %error, "not serving a damaged file"),
            }
        }
        served.show(now);
        Ok(served)
    }

    fn add(&mut self, elements: Elements, whole: bool, now: u64) -> Result<(), Error> {
        let event = self.event.as_str();
        let before = self.invalid;
        self.invalid = elements.invalid + if whole { 0 } else { before };
        metrics::gauge!("nutfilter_events_invalid", "kind" => event).set(self.invalid as f64);
        if self.invalid > before {
            let invalid = self.invalid;
            tracing::warn!(
                kind = event,
                invalid,
                "items are not points of notes; not serving state filters of this kind, which would lack them"
            );
        }
        if (self.invalid > 0) != (before > 0) {
            // Withdrawn or served again.
            self.commits = None;
        }
        let added = self.sequence.add(elements.batch, now)?;
        if whole {
            self.report_missing(added.missing);
        }
        self.show_added(added, now);
        Ok(())
    }

    fn show_added(&mut self, added: Added, now: u64) {
        let event = self.event.as_str();
        metrics::counter!("nutfilter_events_published_total", "kind" => event).increment(added.new);
        if let Err(error) = self.sequence.compact(now) {
            // The elements are served. The next refresh tries again.
            tracing::error!(kind = event, %error, "could not merge segments; retrying at the next refresh");
        }
        self.show(now);
    }

    fn report_missing(&mut self, missing: u64) {
        let event = self.event.as_str();
        metrics::gauge!("nutfilter_events_missing", "kind" => event).set(missing as f64);
        if missing > 0 && missing != self.missing {
            tracing::warn!(
                kind = event,
                missing,
                "published events are not in the database any more: a backup was restored or rows were deleted; \
                 they stay published"
            );
        }
        self.missing = missing;
    }

    /// Serves the sequence as it is now, and a new copy of the open block if it is due. Before the first reading there is
    /// nothing to copy.
    fn show(&mut self, now: u64) {
        let commits = Some(self.sequence.commits());
        let open = self.sequence.open_block().zip(self.open_interval);
        let is_due = !self.sequence.is_new()
            && open.is_some_and(|((height, _), interval)| {
                let current = self.open.as_ref();
                current.is_none_or(|open| !open.is_current(height, interval, now))
            });
        if let Some(((height, block), _)) = open.filter(|_| is_due) {
            self.open = Some(OpenBlock::new(height, block.as_bytes(), now));
        }
        if self.commits != commits || is_due {
            let open = self.open.clone().zip(self.open_interval);
            let is_complete = self.invalid == 0;
            let served = is_complete.then(|| Served::new(self.sequence.view(), open));
            self.service.replace_sequence(self.event, served);
            self.commits = commits;
        }
    }
}

/// The elements of a reading, or why they could not be collected. That must not fail the reading.
#[derive(Debug, Default)]
pub(crate) struct Intake(Option<Result<Elements, Error>>);

#[derive(Debug)]
struct Elements {
    hash: ElementHash,
    batch: Batch,
    buffer: Vec<Element>,
    /// Items that are not compressed points of a known curve.
    invalid: u64,
}

impl Intake {
    pub(crate) fn push(&mut self, items: &ItemBatch) {
        let Some(Ok(elements)) = &mut self.0 else {
            return;
        };
        elements.buffer.clear();
        for item in items.items() {
            match elements.hash.element(item) {
                Ok(element) => elements.buffer.push(element),
                Err(_) => elements.invalid += 1,
            }
        }
        if let Err(error) = elements.batch.push(&elements.buffer) {
            self.0 = Some(Err(error));
        }
    }
}
