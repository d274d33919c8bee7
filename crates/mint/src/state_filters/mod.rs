//! State filters: sequences of what was spent or signed, for wallets that follow the mint.
//!
//! A reading passes its items to the [`Sequence`] of its kind, which publishes those that are new, before the
//! watermark moves on. So no item is lost between the two, and the sequence drops the items that come again. Kinds
//! that no database shows completely are reported by the mint through an [`EventFeed`].

mod feed;
mod objects;

use std::collections::BTreeMap;
use std::path::Path;

use nutfilter::segment::Universe;
use nutfilter_cashu::state_filters::manifest::DEFAULT_WIDTH;
use nutfilter_cashu::state_filters::{Element, ElementHash, Event};
use nutfilter_sequence::{Added, Batch, BlockOptions, Error, Options, Sequence};
use serde_json::json;

pub use self::feed::{EventFeed, ReportError};
use self::objects::OpenBlock;
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

    /// The kinds of the sequences, each with the states of its segments, and where its events come from.
    fn sequences(&self) -> impl Iterator<Item = (Event, &'static [&'static str], Source)> {
        Event::ALL.into_iter().filter_map(|event| {
            if self.reported.contains(&event) {
                return Some((event, all_states(event), Source::Reports));
            }
            let (kind, states, state): (_, &[_], _) = match event {
                _ if !self.kinds.contains(&event) => return None,
                Event::ProofState => (NoteKind::Spent, &["SPENT"], "SPENT"),
                Event::BlindSignature => (NoteKind::Issued, &[], ""),
                _ => return None,
            };
            // Both kinds have their state.
            let hash = ElementHash::new(event, state).unwrap_or_else(|_| unreachable!());
            Some((event, states, Source::Notes(kind, hash)))
        })
    }

    /// The draft's entry for `/v1/info`, as JSON: the kinds of which every event is served. `None` without such kinds.
    #[must_use]
    pub fn draft_info(&self) -> Option<String> {
        let kinds = self.sequences();
        let kinds = kinds.filter(|(event, states, _)| states.len() == all_states(*event).len());
        let kinds: Vec<&str> = kinds.map(|(event, ..)| event.as_str()).collect();
        (!kinds.is_empty()).then(|| json!({"supported": true, "kinds": kinds}).to_string())
    }

    /// The entry of the segments for `/v1/info`, as JSON: their universe, and all published kinds with their states.
    /// `None` without kinds.
    #[must_use]
    pub fn segments_info(&self) -> Option<String> {
        let kinds = self.sequences().map(|(event, states, _)| match states {
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

/// Where the events of a sequence come from.
#[derive(Debug)]
enum Source {
    /// Each note of this kind in the mint's database is one.
    Notes(NoteKind, ElementHash),
    /// The mint reports them.
    Reports,
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

/// The sequence of a kind of event, which a service shows.
#[derive(Debug)]
pub(crate) struct EventSequence {
    pub(crate) event: Event,
    source: Source,
    sequence: Sequence,
    service: FilterService,
    open_interval: Option<u64>,
    /// The number of changes when it was shown last.
    commits: Option<u64>,
    /// The copy of the open block that is shown.
    open: Option<OpenBlock>,
    behind: Option<Behind>,
    /// Elements that the mint has lost, as it was logged last.
    missing: u64,
    /// Items since the last whole reading that are not points. While there are any, the kind is not served.
    invalid: u64,
}

/// The sequences of a mint.
#[derive(Debug, Default)]
pub(crate) struct EventSequences {
    /// Those of a kind of note.
    pub(crate) noted: BTreeMap<NoteKind, EventSequence>,
    pub(crate) reported: Vec<EventSequence>,
    /// Kinds whose sequence cannot be used.
    pub(crate) damaged: Vec<Event>,
}

impl EventSequences {
    /// Opens the sequences below the data directory that `options` name, and shows what is in them.
    pub(crate) fn open(
        data: &Path,
        options: &StateFilterOptions,
        service: &FilterService,
        now: u64,
    ) -> Result<Self, Error> {
        let mut opened = Self::default();
        for (event, states, source) in options.sequences() {
            let kind = match &source {
                Source::Notes(kind, _) => Some(*kind),
                Source::Reports => None,
            };
            let blocks = BlockOptions {
                width: options.block_width,
                timeout: options.block_timeout,
            };
            let has_all = states.len() == all_states(event).len();
            let mut settings = Options::new(event, states, options.universe);
            settings.blocks = has_all.then_some(blocks);
            let directory = data.join(DIRECTORY).join(event.as_str());
            let sequence = match Sequence::open(directory, settings, now) {
                Err(error) if error.is_damage() => {
                    metrics::counter!("nutfilter_data_discarded_total").increment(1);
                    tracing::error!(kind = %event, %error, "not publishing state filters of this kind");
                    opened.damaged.push(event);
                    continue;
                }
                sequence => sequence?,
            };
            for damage in sequence.damage() {
                let error = &damage.error;
                metrics::counter!("nutfilter_data_discarded_total").increment(1);
                match damage.is_rebuilt {
                    true => tracing::warn!(kind = %event, %error, "rebuilt a damaged segment"),
                    false => tracing::error!(kind = %event, %error, "not serving a damaged file"),
                }
            }
            let mut sequence = EventSequence {
                event,
                source,
                sequence,
                service: service.clone(),
                open_interval: options.open_interval,
                commits: None,
                open: None,
                behind: None,
                missing: 0,
                invalid: 0,
            };
            sequence.show(now);
            match kind {
                Some(kind) => opened.noted.extend([(kind, sequence)]),
                None => opened.reported.push(sequence),
            }
        }
        Ok(opened)
    }

    pub(crate) fn feed(&self) -> EventFeed {
        let inboxes = self.reported.iter();
        let inboxes = inboxes.map(|reported| (reported.event, reported.sequence.inbox()));
        EventFeed::new(inboxes.collect(), self.damaged.clone())
    }
}

impl EventSequence {
    /// Begins another sequence if its directory was removed. Only a whole reading fills it.
    pub(crate) fn begin_again_if_removed(&mut self, now: u64) -> Result<(), Error> {
        if self.sequence.begin_again_if_removed(now)? {
            self.commits = None;
            self.open = None;
            self.show(now);
        }
        Ok(())
    }

    /// Whether a watermark that was stored with the number `recorded` can be used: the sequence has every element
    /// before it.
    pub(crate) fn has_all_until(&self, recorded: Option<u64>) -> bool {
        let commits = self.sequence.commits();
        !self.sequence.is_new() && recorded.is_some_and(|recorded| recorded <= commits)
    }

    /// The number that is stored with a watermark; `None` if the sequence lacks elements before it, or items are missing
    /// that only a whole reading finds again.
    pub(crate) fn commits(&self) -> Option<u64> {
        (self.behind.is_none() && self.invalid == 0).then(|| self.sequence.commits())
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
    pub(crate) fn collect(&self, whole: bool) -> Option<Elements> {
        match &self.source {
            Source::Notes(_, hash) if whole || self.behind.is_none() => Some(Elements {
                hash: hash.clone(),
                batch: self.sequence.batch(),
                buffer: vec![],
                invalid: 0,
                failed: None,
            }),
            _ => None,
        }
    }

    /// Adds what is new in a reading, and shows it. If the reading was `whole`, what it lacks is gone from the database.
    pub(crate) fn add(&mut self, elements: Elements, whole: bool, now: u64) -> Result<(), Error> {
        let added = self.add_elements(elements, whole, now);
        self.behind = added.is_err().then(|| {
            let wait = self.behind.map_or(1, |behind| behind.wait * 2);
            let wait = wait.min(Behind::MAX_WAIT);
            Behind { wait, left: wait }
        });
        added
    }

    fn add_elements(&mut self, elements: Elements, whole: bool, now: u64) -> Result<(), Error> {
        if let Some(error) = elements.failed {
            return Err(error);
        }
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

    /// Adds what the mint has reported, and shows it.
    pub(crate) fn add_reported(&mut self, now: u64) -> Result<(), Error> {
        let added = self.sequence.add_reported(now)?;
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

    /// Shows the sequence as it is now, and a new copy of the open block if it is due. Before the first reading there is
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
            let objects = is_complete.then(|| objects::of(self.sequence.view(), open));
            self.service.replace_sequence(self.event, objects);
            self.commits = commits;
        }
    }
}

/// The elements of a reading.
#[derive(Debug)]
pub(crate) struct Elements {
    hash: ElementHash,
    batch: Batch,
    buffer: Vec<Element>,
    /// Items that are not compressed points of a known curve.
    invalid: u64,
    /// Why they could not be collected. That must not fail the reading.
    failed: Option<Error>,
}

impl Elements {
    pub(crate) fn push(&mut self, items: &ItemBatch) {
        if self.failed.is_some() {
            return;
        }
        self.buffer.clear();
        for item in items.items() {
            match self.hash.element(item) {
                Ok(element) => self.buffer.push(element),
                Err(_) => self.invalid += 1,
            }
        }
        self.failed = self.batch.push(&self.buffer).err();
    }
}
