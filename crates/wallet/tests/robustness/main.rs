//! Responses read and validated by the policy, with all memory counted.

#[path = "../../../../tests/robustness/allocations.rs"]
mod allocations;
use std::io::{self, Read, Write};
use std::time::Duration;

use allocations::{FIXED, peak_of};
use nutfilter::{Nut25, Params, SortedHashes};
use nutfilter_cashu::FilterResponse;
use nutfilter_testing::loopback::{Loopback, response};
use nutfilter_wallet::{
    FetchContext, FetchError, FilterSource, MintClient, MintFilter, NoteKind, Policy, RejectReason,
};

/// The timestamp of the rows' responses.
const MOMENT: FetchContext = FetchContext { now: 1_767_225_600, last_seen: None, no_cache: false };

fn source() -> FilterSource {
    FilterSource {
        mint: String::new(),
        keyset: "009a1f293253e41e".parse().expect("a keyset id"),
        kind: NoteKind::Spent,
    }
}

/// A mint that sends this many bytes at a time.
struct Trickle<'a> {
    body: &'a [u8],
    at_once: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.at_once);
        self.body.read(&mut buffer[..most])
    }
}

#[test]
fn filter_takes_twice_its_length_to_read_and_no_more_to_accept() {
    let policy = Policy::default();
    let set = SortedHashes::from_items((0..400_000_u32).map(u32::to_le_bytes));
    let filter = set.encode(Params::CASHU).expect("a filter");
    let mut response = FilterResponse::new(&filter, MOMENT.now);
    let good = response.to_json().into_bytes();
    let middle = response.content.len() / 2;
    response.content[middle..].fill(0xff);
    for (json, is_good) in [(good, true), (response.to_json().into_bytes(), false)] {
        for (declared, at_once) in [
            (None, usize::MAX),
            (Some(json.len() as u64), 1000),
            (Some(u64::MAX), usize::MAX),
            (Some(0), usize::MAX),
        ] {
            let body = Trickle { body: &json, at_once };
            let (read, peak) = peak_of(|| policy.read_body(200, declared, body));
            assert!(peak <= 2 * json.len() + FIXED, "{peak} bytes");
            let read = read.expect("no I/O error").expect("a short body");
            // While the body is validated, nothing else is kept.
            assert!(read == json && read.capacity() <= json.len() + FIXED);
        }
        let (accepted, peak) =
            peak_of(|| policy.accept::<Nut25>(200, json.clone(), source(), MOMENT));
        assert_eq!(accepted.is_ok(), is_good);
        // The content takes the place of the text.
        assert!(peak <= json.len() + FIXED, "{peak} bytes");
    }
}

#[test]
fn a_gigabyte_is_refused_before_it_is_buffered() {
    let policy = Policy::default();
    // With a declared length.
    let (refused, peak) = peak_of(|| policy.admit_head(200, Some(1 << 31), []));
    assert!(matches!(
        refused,
        Err(RejectReason::TooLarge { declared: Some(0x8000_0000), max: 0x4000_0000 })
    ));
    assert_eq!(peak, 0);
    // Without a declared length, or with a smaller one: the limit plus one byte is read.
    for declared in [None, Some(10), Some(policy.max_bytes)] {
        let small = Policy { max_bytes: 3 << 20, ..Policy::default() };
        let (read, peak) =
            peak_of(|| small.read_body(200, declared, io::repeat(b'[').take(1 << 30)));
        let refused = read.expect("no I/O error").expect_err("too large");
        assert!(matches!(refused, RejectReason::TooLarge { declared: None, .. }));
        assert!(peak <= (6 << 20) + FIXED, "{peak} bytes");
    }
    // Of an error, only the maximum size of an error object is read.
    let (read, peak) =
        peak_of(|| policy.read_body(500, Some(1 << 30), io::repeat(b'x').take(1 << 30)));
    assert_eq!(read.expect("no I/O error").expect("its beginning").len(), 64 << 10);
    assert!(peak <= 3 * FIXED, "{peak} bytes");
}

