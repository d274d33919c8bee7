//! Damaged files of a sequence of state filters: damage is found, and only published bytes are served.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use nutfilter::segment::Universe;
use nutfilter_cashu::state_filters::{Element, Event};
use nutfilter_files::faults;
use nutfilter_sequence::{BlockOptions, Error, Options, Sequence, verify};
use sha2::{Digest, Sha256};

use crate::folder::Folder;

/// A change of one file of a small sequence.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The file, in the order of the names.
    pub file: u8,
    /// By 5: flip a bit, cut, insert, overwrite, replace.
    pub what: u8,
    /// Where, in eighths of a byte.
    pub at: u16,
    /// Whether the checksum of the file is corrected (the lowest bit).
    pub repaired: u8,
    /// What is inserted or written.
    pub bytes: &'a [u8],
}

type Files = BTreeMap<String, Vec<u8>>;

/// A sequence with a merge, its parts, sealed blocks, an open one, and reported events that wait.
static FILES: LazyLock<Files> = LazyLock::new(|| {
    let folder = Folder::empty();
    let mut sequence = open(&folder).expect("a new sequence");
    for (now, n) in [(2_000, 9), (3_000, 3), (3_300, 2), (3_600, 1)] {
        let elements: Vec<Element> = (now..now + n).map(element).collect();
        let mut batch = sequence.batch();
        batch.push(&elements).expect("memory");
        sequence.add(batch, now).expect("a good sequence");
        sequence.compact(now).expect("a good sequence");
    }
    let events = [element(90), element(91)];
    sequence.inbox().push(&events).expect("room");
    files_of(&folder)
});

fn element(i: u64) -> Element {
    Sha256::digest(i.to_le_bytes()).into()
}

fn open(folder: &Folder) -> Result<Sequence, Error> {
    let universe = Universe::new(36).expect("a width");
    let mut options = Options::new(Event::BlindSignature, &[], universe);
    options.blocks = Some(BlockOptions {
        width: 7,
        timeout: 1_000,
    });
    // Without waiting for the disk.
    faults::after(u64::MAX);
    Sequence::open(&folder.0, options, 1_000)
}

fn files_of(folder: &Folder) -> Files {
    let mut files = Files::new();
    collect(&folder.0, "", &mut files);
    files
}

fn collect(folder: &Path, prefix: &str, files: &mut Files) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            collect(&path, &format!("{name}/"), files);
        } else {
            files.insert(name, fs::read(&path).expect("a file"));
        }
    }
}

impl Case<'_> {
    /// Damages the file, checks the sequence, opens it, reads what it serves, and continues it.
    ///
    /// # Panics
    ///
    /// If damage is not found, or other bytes are served than were published.
    pub fn check(&self) {
        let mut files = FILES.clone();
        let place = usize::from(self.file) % files.len();
        let (name, bytes) = files.iter_mut().nth(place).expect("a file");
        let (name, before) = (name.clone(), bytes.clone());
        self.damage(bytes);
        let is_repaired = self.repaired % 2 == 1 && repair(&name, bytes);
        // What follows the last commit is not damage, and the lock has no bytes.
        let is_harmless = *bytes == before
            || name == "lock"
            || name.starts_with("inbox/")
            || (name.ends_with("-open") && bytes.starts_with(&before));
        let folder = Folder::of(&files);
        let found = verify(&folder.0).map(|damage| !damage.is_empty());
        assert!(
            files_of(&folder) == files,
            "verify changed a file: {self:?}"
        );
        if !is_repaired {
            assert_eq!(found.unwrap_or(true), !is_harmless, "{name}: {self:?}");
        }
        let Ok(mut sequence) = open(&folder) else {
            return;
        };
        let view = sequence.view();
        let manifest = view.manifest();
        let listed = manifest.map_or(&[][..], |(manifest, ..)| &manifest.segments);
        let segments = listed.iter().map(|one| view.segment(one.start, one.end));
        let blocks = (0..view.open_height().unwrap_or(0)).map(|height| view.sealed_block(height));
        let manifests = (0..9).map(|number| view.old_manifest(number));
        for file in segments.chain(blocks).chain(manifests).flatten() {
            let path = file.path.strip_prefix(&folder.0).expect("inside");
            if let Ok(bytes) = file.read() {
                assert_eq!(
                    Some(&bytes),
                    FILES.get(&*path.to_string_lossy()),
                    "{self:?}"
                );
            }
        }
        // Without a panic.
        let mut batch = sequence.batch();
        batch.push(&[element(99)]).expect("memory");
        let added = sequence.add(batch, 9_000);
        let _ = added.and_then(|_| sequence.compact(9_000));
        let _ = sequence.add_reported(9_060);
    }

    fn damage(&self, bytes: &mut Vec<u8>) {
        let (at, bit) = (usize::from(self.at) / 8, self.at % 8);
        let at = at.min(bytes.len());
        let end = bytes.len().min(at + self.bytes.len());
        match self.what % 5 {
            0 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= 1 << bit),
            1 => bytes.truncate(at),
            2 => drop(bytes.splice(at..at, self.bytes.iter().copied())),
            3 => drop(bytes.splice(at..end, self.bytes.iter().copied())),
            _ => *bytes = self.bytes.to_vec(),
        }
    }
}

/// Corrects the checksum of a file that has one of its own. Returns whether it has.
fn repair(name: &str, bytes: &mut Vec<u8>) -> bool {
    match name.split('/').next() {
        Some("state") => {
            bytes.truncate(
                bytes
                    .iter()
                    .position(|&byte| byte == b'\n')
                    .unwrap_or(bytes.len()),
            );
            let sum = Sha256::digest(&*bytes);
            let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            bytes.extend(format!("\n{sum}\n").bytes());
            true
        }
        Some("known") => {
            bytes.truncate(bytes.len().saturating_sub(4));
            let sum = crc32fast::hash(bytes);
            bytes.extend(sum.to_le_bytes());
            true
        }
        _ => false,
    }
}
