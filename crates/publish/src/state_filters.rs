//! Publishes sequences of state filters.
//!
//! Two objects of a sequence name its other ones: the manifest and the draft's list of blocks. Each is replaced after
//! what it names is there, and only if the published one is an earlier version of the same sequence. So what it names
//! needs no query: it is there. The first publication of a process checks it all the same, and replaces what is damaged.

use std::time::Duration;

use nutfilter_cashu::state_filters::manifest::{KEPT_MANIFESTS, OBJECT_MEDIA_TYPE, hash};
use nutfilter_cashu::state_filters::{
    BlockInfo, BlockInterval, Manifest, SequenceError, SequencePath,
};
use nutfilter_mint::{Body, Event, StateFilters};
use nutfilter_sequence::SealedFile;

use crate::destination::{ATTEMPTS, Outcome};
use crate::{Destination, Found, Object, PublishError, Put, Report, Version};

const JSON: &str = "application/json";

/// What this process has published of a sequence. As long as it is the same, there is nothing to do.
#[derive(PartialEq, Eq)]
pub(crate) struct PublishedSequence {
    manifest: u64,
    info: Option<Vec<u8>>,
    open: Option<(u64, u64)>,
}

impl Destination {
    /// Publishes the state filters of one kind. Caches may keep manifests and lists of blocks for `max_age`.
    ///
    /// First come segments and older manifests, then the manifest, then sealed blocks and the open one, then the list
    /// of blocks. Nothing is published before the first reading of the mint's database.
    ///
    /// # Errors
    ///
    /// The first failure. [`PublishError::Older`] or [`PublishError::Forked`] if the published sequence is a later
    /// version or another one; then nothing has been written.
    ///
    /// # Cost
    ///
    /// Without news, none. Otherwise one read of each list and one write of each new object. Memory: the largest new
    /// object.
    pub fn publish_state_filters(
        &mut self,
        filters: &StateFilters,
        max_age: Duration,
    ) -> Result<Report, PublishError> {
        let view = filters.view();
        let Some((manifest, bytes, _)) = view.manifest() else {
            return Ok(Report::default());
        };
        let current = PublishedSequence {
            manifest: manifest.number,
            info: filters.block_info().map(|info| info.bytes().to_vec()),
            open: filters
                .open_block()
                .map(|(open, _)| (open.height(), open.copied())),
        };
        if self.sequences.get(&view.kind()) == Some(&current) {
            return Ok(Report::default());
        }
        let (_lock, is_first) = (self.lock()?, !self.sequences.contains_key(&view.kind()));
        let mut publication = Publication {
            destination: self,
            filters,
            kind: view.kind(),
            max_age,
            is_first,
            report: Report::default(),
        };
        publication.manifest(manifest, bytes)?;
        if let (Some(info), Some(list)) = (view.block_info(None), filters.block_info()) {
            publication.blocks(&info, list)?;
        }
        let report = publication.report;
        self.sequences.insert(view.kind(), current);
        Ok(report)
    }
}

/// A list in the destination, and its bytes and version.
type Published<T> = Option<(T, Vec<u8>, Version)>;

struct Publication<'a> {
    destination: &'a mut Destination,
    filters: &'a StateFilters,
    kind: Event,
    max_age: Duration,
    /// Whether this process has not published this kind yet. Then objects that are listed already are checked too.
    is_first: bool,
    report: Report,
}

