//! Files in the directory that are not objects, or not any more.

use std::fs;
use std::time::{Duration, SystemTime};

use nutfilter_objects::Table;

#[test]
fn files_of_others_are_refused_and_stay() {
    let directory = tempfile::tempdir().unwrap();
    let mine = directory.path().join("mine/notes.txt");
    fs::create_dir(mine.parent().unwrap()).unwrap();
    fs::write(&mine, "mine").unwrap();
    let check = |_: &str, _: &[u8]| Err("not an object".to_owned());
    let table = Table::in_directory(directory.path(), 0o644, check).unwrap();
    assert!(table.objects().is_empty());
    assert_eq!(
        table
            .refused()
            .iter()
            .map(|file| &file.path)
            .collect::<Vec<_>>(),
        [&mine]
    );
    table
        .put("v1/keysets", "application/json", 0, |out| {
            out.write_all(b"{}")
        })
        .unwrap();
    table.retain(|_| true);
    assert_eq!(fs::read(&mine).unwrap(), b"mine");
}

#[test]
fn files_of_former_objects_are_removed_after_an_hour() {
    let directory = tempfile::tempdir().unwrap();
    let check = |_: &str, _: &[u8]| Ok(("application/json", 0));
    for hours in [0, 2] {
        let table = Table::in_directory(directory.path(), 0o644, check).unwrap();
        for path in ["old", "kept"] {
            table
                .put(path, "application/json", 0, |out| out.write_all(b"{}"))
                .unwrap();
            let file = fs::File::options()
                .write(true)
                .open(directory.path().join(path))
                .unwrap();
            let written = SystemTime::now() - Duration::from_secs(hours * 3_600);
            file.set_modified(written).unwrap();
        }
        table.retain(|path| path == "kept");
        assert!(table.get("old").is_none());
        for (name, stays) in [("kept", true), ("old", hours == 0), ("old.gz", hours == 0)] {
            assert_eq!(
                directory.path().join(name).exists(),
                stays,
                "{name}, {hours} h"
            );
        }
    }
}
