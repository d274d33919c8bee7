//! An observer that remembers everything that a sequence publishes.

use std::collections::BTreeMap;

use nutfilter::segment::Segment;
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_cashu::state_filters::{Element, Manifest, ManifestSegment};
use nutfilter_sequence::View;

/// Remembers all published bytes, and fails if any of them change.
#[derive(Default)]
pub(crate) struct Observer {
    objects: BTreeMap<String, Vec<u8>>,
    last: Option<(u64, [u8; 32])>,
}

impl Observer {
    fn publish(&mut self, name: String, bytes: Vec<u8>) {
        let before = self
            .objects
            .entry(name.clone())
            .or_insert_with(|| bytes.clone());
        assert!(*before == bytes, "{name} changed");
    }

    /// Checks everything that is published now, and returns the manifest.
    pub(crate) fn observe(&mut self, view: &View) -> Option<Manifest> {
        for height in 0..view.open_height().unwrap_or(0) {
            let bytes = view.sealed_block(height).unwrap().read().unwrap();
            self.publish(format!("block {height}"), bytes);
        }
        let (manifest, bytes, sha256) = view.manifest()?;
        assert_eq!(&Manifest::from_json(bytes).unwrap(), manifest);
        assert_eq!(hash(bytes), *sha256);
        if let Some((number, sha256)) = self.last {
            assert!(manifest.number >= number);
            if manifest.number == number + 1 {
                assert_eq!(manifest.previous, Some(sha256));
            }
        }
        self.last = Some((manifest.number, *sha256));
        self.publish(format!("manifest {}", manifest.number), bytes.to_vec());
        for number in manifest.number.saturating_sub(3)..=manifest.number {
            let bytes = view.old_manifest(number).unwrap().read().unwrap();
            self.publish(format!("manifest {number}"), bytes);
        }
        for segment in &manifest.segments {
            let bytes = view
                .segment(segment.start, segment.end)
                .unwrap()
                .read()
                .unwrap();
            assert_eq!(
                (bytes.len() as u64, hash(&bytes)),
                (segment.length, segment.sha256)
            );
            self.publish(format!("segment {}-{}", segment.start, segment.end), bytes);
        }
        Some(manifest.clone())
    }

    fn segment(&self, start: u64, end: u64) -> Segment {
        let bytes = &self.objects[&format!("segment {start}-{end}")];
        Segment::parse(bytes).unwrap().into_owned()
    }

    /// The union of the segments of the cover.
    pub(crate) fn union(&self, manifest: &Manifest) -> Segment {
        let cover = manifest.cover();
        let parts: Vec<_> = cover.map(|at| self.segment(at.start, at.end)).collect();
        Segment::merge(&parts).unwrap()
    }

    /// Checks that the cover has these elements, each in one segment, and that merges equal their parts.
    pub(crate) fn check_segments(&self, manifest: &Manifest, all: &[Element]) {
        let cover: Vec<_> = manifest.cover().collect();
        let parse = |start, end| self.segment(start, end);
        let union = self.union(manifest);
        assert_eq!(
            union,
            Segment::from_elements(manifest.universe, all).unwrap()
        );
        let n: u64 = cover.iter().map(|segment| u64::from(segment.n)).sum();
        assert_eq!(n, u64::from(union.n()), "an element is in two segments");
        for whole in &cover {
            let inside = |part: &&ManifestSegment| {
                (whole.start..whole.end).contains(&part.start) && part != whole
            };
            let parts: Vec<_> = manifest.segments.iter().filter(inside).collect();
            if parts.iter().map(|part| part.n).sum::<u32>() == whole.n && !parts.is_empty() {
                let parts: Vec<_> = parts.iter().map(|at| parse(at.start, at.end)).collect();
                assert_eq!(
                    Segment::merge(&parts).unwrap(),
                    parse(whole.start, whole.end)
                );
            }
        }
    }
}
