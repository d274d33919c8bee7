//! What a sequence must publish, computed in the simplest way, and an observer that remembers everything published.

use std::collections::BTreeMap;
use std::path::Path;

use nutfilter::segment::{Segment, Universe};
use nutfilter_cashu::state_filters::manifest::hash;
use nutfilter_cashu::state_filters::{Element, Event, Manifest};
use nutfilter_sequence::{BlockOptions, Faults, Options, Sequence, View};
use sha2::{Digest, Sha256};

pub(crate) const WIDTH: u32 = 6;
pub(crate) const TIMEOUT: u64 = 5_000;

pub(crate) fn universe() -> Universe {
    Universe::new(40).unwrap()
}

pub(crate) fn options() -> Options {
    let mut options = Options::new(Event::BlindSignature, &[], universe());
    options.blocks = Some(BlockOptions {
        width: WIDTH,
        timeout: TIMEOUT,
    });
    // Few, so that most batches go to the disk.
    options.batch_elements = 5;
    // No faults, and no waiting for the disk.
    options.faults = Faults::after(u64::MAX);
    options
}

pub(crate) fn open(directory: &Path) -> Sequence {
    Sequence::open(directory, options(), 1_000).unwrap()
}

pub(crate) fn element(i: u64) -> Element {
    Sha256::digest(i.to_le_bytes()).into()
}

pub(crate) fn add(
    sequence: &mut Sequence,
    elements: &[Element],
    now: u64,
) -> Result<nutfilter_sequence::Added, nutfilter_sequence::Error> {
    let mut batch = sequence.batch();
    batch.push(elements)?;
    sequence.add(batch, now)
}

/// The draft's blocks, bit by bit.
pub(crate) struct NaiveBlocks {
    /// Start, end and bits of each sealed block.
    pub(crate) sealed: Vec<(u64, u64, Vec<bool>)>,
    opened: u64,
    elements: Vec<Element>,
}

impl NaiveBlocks {
    pub(crate) fn new(now: u64) -> Self {
        Self {
            sealed: vec![],
            opened: now,
            elements: vec![],
        }
    }

    fn capacity(width: u32) -> usize {
        (f64::from(1 << width) * core::f64::consts::LN_2 / 16.0) as usize
    }

    fn bits(&self, width: u32) -> Vec<bool> {
        let mut bits = vec![false; 1 << width];
        for element in &self.elements {
            for half in [0_u32, 1] {
                let text = [&element[..], &half.to_be_bytes()].concat();
                for word in Sha256::digest(text).chunks(4) {
                    let word = word
                        .iter()
                        .fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
                    bits[(word >> (32 - width)) as usize] = true;
                }
            }
        }
        bits
    }

    fn seal(&mut self, now: u64, width: u32) {
        let end = now.max(self.opened);
        self.sealed.push((self.opened, end, self.bits(width)));
        self.opened = end;
        self.elements.clear();
    }

    /// One batch of new elements. They are inserted in ascending order.
    pub(crate) fn add(&mut self, mut new: Vec<Element>, now: u64) {
        if now >= self.opened + TIMEOUT {
            let fits = |width: &u32| Self::capacity(*width) >= self.elements.len();
            let width = (5..).find(fits).unwrap();
            self.seal(now, width);
        }
        new.sort();
        for element in new {
            self.elements.push(element);
            if self.elements.len() == Self::capacity(WIDTH) {
                self.seal(now, WIDTH);
            }
        }
    }

    pub(crate) fn check(&self, sequence: &Sequence) {
        let view = sequence.view();
        let info = view.block_info(None).unwrap();
        info.check().unwrap();
        let sealed: Vec<_> = self
            .sealed
            .iter()
            .map(|block| (block.0, Some(block.1)))
            .collect();
        let found: Vec<_> = info
            .blocks
            .iter()
            .map(|block| (block.start, block.end))
            .collect();
        assert_eq!(found, [&sealed[..], &[(self.opened, None)]].concat());
        for (height, (_, _, bits)) in self.sealed.iter().enumerate() {
            let (path, _) = view.sealed_block(height as u64).unwrap();
            assert_eq!(
                std::fs::read(path).unwrap(),
                packed(bits),
                "height {height}"
            );
        }
        let (height, open) = sequence.open_block().unwrap();
        assert_eq!(height, self.sealed.len() as u64);
        assert_eq!(open.as_bytes(), packed(&self.bits(WIDTH)));
    }
}

fn packed(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
    bits.chunks(8).map(byte).collect()
}

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
            let (path, block) = view.sealed_block(height).unwrap();
            let bytes = std::fs::read(path).unwrap();
            self.publish(format!("block {height}, {block:?}"), bytes);
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
            let bytes = std::fs::read(view.old_manifest(number).unwrap()).unwrap();
            self.publish(format!("manifest {number}"), bytes);
        }
        for segment in &manifest.segments {
            let (path, found) = view.segment(segment.start, segment.end).unwrap();
            assert_eq!(found, segment);
            let bytes = std::fs::read(path).unwrap();
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

    /// Checks that the cover has these elements, each in one segment, and that merges equal their parts.
    pub(crate) fn check_segments(&self, manifest: &Manifest, all: &[Element]) {
        let cover: Vec<_> = manifest.cover().collect();
        let parse = |start, end| self.segment(start, end);
        let parts: Vec<Segment> = cover.iter().map(|at| parse(at.start, at.end)).collect();
        let union = Segment::merge(&parts).unwrap();
        assert_eq!(union, Segment::from_elements(universe(), all).unwrap());
        let n: u64 = cover.iter().map(|segment| u64::from(segment.n)).sum();
        assert_eq!(n, u64::from(union.n()), "an element is in two segments");
        for whole in &cover {
            let inside = |part: &&nutfilter_cashu::state_filters::ManifestSegment| {
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
