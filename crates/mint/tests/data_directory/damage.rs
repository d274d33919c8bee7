//! Damaged files are never served, and are read again.

use std::fs;
use std::path::{Path, PathBuf};

use crate::crash::refresher;
use crate::fake_mint::{FakeMint, State};

/// All files below a directory, except those without relevant content.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_none_or(|extension| extension != "lock") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn filled() -> (tempfile::TempDir, FakeMint) {
    let directory = tempfile::tempdir().unwrap();
    let mint = FakeMint::in_directory(directory.path());
    let state = State {
        epoch: 0,
        counts: [[700, 90], [3, 0], [0, 40]],
    };
    mint.push(state);
    let mut refresher = refresher(directory.path());
    assert!(refresher.refresh().unwrap().failures.is_empty());
    (directory, mint)
}

/// Restores and refreshes twice. Returns whether anything was served before the first refresh.
fn goes_on(directory: &Path, mint: &FakeMint, what: &str) {
    let mut refresher = refresher(directory);
    if refresher.restore() {
        mint.assert_right(refresher.service(), what);
    }
    // The first refresh may find the damage; the second reads everything.
    let _ = refresher.refresh();
    let report = refresher.refresh().unwrap();
    assert!(report.failures.is_empty(), "{what}: {:?}", report.failures);
    mint.assert_right(refresher.service(), what);
    let snapshot = refresher.service().snapshot().unwrap();
    assert!(snapshot.is_complete(), "{what}");
}

#[test]
fn truncated_or_changed_file_is_never_served() {
    let (directory, mint) = filled();
    let data = directory.path().join("data");
    let good: Vec<(PathBuf, Vec<u8>)> = files(&data)
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    assert_eq!(good.len(), 6, "{good:?}");
    for (path, bytes) in &good {
        // Spread over the file, including both ends.
        let step = (bytes.len() / 5).max(1);
        let places = (0..bytes.len()).step_by(step).chain([bytes.len() - 1]);
        for at in places {
            for cut in [true, false] {
                let _ = fs::remove_dir_all(&data);
                for (path, bytes) in &good {
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, bytes).unwrap();
                }
                let mut damaged = bytes.clone();
                match cut {
                    true => damaged.truncate(at),
                    false => damaged[at] ^= 1 << (at % 8),
                }
                fs::write(path, damaged).unwrap();
                let how = if cut { "cut to" } else { "changed at" };
                goes_on(
                    directory.path(),
                    &mint,
                    &format!("{} {how} {at}", path.display()),
                );
            }
        }
    }
}

#[test]
fn missing_or_swapped_files_are_never_served() {
    let (directory, mint) = filled();
    let data = directory.path().join("data");
    let all = files(&data);
    for gone in &all {
        if gone.exists() {
            fs::remove_file(gone).unwrap();
            goes_on(
                directory.path(),
                &mint,
                &format!("without {}", gone.display()),
            );
        }
    }
    // Swap the sets of two keysets.
    let mut sets: Vec<PathBuf> = fs::read_dir(data.join("sets"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains("spent"))
        .collect();
    sets.sort();
    let (a, b, c) = (&sets[0], &sets[1], data.join("between"));
    fs::rename(a, &c).unwrap();
    fs::rename(b, a).unwrap();
    fs::rename(&c, b).unwrap();
    goes_on(directory.path(), &mint, "exchanged");
}
