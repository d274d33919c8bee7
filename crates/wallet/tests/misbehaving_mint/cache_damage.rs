//! A cache whose files were cut, changed, swapped, left behind, or cannot be written.

use std::fs;

use crate::cache::*;
use crate::*;
use nutfilter_wallet::Damage;

/// A mint, a cache with its filter, and the cached file. The mint has a newer filter by now.
fn damaged(damage: impl Fn(Vec<u8>) -> Vec<u8>) -> (Cached, Vec<String>) {
    let place = place();
    let cache = cache_in(place.path());
    let (old, new) = (small(now() - 60, 10), small(now() - 30, 11));
    let first = Arc::new(AtomicU64::new(1));
    let mint = Loopback::start(move |request, stream| {
        let is_first = first.swap(0, Ordering::SeqCst) == 1;
        // Whoever asks by the old one's hash is told that it is still the newest.
        match (is_first, condition(request)) {
            (true, _) => stream.write_all(&json(&old)),
            (_, Some(_)) => stream.write_all(&response("304 Not Modified", &[], "")),
            (_, None) => stream.write_all(&json(&new)),
        }
    });
    fetch_through(&mint, &cache).expect("a filter");
    let file = path(&mint, &cache);
    let bytes = fs::read(&file).expect("a file");
    fs::write(&file, damage(bytes)).expect("a file");
    let fetched = fetch_through(&mint, &cache);
    // Whatever was wrong, the next visit finds a good file again.
    let again = fetch_through(&mint, &cache).expect("a filter");
    assert!(again.from_cache && again.discarded.is_none());
    (fetched, mint.requests())
}

fn assert_fetched_anew((fetched, requests): (Cached, Vec<String>), what: &str) {
    let fetched = fetched.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(fetched.discarded.is_some(), "{what}");
    assert!(!fetched.from_cache, "{what}");
    assert_eq!(fetched.filter.n(), 11, "{what}");
    assert_eq!(condition(&requests[1]), None, "{what}");
}

fn length_of_a_file() -> usize {
    let length = AtomicU64::new(0);
    let untouched = damaged(|bytes| {
        length.store(bytes.len() as u64, Ordering::SeqCst);
        bytes
    });
    let (fetched, requests) = untouched;
    let fetched = fetched.expect("a filter");
    assert!(fetched.from_cache && fetched.discarded.is_none());
    assert!(condition(&requests[1]).is_some());
    length.into_inner() as usize
}

#[test]
fn a_file_cut_at_any_byte_is_thrown_away_and_never_answers() {
    for cut in 0..length_of_a_file() {
        let fetched = damaged(|mut bytes| {
            bytes.truncate(cut);
            bytes
        });
        assert_fetched_anew(fetched, &format!("cut at {cut}"));
    }
}

#[test]
fn a_file_with_any_bit_flipped_is_thrown_away_and_never_answers() {
    for byte in 0..length_of_a_file() {
        // All bits of each byte take their turn over the bytes, and the first bytes have all of them.
        let bits = if byte < 12 {
            0..8
        } else {
            byte % 8..byte % 8 + 1
        };
        for bit in bits {
            let fetched = damaged(|mut bytes| {
                bytes[byte] ^= 1 << bit;
                bytes
            });
            assert_fetched_anew(fetched, &format!("bit {bit} of byte {byte}"));
        }
    }
}

#[test]
fn what_is_added_or_something_else_is_thrown_away() {
    for (what, with) in [("one byte more", vec![0]), ("a page more", vec![0; 4096])] {
        assert_fetched_anew(damaged(|bytes| [&bytes[..], &with].concat()), what);
    }
    assert_fetched_anew(damaged(|_| Vec::new()), "nothing");
    assert_fetched_anew(damaged(|_| b"<html>".repeat(100)), "something else");
    assert_fetched_anew(damaged(|bytes| bytes.repeat(2)), "itself, twice");
}

#[test]
fn the_file_of_another_filter_is_thrown_away() {
    let place = place();
    let cache = cache_in(place.path());
    let mint = honest_cache(small(now(), 10));
    fetch_through(&mint, &cache).expect("a filter");
    let issued = cache.path::<Nut25>(&mint.url(), &keyset(), Kind::Issued);
    fs::copy(path(&mint, &cache), &issued).expect("a copy");
    let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
    let fetched = client
        .fetch_cached::<Nut25>(&cache, &keyset(), Kind::Issued, None)
        .expect("a filter");
    assert_eq!(fetched.discarded, Some(Damage::Misplaced));
    assert!(!fetched.from_cache);
}

#[test]
fn what_a_killed_process_left_is_cleared_away_and_nothing_else_is() {
    let place = place();
    let cache = cache_in(place.path());
    let left = place.path().join("cache/.nutfilter-AbCdEf.tmp");
    let theirs = place.path().join("cache/notes.tmp");
    for file in [&left, &theirs] {
        fs::write(file, "half a fil").expect("a file");
    }
    let mint = honest_cache(small(now(), 10));
    fetch_through(&mint, &cache).expect("a filter");
    assert!(!left.exists() && theirs.exists());
}

#[test]
fn a_filter_that_cannot_be_kept_is_as_good_as_ever() {
    let place = place();
    let cache = cache_in(place.path());
    let mint = honest_cache(small(now(), 10));
    // A directory in the file's place: it cannot be read, and not be replaced.
    fs::create_dir(path(&mint, &cache)).expect("a directory");
    let fetched = fetch_through(&mint, &cache).expect("a filter");
    assert_eq!(fetched.discarded, Some(Damage::NotAFile));
    assert!(fetched.not_kept.is_some());
    assert_eq!(fetched.filter.check(&[item(1)]), Ok(vec![Answer::Maybe]));

    // The whole directory is gone.
    fs::remove_dir_all(place.path().join("cache")).expect("a directory");
    let fetched = fetch_through(&mint, &cache).expect("a filter");
    assert!(fetched.not_kept.is_some() && fetched.discarded.is_none());
}

#[test]
fn writers_at_the_same_time_leave_the_newest_whole() {
    let place = place();
    let cache = cache_in(place.path());
    let then = now() - 1_000;
    let served = Arc::new(AtomicU64::new(0));
    let counter = served.clone();
    // Each request gets another body, the times going up and down.
    let mint = Loopback::start(move |_, stream| {
        let turn = counter.fetch_add(1, Ordering::SeqCst);
        stream.write_all(&json(small(then + turn * 7 % 32, 10)))
    });
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..8 {
                    let fetched = fetch_through(&mint, &cache).expect("a filter");
                    assert!(fetched.discarded.is_none() && fetched.not_kept.is_none());
                }
            });
        }
    });
    // 32 requests had all the times from 0 to 31 in some order; the newest is what stays.
    let quiet = cache.clone().without_etag();
    let last = fetch_through(&mint, &quiet).expect("a filter").filter;
    assert_eq!(
        last.rollback().map(|rollback| rollback.last_seen),
        Some(then + 31)
    );
}
