//! Fetches through a cache: conditional requests, and how a mint may abuse them.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::conversation::hex;
use crate::*;
use nutfilter::Nut23;
use nutfilter_wallet::{CachedFetch, FilterCache};

pub(crate) type Cached = Result<CachedFetch<Nut25>, FetchError>;

/// A small filter: its cached file is a few hundred bytes.
pub(crate) fn small(timestamp: u64, items: u32) -> String {
    filter_of((0..items).map(item), timestamp).to_json()
}

pub(crate) fn tag(body: &str) -> String {
    format!("\"{}\"", hex(&Sha256::digest(body)))
}

/// The `If-None-Match` value of a request, if it has one.
pub(crate) fn condition(request: &str) -> Option<String> {
    request.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("if-none-match")
            .then(|| value.trim().to_owned())
    })
}

/// A server that correctly returns 304 to a client that has the body.
pub(crate) fn honest_cache(body: String) -> Loopback {
    Loopback::start(move |request, stream| {
        if condition(request) == Some(tag(&body)) {
            stream.write_all(&response("304 Not Modified", &[("ETag", &tag(&body))], ""))
        } else {
            stream.write_all(&response("200 OK", &[("ETag", "\"of no account\"")], &body))
        }
    })
}

pub(crate) fn fetch_through_by(mint: &Loopback, cache: &FilterCache, policy: Policy) -> Cached {
    let client = client_by(mint, policy);
    client.fetch_cached(cache, &keyset(), NoteKind::Spent, None)
}

pub(crate) fn fetch_through(mint: &Loopback, cache: &FilterCache) -> Cached {
    fetch_through_by(mint, cache, Policy::default())
}

pub(crate) fn path(mint: &Loopback, cache: &FilterCache) -> PathBuf {
    cache.path::<Nut25>(&mint.url(), &keyset(), NoteKind::Spent)
}

pub(crate) fn cache_in(directory: &Path) -> FilterCache {
    FilterCache::open(directory.join("cache")).expect("a directory")
}

pub(crate) fn place() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// The conditions of all requests so far.
fn conditions(mint: &Loopback) -> Vec<Option<String>> {
    mint.requests()
        .iter()
        .map(|request| condition(request))
        .collect()
}

#[test]
fn cached_filter_is_revalidated_by_the_hash_of_its_bytes() {
    let place = place();
    let cache = cache_in(place.path());
    let body = small(now() - 60, 10);
    let mint = honest_cache(body.clone());

    let first = fetch_through(&mint, &cache).expect("a filter");
    assert!(!first.from_cache && first.discarded.is_none() && first.not_kept.is_none());
    let second = fetch_through(&mint, &cache).expect("a filter");
    assert!(second.from_cache && second.discarded.is_none());
    // The filter keeps its own timestamp, however late it is revalidated.
    assert_eq!(second.filter.as_of(), first.filter.as_of());
    let items = [item(3), item(3_000)];
    let absent = Answer::Absent {
        as_of: first.filter.as_of(),
    };
    assert_eq!(
        look_up(&second.filter, &items),
        Ok(vec![Answer::MaybePresent, absent])
    );
    // The condition is the hash of the bytes; the server's own ETag is never used.
    assert_eq!(conditions(&mint), [None, Some(tag(&body))]);
}

#[test]
fn without_etag_sends_no_condition_and_keeps_the_time() {
    let place = place();
    let cache = cache_in(place.path()).without_etag();
    let mint = honest_cache(small(now() - 60, 10));
    fetch_through(&mint, &cache).expect("a filter");
    fetch_through(&mint, &cache).expect("a filter");
    assert_eq!(conditions(&mint), [None, None]);
    fs::copy(path(&mint, &cache), place.path().join("kept")).expect("a file");

    let older = honest_cache(small(now() - 90, 10));
    fs::copy(place.path().join("kept"), path(&older, &cache)).expect("a file");
    // A file of another mint is not used, wherever it is.
    assert!(
        fetch_through(&older, &cache)
            .expect("a filter")
            .discarded
            .is_some()
    );
}

