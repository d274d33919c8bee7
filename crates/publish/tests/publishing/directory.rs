//! Publishing to a directory.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use nutfilter_mint::NoteKind;
use nutfilter_publish::{Destination, DestinationError};

use super::file_server::serve_files;
use super::support::{KEYSET, compete, fetch, keysets, now, one_keyset};

#[test]
fn wallet_reads_a_published_directory() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("new/filters");
    let at = now() - 60;
    let published = one_keyset(1000, at);
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
    let published = one_keyset(10, now() - 60);
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
    let server = serve_files(directory.path().to_owned());
    compete(|| Destination::open(path).unwrap(), 20, &server);
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
