//! A cache with truncated, modified, swapped, leftover or unwritable files.

use std::fs;

use crate::cache::*;
use crate::*;
use nutfilter_wallet::Damage;

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
    let all: [&[u8]; 6] = [&[], b"<html>", &good[1..], &flipped, &longer, &zeros];
    let mut bits = vec![good.clone(); 8];
    for (bit, bytes) in bits.iter_mut().enumerate() {
        bytes[bit * good.len() / 8] ^= 1 << bit;
    }
    for bytes in all.into_iter().chain(bits.iter().map(Vec::as_slice)) {
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
    let client = client(&mint);
    let fetched = client
        .fetch_cached::<Nut25>(&cache, &keyset(), NoteKind::Issued, None)
        .expect("a filter");
    assert!(matches!(fetched.discarded, Some(Damage::Checksum)));
    assert!(!fetched.from_cache);
}

#[test]
fn filter_that_cannot_be_cached_is_still_usable() {
    let place = place();
    let cache = cache_in(place.path());
    let mint = honest_cache(small(now(), 10));
    // A directory in the file's place: it can be neither read nor replaced.
    fs::create_dir(path(&mint, &cache)).expect("a directory");
    let fetched = fetch_through(&mint, &cache).expect("a filter");
    assert!(matches!(fetched.discarded, Some(Damage::NotAFile)));
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
fn cached_file_above_the_size_limit_is_not_read() {
    let place = place();
    let cache = cache_in(place.path());
    let body = small(now() - 60, 100);
    let mint = honest_cache(body.clone());
    fetch_through(&mint, &cache).expect("a filter");
    let max = body.len() as u64 - 1;
    let policy = policy!(max_bytes: max);
    let kept = fs::read(path(&mint, &cache)).expect("a file");
    let client = client_by(&mint, policy);
    let refused = client.fetch_cached::<Nut25>(&cache, &keyset(), NoteKind::Spent, None);
    assert_refused!(refused.map(drop), RejectReason::TooLarge { .. });
    // The last request had no condition, because there was no usable file.
    let last = mint.requests().pop().expect("a request");
    assert_eq!(condition(&last), None);
    // Another policy may still read it.
    assert_eq!(fs::read(path(&mint, &cache)).expect("a file"), kept);
    assert!(fetch_through(&mint, &cache).expect("a filter").from_cache);
}
