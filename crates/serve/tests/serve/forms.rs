//! The forms of an answer: compressed or not, in full, in part, a 304 or a 412.

use std::io::Read;

use crate::V1;
use crate::server::{Reply, Server, assert_refused, service_of};

const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

pub(crate) fn server() -> Server {
    Server::start(service_of(5_000))
}

pub(crate) fn with(headers: &Reply, name: &str) -> String {
    headers.header(name).unwrap_or_default().to_owned()
}

#[test]
fn every_coding_decodes_to_the_same_json() {
    let server = server();
    let plain = server.spent(&[]);
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(with(&plain, "content-type"), "application/json");
    assert_eq!(with(&plain, "access-control-allow-origin"), "*");
    assert_eq!(with(&plain, "content-length"), plain.body.len().to_string());
    assert_eq!(plain.json()["n"], 5_000);
    for (accept, coding) in [
        ("gzip", "gzip"),
        ("gzip, deflate, br", "gzip"),
        ("gzip, deflate, br, zstd", "gzip"),
        ("*", "gzip"),
        ("identity;q=0, gzip", "gzip"),
    ] {
        let reply = server.spent(&[("accept-encoding", accept)]);
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
    for accept in [
        "",
        "br, zstd",
        "identity",
        "gzip;q=0",
        "deflate, GZIP; q=0.0, *",
        "*;q=0",
    ] {
        let reply = server.spent(&[("accept-encoding", accept)]);
        assert_eq!(reply.header("content-encoding"), None, "{accept}");
        assert!(reply.body == plain.body, "{accept}");
        assert_eq!(with(&reply, "vary"), "Accept-Encoding");
    }
}

#[test]
fn tag_is_the_digest_of_the_body_and_the_coding() {
    use sha2::{Digest, Sha256};
    let server = server();
    let digest = Sha256::digest(&server.spent(&[]).body);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    for (coding, suffix) in [("identity", ""), ("gzip", "-gzip")] {
        let reply = server.spent(&[("accept-encoding", coding)]);
        let tag = format!("\"{hex}{suffix}\"");
        assert_eq!(with(&reply, "etag"), tag, "{coding}");
        assert_eq!(with(&reply, "last-modified"), DATE);
        assert_eq!(with(&reply, "cache-control"), "public, max-age=60");
        assert_eq!(with(&reply, "accept-ranges"), "bytes");
    }
}

#[test]
fn known_tag_gets_304() {
    let server = server();
    let plain = with(&server.spent(&[]), "etag");
    let gzip = with(&server.spent(&[("accept-encoding", "gzip")]), "etag");
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
        let reply = server.spent(&[("if-none-match", sent)]);
        assert_eq!((reply.status, reply.body.len()), (304, 0), "{sent}");
        assert_eq!(with(&reply, "etag"), *answered, "{sent}");
        assert_eq!(with(&reply, "cache-control"), "public, max-age=60");
        assert_eq!(with(&reply, "vary"), "Accept-Encoding");
        assert_eq!(with(&reply, "access-control-allow-origin"), "*");
    }
    for headers in [
        &[("if-none-match", "\"x\""), ("if-modified-since", DATE)][..],
        &[("if-none-match", "")],
        &[("if-modified-since", "Wed, 31 Dec 2025 23:59:59 GMT")],
        &[("if-modified-since", "soon")],
    ] {
        assert_eq!(server.spent(headers).status, 200, "{headers:?}");
    }
    let reply = server.spent(&[("if-modified-since", DATE)]);
    assert_eq!((reply.status, with(&reply, "etag")), (304, plain.clone()));
    let head = server.ask(
        "HEAD",
        &format!("/v1/filter/spent/{V1}"),
        &[("if-none-match", &plain)],
    );
    assert_eq!(head.status, 304);
}

