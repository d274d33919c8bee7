//! Objects that are files, disturbed by other programs.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use crate::server::{Server, assert_refused};
use crate::site::{PAGE, TestSite, page};

fn file_of(site: &TestSite, name: &str) -> PathBuf {
    site.directory.as_ref().unwrap().path().join(name)
}

#[test]
fn file_changed_by_another_program_is_503() {
    let site = TestSite::in_directory();
    let server = Server::start(site.clone());
    let (file, zipped) = (
        file_of(&site, &PAGE[1..]),
        file_of(&site, &format!("{}.gz", &PAGE[1..])),
    );
    let other = file.with_extension("new");
    fs::write(&other, page(5_000)).unwrap();
    fs::rename(&other, &file).unwrap();
    let gzip = [("accept-encoding", "gzip")];
    assert_refused(&server.page(&[]), 503, 0);
    // The other form is still the one that was put there.
    assert_eq!(server.page(&gzip).status, 200);
    fs::remove_file(&zipped).unwrap();
    let reply = server.page(&gzip);
    assert_refused(&reply, 503, 0);
    assert!(reply.header("retry-after").is_some());
    // No path of this machine is told to clients.
    assert_eq!(reply.json()["detail"], "not available");
    site.put(PAGE, page(3));
    let reply = server.page(&[]);
    assert_eq!(reply.body, page(3));
    // A client that has the bytes needs no file.
    let known = [("if-none-match", reply.header("etag").unwrap())];
    fs::remove_file(&file).unwrap();
    assert_eq!(server.page(&known).status, 304);
    site.put(PAGE, page(3));
    assert_eq!(server.page(&gzip).status, 200);
    let mut written = fs::OpenOptions::new().append(true).open(&file).unwrap();
    written.write_all(b"x").unwrap();
    assert_refused(&server.page(&[]), 503, 0);
}

#[test]
fn other_files_of_the_directory_are_not_served() {
    let site = TestSite::in_directory();
    let server = Server::start(site.clone());
    fs::write(file_of(&site, "secret"), "x").unwrap();
    for path in ["/secret", "/.nutfilter-lock", "/v1/page", "/..%2fsecret"] {
        assert_refused(&server.raw("GET", path), 404, 0);
    }
    let zipped = server.raw("GET", &format!("{PAGE}.gz"));
    assert_refused(&zipped, 400, 12_001);
}
