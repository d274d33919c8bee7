//! [`Sequence`].

use core::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nutfilter::segment::{SegmentEncoder, Universe, element_hash};
use nutfilter_cashu::state_filters::manifest::{HEARTBEAT, Hash, KEPT_MANIFESTS};
use nutfilter_cashu::state_filters::{Block, Element, Event, Manifest, ManifestSegment};

use crate::batch::{Batch, SPILL};
use crate::blocks::{BlockOptions, Blocks, RecordedBlocks};
use crate::compaction;
use crate::error::{Error, at};
use crate::files::{self, NewFile, SealedFile, Written};
use crate::inbox::Inbox;
use crate::known::{self, Run, RunWriter};
use crate::state::{RecordedManifest, Retired, State};
use crate::view::{BlocksView, View};

/// Elements of a batch that are kept in memory, unless told otherwise: 32 MiB.
const BATCH_ELEMENTS: usize = 1 << 20;

/// How long a segment is served after it left the manifest, in seconds: a follower may still have the manifest before.
const SERVED_UNLISTED: u64 = 600;

/// How to open a sequence. Kind, states and universe never change during its life.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of the events.
    pub kind: Event,
    /// The states whose events the sequence gets; empty for a kind without states.
    pub states: Vec<&'static str>,
    /// The universe of the segments.
    pub universe: Universe,
    /// Keeps the draft's blocks as well. Only for a source that reports every event of the kind.
    pub blocks: Option<BlockOptions>,
    /// The number of elements of a batch that are kept in memory.
    pub batch_elements: usize,
}

impl Options {
    /// A sequence without blocks, of this kind, these states and this universe.
    #[must_use]
    pub fn new(kind: Event, states: &[&'static str], universe: Universe) -> Self {
        Self {
            kind,
            states: states.to_vec(),
            universe,
            blocks: None,
            batch_elements: BATCH_ELEMENTS,
        }
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Elements that are new. They are published now.
    pub new: u64,
    /// Elements that were published before.
    pub known: u64,
    /// Elements that were published before and are not in this batch. If the batch has all elements that the mint
    /// knows, the mint has lost these.
    pub missing: u64,
}

/// The published events of one kind, in a directory.
///
/// ```
/// use nutfilter::segment::Universe;
/// use nutfilter_cashu::state_filters::{ElementHash, Event};
/// use nutfilter_sequence::{Options, Sequence};
///
/// let spent = ElementHash::new(Event::ProofState, "SPENT")?;
/// let options = Options::new(Event::ProofState, &["SPENT"], Universe::new(36)?);
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let mut sequence = Sequence::open(directory, options, 1_767_225_600)?;
/// let mut batch = sequence.batch();
/// batch.push(&[spent.element(&[2; 33])?, spent.element(&[3; 33])?])?;
/// assert_eq!(sequence.add(batch, 1_767_225_660)?.new, 2);
/// let view = sequence.view();
/// let (manifest, ..) = view.manifest().expect("written by the first batch");
/// assert_eq!(manifest.segments[0].n, 2);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sequence {
    content: Content,
    inbox: Inbox,
    /// Whether a change failed. Then the directory is right, and the content has to be read again.
    is_stale: bool,
    /// Closing the file releases the lock.
    _lock: File,
}

/// What the directory holds.
#[derive(Debug)]
struct Content {
    directory: PathBuf,
    options: Options,
    state: State,
    /// The current manifest and its bytes.
    manifest: Option<(Arc<Manifest>, Arc<[u8]>)>,
    /// The hashes of each segment of the cover.
    known: Vec<Run>,
    blocks: Option<Blocks>,
    /// The SHA-256 of the manifests before the current one, the newest first.
    older: Vec<Hash>,
    /// Segments that left the manifest, and until when they are served. A restart removes them.
    unlisted: Vec<(ManifestSegment, u64)>,
    damage: Vec<Damage>,
}

/// A published file that is missing or has other bytes.
#[derive(Debug)]
pub struct Damage {
    /// What is wrong with it.
    pub error: Error,
    /// Whether it was rebuilt. Otherwise it is not served.
    pub is_rebuilt: bool,
}

/// Held while the sequence is open.
const LOCK: &str = "lock";

const SUBDIRECTORIES: [&str; 4] = ["blocks", "segments", "known", "manifests"];

fn state_path(directory: &Path) -> PathBuf {
    directory.join("state")
}

fn segment_path(directory: &Path, start: u64, end: u64) -> PathBuf {
    directory.join(format!("segments/{start}-{end}"))
}

pub(crate) fn segment_file(directory: &Path, segment: &ManifestSegment) -> SealedFile {
    SealedFile {
        path: segment_path(directory, segment.start, segment.end),
        sha256: segment.sha256,
    }
}

pub(crate) fn manifest_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("manifests/{number}"))
}

