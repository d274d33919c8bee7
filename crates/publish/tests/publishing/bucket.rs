//! Publishing to an S3-compatible server, which `just buckets` starts.

use nutfilter_mint::NoteKind;
use nutfilter_publish::Destination;

use super::file_server::request;
use super::state_filters::{Mint, READERS, Reader, is_older, publish};
use super::support::{KEYSET, compete, fetch, now, one_keyset};

/// The head of the answer to a request for a path of the server, and the server's URL.
fn ask(method: &str, path: &str) -> (String, String) {
    let url = std::env::var("AWS_ENDPOINT").expect("AWS_ENDPOINT is the URL of a server for tests");
    let headers = "x-amz-acl: public-read\r\ncontent-length: 0\r\n";
    (request(method, &url, path, headers).0, url)
}

#[test]
#[ignore = "needs an S3 server: `just buckets`"]
fn wallet_reads_a_published_bucket() {
    let (created, server) = ask("PUT", "/reading");
    assert!(created.starts_with("http/1.1 200"), "{created}");
    let publish = |count, date| {
        let mut destination = Destination::open("s3://reading/some/mint").unwrap();
        destination.publish(&one_keyset(count, date)).unwrap()
    };
    let (older, newer) = (now() - 90, now() - 30);
    assert_eq!(publish(1000, older).written, 3);
    let again = publish(1000, older);
    assert_eq!((again.written, again.unchanged), (0, 3));
    assert_eq!(publish(1001, newer).written, 2);
    assert_eq!(publish(1000, older).superseded.len(), 2);

    for kind in NoteKind::ALL {
        let filter = fetch(&format!("{server}/reading/some/mint"), KEYSET, kind).unwrap();
        assert_eq!((filter.n(), filter.as_of()), (1001, newer));
    }
    let (head, _) = ask(
        "HEAD",
        &format!("/reading/some/mint/v1/filter/spent/{KEYSET}"),
    );
    for line in [
        "content-type: application/json",
        "cache-control: public, max-age=60",
    ] {
        assert!(head.contains(line), "{head}");
    }
}

#[test]
#[ignore = "needs an S3 server: `just buckets`"]
fn publishers_of_one_bucket_do_not_undo_each_other() {
    let (created, server) = ask("PUT", "/rivals");
    assert!(created.starts_with("http/1.1 200"), "{created}");
    let url = format!("{server}/rivals");
    compete(|| Destination::open("s3://rivals").unwrap(), 10, &url);
}

#[test]
#[ignore = "needs an S3 server: `just buckets`"]
fn missing_bucket_is_an_error() {
    let mut destination = Destination::open("s3://missing/mint").unwrap();
    let error = destination.publish(&one_keyset(1, now()));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("v1/filter/spent/"), "{error}");
}

#[test]
#[ignore = "needs an S3 server: `just buckets`"]
fn wallet_follows_a_published_bucket() {
    let (created, server) = ask("PUT", "/following");
    assert!(created.starts_with("http/1.1 200"), "{created}");
    let url = format!("{server}/following/mint");
    let open = || Destination::open("s3://following/mint").unwrap();
    let mut mint = Mint::new();
    let older = mint.filters("data");
    let mut destination = open();
    assert_eq!(publish(&mut destination, &older).unwrap().written, 9);
    let mut readers = READERS.map(|(kind, format)| Reader::new(kind, format));
    for reader in &mut readers {
        assert_eq!(reader.follow(&url, &mint), mint.all(), "{reader:?}");
    }
    mint.grow(2, 60);
    mint.grow(30, 8 * 86_400);
    let newer = mint.filters("data");
    assert!(publish(&mut destination, &newer).unwrap().written > 9);
    let again = publish(&mut open(), &newer).unwrap();
    assert_eq!(again.written, 0, "after a restart");
    for reader in &mut readers {
        assert!(reader.follow(&url, &mint).is_superset(&mint.new_since(30)));
    }
    let error = publish(&mut open(), &older).unwrap_err();
    assert!(is_older(&error), "{error}");

    let (json, octets) = ("application/json", "application/octet-stream");
    let [refresh, interval, immutable] =
        ["60", "600", "31536000, immutable"].map(|age| format!("public, max-age={age}"));
    for (path, media, cache) in [
        ("manifest/proof_state", json, &refresh),
        ("manifests/proof_state/0", json, &immutable),
        ("info/blind_signature", json, &refresh),
        ("blocks/blind_signature/0", octets, &immutable),
        ("blocks/blind_signature/1", octets, &immutable),
        ("blocks/blind_signature/3", octets, &interval),
    ] {
        let (head, _) = ask("HEAD", &format!("/following/mint/v1/filters/{path}"));
        let lines: Vec<_> = head.lines().collect();
        let (media, cache) = (
            format!("content-type: {media}"),
            format!("cache-control: {cache}"),
        );
        assert!(
            lines.contains(&&*media) && lines.contains(&&*cache),
            "{path}: {head}"
        );
    }
}
