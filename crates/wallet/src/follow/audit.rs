//! The audit: own copies of segments, merges computed again, and the chain of manifests.

use std::cmp::Reverse;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nutfilter::segment::Segment;
use nutfilter_cashu::state_filters::manifest::{hash, tiles};
use nutfilter_cashu::state_filters::{Event, Manifest, ManifestSegment, SequencePath};

use super::{Bookmark, FollowError, Follower};

/// The follower's own copies of segments: `{kind}/{start}-{end}.gcs` in a directory.
pub(super) struct Copies {
    directory: PathBuf,
}

impl Copies {
    pub(super) fn open(directory: &Path, kind: Event) -> Result<Self, FollowError> {
        let directory = directory.join(kind.as_str());
        fs::create_dir_all(&directory)
            .map_err(|error| FollowError::bookmark(&directory, &error))?;
        Ok(Self { directory })
    }

    fn path(&self, start: u64, end: u64) -> PathBuf {
        self.directory.join(format!("{start}-{end}.gcs"))
    }

    /// The copy of an interval, if there is one.
    pub(super) fn read(&self, start: u64, end: u64) -> Result<Option<Vec<u8>>, FollowError> {
        let path = self.path(start, end);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FollowError::bookmark(&path, &error)),
        }
    }

    pub(super) fn write(&self, start: u64, end: u64, bytes: &[u8]) -> Result<(), FollowError> {
        let path = self.path(start, end);
        let write = || {
            let mut file = tempfile::Builder::new()
                .prefix(".copy-")
                .tempfile_in(&self.directory)?;
            file.write_all(bytes)?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error: io::Error| FollowError::bookmark(&path, &error))
    }

    /// The intervals, by start, then by descending end.
    fn intervals(&self) -> Result<Vec<(u64, u64)>, FollowError> {
        let list = || {
            let mut intervals = Vec::new();
            for entry in fs::read_dir(&self.directory)? {
                let name = entry?.file_name();
                let interval = name.to_str().and_then(|name| {
                    let (start, end) = name.strip_suffix(".gcs")?.split_once('-')?;
                    Some((start.parse().ok()?, end.parse().ok()?))
                });
                intervals.extend(interval);
            }
            intervals.sort_unstable_by_key(|&(start, end)| (start, Reverse(end)));
            Ok(intervals)
        };
        list().map_err(|error: io::Error| FollowError::bookmark(&self.directory, &error))
    }

    /// Removes the copies inside larger ones, except those that the manifest still lists.
    fn prune(&self, manifest: &Manifest) -> Result<(), FollowError> {
        let mut covered = 0;
        for (start, end) in self.intervals()? {
            let is_part = end <= covered;
            covered = covered.max(end);
            let is = |listed: &ManifestSegment| (listed.start, listed.end) == (start, end);
            if is_part && !manifest.segments.iter().any(is) {
                let path = self.path(start, end);
                fs::remove_file(&path).map_err(|error| FollowError::bookmark(&path, &error))?;
            }
        }
        Ok(())
    }

    /// Copies that together are exactly this interval.
    fn parts(&self, start: u64, end: u64) -> Result<Option<Vec<Vec<u8>>>, FollowError> {
        let mut covered = start;
        let mut parts = Vec::new();
        for (from, to) in self.intervals()? {
            if from == covered && to <= end && (from, to) != (start, end) {
                parts.extend(self.read(from, to)?);
                covered = to;
            }
        }
        Ok((covered == end).then_some(parts))
    }
}

impl Follower {
    /// Checks the chain of manifests since the bookmark, and every merge that is new since then and whose parts are
    /// known: from own copies, or because they are still listed.
    pub(super) fn audit(
        &self,
        manifest: &Manifest,
        json: &[u8],
        bookmark: Option<&Bookmark>,
        copies: &Copies,
    ) -> Result<(), FollowError> {
        let last = match bookmark.and_then(Bookmark::manifest) {
            None => None,
            Some((last, last_hash)) => {
                let last = last?;
                self.check_chain(manifest, json, &last, last_hash)?;
                Some(last)
            }
        };
        // Small intervals first: they are the parts of larger ones.
        let mut merges: Vec<usize> = (0..manifest.segments.len()).collect();
        merges.sort_by_key(|&at| manifest.segments[at].end - manifest.segments[at].start);
        for at in merges {
            let merge = &manifest.segments[at];
            let known = |last: &Manifest| last.segments.contains(merge);
            if !last.as_ref().is_some_and(known) {
                self.check_merge(manifest, at, copies)?;
            }
        }
        copies.prune(manifest)
    }

    fn check_merge(
        &self,
        manifest: &Manifest,
        at: usize,
        copies: &Copies,
    ) -> Result<(), FollowError> {
        let merge = manifest.segments[at];
        let rest = &manifest.segments[at + 1..];
        let inside = rest.iter().take_while(|part| part.end <= merge.end).count();
        let listed = &rest[..inside];
        let parts = if let Some(files) = copies.parts(merge.start, merge.end)? {
            let mut parts = Vec::new();
            for file in files {
                let parsed = Segment::parse(&file).map(Segment::into_owned);
                let start = merge.start;
                parts.push(parsed.map_err(|error| FollowError::Segment { start, error })?);
            }
            parts
        } else if tiles(listed, merge.start, merge.end) {
            let mut parts = Vec::new();
            let mut covered = merge.start;
            for part in listed {
                if part.start == covered {
                    parts.push(self.segment(manifest, part, Some(copies))?);
                    covered = part.end;
                }
            }
            parts
        } else {
            return Ok(());
        };
        let start = merge.start;
        let union =
            Segment::merge(&parts).map_err(|error| FollowError::Segment { start, error })?;
        let bytes = union.to_bytes();
        if hash(&bytes) != merge.sha256 {
            return Err(FollowError::Compaction {
                start,
                end: merge.end,
                expected: union.n(),
                listed: merge.n,
            });
        }
        copies.write(merge.start, merge.end, &bytes)
    }

    /// Fetches the manifests between the last one and this one, and checks that each names the one before it.
    fn check_chain(
        &self,
        manifest: &Manifest,
        json: &[u8],
        last: &Manifest,
        last_hash: [u8; 32],
    ) -> Result<(), FollowError> {
        let mut wanted = hash(json);
        let mut previous = manifest.previous;
        for number in (last.number..manifest.number).rev() {
            let Some(expected) = previous else {
                return Err(FollowError::Forked { number });
            };
            wanted = expected;
            if number == last.number {
                break;
            }
            let path = SequencePath::OldManifest(self.kind, number);
            let older = self.client.document(path)?;
            if hash(&older.body) != expected {
                return Err(FollowError::Forked { number });
            }
            let older = Manifest::from_json(&older.body)?;
            if older.number != number {
                return Err(FollowError::Forked { number });
            }
            previous = older.previous;
        }
        match wanted == last_hash {
            true => Ok(()),
            false => Err(FollowError::Forked {
                number: last.number,
            }),
        }
    }
}