fn known_path(directory: &Path, start: u64, end: u64) -> PathBuf {
    directory.join(format!("known/{start}-{end}"))
}

/// Checks every file of the sequence in a directory, and changes none. Returns what is damaged.
///
/// # Errors
///
/// The directory cannot be read, is in use, or is so damaged that not everything could be checked.
pub fn verify(directory: &Path) -> Result<Vec<Error>, Error> {
    let _lock = lock(&directory.join(LOCK))?;
    let path = state_path(directory);
    let missing = || Error::damaged(&path, "the state file is missing");
    let state = State::read(&path, None)?.ok_or_else(missing)?;
    let options = state.options().ok_or_else(|| {
        Error::damaged(&path, "the state file has an unknown kind, state or width")
    })?;
    let mut content = Content::read(directory.to_owned(), options)?;
    content.check_files(false)?;
    let damage = content.damage.into_iter().map(|damage| damage.error);
    let known = content.known.iter().map(Run::check);
    let inbox = Inbox::find(&directory.join("inbox"), content.state.reported);
    let others = known.chain([inbox.map(drop)]).filter_map(Result::err);
    Ok(damage.chain(others).collect())
}

impl Sequence {
    /// Opens the sequence in a directory, or creates one whose first block opens at the Unix second `now`. Checks all
    /// published files, and rebuilds segments that are damaged as far as it can.
    ///
    /// # Errors
    ///
    /// The directory cannot be read or written, is in use, is damaged, or holds a sequence of another kind, with
    /// other states, another universe, or without blocks where there should be some.
    pub fn open(directory: impl AsRef<Path>, options: Options, now: u64) -> Result<Self, Error> {
        let directory = directory.as_ref().to_owned();
        for name in SUBDIRECTORIES {
            files::make_directory(&directory.join(name))?;
        }
        let lock = lock(&directory.join(LOCK))?;
        for name in files::names(&directory)? {
            if name.starts_with(SPILL) {
                files::remove(&directory.join(name))?;
            }
        }
        let path = state_path(&directory);
        if State::read(&path, Some(options.kind))?.is_none() {
            let blocks = options
                .blocks
                .map(|blocks| RecordedBlocks::new(blocks, now));
            let width = options.universe.width();
            let state = State::new(options.kind, &options.states, width, blocks);
            files::sync_directory(&directory)?;
            files::replace(&path, &state.to_bytes())?;
        }
        let content = Content::open(directory, options)?;
        let inbox = content.directory.join("inbox");
        let inbox = Inbox::open(inbox, content.state.reported)?;
        Ok(Self {
            content,
            inbox,
            is_stale: false,
            _lock: lock,
        })
    }

    /// Begins another sequence if the directory was removed; returns whether it was. Reports to an inbox of this one
    /// are errors then.
    ///
    /// # Errors
    ///
    /// As [`Sequence::open`].
    pub fn begin_again_if_removed(&mut self, now: u64) -> Result<bool, Error> {
        let directory = &self.content.directory;
        let is_gone = matches!(directory.join(LOCK).try_exists(), Ok(false));
        if is_gone {
            *self = Self::open(directory, self.content.options.clone(), now)?;
        }
        Ok(is_gone)
    }

