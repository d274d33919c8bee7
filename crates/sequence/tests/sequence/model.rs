//! What a sequence must publish, computed in the simplest way.

use std::path::Path;

use nutfilter::segment::Universe;
use nutfilter_cashu::state_filters::{Element, Event};
use nutfilter_files::faults;
use nutfilter_sequence::{BlockOptions, Options, Sequence};
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
    faults::after(u64::MAX);
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
            let bytes = view.sealed_block(height as u64).unwrap().read().unwrap();
            assert_eq!(bytes, packed(bits), "height {height}");
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
