//! Publishing to an S3-compatible server, which `just buckets` starts.

use std::io::{Read, Write};
use std::net::TcpStream;

use nutfilter_mint::NoteKind;
use nutfilter_publish::{Destination, Rules, objects};

use super::support::{fetch, now, snapshot};

const KEYSET: &str = "00aa000000000001";

/// The answer to a request for a path of the server, and the server's URL.
fn request(method: &str, path: &str) -> (String, String) {
    let url = std::env::var("AWS_ENDPOINT").expect("AWS_ENDPOINT is the URL of a server for tests");
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nx-amz-acl: public-read\r\n\
         content-length: 0\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    (String::from_utf8_lossy(&answer).to_lowercase(), url)
}

#[test]
#[ignore = "needs an S3 server: `just buckets`"]
fn wallet_reads_a_published_bucket() {
    let (created, server) = request("PUT", "/reading");
    assert!(created.starts_with("http/1.1 200"), "{created}");
    let publish = |count, date| {
        let mut destination = Destination::open("s3://reading/some/mint").unwrap();
        let snapshot = snapshot(&[(KEYSET, count)], date);
        destination
            .publish(&objects(&snapshot, &Rules::default()))
            .unwrap()
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
    let (head, _) = request(
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
    let (created, server) = request("PUT", "/rivals");
    assert!(created.starts_with("http/1.1 200"), "{created}");
    let newest = now() - 10;
    std::thread::scope(|scope| {
        for publisher in 0..4_u64 {
            scope.spawn(move || {
                let mut destination = Destination::open("s3://rivals").unwrap();
                for step in 0..10 {
                    // Each of them has the newest objects in its last step.
                    let date = newest - (9 - step) * (publisher + 1);
                    let count = 1 + u32::try_from(date - (newest - 100)).unwrap();
                    let snapshot = snapshot(&[(KEYSET, count)], date);
                    destination
                        .publish(&objects(&snapshot, &Rules::default()))
                        .unwrap();
                }
            });
        }
    });
    let filter = fetch(&format!("{server}/rivals"), KEYSET, NoteKind::Spent).unwrap();
    assert_eq!((filter.n(), filter.as_of()), (101, newest));
}

#[test]
#[ignore = "needs an S3 server: `just buckets`"]
fn missing_bucket_is_an_error() {
    let mut destination = Destination::open("s3://missing/mint").unwrap();
    let objects = objects(&snapshot(&[(KEYSET, 1)], now()), &Rules::default());
    let error = destination.publish(&objects).unwrap_err().to_string();
    assert!(error.starts_with("v1/filter/spent/"), "{error}");
}