    /// An empty batch for [`Sequence::add`].
    #[must_use]
    pub fn batch(&self) -> Batch {
        let limit = self.content.options.batch_elements.max(1);
        Batch::new(self.content.directory.clone(), limit)
    }

    /// Whether nothing was ever added.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.content.manifest.is_none()
    }

    /// The number of changes that were made durable. A caller that keeps a watermark stores this number with it: if
    /// the sequence has a smaller one, it is an older copy and lacks elements before the watermark.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.content.state.commits
    }

    /// The number of different elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.content.elements()
    }

    /// The published files that were damaged when the sequence was opened.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.content.damage
    }

    /// The bitmap of the open block and its height, if the sequence has blocks.
    #[must_use]
    pub fn open_block(&self) -> Option<(u64, &Block)> {
        let blocks = self.content.blocks.as_ref()?;
        Some((blocks.height(), &blocks.open))
    }

    /// What the sequence publishes now.
    #[must_use]
    pub fn view(&self) -> View {
        let content = &self.content;
        let manifest = content.manifest.as_ref().zip(content.state.manifest);
        View {
            directory: content.directory.clone(),
            kind: content.options.kind,
            manifest: manifest.map(|((manifest, bytes), recorded)| {
                (Arc::clone(manifest), Arc::clone(bytes), recorded.sha256)
            }),
            older: content.older.as_slice().into(),
            unlisted: content.unlisted.iter().map(|(one, _)| *one).collect(),
            blocks: content.blocks.as_ref().map(|blocks| BlocksView {
                width: blocks.open.width(),
                timeout: blocks.options.timeout,
                sealed: blocks.sealed.as_slice().into(),
                opened: blocks.opened,
            }),
        }
    }

    /// Publishes the elements of a batch that are new, at the Unix second `now`, and seals a block whose time is over.
    /// Without news, only a manifest is published, once in an hour ([`HEARTBEAT`]).
    ///
    /// # Errors
    ///
    /// A file cannot be read or written, or is damaged. What was published stays as it was, and the batch can be
    /// added again.
    ///
    /// # Cost
    ///
    /// Looking up each element in each segment of the cover, a few small files, and about eight syncs if there
    /// are news.
    pub fn add(&mut self, batch: Batch, now: u64) -> Result<Added, Error> {
        self.change(|content| content.add(batch, None, now))
    }

    /// Where the mint reports events. They are published by [`Sequence::add_reported`].
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// Publishes the events in the inbox, at the Unix second `now`, and seals a block whose time is over.
    ///
    /// An event that was published before is published again: it counts in its block, and it is in the new segment. Of
    /// those that are equal in one call, each counts, and the segment has one value.
    ///
    /// # Errors
    ///
    /// As [`Sequence::add`]. The events stay in the inbox.
    pub fn add_reported(&mut self, now: u64) -> Result<Added, Error> {
        self.read_if_stale()?;
        let mut batch = self.batch();
        let end = self.inbox.take(self.content.state.reported, &mut batch)?;
        let added = self.change(|content| content.add(batch, Some(end), now))?;
        self.inbox.remove_before(end)?;
        Ok(added)
    }

    /// Merges the segments of finished levels: ten minutes, hours, days, months and years. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// As [`Sequence::add`].
    ///
    /// # Cost
    ///
    /// Reads 8 bytes per element of a merge twice, and writes them once with the segment. Memory: about 20 MiB.
    pub fn compact(&mut self, now: u64) -> Result<bool, Error> {
        self.change(|content| content.compact(now))
    }

    fn read_if_stale(&mut self) -> Result<(), Error> {
        if self.is_stale {
            let (directory, options) = (&self.content.directory, &self.content.options);
            self.content = Content::open(directory.clone(), options.clone())?;
            self.is_stale = false;
        }
        Ok(())
    }

    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Content) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.read_if_stale()?;
        // Also after a panic.
        self.is_stale = true;
        let result = change(&mut self.content)?;
        self.is_stale = false;
        Ok(result)
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    nutfilter_files::lock(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::in_use(path),
        _ => at(path)(error),
    })
}