#[test]
fn unrequested_304_is_an_error() {
    let place = place();
    let cache = cache_in(place.path());
    let says_304 = || Loopback::saying(response("304 Not Modified", &[("ETag", "\"x\"")], ""));
    // Nothing is cached.
    let mint = says_304();
    assert_refused!(
        fetch_through(&mint, &cache),
        RejectReason::Status { status: 304 }
    );
    assert_eq!(conditions(&mint), [None]);
    // A filter is cached, but the request had no condition.
    let body = small(now() - 60, 10);
    let switch = Arc::new(AtomicU64::new(0));
    let seen = switch.clone();
    let mint = Loopback::start(move |_, stream| match seen.load(Ordering::SeqCst) {
        0 => stream.write_all(&json(&body)),
        _ => stream.write_all(&response("304 Not Modified", &[], "")),
    });
    fetch_through(&mint, &cache).expect("a filter");
    switch.store(1, Ordering::SeqCst);
    let quiet = cache.clone().without_etag();
    assert_refused!(
        fetch_through(&mint, &quiet),
        RejectReason::Status { status: 304 }
    );
    // With a condition, the 304 is accepted.
    assert!(fetch_through(&mint, &cache).expect("a filter").from_cache);
    // A policy that would reject the filter from the mint also rejects it from the disk.
    let strict = policy!(min_m: 784_932);
    assert_refused!(
        fetch_through_by(&mint, &cache, strict),
        RejectReason::Status { status: 304 }
    );
    let small_only = policy!(max_bytes: 10);
    assert_refused!(
        fetch_through_by(&mint, &cache, small_only),
        RejectReason::Status { status: 304 }
    );
    let last = conditions(&mint);
    assert_eq!(last[last.len() - 2..], [None, None]);
}

#[test]
fn headers_of_a_304_may_describe_the_full_body() {
    let place = place();
    let cache = cache_in(place.path());
    let body = small(now() - 60, 10);
    let length = body.len().to_string();
    let mint = Loopback::start(move |request, stream| match condition(request) {
        None => stream.write_all(&json(&body)),
        Some(_) => {
            let headers = [("Content-Length", &*length), ("Content-Encoding", "gzip")];
            stream.write_all(&head("304 Not Modified", &headers))
        }
    });
    fetch_through(&mint, &cache).expect("a filter");
    let again = fetch_through(&mint, &cache).expect("a filter");
    assert!(again.from_cache);
    assert_eq!(again.filter.n(), 10);
}

/// A mint that answers with the current contents of the returned mutex.
fn changing(first: Vec<u8>) -> (Loopback, Arc<std::sync::Mutex<Vec<u8>>>) {
    let answer = Arc::new(std::sync::Mutex::new(first));
    let current = answer.clone();
    let mint = Loopback::start(move |_, stream| {
        let answer = current.lock().expect("an answer").clone();
        stream.write_all(&answer)
    });
    (mint, answer)
}

