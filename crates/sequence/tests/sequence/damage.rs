//! Damage at rest: what is damaged is rebuilt or not served, and everything else stays.

use std::fs;
use std::path::{Path, PathBuf};

use nutfilter_sequence::{Sequence, verify};

use crate::model::{add, element, open, options};

/// A sequence with a merge, its parts, sealed blocks, an open one, older manifests and a reported event that waits.
fn fill(directory: &Path) -> Sequence {
    let mut sequence = open(directory);
    for (now, i) in [(2_000, 0), (3_000, 9), (3_300, 12), (3_600, 15)] {
        let elements: Vec<_> = (i..i + 3).map(element).collect();
        add(&mut sequence, &elements, now).unwrap();
        sequence.compact(now).unwrap();
    }
    let view = sequence.view();
    let (manifest, ..) = view.manifest().unwrap();
    assert!(manifest.cover().count() < manifest.segments.len());
    assert!(view.open_height().unwrap() > 0);
    sequence.inbox().push(&[element(20)]).unwrap();
    sequence
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

#[test]
fn damage_of_any_file_is_found_and_never_served() {
    let directory = tempfile::tempdir().unwrap();
    let sequence = fill(directory.path());
    let view = sequence.view();
    let (manifest, ..) = view.manifest().unwrap();
    let (number, open_height) = (manifest.number, view.open_height().unwrap());
    let cover: Vec<_> = manifest.cover().copied().collect();
    drop(sequence);
    let all = files(directory.path());
    let original: Vec<Vec<u8>> = all.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(verify(directory.path()).unwrap().is_empty());
    for (path, bytes) in all
        .iter()
        .zip(&original)
        .filter(|(_, bytes)| !bytes.is_empty())
    {
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 16;
        for damaged in [flipped, vec![0; bytes.len()], vec![]] {
            fs::write(path, &damaged).unwrap();
            let name = path
                .strip_prefix(directory.path())
                .unwrap()
                .to_str()
                .unwrap();
            let found = match verify(directory.path()) {
                Ok(damage) => damage.iter().any(|error| error.is_damage()),
                Err(error) => error.is_damage(),
            };
            // A torn record at the end of an inbox was never acknowledged.
            assert_eq!(found, !name.starts_with("inbox"), "{name}");
            assert!(
                fs::read(path).unwrap() == damaged,
                "{name}: verify must not write"
            );

            let opened = Sequence::open(directory.path(), options(), 1_000);
            let folder = name.split('/').next().unwrap();
            let is_current = name == format!("manifests/{number}");
            match (folder, opened) {
                ("segments" | "blocks" | "manifests", Ok(sequence)) if !is_current => {
                    let view = sequence.view();
                    let [damage] = sequence.damage() else {
                        panic!("{name}: {:?}", sequence.damage())
                    };
                    let is_cover = cover.iter().any(|one| {
                        let file = view.segment(one.start, one.end).unwrap();
                        file.check().unwrap();
                        file.path == *path
                    });
                    assert_eq!(damage.is_rebuilt, is_cover, "{name}");
                    assert_eq!(fs::read(path).unwrap() == *bytes, is_cover, "{name}");
                    let listed = manifest.segments.iter();
                    let segments = listed.map(|one| view.segment(one.start, one.end));
                    let blocks = (0..open_height).map(|height| view.sealed_block(height));
                    let manifests = (0..=number).map(|number| view.old_manifest(number));
                    for file in segments.chain(blocks).chain(manifests).flatten() {
                        let is_good = file.path != *path || is_cover;
                        assert_eq!(file.check().is_ok(), is_good, "{name}: {file:?}");
                        assert_eq!(file.read().is_ok(), is_good, "{name}: {file:?}");
                    }
                }
                ("inbox", Ok(sequence)) => assert_eq!(sequence.inbox().waiting(), 0),
                (_, Err(error)) => assert!(error.is_damage(), "{name}: {error}"),
                (_, Ok(_)) => panic!("{name} was not checked"),
            }
            for (path, bytes) in all.iter().zip(&original) {
                fs::write(path, bytes).unwrap();
            }
        }
    }
}

#[test]
fn damaged_part_leaves_the_next_manifest() {
    let directory = tempfile::tempdir().unwrap();
    let view = fill(directory.path()).view();
    let part = view.segment(0, 2_001).unwrap();
    fs::write(&part.path, "").unwrap();
    let mut sequence = open(directory.path());
    add(&mut sequence, &[element(30)], 3_610).unwrap();
    let (view, before) = (sequence.view(), view.manifest().unwrap().0.segments.len());
    let (manifest, ..) = view.manifest().unwrap();
    // One is new.
    assert_eq!(manifest.segments.len(), before);
    assert!(manifest.segments.iter().all(|one| one.end != 2_001));
}
