//! Publishing to a directory.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use nutfilter_mint::NoteKind;
use nutfilter_publish::{Destination, DestinationError, Rules, objects};

use super::file_server::serve_files;
use super::support::{fetch, keysets, now, snapshot};

const KEYSET: &str = "00aa000000000001";

#[test]
fn wallet_reads_a_published_directory() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("new/filters");
    let at = now() - 60;
    let published = objects(&snapshot(&[(KEYSET, 1000)], at), &Rules::default());
    let mut destination = Destination::open(root.to_str().unwrap()).unwrap();
    assert_eq!(destination.publish(&published).unwrap().written, 3);

    let server = serve_files(root.clone());
    assert_eq!(keysets(&server), [KEYSET]);
    for kind in NoteKind::ALL {
        let filter = fetch(&server, KEYSET, kind).unwrap();
        assert_eq!((filter.n(), filter.as_of()), (1000, at));
    }
    let file = fs::metadata(root.join(format!("v1/filter/spent/{KEYSET}"))).unwrap();
    assert_eq!(
        file.modified().unwrap(),
        UNIX_EPOCH + Duration::from_secs(at)
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let (file, list) = (file.permissions(), root.join("v1/keysets"));
        let list = fs::metadata(list).unwrap().permissions();
        assert_eq!(file.mode() & 0o444, list.mode() & 0o444);
        assert_ne!(file.mode() & 0o044, 0);
    }
}

#[test]
fn unchanged_file_is_not_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file://{}", directory.path().display());
    let published = objects(&snapshot(&[(KEYSET, 10)], now() - 60), &Rules::default());
    Destination::open(&url)
        .unwrap()
        .publish(&published)
        .unwrap();
    let mut destination = Destination::open(&url).unwrap();
    for _ in 0..2 {
        let report = destination.publish(&published).unwrap();
        assert_eq!((report.written, report.unchanged), (0, 3));
    }
}

#[test]
fn unfinished_files_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let mut destination = Destination::open(directory.path().to_str().unwrap()).unwrap();
    let left = directory.path().join(".nutfilter/.tmpLeft");
    fs::write(&left, "half a filter").unwrap();
    destination.publish(&[]).unwrap();
    assert!(!left.exists());
}

#[test]
fn publishers_of_one_directory_take_turns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let newest = now() - 10;
    std::thread::scope(|scope| {
        for publisher in 0..4_u64 {
            scope.spawn(move || {
                let mut destination = Destination::open(path).unwrap();
                for step in 0..20 {
                    // Each of them has the newest objects in its last step.
                    let date = newest - (19 - step) * (publisher + 1);
                    let count = 1 + u32::try_from(date - (newest - 100)).unwrap();
                    let snapshot = snapshot(&[(KEYSET, count)], date);
                    destination
                        .publish(&objects(&snapshot, &Rules::default()))
                        .unwrap();
                }
            });
        }
    });
    let server = serve_files(directory.path().to_owned());
    let filter = fetch(&server, KEYSET, NoteKind::Spent).unwrap();
    assert_eq!((filter.n(), filter.as_of()), (101, newest));
}

#[test]
fn invalid_destinations_are_refused() {
    for destination in ["", "file://relative", "ftp://host/x", "http://host/x"] {
        assert!(Destination::open(destination).is_err(), "{destination}");
    }
    #[cfg(not(feature = "object-store"))]
    assert!(matches!(
        Destination::open("s3://bucket/x"),
        Err(DestinationError::NotBuiltIn { .. })
    ));
    #[cfg(feature = "object-store")]
    assert!(matches!(
        Destination::open("s3://user:password@bucket/x"),
        Err(DestinationError::Url { .. })
    ));
}
