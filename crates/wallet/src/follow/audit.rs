//! The audit: own copies of segments, merges computed again, and the chain of manifests.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nutfilter::segment::Segment;
use nutfilter_cashu::state_filters::manifest::{KEPT_MANIFESTS, hash, tiles};
use nutfilter_cashu::state_filters::{Event, Manifest, ManifestSegment, SequencePath};

use super::error::not_found;
use super::segments::invalid_segment;
use super::{Bookmark, FollowError, Follower, Unverified};

/// The follower's own copies of segments: `{kind}/{start}-{end}.gcs` in a directory.
pub(super) struct Copies {
    directory: PathBuf,
    /// The intervals, by start, then by descending end.
    intervals: BTreeSet<(u64, Reverse<u64>)>,
}

impl Copies {
    pub(super) fn open(directory: &Path, kind: Event) -> Result<Self, FollowError> {
        let directory = directory.join(kind.as_str());
        let list = || {
            fs::create_dir_all(&directory)?;
            let mut intervals = BTreeSet::new();
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                let name = entry.file_name();
                let interval = name.to_str().and_then(|name| {
                    let (start, end) = name.strip_suffix(".gcs")?.split_once('-')?;
                    Some((start.parse().ok()?, Reverse(end.parse().ok()?)))
                });
                // A copy without content was lost by the file system. It proves nothing.
                if entry.metadata()?.len() > 0 {
                    intervals.extend(interval);
                }
            }
            Ok(intervals)
        };
        let intervals =
            list().map_err(|error: io::Error| FollowError::bookmark(&directory, error))?;
        Ok(Self {
            directory,
            intervals,
        })
    }

    fn path(&self, start: u64, end: u64) -> PathBuf {
        self.directory.join(format!("{start}-{end}.gcs"))
    }

    /// The copy of an interval, if there is one.
    pub(super) fn read(&self, start: u64, end: u64) -> Result<Option<Vec<u8>>, FollowError> {
        if !self.intervals.contains(&(start, Reverse(end))) {
            return Ok(None);
        }
        let path = self.path(start, end);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FollowError::bookmark(&path, error)),
        }
    }

    pub(super) fn write(&mut self, start: u64, end: u64, bytes: &[u8]) -> Result<(), FollowError> {
        let path = self.path(start, end);
        let new = self
            .directory
            .join(format!(".copy-{}.new", std::process::id()));
        nutfilter_files::replace(&path, &new, bytes)
            .map_err(|error| FollowError::bookmark(&path, error))?;
        self.intervals.insert((start, Reverse(end)));
        Ok(())
    }

    /// Removes the copies inside larger ones, except those that the manifest still lists.
    fn prune(&mut self, manifest: &Manifest) -> Result<(), FollowError> {
        let listed: BTreeSet<_> = manifest
            .segments
            .iter()
            .map(|one| (one.start, Reverse(one.end)))
            .collect();
        let mut covered = 0;
        let mut unneeded = Vec::new();
        for &interval in &self.intervals {
            let (_, Reverse(end)) = interval;
            if end <= covered && !listed.contains(&interval) {
                unneeded.push(interval);
            }
            covered = covered.max(end);
        }
        for interval in unneeded {
            let (start, Reverse(end)) = interval;
            let path = self.path(start, end);
            fs::remove_file(&path).map_err(|error| FollowError::bookmark(&path, error))?;
            self.intervals.remove(&interval);
        }
        Ok(())
    }

    /// The copies inside an interval, without overlaps, and whether they are all of it.
    fn parts(&self, start: u64, end: u64) -> Result<(Vec<Vec<u8>>, bool), FollowError> {
        let mut covered = start;
        let mut parts = Vec::new();
        let mut complete = true;
        for &(from, Reverse(to)) in self.intervals.range((start, Reverse(u64::MAX))..) {
            if from >= end {
                break;
            }
            if from >= covered && to <= end && (from, to) != (start, end) {
                complete &= from == covered;
                parts.extend(self.read(from, to)?);
                covered = to;
            }
        }
        Ok((parts, complete && covered == end))
    }
}