impl Publication<'_> {
    fn manifest(&mut self, own: &Manifest, bytes: &[u8]) -> Result<(), PublishError> {
        let path = relative(SequencePath::Manifest(self.kind));
        let body = Body::from_bytes(bytes.to_vec());
        let object = list(&path, body, own.time, self.max_age);
        for _ in 0..ATTEMPTS {
            let published = self.read(&path, Manifest::from_json)?;
            if let Some((manifest, published, _)) = &published {
                self.check_earlier(&path, own, manifest, published)?;
            }
            let before = published.as_ref().map(|(manifest, ..)| manifest);
            let listed = before.map_or(&[][..], |before| &before.segments);
            for segment in &own.segments {
                let is_new = !listed.contains(segment);
                let (start, end) = (segment.start, segment.end);
                if let Some(file) = self.filters.view().segment(start, end)
                    && (is_new || self.is_first)
                {
                    let name = SequencePath::Segment(self.kind, start, end);
                    self.create(name, OBJECT_MEDIA_TYPE, read(&file)?, is_new)?;
                }
            }
            if self.is_published(&published, &object) {
                return Ok(());
            }
            let kept = own.number.saturating_sub(KEPT_MANIFESTS);
            let first = before.map_or(0, |before| before.number + 1).max(kept);
            for number in first..=own.number {
                let Some(bytes) = self.old_manifest(number)? else {
                    continue;
                };
                let name = SequencePath::OldManifest(self.kind, number);
                self.create(name, JSON, bytes, true)?;
            }
            if self.replace(&object, &published)? {
                return Ok(());
            }
        }
        Err(PublishError::contended(&path))
    }

    /// Checks that the published manifest is this one or one before it.
    fn check_earlier(
        &self,
        path: &str,
        own: &Manifest,
        published: &Manifest,
        bytes: &[u8],
    ) -> Result<(), PublishError> {
        let number = published.number;
        if number > own.number {
            return Err(PublishError::Older {
                path: path.to_owned(),
                what: "number",
                own: own.number,
                published: number,
            });
        }
        let forked = |what, own: &[u8; 32], published: &[u8; 32]| PublishError::Forked {
            path: path.to_owned(),
            what,
            own: hex(own),
            published: hex(published),
        };
        if let Some(then) = self.old_manifest(number)?
            && then != bytes
        {
            let what = format!("the SHA-256 of manifest {number}");
            return Err(forked(what, &hash(&then), &hash(bytes)));
        }
        // The manifest may be too old to be kept.
        for segment in &own.segments {
            let interval = (segment.start, segment.end);
            let mut listed = published.segments.iter();
            let other = listed.find(|one| (one.start, one.end) == interval && *one != segment);
            if let Some(other) = other {
                let what = format!("the SHA-256 of segment {}-{}", segment.start, segment.end);
                return Err(forked(what, &segment.sha256, &other.sha256));
            }
        }
        Ok(())
    }

    fn blocks(&mut self, own: &BlockInfo, body: &Body) -> Result<(), PublishError> {
        let path = relative(SequencePath::BlockInfo(self.kind));
        let opened = own.blocks.last().map_or(0, |open| open.start);
        let object = list(&path, body.clone(), opened, self.max_age);
        for _ in 0..ATTEMPTS {
            let published = self.read(&path, BlockInfo::from_json)?;
            let before = published.as_ref().map(|(info, ..)| info);
            if let Some(before) = before {
                check_blocks(&path, own, before)?;
            }
            let listed = before.map_or(0, BlockInfo::open_height);
            let first = if self.is_first { 0 } else { listed };
            for height in first..own.open_height() {
                if let Some(file) = self.filters.view().sealed_block(height) {
                    let name = SequencePath::Block(self.kind, height);
                    self.create(name, OBJECT_MEDIA_TYPE, read(&file)?, height >= listed)?;
                }
            }
            self.open_block()?;
            if self.is_published(&published, &object) || self.replace(&object, &published)? {
                return Ok(());
            }
        }
        Err(PublishError::contended(&path))
    }

    /// Publishes a copy of the open block, unless the published one is younger than the interval: this process may
    /// just have been restarted.
    fn open_block(&mut self) -> Result<(), PublishError> {
        let Some((open, interval)) = self.filters.open_block() else {
            return Ok(());
        };
        let name = relative(SequencePath::Block(self.kind, open.height()));
        let (body, copied) = (open.body().clone(), open.copied());
        let interval_ = Duration::from_secs(interval);
        let object = Object::replaceable(name, OBJECT_MEDIA_TYPE, body, copied, interval_);
        let is_due = |found: &Found| {
            let age = copied.checked_sub(found.date);
            age.is_none_or(|age| age >= interval)
        };
        self.publish(&object.unwrap_or_else(|_| unreachable!()), is_due)
    }

    fn read<T>(
        &mut self,
        path: &str,
        parse: fn(&[u8]) -> Result<T, SequenceError>,
    ) -> Result<Published<T>, PublishError> {
        let read = self.destination.store.read(path);
        let Some((bytes, version)) = read.map_err(|source| PublishError::at(path, source))? else {
            return Ok(None);
        };
        let list = parse(&bytes).map_err(|source| PublishError::Malformed {
            path: path.to_owned(),
            source,
        })?;
        Ok(Some((list, bytes, version)))
    }

    /// Whether a list is there already.
    fn is_published<T>(&mut self, published: &Published<T>, object: &Object) -> bool {
        let bytes = published.as_ref().map(|(_, bytes, _)| &bytes[..]);
        let is_same = bytes == Some(&object.body().bytes()[..]);
        self.report.unchanged += usize::from(is_same);
        is_same
    }

    /// Replaces a list. Returns whether it was still that version.
    fn replace<T>(
        &mut self,
        object: &Object,
        published: &Published<T>,
    ) -> Result<bool, PublishError> {
        let over = published.as_ref().map(|(.., version)| version);
        let put = self.destination.store.put(object, over);
        let put = put.map_err(|source| PublishError::at(object.path(), source))?;
        if put == Put::Written {
            self.report.count(object, Outcome::Written);
        }
        Ok(put == Put::Written)
    }

    /// Publishes bytes that never change. The published list allows only these, so other bytes at their path are a copy
    /// of the open block, or damage, and are replaced.
    fn create(
        &mut self,
        name: SequencePath,
        media_type: &'static str,
        bytes: Vec<u8>,
        is_new: bool,
    ) -> Result<(), PublishError> {
        let body = Body::from_bytes(bytes);
        let object = Object::immutable(relative(name), media_type, body);
        let object = object.unwrap_or_else(|_| unreachable!());
        let outcome = self.destination.publish_one(&object, |_| Ok(true))?;
        match outcome {
            Outcome::Written if !is_new => {
                let path = object.path();
                tracing::warn!(
                    path,
                    "replaced a published object that was missing or damaged"
                );
            }
            Outcome::Unchanged if !is_new => return Ok(()),
            _ => {}
        }
        self.report.count(&object, outcome);
        Ok(())
    }

    fn publish(
        &mut self,
        object: &Object,
        may_replace: impl Fn(&Found) -> bool,
    ) -> Result<(), PublishError> {
        let outcome = self
            .destination
            .publish_one(object, |found| Ok(may_replace(found)))?;
        let outcome = match outcome {
            Outcome::Superseded => Outcome::Unchanged,
            outcome => outcome,
        };
        self.report.count(object, outcome);
        Ok(())
    }

    /// The bytes of a manifest; `None` if it is not kept any more.
    fn old_manifest(&self, number: u64) -> Result<Option<Vec<u8>>, PublishError> {
        let Some(file) = self.filters.view().old_manifest(number) else {
            return Ok(None);
        };
        match read(&file) {
            Err(error) if error.is_gone() => Ok(None),
            bytes => bytes.map(Some),
        }
    }
}