impl Damage {
    fn lost(error: Error) -> Self {
        let is_rebuilt = false;
        Self { error, is_rebuilt }
    }
}

/// The damage that a check has found.
fn damage(checked: Result<(), Error>) -> Result<Option<Error>, Error> {
    match checked {
        Err(error) if error.is_damage() => Ok(Some(error)),
        checked => checked.map(|()| None),
    }
}

/// Counts the distinct values of sorted hashes that come in pieces.
struct Values {
    universe: Universe,
    last: Option<u64>,
    n: u64,
}

impl Values {
    fn new(universe: Universe) -> Self {
        Self {
            universe,
            last: None,
            n: 0,
        }
    }

    fn count(&mut self, hashes: &[u64]) {
        for &hash in hashes {
            let value = Some(self.universe.value_of(hash));
            self.n += u64::from(value != self.last);
            self.last = value;
        }
    }
}

impl Content {
    /// Reads what the state file names, removes everything else, and rebuilds what is damaged.
    fn open(directory: PathBuf, options: Options) -> Result<Self, Error> {
        // After an error, it is uncertain whether the last rename is durable. Nothing is served before it is.
        files::sync_directory(&directory)?;
        let mut content = Self::read(directory, options)?;
        content.remove_others()?;
        content.check_files(true)?;
        Ok(content)
    }

    /// Reads what the state file names.
    fn read(directory: PathBuf, options: Options) -> Result<Self, Error> {
        let path = state_path(&directory);
        let state = State::read(&path, Some(options.kind))?
            .ok_or_else(|| Error::damaged(&path, "the state file is missing"))?;
        if state.states != options.states {
            let (stored, given) = (state.states.join(","), options.states.join(","));
            return Err(Error::differs(&path, "states", stored, given));
        }
        if state.universe != options.universe.width() {
            let given = options.universe.width();
            return Err(Error::differs(&path, "universe", state.universe, given));
        }
        if state.blocks.is_some() != options.blocks.is_some() {
            let word = |has: bool| if has { "on" } else { "off" };
            let (stored, given) = (state.blocks.is_some(), options.blocks.is_some());
            return Err(Error::differs(&path, "blocks", word(stored), word(given)));
        }
        let blocks = match (&state.blocks, options.blocks) {
            (Some(recorded), Some(options)) => {
                Some(Blocks::read(directory.join("blocks"), recorded, options)?)
            }
            _ => None,
        };
        let manifest = match state.manifest {
            None => None,
            Some(RecordedManifest { number, sha256 }) => {
                let path = manifest_path(&directory, number);
                let (manifest, bytes) = read_manifest(SealedFile { path, sha256 })?;
                Some((Arc::new(manifest), bytes.into()))
            }
        };
        let mut content = Self {
            directory,
            options,
            state,
            manifest,
            known: vec![],
            blocks,
            older: vec![],
            unlisted: vec![],
            damage: vec![],
        };
        for segment in content.cover() {
            let path = known_path(&content.directory, segment.start, segment.end);
            content.known.push(Run::open(path)?);
        }
        Ok(content)
    }

    /// Writes the segment of a run.
    fn write_segment(
        &self,
        path: &Path,
        run: &Run,
        (start, end): (u64, u64),
        n: u64,
    ) -> Result<ManifestSegment, Error> {
        let count = u32::try_from(n).map_err(|_| Error::too_many(n))?;
        let mut file: NewFile<'_> = files::create(path)?;
        let mut encoder = SegmentEncoder::new(self.options.universe, count);
        known::merge(std::slice::from_ref(run), |hashes| {
            encoder.push_hashes(hashes, |bytes| file.write(bytes))
        })?;
        encoder.finish(|bytes| file.write(bytes))?;
        let Written { length, sha256 } = file.finish()?;
        Ok(ManifestSegment {
            start,
            end,
            n: count,
            length,
            sha256,
        })
    }

