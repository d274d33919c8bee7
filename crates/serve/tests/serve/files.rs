//! Objects that are files, disturbed by other programs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use crate::server::{Server, assert_refused};
use crate::site::{PAGE, TestSite, page};
use crate::transport::head;

fn file_of(site: &TestSite, name: &str) -> PathBuf {
    site.directory.as_ref().unwrap().path().join(name)
}

#[test]
fn file_changed_by_another_program_is_503() {
    let site = TestSite::in_directory();
    let server = Server::start(site.clone());
    let (file, zipped) =
        (file_of(&site, &PAGE[1..]), file_of(&site, &format!("{}.gz", &PAGE[1..])));
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
        assert_refused(&server.get(path), 404, 0);
    }
    let zipped = server.get(&format!("{PAGE}.gz"));
    assert_refused(&zipped, 400, 12_001);
}

#[test]
fn answers_on_one_connection_are_those_of_their_files() {
    let site = TestSite::in_directory();
    let server = Server::start(site.clone());
    let bodies = [9, 70_000, 2_000_000, 40_000, 1_100_000].map(page);
    let paths = [1, 2, 3, 4, 5].map(|number| format!("/v1/filter/spent/{number}"));
    for (path, body) in paths.iter().zip(&bodies) {
        site.put(path, body.clone());
    }
    let order: Vec<usize> = (0..40).map(|at| at * at % 5).collect();
    let mut stream = server.connect();
    let mut requests = stream.try_clone().unwrap();
    let asked = order.clone();
    let asking = std::thread::spawn(move || {
        for (at, &which) in asked.iter().enumerate() {
            let method = ["GET", "HEAD"][usize::from(at % 4 == 3)];
            write!(requests, "{method} {} HTTP/1.1\r\nHost: x\r\n\r\n", paths[which]).unwrap();
        }
    });
    for (at, &which) in order.iter().enumerate() {
        let (body, (_, length)) = (&bodies[which], head(&mut stream));
        assert_eq!(length, body.len(), "{at}");
        if at % 4 != 3 {
            let mut bytes = vec![0; length];
            stream.read_exact(&mut bytes).unwrap();
            assert!(bytes == *body, "{at}");
        }
    }
    asking.join().unwrap();
}

#[test]
fn file_that_is_cut_while_it_is_sent_ends_the_connection() {
    let site = TestSite::in_directory().with_large();
    let server = Server::start(site.clone());
    let mut stream = server.connect();
    write!(stream, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    let file = fs::OpenOptions::new().write(true).open(file_of(&site, "large")).unwrap();
    file.set_len(10_000).unwrap();
    let mut rest = vec![];
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 8_000_000, "{}", rest.len());
    assert_eq!(server.get("/health").status, 200);
}
