//! Mint files of another user, or without read permission.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use std::path::Path;

use super::support::{nutfilter, sample};
use crate::nutfilter::{Place, Ran, assert_contains};

/// The user id of `nobody` on most systems.
const NOBODY: u32 = 65_534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The error of `serve`, run as a user without special file access.
fn refusal(directory: &Path, database: &Path) -> String {
    let output = tempfile::tempdir().unwrap();
    set_mode(output.path(), 0o777);
    let mut command = nutfilter();
    command
        .args(["serve", "--once", "--output"])
        .arg(output.path())
        .arg("--mint-database")
        .arg(database);
    if fs::metadata(directory).unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    Ran::from(command.output().unwrap()).error()
}

#[test]
fn the_file_that_may_not_be_read_is_named() {
    let place = Place::new();
    let root = place.root();
    let mint = root.join("mint");
    fs::create_dir(&mint).unwrap();
    sample(&mint);
    let database = mint.join("cdk-mintd.sqlite");
    let (wal, shm) = (mint.join("cdk-mintd.sqlite-wal"), mint.join("cdk-mintd.sqlite-shm"));
    set_mode(root, 0o755);
    set_mode(&mint, 0o000);
    for given in [&mint, &database] {
        let said = refusal(root, given);
        assert_contains(&said, &given.display().to_string());
        assert!(!said.contains("known name"), "{said}");
    }
    let assert_refused = || {
        let said = refusal(root, &mint);
        assert_contains(&said, &database.display().to_string());
        let cure = "must be able to read this file and its -wal and -shm files; if the -shm file is missing";
        assert_contains(&said, cure);
    };
    set_mode(&mint, 0o555);
    set_mode(&database, 0o000);
    assert_refused();
    set_mode(&database, 0o444);

    set_mode(&mint, 0o755);
    for file in [&wal, &shm] {
        fs::write(file, "").unwrap();
    }
    set_mode(&mint, 0o555);
    for file in [&wal, &shm] {
        set_mode(&wal, 0o444);
        set_mode(&shm, 0o444);
        set_mode(file, 0o000);
        assert_refused();
    }
    set_mode(&mint, 0o755);
    fs::remove_file(&shm).unwrap();
    set_mode(&mint, 0o555);
    assert_refused();
    set_mode(&mint, 0o755);
}