    /// Replaces the damaged segment of a run.
    fn rebuild_segment(
        &self,
        file: &SealedFile,
        run: &Run,
        segment: &ManifestSegment,
    ) -> Result<(), Error> {
        let new = file.path.with_extension("new");
        let interval = (segment.start, segment.end);
        let rebuilt = self.write_segment(&new, run, interval, segment.n.into())?;
        match rebuilt == *segment {
            true => files::install(&file.path, &new),
            false => Err(Error::altered(&file.path)),
        }
    }

    /// Checks the published files. If it may `repair`, it rebuilds the segments of the cover, and the next manifest does
    /// not list other segments that are damaged.
    fn check_files(&mut self, repair: bool) -> Result<(), Error> {
        let cover = self.cover();
        for segment in self.listed().to_vec() {
            let file = segment_file(&self.directory, &segment);
            let Some(error) = damage(file.check())? else {
                continue;
            };
            let place = cover.iter().position(|one| *one == segment);
            if let Some(run) = place.filter(|_| repair).map(|place| &self.known[place]) {
                self.rebuild_segment(&file, run, &segment)?;
            } else if let Some(retired) = self
                .state
                .retired
                .iter_mut()
                .find(|retired| (retired.start, retired.end) == (segment.start, segment.end))
            {
                retired.until = 0;
            }
            self.damage.push(Damage {
                error,
                is_rebuilt: repair && place.is_some(),
            });
        }
        let blocks = self.blocks.iter().flat_map(Blocks::files);
        for file in blocks.collect::<Vec<_>>() {
            let error = damage(file.check())?;
            self.damage.extend(error.map(Damage::lost));
        }
        self.read_older()
    }

