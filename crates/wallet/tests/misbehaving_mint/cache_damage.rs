//! A cache with truncated, modified, swapped, leftover or unwritable files.

use std::fs;

use crate::cache::*;
use crate::*;
use nutfilter_wallet::Damage;

/// The file format's own tests damage every byte.
#[test]
fn damaged_file_is_discarded_and_downloaded_again() {
    let place = place();
    let cache = cache_in(place.path());
    let mint = honest_cache(small(now() - 60, 3));
    fetch_through(&mint, &cache).expect("a filter");
    let file = path(&mint, &cache);
    let good = fs::read(&file).expect("a file");
    let mut flipped = good.clone();
    *flipped.last_mut().expect("a body") ^= 1;
    let longer = [&good[..], &[0]].concat();
    let zeros = vec![0; good.len()];
    for bytes in [&[][..], b"<html>", &good[1..], &flipped, &longer, &zeros] {
        fs::write(&file, bytes).expect("a file");
        let fetched = fetch_through(&mint, &cache).expect("a filter");
        assert!(fetched.discarded.is_some() && !fetched.from_cache);
        let last = mint.requests().pop().expect("a request");
        assert_eq!(condition(&last), None);
        assert_eq!(fs::read(&file).expect("a file"), good);
    }
    // An intact file is still used.
    assert!(fetch_through(&mint, &cache).expect("a filter").from_cache);
}

#[test]
fn file_of_another_filter_is_discarded() {
    let place = place();
    let cache = cache_in(place.path());
    let mint = honest_cache(small(now(), 10));
    fetch_through(&mint, &cache).expect("a filter");
    let issued = cache.path::<Nut25>(&mint.url(), &keyset(), NoteKind::Issued);
    fs::copy(path(&mint, &cache), &issued).expect("a copy");
    let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
    let fetched = client
        .fetch_cached::<Nut25>(&cache, &keyset(), NoteKind::Issued, None)
        .expect("a filter");
    assert_eq!(fetched.discarded, Some(Damage::Checksum));
    assert!(!fetched.from_cache);
}

#[test]
fn temporary_file_of_a_killed_process_is_replaced() {
    let place = place();
    let cache = cache_in(place.path());
    let left = place.path().join("cache/.nutfilter-new");
    // A temporary file of `nutfilter build`, in a directory that both programs use.
    let theirs = place.path().join("cache/.nutfilter-AbCdEf.tmp");
    for file in [&left, &theirs] {
        fs::write(file, "half a fil").expect("a file");
    }
    let mint = honest_cache(small(now(), 10));
    fetch_through(&mint, &cache).expect("a filter");
    assert!(!left.exists() && theirs.exists());
}

#[test]
fn filter_that_cannot_be_cached_is_still_usable() {
    let place = place();
    let cache = cache_in(place.path());
    let mint = honest_cache(small(now(), 10));
    // A directory in the file's place: it can be neither read nor replaced.
    fs::create_dir(path(&mint, &cache)).expect("a directory");
    let fetched = fetch_through(&mint, &cache).expect("a filter");
    assert_eq!(fetched.discarded, Some(Damage::NotAFile));
    assert!(fetched.not_kept.is_some());
    assert_eq!(
        look_up(&fetched.filter, &[item(1)]),
        Ok(vec![Answer::MaybePresent])
    );

    // The whole directory is missing.
    fs::remove_dir_all(place.path().join("cache")).expect("a directory");
    let fetched = fetch_through(&mint, &cache).expect("a filter");
    assert!(fetched.not_kept.is_some() && fetched.discarded.is_none());
}

#[test]
fn concurrent_writers_leave_the_newest_filter_intact() {
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
    // 32 requests got the timestamps 0 to 31 in some order; the newest filter must remain.
    let quiet = cache.clone().without_etag();
    let last = fetch_through(&mint, &quiet).expect("a filter").filter;
    assert_eq!(last.rolled_back_from(), Some(then + 31));
}

#[test]
fn cached_file_above_the_size_limit_is_not_read() {
    let place = place();
    let cache = cache_in(place.path());
    let body = small(now() - 60, 100);
    let mint = honest_cache(body.clone());
    fetch_through(&mint, &cache).expect("a filter");
    let max = body.len() as u64 - 1;
    let policy = policy!(max_bytes: max);
    let kept = fs::read(path(&mint, &cache)).expect("a file");
    let client = MintClient::new(&mint.url(), policy).expect("a good URL");
    let refused = client.fetch_cached::<Nut25>(&cache, &keyset(), NoteKind::Spent, None);
    assert_refused!(refused.map(drop), RejectReason::TooLarge { .. });
    // The last request had no condition, because there was no usable file.
    let last = mint.requests().pop().expect("a request");
    assert_eq!(condition(&last), None);
    // Another policy may still read it.
    assert_eq!(fs::read(path(&mint, &cache)).expect("a file"), kept);
    assert!(fetch_through(&mint, &cache).expect("a filter").from_cache);
}

#[test]
fn cached_filter_from_the_future_is_replaced_with_a_warning() {
    let place = place();
    let cache = cache_in(place.path());
    let timestamp = Arc::new(AtomicU64::new(1 << 63));
    let served = timestamp.clone();
    let mint = Loopback::start(move |_, stream| {
        stream.write_all(&json(small(served.load(Ordering::SeqCst), 3)))
    });
    // A wallet without a limit on timestamps stored it, as after a clock error.
    let believing = policy!(max_future: Duration::from_secs(u64::MAX));
    fetch_through_by(&mint, &cache, believing).expect("a filter");
    let today = now();
    timestamp.store(today, Ordering::SeqCst);
    let fetched = fetch_through(&mint, &cache).expect("a filter");
    let Some(Damage::Future { timestamp, latest }) = fetched.discarded else {
        panic!("{:?}", fetched.discarded);
    };
    assert_eq!(timestamp, 1 << 63);
    assert!(latest >= today);
    assert!(fetched.not_kept.is_none() && fetched.filter.rolled_back_from().is_none());
    let again = fetch_through(&mint, &cache).expect("a filter");
    assert_eq!(again.discarded, None);
}
