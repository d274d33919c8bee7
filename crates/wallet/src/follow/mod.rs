//! Follows the events of a mint through state filters: the draft's blocks, or segments.
//!
//! A [`Follower`] knows candidates: proofs, quotes or blinded messages of a wallet. It downloads what a mint published
//! since a [`Bookmark`], checks it, and reports each candidate that may be in it. Nothing about the candidates is sent.
//! A match may be a false positive: confirm it before anything irreversible.
//!
//! ```no_run
//! use nutfilter_wallet::follow::{Follower, Progress};
//! use nutfilter_wallet::{MintClient, Policy};
//! use nutfilter_cashu::state_filters::Event;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let ys: Vec<[u8; 33]> = Vec::new();
//! let client = MintClient::new("https://mint.example", Policy::default())?;
//! let follower = Follower::new(client, Event::ProofState, &["SPENT"], &ys)?;
//! let progress = Progress::default();
//! let plan = follower.plan(None, None, progress.bookmark.as_ref())?;
//! println!("{} bytes, {} false matches expected", plan.bytes(), plan.false_matches());
//! let progress = follower.run(&plan, progress, None, &mut |found| {
//!     println!("{:02x?} may be spent", ys[found.candidate]);
//! })?;
//! # let _ = progress.bookmark;
//! # Ok(())
//! # }
//! ```

mod audit;
mod blocks;
mod bookmark;
mod error;
mod segments;

use std::collections::BTreeMap;
use std::path::Path;

use nutfilter::segment::element_hash;
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_cashu::state_filters::{
    BlockInfo, Element, ElementHash, Event, Manifest, ManifestSegment, StateFilterError,
};

use crate::client::MintClient;
use crate::matches::Matches;
use crate::mint_filter::Answer;
use crate::policy::FetchContext;

use bookmark::{Position, Reported};

pub use bookmark::Bookmark;
pub use error::FollowError;

/// Minimum width of a universe. A non-member then matches a year of one event per second with a chance of 1 in 136.
pub const MIN_WIDTH: u32 = 32;

/// The two ways in which a mint publishes a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SequenceFormat {
    /// Segments, listed by a manifest.
    Segments,
    /// The Bloom blocks of the draft.
    Blocks,
}

/// A candidate that may be among the events of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Index of the candidate.
    pub candidate: usize,
    /// The state that it may have reached. Empty for a kind without states.
    pub state: &'static str,
    /// Start of the interval, in Unix seconds.
    pub start: u64,
    /// End of the interval; `None` for the open block, which will be read again.
    pub end: Option<u64>,
}

/// How far a follower has come.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Everything before it has been tested. `None` before the first run.
    pub bookmark: Option<Bookmark>,
    /// What the audit of the last run could not verify.
    pub unverified: Unverified,
    /// Matches of the run under way that are not to be repeated.
    new: BTreeMap<String, Reported>,
}

/// What an audit could not verify, because neither the mint nor the follower has it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unverified {
    /// Number of manifests since the bookmark.
    pub manifests: u64,
    /// Number of merges of which no part is known.
    pub merges: u64,
}

impl From<Bookmark> for Progress {
    fn from(bookmark: Bookmark) -> Self {
        Self {
            bookmark: Some(bookmark),
            ..Self::default()
        }
    }
}

/// What a run will download.
#[derive(Clone, Debug)]
pub struct Plan {
    contents: Contents,
    from: u64,
    /// Number of elements that will be tested.
    elements: usize,
    max_age: Option<u64>,
}

#[derive(Clone, Debug)]
enum Contents {
    Segments {
        manifest: Manifest,
        /// The bytes of the manifest.
        json: Vec<u8>,
        downloads: Vec<ManifestSegment>,
        /// Everything before it has been tested, although some of it may be downloaded again.
        tested: u64,
    },
    Blocks {
        info: BlockInfo,
        /// The first height to download.
        first: u64,
    },
}

impl Plan {
    /// Blocks or segments.
    #[must_use]
    pub fn format(&self) -> SequenceFormat {
        match self.contents {
            Contents::Segments { .. } => SequenceFormat::Segments,
            Contents::Blocks { .. } => SequenceFormat::Blocks,
        }
    }

    /// The time from which on events are tested, in Unix seconds.
    #[must_use]
    pub fn from(&self) -> u64 {
        self.from
    }

    /// Number of downloads.
    #[must_use]
    pub fn objects(&self) -> u64 {
        match &self.contents {
            Contents::Segments { downloads, .. } => downloads.len() as u64,
            Contents::Blocks { info, first } => blocks::heights(info, *first).count() as u64,
        }
    }

