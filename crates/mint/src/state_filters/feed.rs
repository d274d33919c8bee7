//! [`EventFeed`]: a mint reports its events.

use nutfilter_cashu::state_filters::{Element, ElementHash, Event, StateFilterError};
use nutfilter_sequence::Inbox;

/// Takes the events of the kinds in [`StateFilterOptions::reported`](super::StateFilterOptions::reported), on any thread.
/// Get it from [`Refresher::event_feed`](crate::Refresher::event_feed). Clones are handles to the same feed.
///
/// Report each change after it is durable in the mint's own database, and keep the intention to report it there until
/// [`report`](Self::report) has returned: after a crash in between, report it again. So each event is published at least
/// once. One that is published twice costs its bytes, and a wallet sees it twice.
///
/// The events of a call are published by the next refresh, in order of the calls. Whatever a state is reported as, it is
/// published: `UNSPENT`, `PENDING`, `UNSPENT` are three events.
///
/// ```no_run
/// use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
/// use nutfilter_mint::{
///     DataDirectory, Event, FilterService, Refresher, RefresherOptions, StateFilterOptions,
/// };
///
/// let source = SqliteSource::open(&DatabaseLocation::parse("mint.sqlite3")?, None)?;
/// let mut state_filters = StateFilterOptions::new(&[]);
/// state_filters.reported = vec![Event::ProofState, Event::MeltQuote];
/// let options = RefresherOptions {
///     data_directory: Some(DataDirectory::open("filters")?),
///     state_filters: Some(state_filters),
///     ..RefresherOptions::default()
/// };
/// let mut refresher = Refresher::with_options(source, FilterService::default(), options)?;
/// let events = refresher.event_feed();
/// // A melt begins.
/// events.report(Event::MeltQuote, "PENDING", &["TRmjduhIsPxd"])?;
/// events.report(Event::ProofState, "PENDING", &[[2; 33], [3; 33]])?;
/// refresher.refresh()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EventFeed {
    inboxes: Vec<(Event, Inbox)>,
    /// Kinds whose sequence cannot be used.
    damaged: Vec<Event>,
}

impl EventFeed {
    /// Maximum length of an ID, in bytes.
    pub const MAX_ID_BYTES: usize = 4096;

    pub(super) fn new(inboxes: Vec<(Event, Inbox)>, damaged: Vec<Event>) -> Self {
        Self { inboxes, damaged }
    }

    fn inbox(&self, event: Event) -> Option<&Inbox> {
        let mut inboxes = self.inboxes.iter();
        inboxes.find_map(|(known, inbox)| (*known == event).then_some(inbox))
    }

    /// Reports that these proofs, quotes or blinded messages changed to this state. The state is empty for kinds without
    /// states. An ID is a point of 33 bytes, or a quote ID as the wallet got it.
    ///
    /// When this returns, all of them are in the data directory. At most 16,777,216 events of a kind wait for the next
    /// refresh.
    ///
    /// # Errors
    ///
    /// The kind is not reported, or a state or an ID is invalid: then nothing was taken. Or the data directory cannot be
    /// written, or too many events wait: then report all of them again later.
    ///
    /// # Cost
    ///
    /// One write and one sync of the disk, however many IDs there are.
    pub fn report<I: AsRef<[u8]>>(
        &self,
        event: Event,
        state: &str,
        ids: &[I],
    ) -> Result<(), ReportError> {
        let inbox = self
            .inbox(event)
            .ok_or(match self.damaged.contains(&event) {
                true => ReportError::Damaged(event),
                false => ReportError::Unexpected(event),
            })?;
        let hash = ElementHash::new(event, state).map_err(ReportError::Invalid)?;
        let elements = ids.iter().map(|id| {
            let (id, bytes) = (id.as_ref(), id.as_ref().len());
            if bytes > Self::MAX_ID_BYTES && !event.has_point() {
                return Err(ReportError::LongId { event, bytes });
            }
            hash.element(id).map_err(ReportError::Invalid)
        });
        let elements: Vec<Element> = elements.collect::<Result<_, _>>()?;
        inbox.push(&elements).map_err(ReportError::Inbox)
    }

    /// The number of events of this kind that wait for the next refresh.
    #[must_use]
    pub fn waiting(&self, event: Event) -> u64 {
        self.inbox(event).map_or(0, Inbox::waiting)
    }
}

/// Why events could not be reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The kind is not in [`StateFilterOptions::reported`](super::StateFilterOptions::reported).
    #[error("{0} is not a kind that the mint reports")]
    Unexpected(Event),
    /// The files of the kind are damaged. Report the event again after they were restored.
    #[error("the state filters of {0} are damaged; the log of the start names the file")]
    Damaged(Event),
    /// The state or an ID is not one of the kind.
    #[error(transparent)]
    Invalid(StateFilterError),
    /// The ID of a quote is too long.
    #[error("{event} ID of {bytes} bytes is too long; maximum {max}", max = EventFeed::MAX_ID_BYTES)]
    LongId {
        /// The kind.
        event: Event,
        /// Its length.
        bytes: usize,
    },
    /// The events could not be stored.
    #[error("could not store events: {0}")]
    Inbox(#[source] nutfilter_sequence::Error),
}
