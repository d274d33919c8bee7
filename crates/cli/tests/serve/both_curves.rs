//! A mint with keysets of both curves: no note is missing from filters and state filters.

use std::collections::HashSet;

use nutfilter_mint::NoteKind;
use nutfilter_sample::Sample;

use crate::support::{Server, nutfilter};

/// Of each keyset, spent and issued.
const NOTES: u64 = 10_000;

#[test]
fn notes_of_both_curves_are_served_checked_and_followed() {
    let directory = tempfile::tempdir().unwrap();
    let mut sample = Sample::new(2 * NOTES, 2 * NOTES);
    let bls = "02".to_owned() + &"ab".repeat(32);
    sample.second_keyset = Some(bls.parse().unwrap());
    let database = directory.path().join("cdk-mintd.sqlite");
    sample.write(&database, &mut |_| ()).unwrap();
    let data = directory.path().join("data");
    let server = Server::start(
        nutfilter()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .arg("--state-filters=proof_state,blind_signature")
            // The open block is copied at the start, and again a second later.
            .args(["--open-interval=1", "--refresh=1"])
            .args(["--mint-database".as_ref(), database.as_path()])
            .args(["--data-dir".as_ref(), data.as_path()]),
    );
    let hex = |notes: &[Vec<u8>]| -> String {
        let line = |note: &Vec<u8>| data_encoding::HEXLOWER.encode(note) + "\n";
        notes.iter().map(line).collect()
    };
    let file = |name: &str, notes: &[Vec<u8>]| {
        let path = directory.path().join(name);
        std::fs::write(&path, hex(notes)).unwrap();
        path
    };
    let lines = |command: &mut std::process::Command| {
        let output = command
            .args(["--mint", &server.base, "--quiet"])
            .output()
            .unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for kind in NoteKind::ALL {
        let all: Vec<_> = (0..2 * NOTES)
            .map(|index| sample.note(kind, index))
            .collect();
        let keysets = [(sample.keyset.as_str(), 33), (&*bls, 48)];
        for (keyset, bytes) in keysets {
            let of_keyset = all.iter().filter(|note| note.len() == bytes);
            let notes: Vec<_> = of_keyset.cloned().collect();
            assert_eq!(notes.len() as u64, NOTES);
            let mut check = nutfilter();
            let check = check.args(["check", "--keyset", keyset, "--kind", kind.as_str()]);
            let check = check
                .args(["--expected", "10000"])
                .arg(file("notes", &notes));
            let found = lines(check);
            let maybe = found.iter().filter(|line| line.starts_with("maybe"));
            assert_eq!(maybe.count() as u64, NOTES, "{kind} {keyset}");
        }
        let (event, formats) = match kind {
            NoteKind::Spent => ("proof_state", &["segments"][..]),
            NoteKind::Issued => ("blind_signature", &["segments", "blocks"][..]),
        };
        for format in formats {
            let path = file("all", &all);
            let follow = || {
                let mut follow = nutfilter();
                follow.args(["follow", "--once", "--kind", event, "--format", format]);
                lines(follow.arg(&path))
            };
            let mut found = follow();
            for _ in 0..30 {
                if !found.is_empty() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_secs(1));
                found = follow();
            }
            let found = found.iter().filter_map(|line| line.split('\t').nth(1));
            let found: HashSet<_> = found.collect();
            let expected = hex(&all);
            assert_eq!(found, expected.lines().collect(), "{event} {format}");
        }
    }
}