    /// Follows the chain of manifests from the current one back.
    fn read_older(&mut self) -> Result<(), Error> {
        let mut newer = self
            .manifest
            .as_ref()
            .map(|(manifest, _)| Arc::clone(manifest));
        while let Some((number, sha256)) = newer.and_then(|newer| {
            let number = newer.number.checked_sub(1)?;
            newer.previous.map(|sha256| (number, sha256))
        }) && (self.older.len() as u64) < KEPT_MANIFESTS
        {
            let path = manifest_path(&self.directory, number);
            match read_manifest(SealedFile { path, sha256 }) {
                Ok((manifest, _)) => {
                    self.older.push(sha256);
                    newer = Some(Arc::new(manifest));
                }
                Err(error) => {
                    // What is before it cannot be checked any more, and is not served.
                    self.damage.extend(damage(Err(error))?.map(Damage::lost));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes what an interrupted change has left.
    fn remove_others(&self) -> Result<(), Error> {
        let directory = &self.directory;
        let path = |segment: &ManifestSegment| segment_path(directory, segment.start, segment.end);
        let mut named: BTreeSet<PathBuf> = self.listed().iter().map(path).collect();
        named.extend(
            self.cover()
                .iter()
                .map(|segment| known_path(directory, segment.start, segment.end)),
        );
        if let Some(RecordedManifest { number, .. }) = self.state.manifest {
            let numbers = number.saturating_sub(KEPT_MANIFESTS)..=number;
            named.extend(numbers.map(|number| manifest_path(directory, number)));
        }
        for name in &SUBDIRECTORIES[1..] {
            files::remove_others(&directory.join(name), &named)?;
        }
        self.blocks.as_ref().map_or(Ok(()), Blocks::remove_others)
    }

    fn listed(&self) -> &[ManifestSegment] {
        self.manifest
            .as_ref()
            .map_or(&[], |(manifest, _)| &manifest.segments)
    }

    fn cover(&self) -> Vec<ManifestSegment> {
        let manifest = self.manifest.as_ref();
        let cover = manifest.map(|(manifest, _)| manifest.cover().copied());
        cover.into_iter().flatten().collect()
    }

    /// With `reported`, the batch has the reported events before that number: none is dropped as known.
    fn add(&mut self, batch: Batch, reported: Option<u64>, now: u64) -> Result<Added, Error> {
        let height = self.blocks.as_ref().map_or(0, Blocks::height);
        if let Some(blocks) = self.blocks.as_mut().filter(|blocks| blocks.is_due(now)) {
            blocks.seal_due(now)?;
        }
        let cover = self.cover();
        let start = cover.last().map_or(0, |segment| segment.end);
        // The end is not part of the interval, but the current second is: a wallet that looks from second `now` on must
        // not skip what was spent in it. What comes later in this second is in the next segment, which ends later.
        // The clock may have been set back.
        let end = (start + 1).max(now.saturating_add(1));
        let run_path = known_path(&self.directory, start, end);
        let mut writer = None;
        let mut values = Values::new(self.options.universe);
        let mut added = Added::default();
        batch.for_each_piece(|piece| {
            let (new, known) = match reported {
                Some(_) => (piece.to_vec(), 0),
                None => {
                    piece.dedup();
                    self.split(piece)?
                }
            };
            added.known += known;
            added.new += new.len() as u64;
            if let Some(blocks) = &mut self.blocks {
                for element in &new {
                    blocks.insert(element, now)?;
                }
            }
            if !new.is_empty() {
                let writer = match &mut writer {
                    Some(writer) => writer,
                    writer => writer.insert(RunWriter::create(&run_path)?),
                };
                let mut hashes: Vec<u64> = new.iter().map(element_hash).collect();
                hashes.dedup();
                values.count(&hashes);
                writer.push(&hashes)?;
            }
            Ok(())
        })?;
        added.missing = self.elements().saturating_sub(added.known);
        if writer.is_none() && self.manifest.is_none() {
            // The first manifest has a segment, even without elements.
            writer = Some(RunWriter::create(&run_path)?);
        }
        if let Some(writer) = writer {
            let run = writer.finish()?;
            let path = segment_path(&self.directory, start, end);
            let segment = self.write_segment(&path, &run, (start, end), values.n)?;
            let mut segments = self.listed().to_vec();
            segments.push(segment);
            self.write_manifest(segments, now)?;
            self.known.push(run);
        } else if let Some((manifest, _)) = &self.manifest
            && now.saturating_sub(manifest.time) >= HEARTBEAT
        {
            self.write_manifest(self.listed().to_vec(), now)?;
        } else if self
            .blocks
            .as_ref()
            .is_none_or(|blocks| blocks.height() == height)
        {
            return Ok(added);
        }
        self.state.reported = reported.unwrap_or(self.state.reported);
        self.commit()?;
        if let Some(blocks) = &self.blocks {
            blocks.clean(height)?;
        }
        Ok(added)
    }

    fn elements(&self) -> u64 {
        self.known.iter().map(|run| run.n).sum()
    }

    /// The elements of a sorted piece that are new, and the number of the others.
    fn split(&self, piece: &[Element]) -> Result<(Vec<Element>, u64), Error> {
        let hashes: Vec<u64> = piece.iter().map(element_hash).collect();
        let mut known = vec![false; hashes.len()];
        for run in &self.known {
            run.mark(&hashes, &mut known)?;
        }
        let is_known = known.iter();
        let mut new: Vec<Element> = piece
            .iter()
            .zip(is_known.clone())
            .filter_map(|(element, &is_known)| (!is_known).then_some(*element))
            .collect();
        new.dedup_by_key(|element| element_hash(element));
        Ok((new, is_known.filter(|&&is_known| is_known).count() as u64))
    }

    fn compact(&mut self, now: u64) -> Result<bool, Error> {
        let mut cover = self.cover();
        let mut runs = self.known.clone();
        let mut segments = self.listed().to_vec();
        let mut obsolete = vec![];
        while let Some((level, range)) = compaction::due(&cover) {
            let parts = &cover[range.clone()];
            let (start, end) = (parts[0].start, parts[parts.len() - 1].end);
            let path = known_path(&self.directory, start, end);
            let mut writer = RunWriter::create(&path)?;
            let mut values = Values::new(self.options.universe);
            known::merge(&runs[range.clone()], |hashes| {
                values.count(hashes);
                writer.push(hashes)
            })?;
            let run = writer.finish()?;
            let path = segment_path(&self.directory, start, end);
            let merged = self.write_segment(&path, &run, (start, end), values.n)?;
            for part in parts {
                obsolete.push(known_path(&self.directory, part.start, part.end));
                self.state.retired.push(Retired {
                    start: part.start,
                    end: part.end,
                    until: now.saturating_add(level.grace()),
                });
            }
            segments.push(merged);
            cover.splice(range.clone(), [merged]);
            runs.splice(range, [run]);
        }
        if obsolete.is_empty() {
            return Ok(false);
        }
        self.known = runs;
        self.write_manifest(segments, now)?;
        self.commit()?;
        for path in obsolete {
            files::remove(&path)?;
        }
        Ok(true)
    }

    /// Writes the next manifest, without the parts whose time is over.
    fn write_manifest(
        &mut self,
        mut segments: Vec<ManifestSegment>,
        now: u64,
    ) -> Result<(), Error> {
        let (expired, retired): (Vec<Retired>, Vec<Retired>) = self
            .state
            .retired
            .iter()
            .partition(|retired| retired.until <= now);
        self.state.retired = retired;
        let expired: BTreeSet<(u64, u64)> = expired
            .iter()
            .map(|retired| (retired.start, retired.end))
            .collect();
        self.unlisted.retain(|(_, until)| *until > now);
        let until = now.saturating_add(SERVED_UNLISTED);
        let gone = segments.extract_if(.., |one| expired.contains(&(one.start, one.end)));
        self.unlisted.extend(gone.map(|segment| (segment, until)));
        segments.sort_by_key(|segment| (segment.start, Reverse(segment.end)));
        let before = self.state.manifest;
        if let Some(RecordedManifest { sha256, .. }) = before {
            self.older.insert(0, sha256);
            self.older.truncate(KEPT_MANIFESTS as usize);
        }
        let manifest = Manifest {
            kind: self.options.kind,
            states: self.options.states.clone(),
            universe: self.options.universe,
            number: before.map_or(0, |before| before.number + 1),
            previous: before.map(|before| before.sha256),
            time: now,
            segments,
        };
        let bytes = manifest.to_json();
        let path = manifest_path(&self.directory, manifest.number);
        let written = files::write(&path, &bytes)?;
        self.state.manifest = Some(RecordedManifest {
            number: manifest.number,
            sha256: written.sha256,
        });
        self.manifest = Some((Arc::new(manifest), bytes.into()));
        Ok(())
    }

    /// Makes everything durable, and then the state that names it. Afterwards, removes files that are not listed any more.
    fn commit(&mut self) -> Result<(), Error> {
        if let Some(blocks) = &mut self.blocks {
            blocks.sync()?;
            self.state.blocks = Some(blocks.recorded());
        }
        for name in &SUBDIRECTORIES[1..] {
            files::sync_directory(&self.directory.join(name))?;
        }
        self.state.commits = self.state.commits.saturating_add(1);
        files::replace(&state_path(&self.directory), &self.state.to_bytes())?;
        self.remove_unlisted()
    }

    fn remove_unlisted(&self) -> Result<(), Error> {
        let Some(RecordedManifest { number, .. }) = self.state.manifest else {
            return Ok(());
        };
        if let Some(old) = number.checked_sub(KEPT_MANIFESTS + 1) {
            files::remove(&manifest_path(&self.directory, old))?;
        }
        let unlisted = self.unlisted.iter().map(|(segment, _)| segment);
        let served = self.listed().iter().chain(unlisted);
        let served =
            served.map(|segment| segment_path(&self.directory, segment.start, segment.end));
        let served: BTreeSet<PathBuf> = served.collect();
        files::remove_others(&self.directory.join("segments"), &served)
    }
}

fn read_manifest(file: SealedFile) -> Result<(Manifest, Vec<u8>), Error> {
    let bytes = file.read()?;
    let manifest = Manifest::from_json(&bytes);
    let manifest = manifest.map_err(|_| Error::damaged(&file.path, "a manifest is invalid"))?;
    Ok((manifest, bytes))
}
