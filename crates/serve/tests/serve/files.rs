//! Publications to a directory, their crashes and their rivals.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nutfilter::{Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_mint::source::KeysetInfo;
use nutfilter_mint::{
    Body, BodyPlace, FilterService, FinishedFilter, KeysetEntry, NoteKind, Object, Snapshot,
};
use nutfilter_serve::{Directory, Report};
use tempfile::TempDir;

use crate::{V1, items, keyset};

/// A Unix time in the past.
fn ago(seconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() - seconds
}

/// What is published of these keysets with these numbers of notes, each in both kinds.
fn objects(keysets: &[(&str, usize)], date: u64) -> Vec<Object> {
    let entries = keysets.iter().map(|&(id, n)| {
        let filter = SortedHashes::from_items(items(1, n, 33));
        let filter = filter.encode(Params::CASHU).unwrap();
        let raw = filter.bytes().to_vec().into();
        let place = BodyPlace::Memory;
        let filter = FinishedFilter::new(raw, n as u32, Params::CASHU, date, &place);
        let filter = Arc::new(filter.unwrap());
        KeysetEntry {
            info: KeysetInfo::new(keyset(id)),
            spent: Some(Arc::clone(&filter)),
            issued: Some(filter),
        }
    });
    let service = FilterService::default();
    service.replace(Snapshot::new(entries.collect(), date));
    service.objects().to_vec()
}

/// The number of notes and the timestamp of a published filter.
fn read(root: &Path, kind: NoteKind, id: &str) -> (u64, u64) {
    let json = fs::read(root.join(format!("v1/filter/{kind}/{id}"))).unwrap();
    let response = FilterResponse::from_json(json).unwrap();
    let timestamp = response.timestamp;
    (response.into_filter().unwrap().n().into(), timestamp)
}

fn listed(root: &Path) -> Vec<String> {
    let json = fs::read(root.join("v1/keysets")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let ids = json["keysets"].as_array().unwrap().iter();
    ids.map(|keyset| keyset["id"].as_str().unwrap().to_owned())
        .collect()
}

fn publish(root: &Path, objects: &[Object]) -> Report {
    Directory::open(root).unwrap().publish(objects).unwrap()
}

#[test]
fn files_have_the_bytes_dates_and_rights_of_their_objects() {
    let directory = TempDir::new().unwrap();
    let root = directory.path().join("new/filters");
    let at = ago(60);
    assert_eq!(publish(&root, &objects(&[(V1, 1000)], at)).written, 3);
    assert_eq!(listed(&root), [V1]);
    for kind in NoteKind::ALL {
        assert_eq!(read(&root, kind, V1), (1000, at));
    }
    let file = fs::metadata(root.join(format!("v1/filter/spent/{V1}"))).unwrap();
    let date = UNIX_EPOCH + Duration::from_secs(at);
    assert_eq!(file.modified().unwrap(), date);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_ne!(file.permissions().mode() & 0o044, 0);
    }
}

#[test]
fn any_crash_leaves_the_old_or_the_new_state() {
    let (older, newer) = (ago(120), ago(60));
    let ids = ["00aa000000000000", "00aa000000000001", "00aa000000000002"];
    let before = objects(&[(ids[1], 3), (ids[2], 4)], older);
    let after = objects(&[(ids[0], 1), (ids[1], 30), (ids[2], 40)], newer);
    for crash_at in 0..=after.len() {
        let directory = TempDir::new().unwrap();
        let root = directory.path();
        publish(root, &before);
        publish(root, &after[..crash_at]);
        // As left by a killed process.
        fs::write(root.join(".nutfilter/.tmpLeft"), "half a filter").unwrap();
        let is_whole = crash_at == after.len();
        assert_eq!(listed(root), ids[usize::from(!is_whole)..], "{crash_at}");
        for (id, old, new) in [(ids[1], 3, 30), (ids[2], 4, 40)] {
            for kind in NoteKind::ALL {
                let found = read(root, kind, id);
                assert!(found == (old, older) || found == (new, newer), "{found:?}");
            }
        }
        let report = publish(root, &after);
        assert_eq!(report.written, after.len() - crash_at);
        assert_eq!(report.unchanged, crash_at);
        assert!(!root.join(".nutfilter/.tmpLeft").exists());
    }
}

#[test]
fn first_failure_ends_the_publication() {
    let directory = TempDir::new().unwrap();
    let root = directory.path();
    let blocked = root.join(format!("v1/filter/issued/{V1}"));
    fs::create_dir_all(&blocked).unwrap();
    let objects = objects(&[(V1, 3)], ago(60));
    let error = Directory::open(root).unwrap().publish(&objects);
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with(blocked.to_str().unwrap()), "{error}");
    assert_eq!(read(root, NoteKind::Spent, V1).0, 3);
    assert!(!root.join("v1/keysets").exists());
}

#[test]
fn older_publisher_does_not_undo_a_newer_one() {
    let directory = TempDir::new().unwrap();
    let root = directory.path();
    publish(root, &objects(&[(V1, 5)], ago(30)));
    let report = publish(root, &objects(&[(V1, 3)], ago(90)));
    // The list of keysets is the same.
    assert_eq!((report.written, report.superseded.len()), (0, 2));
    assert_eq!(read(root, NoteKind::Spent, V1).0, 5);
}

#[test]
fn file_dated_in_the_future_is_replaced() {
    let directory = TempDir::new().unwrap();
    let object = |text: &'static str, date| Object::json("v1/info", Body::new(text, None), date);
    for (text, date) in [("wrong clock", ago(0) + 3600), ("right clock", ago(0))] {
        let report = publish(directory.path(), &[object(text, date)]);
        assert_eq!(report.written, 1);
    }
    let info = fs::read(directory.path().join("v1/info")).unwrap();
    assert_eq!(info, b"right clock");
}

#[test]
fn list_is_not_published_before_its_filters() {
    let service = FilterService::default();
    let entry = KeysetEntry {
        info: KeysetInfo::new(keyset(V1)),
        spent: None,
        issued: None,
    };
    service.replace(Snapshot::new(vec![entry], 0));
    assert!(service.objects().is_empty());
    let complete = objects(&[(V1, 3)], ago(60));
    assert_eq!(&*complete.last().unwrap().path, "v1/keysets");
}

/// Four publishers, each with newer objects in every step, and the newest in its last one.
#[test]
fn publishers_of_one_directory_take_turns() {
    let directory = TempDir::new().unwrap();
    let (steps, newest) = (20, ago(10));
    std::thread::scope(|scope| {
        for publisher in 1..=4 {
            let root = directory.path();
            scope.spawn(move || {
                for step in 1..=steps {
                    let date = newest - (steps - step) * publisher;
                    let notes = 101 - (newest - date) as usize;
                    publish(root, &objects(&[(V1, notes)], date));
                }
            });
        }
    });
    let found = read(directory.path(), NoteKind::Spent, V1);
    assert_eq!(found, (101, newest));
}
