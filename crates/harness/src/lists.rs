//! Lists of state filters as JSON: manifests with covers, and lists of blocks.

use arbitrary::Arbitrary;
use nutfilter_cashu::state_filters::manifest::{cheapest_cover, segment_lengths};
use nutfilter_cashu::state_filters::{BlockInfo, Event, Manifest, ManifestSegment};

/// Any JSON, or a manifest of these intervals.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a> {
    /// By 3: a manifest in JSON, a list of blocks in JSON, or intervals of 3 bytes: the start, the length and n.
    pub way: u8,
    /// From where a cover is wanted.
    pub since: u16,
    /// The JSON, or the intervals.
    pub bytes: &'a [u8],
}

impl Case<'_> {
    /// Reads the list, and compares with what its rules say.
    ///
    /// # Panics
    ///
    /// If a list is accepted that breaks a rule, or a cover is not one.
    pub fn check(&self) {
        match self.way % 3 {
            0 => {
                if let Ok(manifest) = Manifest::from_json(self.bytes) {
                    self.check_manifest(&manifest);
                }
            }
            1 => {
                if let Ok(info) = BlockInfo::from_json(self.bytes) {
                    let again = BlockInfo::from_json(&info.to_json());
                    assert_eq!(again.as_ref(), Ok(&info), "{self:?}");
                    let (open, sealed) = info.blocks.split_last().expect("an open block");
                    assert_eq!(open.end, None, "{self:?}");
                    let starts = info.blocks[1..].iter().map(|block| Some(block.start));
                    assert!(sealed.iter().map(|block| block.end).eq(starts), "{self:?}");
                }
            }
            _ => self.check_intervals(),
        }
    }

    fn check_intervals(&self) {
        let universe = nutfilter::segment::Universe::new(36).expect("a width");
        let segment = |&[start, length, n]: &[u8; 3]| ManifestSegment {
            start: start.into(),
            end: u64::from(start) + u64::from(length),
            n: n.into(),
            length: *segment_lengths(universe, n.into()).start(),
            sha256: [n; 32],
        };
        let manifest = Manifest {
            kind: Event::BlindSignature,
            states: Vec::new(),
            universe,
            number: 0,
            previous: None,
            time: 0,
            segments: self.bytes.as_chunks::<3>().0.iter().map(segment).collect(),
        };
        let all = &manifest.segments;
        // Each second is in a segment of the cover, and two segments share seconds only if one is inside the other.
        let is_whole = !all.is_empty()
            && all.iter().all(|one| one.start < one.end)
            && all.is_sorted_by(|a, b| {
                (a.start, std::cmp::Reverse(a.end)) < (b.start, std::cmp::Reverse(b.end))
            })
            && all.iter().all(|a| {
                let crosses =
                    |b: &ManifestSegment| a.start < b.start && b.start < a.end && a.end < b.end;
                !all.iter().any(crosses)
            })
            && (0..all.iter().map(|one| one.end).max().unwrap_or(0))
                .all(|second| all.iter().any(|one| (one.start..one.end).contains(&second)));
        let depth = |a: &ManifestSegment| {
            let around = |b: &&ManifestSegment| b.start <= a.start && a.end <= b.end;
            all.iter().filter(around).count()
        };
        let is_deep = all.iter().any(|one| depth(one) > 6);
        assert_eq!(
            manifest.check().is_ok(),
            is_whole && !is_deep,
            "{:?}: {self:?}",
            manifest.check()
        );
        if manifest.check().is_ok() {
            self.check_manifest(&manifest);
        }
    }

    fn check_manifest(&self, manifest: &Manifest) {
        let again = Manifest::from_json(&manifest.to_json());
        assert_eq!(again.as_ref(), Ok(manifest), "{self:?}");
        let mut end = 0;
        for one in manifest.cover() {
            assert_eq!(one.start, end, "{self:?}");
            end = one.end;
        }
        assert_eq!(end, manifest.end(), "{self:?}");
        let since = u64::from(self.since);
        let bytes = |cover: &[ManifestSegment]| cover.iter().map(|one| one.length).sum::<u64>();
        let cover = cheapest_cover(&manifest.segments, since);
        assert_eq!(cover.is_empty(), since >= end, "{self:?}");
        assert!(
            cover.first().is_none_or(|first| first.start <= since),
            "{self:?}"
        );
        assert!(cover.last().is_none_or(|last| last.end == end), "{self:?}");
        assert!(cover.is_sorted_by(|a, b| a.end == b.start), "{self:?}");
        let plain: Vec<_> = manifest
            .cover()
            .filter(|one| one.end > since)
            .copied()
            .collect();
        // A part more costs a request.
        assert!(bytes(&cover) <= bytes(&plain), "{self:?}");
    }
}