/// Responses that would take more memory parsed than as text.
#[test]
fn invalid_responses_take_no_more_memory_either() {
    let policy = Policy::default();
    let lists = |len: usize| format!("[{}1]", "[],".repeat(len / 3));
    let objects = |len: usize| format!(r#"{{{}"x":1}}"#, r#""":1,"#.repeat(len / 5));
    let keys = |len: usize| (0..len / 10).map(|i| format!(r#""{i:05}":0,"#)).collect::<String>();
    for len in [60_000, 65_000, 66_000, 2_000_000] {
        for (what, text) in [
            ("lists", lists(len)),
            ("a member of lists", format!(r#"{{"x":{}}}"#, lists(len))),
            ("a detail of lists", format!(r#"{{"detail":{}}}"#, lists(len))),
            ("a code of lists", format!(r#"{{"code":{}}}"#, lists(len))),
            ("members", objects(len)),
            ("different members", format!("{{{}\"x\":1}}", keys(len))),
            ("a detail of members", format!(r#"{{"detail":{{{}"x":1}},"code":1}}"#, keys(len))),
            ("a long detail", format!(r#"{{"detail":"{}"}}"#, r"\u0041".repeat(len / 6))),
            ("nesting", "[".repeat(len)),
        ] {
            for status in [200, 400] {
                let (accepted, peak) = peak_of(|| {
                    policy.accept::<Nut25>(status, text.clone().into_bytes(), source(), MOMENT)
                });
                assert!(accepted.is_err(), "{what}");
                assert!(
                    peak <= 2 * text.len() + FIXED,
                    "{what}, status {status}: {peak} bytes for {}",
                    text.len()
                );
            }
        }
    }
}

/// Memory of one connection in the transport: two buffers of 128 KiB, a head, names.
const TRANSPORT: usize = 320 << 10;

/// Memory of a decompressor: the window of gzip, and its buffer.
const WINDOW: usize = 64 << 10;

/// Sends `first`, then `again` until the client disconnects.
fn mint_without_end(first: &'static str, again: &'static str) -> Loopback {
    let server = Loopback::start(0, move |_, stream| {
        let again = again.repeat(1000);
        stream.write_all(first.as_bytes())?;
        loop {
            stream.write_all(again.as_bytes())?;
        }
    });
    server.expect("a free port")
}

#[test]
fn endless_responses_take_bounded_memory() {
    const CAP: u64 = 1 << 20;

    let policy = Policy { max_bytes: CAP, deadline: Duration::from_secs(1), ..Policy::default() };
    let keyset = "009a1f293253e41e".parse().expect("a keyset id");
    let body = "HTTP/1.1 200 OK\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let gigabyte = "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n";
    let gzip = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n";
    let redirect = "HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n";
    let whole = 2 * CAP as usize + FIXED + TRANSPORT;
    for (what, first, again, most) in [
        ("a body", body, "[", whole),
        ("chunks", chunked, "1\r\n[\r\n", whole),
        ("a chunk's length", chunked, "0", TRANSPORT),
        ("a chunk's extension", chunked, "1;x", TRANSPORT),
        ("trailers", chunked, "0\r\nX: y\r\n", TRANSPORT),
        ("a gigabyte", gigabyte, "[", TRANSPORT),
        ("a compressed body", gzip, "\x1f", TRANSPORT + WINDOW),
        ("a redirect's body", redirect, "[", TRANSPORT),
        ("a status line", "HTTP/1.1 200 ", "x", TRANSPORT),
        ("headers", "HTTP/1.1 200 OK\r\n", "X: y\r\n", TRANSPORT),
        ("a header", "HTTP/1.1 200 OK\r\nX: ", "y", TRANSPORT),
        ("interim answers", "", "HTTP/1.1 103 Early\r\n\r\n", TRANSPORT),
        // Of an error, only the maximum size of an error object is read.
        ("an error", "HTTP/1.1 500 Oops\r\n\r\n", "x", TRANSPORT + 2 * FIXED),
    ] {
        let mint = mint_without_end(first, again);
        let (fetched, peak) = peak_of(|| {
            let client = MintClient::new(&mint.url, policy.clone()).expect("a good URL");
            client.fetch(&keyset, NoteKind::Spent)
        });
        let error = fetched.expect_err(what).to_string();
        if what == "a body" {
            assert_eq!(error, "response longer than 1048576 bytes");
        }
        assert!(peak <= most, "{what}: {peak} bytes, not {most}");
    }
}

/// Fetches this body, compressed, and returns the most memory that this takes, and its result.
fn fetch_compressed(body: &[u8]) -> (Result<MintFilter, FetchError>, usize) {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).expect("memory");
    let compressed = encoder.finish().expect("memory");
    let server = Loopback::start(0, move |_, stream| {
        stream.write_all(&response("200 OK", &[("Content-Encoding", "gzip")], &compressed))
    });
    let mint = server.expect("a free port");
    let client = MintClient::new(&mint.url, Policy::default()).expect("a good URL");
    peak_of(|| client.fetch(&source().keyset, NoteKind::Spent))
}

/// With its index, whatever the values are.
#[test]
fn compressed_filter_takes_three_times_its_text() {
    const N: u32 = 400_000;
    let params = Params::CASHU;
    let zeros = vec![0; (N as usize * 20).div_ceil(8)];
    let hashes = SortedHashes::from_items((0..N).map(u32::to_le_bytes));
    let usual = hashes.encode(params).expect("a filter");
    // All the length of the unary part in one code, and short codes beside it.
    let mut skewed: Vec<u64> = (0..u64::from(N) - 1).collect();
    skewed.push(params.range(N) - 1);
    let skewed = nutfilter::Filter::from_values(&skewed, params).expect("a filter");
    for (what, content) in
        [("zeros", &zeros[..]), ("usual", usual.bytes()), ("skewed", skewed.bytes())]
    {
        let mut text = Vec::new();
        FilterResponse::write(&mut text, N, params, content, MOMENT.now).expect("memory");
        let (filter, peak) = fetch_compressed(&text);
        assert_eq!(filter.expect(what).n(), N);
        assert!(peak <= 3 * text.len(), "{what}: {peak} bytes for {}", text.len());
    }
}

#[test]
fn small_body_that_inflates_is_bounded_by_what_its_numbers_allow() {
    for (n, refused) in [(300_000_000_u32, true), (20_000_000, false)] {
        let mut body = format!(r#"{{"n":{n},"p":19,"m":784931,"content":""#).into_bytes();
        body.resize(100 << 20, b'A');
        let (fetched, peak) = fetch_compressed(&body);
        let error = fetched.expect_err("too large");
        let is_n = matches!(
            error,
            FetchError::Refused(RejectReason::TooManyItems { max: 20_000_000, .. })
        );
        assert_eq!(is_n, refused, "{error}");
        // 20 million notes are 69 MB of text.
        let most = if refused { 1 << 20 } else { 2 * (70 << 20) };
        assert!(peak <= most, "{peak}");
    }
}
