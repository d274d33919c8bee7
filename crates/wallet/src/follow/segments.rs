//! Follows segments: checks a manifest against the bookmark, and downloads the cheapest cover.

use std::path::Path;

use nutfilter::segment::{Segment, SegmentError};
use nutfilter_cashu::state_filters::manifest::{Hash, Level, cheapest_cover, hash};
use nutfilter_cashu::state_filters::{Manifest, ManifestSegment, SequencePath};

use super::audit::Copies;
use super::bookmark::{Bookmark, Position};
use super::error::not_found;
use super::{Contents, FollowError, Follower, Found, MIN_WIDTH, Plan, Progress};

impl Follower {
    pub(super) fn plan_segments(
        &self,
        since: Option<u64>,
        bookmark: Option<&Bookmark>,
    ) -> Result<Plan, FollowError> {
        let answer = self.client.document(SequencePath::Manifest(self.kind))?;
        let manifest = Manifest::from_json(&answer.body)?;
        self.check_manifest(&manifest)?;
        let mut end = 0;
        if let Some((last, last_hash)) = bookmark.and_then(Bookmark::manifest) {
            let last = last?;
            compare(&manifest, hash(&answer.body), &last, last_hash)?;
            end = last.end();
        }
        let (tested, from) = match since {
            Some(since) => (since, since),
            None => (end, ask_from(end, manifest.end())),
        };
        Ok(Plan {
            from,
            elements: self.elements.len(),
            max_age: answer.max_age,
            contents: Contents::Segments {
                downloads: cheapest_cover(&manifest.segments, from),
                manifest,
                json: answer.body,
                tested,
            },
        })
    }

    /// Checks what a manifest says by itself.
    fn check_manifest(&self, manifest: &Manifest) -> Result<(), FollowError> {
        if manifest.kind != self.kind {
            return Err(FollowError::Invalid(format!(
                "the manifest is of another kind, {}",
                manifest.kind
            )));
        }
        let width = manifest.universe.width();
        if width < MIN_WIDTH {
            return Err(FollowError::Invalid(format!(
                "segments have a width of {width} bits; at least {MIN_WIDTH} are accepted"
            )));
        }
        let uncovered = |state: &&&str| !state.is_empty() && !manifest.states.contains(state);
        if let Some(state) = self.states.iter().find(uncovered) {
            return Err(FollowError::Invalid(format!(
                "the mint's segments do not cover {state}"
            )));
        }
        let (time, latest) = (manifest.end(), self.latest());
        if time > latest {
            return Err(FollowError::future(time, latest));
        }
        Ok(())
    }

    pub(super) fn run_segments(
        &self,
        manifest: &Manifest,
        json: &[u8],
        (downloads, tested): (&[ManifestSegment], u64),
        mut progress: Progress,
        audit: Option<&Path>,
        found: &mut dyn FnMut(Found),
    ) -> Result<Progress, FollowError> {
        let mut copies = match audit {
            None => None,
            Some(directory) => Some(Copies::open(directory, self.kind)?),
        };
        let hashes = self.hashes();
        for listed in downloads {
            let segment = self.segment(manifest, listed, copies.as_mut())?;
            if listed.end <= tested {
                continue;
            }
            for (element, _) in matching(&segment.matches(&hashes)) {
                if self.report(&mut progress, element, None) {
                    found(self.found(element, listed.start, Some(listed.end)));
                }
            }
        }
        if let Some(copies) = &mut copies {
            progress.unverified = self.audit(manifest, json, progress.bookmark.as_ref(), copies)?;
        }
        // The manifest was parsed as JSON.
        let manifest = String::from_utf8_lossy(json).into_owned();
        let position = Position::Segments { manifest };
        Ok(self.advanced(progress, position))
    }

