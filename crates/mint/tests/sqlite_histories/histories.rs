//! Runs random histories of either database, and tells what a filter that is served lacks.

use std::cell::Cell;

use nutfilter_cashu::FilterResponse;
use nutfilter_mint::{NoteKind, Refresher};
use nutfilter_objects::Opened;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Tries `NUTFILTER_HISTORIES` histories, or `default` of them. One that fails is shrunk.
pub(crate) fn try_histories<S: Strategy>(default: u32, histories: &S, happen: impl Fn(S::Value)) {
    let cases = std::env::var("NUTFILTER_HISTORIES");
    let config = Config {
        cases: cases.map_or(default, |cases| cases.parse().expect("a number")),
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let (tried, good, failed) = (Cell::new(0), Cell::new(0), Cell::new(None));
    let result = TestRunner::new(config).run(histories, |history| {
        if good.get() < tried.get() && failed.get().is_none() {
            failed.set(Some(tried.get()));
        }
        tried.set(tried.get() + 1);
        happen(history);
        good.set(good.get() + 1);
        Ok(())
    });
    let number = failed.get().unwrap_or(tried.get());
    result.unwrap_or_else(|error| panic!("history {number} failed; {error}"));
}

/// Of `items`, the number that the served filter of `kind` and `keyset` does not match.
pub(crate) fn missing(
    refresher: &Refresher,
    kind: usize,
    keyset: &str,
    items: &[Vec<u8>],
) -> usize {
    let path = format!("v1/filter/{}/{keyset}", NoteKind::ALL[kind]);
    let opened = refresher.monitor().table().open(&path, false).unwrap();
    let Some((_, Opened::Memory(json))) = opened else {
        panic!("{path} is not served");
    };
    let response = FilterResponse::from_json(&json[..]).unwrap();
    let matches = response.into_filter().unwrap().matches(items);
    matches.iter().filter(|is_there| !**is_there).count()
}