/// Checks that a published list of blocks is this one or one before it.
fn check_blocks(path: &str, own: &BlockInfo, published: &BlockInfo) -> Result<(), PublishError> {
    let (here, there) = (own.open_height(), published.open_height());
    if there > here {
        return Err(PublishError::Older {
            path: path.to_owned(),
            what: "number of sealed blocks",
            own: here,
            published: there,
        });
    }
    let sealed = published.blocks.iter().filter(|block| block.end.is_some());
    for (height, (there, here)) in sealed.zip(&own.blocks).enumerate() {
        if there != here {
            let interval = |block: &BlockInterval| {
                let end = block.end.map_or("open".to_owned(), |end| end.to_string());
                format!("{}-{end}", block.start)
            };
            return Err(PublishError::Forked {
                path: path.to_owned(),
                what: format!("the interval of block {height}"),
                own: interval(here),
                published: interval(there),
            });
        }
    }
    Ok(())
}

/// The path of an object below the destination.
fn relative(path: SequencePath) -> String {
    path.to_string().trim_start_matches('/').to_owned()
}

fn list(path: &str, body: Body, date: u64, max_age: Duration) -> Object {
    // Every path of a sequence is plain, here and below.
    Object::replaceable(path, JSON, body, date, max_age).unwrap_or_else(|_| unreachable!())
}

fn read(file: &SealedFile) -> Result<Vec<u8>, PublishError> {
    file.read().map_err(PublishError::File)
}

fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