#[test]
fn cache_detects_a_rollback_and_keeps_the_newer_filter() {
    let place = place();
    let cache = cache_in(place.path());
    let then = now() - 60;
    let (mint, answer) = changing(json(small(then, 10)));
    fetch_through(&mint, &cache).expect("a filter");
    let kept = fs::read(path(&mint, &cache)).expect("a file");

    // Another replica of the mint may be behind. What the newer filter says remains true.
    *answer.lock().expect("an answer") = json(small(then - 3_600, 9));
    let fetched = fetch_through(&mint, &cache).expect("the cached filter");
    assert!(fetched.from_cache && fetched.filter.rolled_back_from().is_none());
    assert_eq!((fetched.filter.n(), fetched.filter.as_of()), (10, then));
    assert_eq!(fs::read(path(&mint, &cache)).expect("a file"), kept);

    *answer.lock().expect("an answer") = json(small(then - 3_601, 10));
    for cache in [cache.clone(), cache.clone().without_etag()] {
        let older = fetch_through(&mint, &cache)
            .expect("a filter, with a warning")
            .filter;
        assert!(older.rolled_back_from().is_some());
        assert_eq!(
            look_up(&older, &[item(1)]),
            Err(CheckError::RolledBack {
                timestamp: then - 3_601,
                last_seen: then
            })
        );
        assert_eq!(fs::read(path(&mint, &cache)).expect("a file"), kept);
    }
    // An invalid or rejected filter does not replace it either.
    let weak = SortedHashes::from_items((0..10).map(item))
        .encode(Params::new(6, 64).expect("parameters"))
        .expect("a filter");
    for bad in [
        json("<html>"),
        json(FilterResponse::new(&weak, now()).to_json()),
        json(small(now() + 1_000, 10)),
        response("500 Oops", &[], small(now(), 11)),
        Vec::new(),
    ] {
        *answer.lock().expect("an answer") = bad;
        assert!(fetch_through(&mint, &cache).is_err());
        assert_eq!(fs::read(path(&mint, &cache)).expect("a file"), kept);
    }
    // A filter with the same or a later timestamp does.
    *answer.lock().expect("an answer") = json(small(then, 11));
    assert_eq!(
        fetch_through(&mint, &cache).expect("a filter").filter.n(),
        11
    );
    *answer.lock().expect("an answer") = json(small(then + 1, 12));
    assert_eq!(
        fetch_through(&mint, &cache).expect("a filter").filter.n(),
        12
    );
    assert_ne!(fs::read(path(&mint, &cache)).expect("a file"), kept);
}

#[test]
fn later_of_both_last_seen_times_counts() {
    let place = place();
    let cache = cache_in(place.path());
    let then = now() - 60;
    let mint = honest_cache(small(then, 10));
    let client = client(&mint);
    for (last_seen, rolled_back) in [
        (None, false),
        (Some(then - 5), false),
        (Some(then), false),
        // Also with a 304.
        (Some(then + 5), true),
    ] {
        let fetched = client
            .fetch_cached::<Nut25>(&cache, &keyset(), NoteKind::Spent, last_seen)
            .expect("a filter");
        assert_eq!(fetched.filter.rolled_back_from().is_some(), rolled_back);
    }
}

#[test]
fn each_mint_keyset_kind_and_hash_has_its_own_file() {
    let place = place();
    let cache = cache_in(place.path());
    let other = KeysetId::parse("00ffd48b8f5ecf80").expect("a keyset id");
    let paths = [
        cache.path::<Nut25>("https://mint.example", &keyset(), NoteKind::Spent),
        cache.path::<Nut25>("https://mint.example/a", &keyset(), NoteKind::Spent),
        cache.path::<Nut25>("http://mint.example", &keyset(), NoteKind::Spent),
        cache.path::<Nut25>("https://mint.example", &other, NoteKind::Spent),
        cache.path::<Nut25>("https://mint.example", &keyset(), NoteKind::Issued),
        cache.path::<Nut23>("https://mint.example", &keyset(), NoteKind::Spent),
    ];
    let different: std::collections::BTreeSet<_> = paths.iter().collect();
    assert_eq!(different.len(), paths.len());
    // Different spellings share a file.
    let upper = KeysetId::parse("009A1F293253E41E").expect("a keyset id");
    assert_eq!(
        paths[0],
        cache.path::<Nut25>("https://MINT.example:443/", &upper, NoteKind::Spent)
    );
    let old = |id| {
        let id = KeysetId::parse(id).expect("a keyset id");
        cache.path::<Nut25>("https://mint.example", &id, NoteKind::Spent)
    };
    assert_eq!(old("I2yN+iRYf/zT"), old("I2yN-iRYf_zT"));
    assert_ne!(old("I2yN+iRYf/zT"), old("i2yN+iRYf/zT"));
}

#[cfg(unix)]
#[test]
fn cache_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    let cache = cache_in(place.path());
    let mint = honest_cache(small(now(), 10));
    fetch_through(&mint, &cache).expect("a filter");
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&place.path().join("cache")), 0o700);
    assert_eq!(mode(&path(&mint, &cache)), 0o600);
}