    /// Bytes of all downloads. For blocks as if all had the width of the open one: their lengths are not listed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.contents {
            Contents::Segments { downloads, .. } => downloads.iter().map(|one| one.length).sum(),
            Contents::Blocks { info, .. } => self.objects() << (info.b - 3),
        }
    }

    /// How many tested elements will match by chance, on average.
    #[must_use]
    pub fn false_matches(&self) -> f64 {
        let chance = match &self.contents {
            Contents::Segments {
                manifest,
                downloads,
                ..
            } => {
                let values: f64 = downloads.iter().map(|one| f64::from(one.n)).sum();
                values / manifest.universe.size() as f64
            }
            // A full block is half set.
            Contents::Blocks { .. } => self.objects() as f64 / 65_536.0,
        };
        // A sum of no numbers is -0.
        chance * self.elements as f64 + 0.0
    }

    /// When the manifest was written, in Unix seconds; `None` for blocks. A mint writes one every hour
    /// ([`HEARTBEAT`](nutfilter_cashu::state_filters::manifest::HEARTBEAT)), also if nothing happened.
    #[must_use]
    pub fn written(&self) -> Option<u64> {
        match &self.contents {
            Contents::Segments { manifest, .. } => Some(manifest.time),
            Contents::Blocks { .. } => None,
        }
    }

    /// For how many seconds the mint says that there is nothing newer.
    #[must_use]
    pub fn max_age(&self) -> Option<u64> {
        self.max_age
    }
}

/// Tests candidates against what a mint publishes about one kind of event.
#[derive(Clone, Debug)]
pub struct Follower {
    client: MintClient,
    kind: Event,
    states: Vec<&'static str>,
    /// For each state, the elements of all candidates.
    elements: Vec<Element>,
    candidates: usize,
}

impl Follower {
    /// A follower of these candidates, and of these of their states. `states` is empty for a kind without states.
    ///
    /// # Errors
    ///
    /// An unknown state, or an ID that the kind does not allow.
    pub fn new<I: AsRef<[u8]>>(
        client: MintClient,
        kind: Event,
        states: &[&str],
        ids: &[I],
    ) -> Result<Self, StateFilterError> {
        let mut known = Vec::new();
        let mut elements = Vec::new();
        let without = [""];
        for state in if states.is_empty() { &without } else { states } {
            let hash = ElementHash::new(kind, state)?;
            known.extend(kind.states().iter().find(|known| *known == state));
            for id in ids {
                elements.push(hash.element(id.as_ref())?);
            }
        }
        Ok(Self {
            client,
            kind,
            states: known,
            elements,
            candidates: ids.len(),
        })
    }

    /// Fetches the mint's list and plans the downloads, without testing anything.
    ///
    /// Starts at `since` (Unix seconds), or else at the bookmark, or else at the beginning. Downloads of segments begin
    /// with the whole hour before the bookmark, if it is older than ten minutes, so that they do not identify the
    /// wallet. Without a format it is
    /// that of the bookmark, or segments if the mint has a manifest, or blocks.
    ///
    /// # Errors
    ///
    /// The list cannot be fetched or is invalid, or it contradicts the bookmark.
    pub fn plan(
        &self,
        format: Option<SequenceFormat>,
        since: Option<u64>,
        bookmark: Option<&Bookmark>,
    ) -> Result<Plan, FollowError> {
        if let Some(bookmark) = bookmark {
            bookmark.check_origin(&self.client, self.kind, format)?;
        }
        let format = format.or_else(|| bookmark.map(Bookmark::format));
        match format {
            Some(SequenceFormat::Segments) => self.plan_segments(since, bookmark),
            Some(SequenceFormat::Blocks) => self.plan_blocks(since, bookmark),
            None => match self.plan_segments(since, bookmark) {
                Err(error) if error.is_not_found() => self.plan_blocks(since, bookmark),
                planned => planned,
            },
        }
    }

    /// Downloads what is planned, tests it, and calls `found` for each match as it comes. Returns the new bookmark,
    /// for the next run.
    ///
    /// `audit` is a directory for the follower's own copies of segments. With it, merges are computed again from
    /// their parts, every manifest since the bookmark is fetched, and the last sealed block is downloaded again.
    /// [`Progress::unverified`] counts what the mint does not keep any more.
    ///
    /// # Errors
    ///
    /// A download fails or is not what the list says. [`FollowError::Gone`] if a listed object is not served: then
    /// plan again. The bookmark has not moved.
    pub fn run(
        &self,
        plan: &Plan,
        progress: Progress,
        audit: Option<&Path>,
        found: &mut dyn FnMut(Found),
    ) -> Result<Progress, FollowError> {
        match &plan.contents {
            Contents::Segments {
                manifest,
                json,
                downloads,
                tested,
            } => self.run_segments(manifest, json, (downloads, *tested), progress, audit, found),
            Contents::Blocks { info, first } => {
                self.run_blocks(info, *first, progress, audit.is_some(), found)
            }
        }
    }

