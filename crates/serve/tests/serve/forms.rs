//! The forms of an answer: compressed or not, or a 304.

use std::io::Read;

use crate::server::{Reply, Server};
use crate::site::{PAGE, TestSite};

const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

pub(crate) fn server() -> Server {
    Server::start(TestSite::in_memory())
}

/// A server of objects in memory, and one of files.
fn servers() -> [Server; 2] {
    TestSite::in_both_places().map(Server::start)
}

pub(crate) fn with(headers: &Reply, name: &str) -> String {
    headers.header(name).unwrap_or_default().to_owned()
}

#[test]
fn every_coding_decodes_to_the_same_json() {
    for server in servers() {
        let plain = server.page(&[]);
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(with(&plain, "content-type"), "application/json");
        assert_eq!(with(&plain, "access-control-allow-origin"), "*");
        assert_eq!(with(&plain, "content-length"), plain.body.len().to_string());
        for (accept, coding) in [
            ("gzip", "gzip"),
            ("gzip, deflate, br", "gzip"),
            ("gzip, deflate, br, zstd", "gzip"),
            ("*", "gzip"),
            ("identity;q=0, gzip", "gzip"),
        ] {
            let reply = server.page(&[("accept-encoding", accept)]);
            assert_eq!(with(&reply, "content-encoding"), coding, "{accept}");
            assert_eq!(with(&reply, "content-type"), "application/json");
            assert_eq!(with(&reply, "vary"), "Accept-Encoding");
            assert!(reply.body.len() < plain.body.len() * 4 / 5);
            assert_eq!(with(&reply, "content-length"), reply.body.len().to_string());
            let mut text = vec![];
            let mut decoder = flate2::read::GzDecoder::new(&reply.body[..]);
            decoder.read_to_end(&mut text).unwrap();
            assert!(text == plain.body, "{accept}");
        }
        for accept in ["", "br, zstd", "identity", "gzip;q=0", "deflate, GZIP; q=0.0, *", "*;q=0"] {
            let reply = server.page(&[("accept-encoding", accept)]);
            assert_eq!(reply.header("content-encoding"), None, "{accept}");
            assert!(reply.body == plain.body, "{accept}");
            assert_eq!(with(&reply, "vary"), "Accept-Encoding");
        }
    }
}

#[test]
fn tag_is_the_digest_of_the_body_and_the_coding() {
    use sha2::{Digest, Sha256};
    for server in servers() {
        let digest = Sha256::digest(&server.page(&[]).body);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        for (coding, suffix) in [("identity", ""), ("gzip", "-gzip")] {
            let reply = server.page(&[("accept-encoding", coding)]);
            let tag = format!("\"{hex}{suffix}\"");
            assert_eq!(with(&reply, "etag"), tag, "{coding}");
            assert_eq!(with(&reply, "last-modified"), DATE);
            assert_eq!(with(&reply, "cache-control"), "public, max-age=60");
        }
    }
}

#[test]
fn known_tag_gets_304() {
    for server in servers() {
        let plain = with(&server.page(&[]), "etag");
        let gzip = with(&server.page(&[("accept-encoding", "gzip")]), "etag");
        let weak = format!("W/{plain}");
        let list = format!("\"a\", {gzip}, \"b\"");
        for (sent, answered) in [
            (&plain, &plain),
            (&weak, &plain),
            // The tag of another coding of the same content gets a 304 with that tag.
            (&gzip, &gzip),
            (&list, &gzip),
            (&"*".to_owned(), &plain),
        ] {
            let reply = server.page(&[("if-none-match", sent)]);
            assert_eq!((reply.status, reply.body.len()), (304, 0), "{sent}");
            assert_eq!(with(&reply, "etag"), *answered, "{sent}");
            assert_eq!(with(&reply, "cache-control"), "public, max-age=60");
            assert_eq!(with(&reply, "vary"), "Accept-Encoding");
            assert_eq!(with(&reply, "access-control-allow-origin"), "*");
        }
        for sent in ["", "\"x\"", "x, *x", plain.trim_matches('"')] {
            assert_eq!(server.page(&[("if-none-match", sent)]).status, 200, "{sent}");
        }
        let head = server.ask("HEAD", PAGE, &[("if-none-match", &plain)]);
        assert_eq!(head.status, 304);
    }
}

#[test]
fn head_has_the_headers_of_get() {
    for server in servers() {
        let gzip = ("accept-encoding", "gzip");
        for (path, headers) in [(PAGE, &[][..]), (PAGE, &[gzip]), ("/health", &[])] {
            let [head, get] = ["HEAD", "GET"].map(|method| {
                let mut reply = server.ask(method, path, headers);
                reply.headers.retain(|(name, _)| name != "date");
                reply.headers.sort();
                reply
            });
            assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
            assert_eq!(head.headers, get.headers, "{path}");
            assert!(head.header("content-length").is_some(), "{path}");
            let date = (path == PAGE).then_some(DATE);
            assert_eq!(head.header("last-modified"), date, "{path}");
        }
    }
}