impl Follower {
    /// Checks the chain of manifests since the bookmark, and every merge that is new since then and of which parts
    /// are known: from own copies, or because they are still listed. Returns what could not be checked.
    pub(super) fn audit(
        &self,
        manifest: &Manifest,
        json: &[u8],
        bookmark: Option<&Bookmark>,
        copies: &mut Copies,
    ) -> Result<Unverified, FollowError> {
        let mut unverified = Unverified::default();
        let last = match bookmark.and_then(Bookmark::manifest) {
            None => None,
            Some((last, last_hash)) => {
                let last = last?;
                unverified.manifests = self.check_chain(manifest, json, &last, last_hash)?;
                Some(last)
            }
        };
        let key = |one: &ManifestSegment| (one.start, Reverse(one.end));
        let end = last.as_ref().map_or(0, Manifest::end);
        let cover: BTreeSet<u64> = manifest.cover().map(|one| one.end).collect();
        // Small intervals first: they are the parts of larger ones.
        let mut merges: Vec<usize> = (0..manifest.segments.len()).collect();
        merges.sort_by_key(|&at| manifest.segments[at].end - manifest.segments[at].start);
        for at in merges {
            let merge = &manifest.segments[at];
            // `compare` has checked that equal intervals have equal hashes.
            let known =
                |last: &Manifest| last.segments.binary_search_by_key(&key(merge), key).is_ok();
            if last.as_ref().is_some_and(known) || self.check_merge(manifest, at, copies)? {
                continue;
            }
            // What begins later, or lies inside a merge, replaces nothing that was seen before.
            if merge.start < end && cover.contains(&merge.end) {
                unverified.merges += 1;
            }
        }
        copies.prune(manifest)?;
        Ok(unverified)
    }

    /// Compares a merge with its parts, or with those of them that are known. Returns false if none is known.
    fn check_merge(
        &self,
        manifest: &Manifest,
        at: usize,
        copies: &mut Copies,
    ) -> Result<bool, FollowError> {
        let merge = manifest.segments[at];
        let (start, end) = (merge.start, merge.end);
        let parsed = |file: &[u8]| {
            let segment = Segment::parse(file).map(Segment::into_owned);
            segment.map_err(|error| invalid_segment(start, error))
        };
        let rest = &manifest.segments[at + 1..];
        let inside = rest.iter().take_while(|part| part.end <= end).count();
        let listed = &rest[..inside];
        let (files, mut complete) = copies.parts(start, end)?;
        let mut parts = Vec::new();
        for file in files {
            parts.push(parsed(&file)?);
        }
        if !complete && tiles(listed, start, end) {
            parts.clear();
            complete = true;
            let mut covered = start;
            for part in listed {
                if part.start == covered {
                    parts.push(self.segment(manifest, part, Some(&mut *copies))?);
                    covered = part.end;
                }
            }
        }
        if !complete {
            if parts.is_empty() {
                return Ok(false);
            }
            // The merge must have at least what is known of it.
            parts.push(self.segment(manifest, &merge, Some(&mut *copies))?);
        }
        let union = Segment::merge(&parts).map_err(|error| invalid_segment(start, error))?;
        let bytes = union.to_bytes();
        if hash(&bytes) != merge.sha256 {
            return Err(FollowError::Invalid(format!(
                "merged segment {start}-{end} is not the union of its parts: they have {} values, it has {}",
                union.n(),
                merge.n
            )));
        }
        copies.write(start, end, &bytes)?;
        Ok(true)
    }

    /// Fetches the manifests between the last one and this one, and checks that each names the one before it.
    /// Returns the number of those that could not be checked, because the mint does not keep them so long.
    fn check_chain(
        &self,
        manifest: &Manifest,
        json: &[u8],
        last: &Manifest,
        last_hash: [u8; 32],
    ) -> Result<u64, FollowError> {
        let between = manifest.number - last.number;
        if between > KEPT_MANIFESTS {
            // None of them leads to the last one.
            return Ok(between);
        }
        let mut wanted = hash(json);
        let mut previous = manifest.previous;
        for number in (last.number..manifest.number).rev() {
            let Some(expected) = previous else {
                return Err(FollowError::forked(number));
            };
            wanted = expected;
            if number == last.number {
                break;
            }
            let path = SequencePath::OldManifest(self.kind, number);
            let older = match self.client.document(path) {
                Err(error) if not_found(&error) => return Ok(number - last.number),
                fetched => fetched?,
            };
            if hash(&older.body) != expected {
                return Err(FollowError::forked(number));
            }
            let older = Manifest::from_json(&older.body)?;
            if older.number != number {
                return Err(FollowError::forked(number));
            }
            previous = older.previous;
        }
        match wanted == last_hash {
            true => Ok(0),
            false => Err(FollowError::forked(last.number)),
        }
    }
}