    /// Remembers that the mint confirmed a match and that it is final, so that it is not reported again: a merge that
    /// reaches behind the bookmark contains it once more. Do not call it for a false positive, which may become true.
    pub fn settle(&self, progress: &mut Progress, found: &Found) {
        let state = self.states.iter().position(|&state| state == found.state);
        let element = self.name(state.unwrap_or(0) * self.candidates + found.candidate);
        let Some(bookmark) = &mut progress.bookmark else {
            return;
        };
        let (open, settled) = (None, true);
        bookmark
            .reported
            .insert(element, Reported { open, settled });
    }

    /// Whether a match is to be reported: it was not settled, nor reported for this open block.
    fn report(&self, progress: &mut Progress, element: usize, open: Option<u64>) -> bool {
        let element = self.name(element);
        let before = progress.bookmark.as_ref();
        let before = before.and_then(|bookmark| bookmark.reported.get(&element));
        let is_known = |one: &Reported| one.settled || open.is_some() && one.open == open;
        if before.is_some_and(is_known) {
            return false;
        }
        if open.is_some() {
            let settled = false;
            progress.new.insert(element, Reported { open, settled });
        }
        true
    }

    /// The progress at a new position.
    fn advanced(&self, mut progress: Progress, position: Position) -> Progress {
        let mut bookmark = Bookmark::new(&self.client, self.kind, self.digest(), position);
        let open = bookmark.blocks().len() as u64;
        let before = progress
            .bookmark
            .into_iter()
            .flat_map(|before| before.reported);
        bookmark.reported = before
            .chain(std::mem::take(&mut progress.new))
            .filter(|(_, one)| one.settled || one.open == Some(open))
            .collect();
        progress.bookmark = Some(bookmark);
        progress
    }

    /// The name of an element in a bookmark.
    fn name(&self, element: usize) -> String {
        data_encoding::HEXLOWER.encode(&self.elements[element][..8])
    }

    /// Whether the bookmark was made with other candidates or states. New candidates have then not been tested
    /// before it.
    #[must_use]
    pub fn has_other_candidates(&self, bookmark: &Bookmark) -> bool {
        bookmark.candidates() != self.digest()
    }

    /// Runs once over the whole sequence, and keeps the candidates that match, to ask the mint about them:
    /// [`MintClient::restore`] for `blind_signature`, [`MintClient::confirm`] for spent proofs.
    ///
    /// `ids` are the candidates of this follower.
    ///
    /// # Errors
    ///
    /// As [`Follower::run`].
    pub fn matches<'a, I: AsRef<[u8]>>(
        &self,
        plan: &Plan,
        ids: &'a [I],
    ) -> Result<Matches<'a>, FollowError> {
        Ok(self.run_matching(plan, Progress::default(), None, ids)?.1)
    }

    /// As [`Follower::run`], and keeps the candidates that match, to ask the mint about them.
    ///
    /// `ids` are the candidates of this follower. Store the bookmark only when the mint has answered.
    ///
    /// # Errors
    ///
    /// As [`Follower::run`].
    pub fn run_matching<'a, I: AsRef<[u8]>>(
        &self,
        plan: &Plan,
        progress: Progress,
        audit: Option<&Path>,
        ids: &'a [I],
    ) -> Result<(Vec<Found>, Matches<'a>, Progress), FollowError> {
        let as_of = match &plan.contents {
            Contents::Segments { manifest, .. } => manifest.end(),
            Contents::Blocks { info, .. } => info.blocks.last().map_or(0, |open| open.start),
        };
        let mut answers = vec![Answer::Absent { as_of }; ids.len()];
        let mut all = Vec::new();
        let progress = self.run(plan, progress, audit, &mut |found| {
            if let Some(answer) = answers.get_mut(found.candidate) {
                *answer = Answer::MaybePresent;
            }
            all.push(found);
        })?;
        // The chance of a false match: one in so many.
        let one_in = self.elements.len() as f64 / plan.false_matches().max(f64::MIN_POSITIVE);
        let factor = self.client.policy().max_match_factor;
        // The cast saturates.
        let limit = crate::match_limit(ids.len() as u64, 0, one_in as u64, factor);
        let matches = Matches::new(ids, &answers, as_of, limit, None);
        Ok((all, matches, progress))
    }

    /// What the elements with these indices are.
    fn found(&self, element: usize, start: u64, end: Option<u64>) -> Found {
        Found {
            candidate: element % self.candidates,
            state: self.states[element / self.candidates],
            start,
            end,
        }
    }

    fn hashes(&self) -> Vec<u64> {
        self.elements.iter().map(element_hash).collect()
    }

    /// Identifies the elements, in any order.
    fn digest(&self) -> String {
        let mut sorted = self.elements.clone();
        sorted.sort_unstable();
        data_encoding::HEXLOWER.encode(&hash(sorted.as_flattened()))
    }

    /// The latest time that a mint may claim.
    fn latest(&self) -> u64 {
        self.client.policy().latest(FetchContext::now(None).now)
    }
}