#[test]
fn unmet_precondition_is_412() {
    let server = server();
    let tag = with(&server.spent(&[]), "etag");
    let before = "Wed, 31 Dec 2025 23:59:59 GMT";
    for (headers, status) in [
        (&[("if-match", tag.as_str())][..], 200),
        (&[("if-match", "*")], 200),
        (&[("if-match", "\"x\"")], 412),
        // Weak tags never match here.
        (&[("if-match", &format!("W/{tag}"))], 412),
        (&[("if-unmodified-since", DATE)], 200),
        (&[("if-unmodified-since", before)], 412),
        (&[("if-unmodified-since", "soon")], 200),
        (&[("if-match", "*"), ("if-unmodified-since", before)], 200),
        (&[("if-match", "\"x\""), ("if-none-match", &tag)], 412),
        (&[("if-match", &tag), ("if-none-match", &tag)], 304),
        (&[("if-match", "\"x\""), ("range", "bytes=0-1")], 412),
    ] {
        let reply = server.spent(headers);
        assert_eq!(reply.status, status, "{headers:?}");
        if status == 412 {
            assert_refused(&reply, 412, 0);
        }
    }
}

#[test]
fn parts_add_up_to_the_body() {
    let server = server();
    for headers in [("accept", "*/*"), ("accept-encoding", "gzip")] {
        let whole = server.spent(&[headers]);
        let length = whole.body.len();
        let mut together = vec![];
        while together.len() < length {
            let first = together.len();
            let last = first + 4_999;
            let range = format!("bytes={first}-{last}");
            let tag = with(&whole, "etag");
            let part = server.spent(&[headers, ("range", &range), ("if-range", &tag)]);
            assert_eq!(part.status, 206);
            let last = last.min(length - 1);
            assert_eq!(
                with(&part, "content-range"),
                format!("bytes {first}-{last}/{length}")
            );
            assert_eq!(with(&part, "etag"), tag);
            assert_eq!(with(&part, "content-type"), with(&whole, "content-type"));
            assert_eq!(
                with(&part, "content-encoding"),
                with(&whole, "content-encoding")
            );
            together.extend(part.body);
        }
        assert!(together == whole.body, "{headers:?}");
        let end = server.spent(&[headers, ("range", "bytes=-7")]);
        assert_eq!(end.body, whole.body[length - 7..]);
        let end = server.spent(&[headers, ("range", &format!("bytes={}-", length - 5))]);
        assert_eq!(end.body, whole.body[length - 5..]);
    }
}

#[test]
fn invalid_ranges_get_all_and_ranges_beyond_the_end_416() {
    let server = server();
    let whole = server.spent(&[]);
    for headers in [
        &[("range", "bytes=0-1,4-5")][..],
        &[("range", "bytes=5-2")],
        &[("range", "items=0-1")],
        &[("range", "bytes=0-1"), ("if-range", "\"x\"")],
        &[("range", "bytes=0-1"), ("if-range", DATE)],
    ] {
        let reply = server.spent(headers);
        assert_eq!(reply.status, 200, "{headers:?}");
        assert!(reply.body == whole.body);
    }
    let length = whole.body.len();
    let reply = server.spent(&[("range", &format!("bytes={length}-"))]);
    assert_refused(&reply, 416, 0);
    assert_eq!(with(&reply, "content-range"), format!("bytes */{length}"));
    // An unchanged body is not sent in parts either.
    let tag = with(&whole, "etag");
    let reply = server.spent(&[("range", "bytes=0-1"), ("if-none-match", &tag)]);
    assert_eq!(reply.status, 304);
}

#[test]
fn head_has_the_headers_of_get() {
    let server = server();
    let filter = format!("/v1/filter/spent/{V1}");
    let gzip = ("accept-encoding", "gzip");
    for (path, headers) in [
        (filter.as_str(), &[][..]),
        (&filter, &[gzip]),
        ("/v1/keysets", &[]),
        ("/health", &[]),
    ] {
        let [head, get] = ["HEAD", "GET"].map(|method| {
            let mut reply = server.ask(method, path, headers);
            reply.headers.retain(|(name, _)| name != "date");
            reply.headers.sort();
            reply
        });
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.headers, get.headers, "{path}");
        assert!(head.header("content-length").is_some(), "{path}");
        let date = (path != "/health").then_some(DATE);
        assert_eq!(head.header("last-modified"), date, "{path}");
    }
    // Ranges do not apply to HEAD.
    let head = server.ask("HEAD", &filter, &[("range", "bytes=0-1")]);
    let said = (head.status, head.header("content-range"));
    assert_eq!(said, (200, None));
}