    /// A segment of the manifest, downloaded or from the follower's own copies.
    pub(super) fn segment(
        &self,
        manifest: &Manifest,
        listed: &ManifestSegment,
        mut copies: Option<&mut Copies>,
    ) -> Result<Segment, FollowError> {
        let &ManifestSegment {
            start,
            end,
            length,
            n,
            ..
        } = listed;
        let copy = match &copies {
            None => None,
            Some(copies) => copies.read(start, end)?,
        };
        let copied = copy.is_some();
        let bytes = match copy {
            Some(bytes) => bytes,
            None => self.download(listed)?,
        };
        if hash(&bytes) != listed.sha256 {
            return Err(match copied {
                true => FollowError::changed("segment", start, end),
                false => FollowError::Invalid(format!(
                    "segment {start}-{end} has another SHA-256 than the manifest lists"
                )),
            });
        }
        let segment = Segment::parse(&bytes).map_err(|error| invalid_segment(start, error))?;
        let fields = (segment.universe().width(), segment.n());
        let listed = (manifest.universe.width(), n);
        if fields != listed {
            return Err(FollowError::Invalid(format!(
                "segment from {start} has width {} and {} values; the manifest lists {} and {}",
                fields.0, fields.1, listed.0, listed.1
            )));
        }
        if let Some(copies) = copies.as_mut().filter(|_| !copied) {
            copies.write(start, end, &bytes)?;
        }
        debug_assert_eq!(bytes.len() as u64, length);
        Ok(segment.into_owned())
    }

    fn download(&self, listed: &ManifestSegment) -> Result<Vec<u8>, FollowError> {
        let &ManifestSegment {
            start, end, length, ..
        } = listed;
        let max = self.client.policy().max_bytes;
        if length > max {
            let reason = crate::RejectReason::TooLarge {
                declared: Some(length),
                max,
            };
            return Err(FollowError::Fetch(reason.into()));
        }
        let path = SequencePath::Segment(self.kind, start, end);
        let bytes = match self.client.object(path, length) {
            Err(error) if not_found(&error) => return Err(FollowError::Gone { start, end }),
            downloaded => downloaded?.body,
        };
        let got = bytes.len() as u64;
        if got != length {
            return Err(FollowError::Invalid(format!(
                "segment from {start} has {got} bytes; the manifest lists {length}"
            )));
        }
        Ok(bytes)
    }
}

/// Where the requests of a follower begin that has tested everything before `tested`.
///
/// They show the mint how far it was. So they begin with the whole hour, as those of everybody who came in that hour;
/// only a follower that was here minutes ago asks for the rest alone, as all do that stay.
fn ask_from(tested: u64, end: u64) -> u64 {
    match end.saturating_sub(tested) <= Level::TenMinutes.seconds() {
        true => tested,
        false => tested - tested % Level::Hour.seconds(),
    }
}

/// The indices of the matches.
pub(super) fn matching(matches: &[bool]) -> impl Iterator<Item = (usize, &bool)> {
    matches.iter().enumerate().filter(|(_, matches)| **matches)
}

pub(super) fn invalid_segment(start: u64, error: SegmentError) -> FollowError {
    FollowError::Invalid(format!("segment from {start}: {error}"))
}

/// Compares a manifest with the last one.
fn compare(
    manifest: &Manifest,
    manifest_hash: Hash,
    last: &Manifest,
    last_hash: Hash,
) -> Result<(), FollowError> {
    let restarted = |what, now, before| Err(FollowError::restarted(what, now, before));
    let (number, width) = (manifest.number, manifest.universe.width());
    if number < last.number {
        return restarted("manifest number", number, last.number);
    }
    if manifest.end() < last.end() {
        return restarted("end", manifest.end(), last.end());
    }
    let descends = match number - last.number {
        0 => manifest_hash == last_hash,
        1 => manifest.previous == Some(last_hash),
        // The manifests between are fetched in an audit only: they would cost more than the segments.
        _ => true,
    };
    if !descends || width != last.universe.width() || manifest.states != last.states {
        return Err(FollowError::forked(last.number));
    }
    // Before the end of the bookmark, segments can only be merged: no boundary is new.
    let mut boundaries: Vec<u64> = vec![0];
    boundaries.extend(last.segments.iter().flat_map(|one| [one.start, one.end]));
    boundaries.sort_unstable();
    let seen = last.end();
    for &ManifestSegment { start, end, .. } in &manifest.segments {
        let is_new = |at: u64| at < seen && boundaries.binary_search(&at).is_err();
        if is_new(start) || is_new(end) {
            return Err(FollowError::Invalid(format!(
                "the boundaries of segment {start}-{end} were moved: before {seen}, only the old ones are possible"
            )));
        }
    }
    let key = |one: &ManifestSegment| (one.start, std::cmp::Reverse(one.end));
    for now in &manifest.segments {
        let before = last.segments.binary_search_by_key(&key(now), key);
        if let Ok(at) = before
            && last.segments[at] != *now
        {
            return Err(FollowError::changed("segment", now.start, now.end));
        }
    }
    Ok(())
}
