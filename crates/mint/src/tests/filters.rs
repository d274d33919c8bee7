//! `Filters`: a thread that follows changes, and what its router answers.

use std::thread::{scope, sleep};

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use tower::ServiceExt as _;

use super::*;
use crate::source::Notes;
use crate::{Filters, LossError, Options};

const PATIENCE: Duration = Duration::from_secs(30);
const LEAST: Duration = Duration::from_millis(100);

fn options(min_interval: Duration) -> Options {
    Options { interval: HOUR, min_interval, ..Options::default() }
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not within 30 s: {what}");
        sleep(Duration::from_millis(2));
    }
}

/// What the router answers: status, headers, and the number of items.
fn get(filters: &Filters, path: &str, since: Option<&str>) -> (StatusCode, [String; 2], u32) {
    let mut request = Request::get(path);
    if let Some(since) = since {
        request = request.header("if-modified-since", since);
    }
    let request = request.body(Body::empty()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let response = filters.router().oneshot(request).await.unwrap();
        let header = |name: &str| {
            let value = response.headers().get(name);
            value.map_or(String::new(), |value| value.to_str().unwrap().to_owned())
        };
        let headers = ["cache-control", "last-modified"].map(header);
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let items = FilterResponse::from_json(&body[..]);
        let items = items.map_or(0, |filter| filter.into_filter().unwrap().n());
        (status, headers, items)
    })
}

#[test]
fn router_has_a_note_soon_after_the_call() {
    let fake = Fake::new();
    let filters = Filters::with_source(fake.clone(), options(LEAST)).unwrap();
    until("ready", || filters.ready().is_ok());
    let path = format!("/{}", path(Spent, 1));
    let (status, [caching, modified], items) = get(&filters, &path, None);
    assert_eq!((status.as_u16(), &*caching, items), (200, "no-cache", 3));
    fake.add(Spent, 1, 1);
    filters.changed();
    until("the note is in", || get(&filters, &path, None).2 == 4);
    // Two filters may be of one second: its time decides nothing.
    let (status, ..) = get(&filters, &path, Some(&modified));
    assert_eq!(status, StatusCode::OK);
    let missing =
        [("/v1/filter/spent/00ffffffffffffff", 400), ("/v1/keysets", 404), ("/health", 404)];
    for (path, expected) in missing {
        assert_eq!(get(&filters, path, None).0.as_u16(), expected, "{path}");
    }
    assert_eq!(filters.health()["spent"], 5);
    assert!(filters.metrics().contains("\nnutfilter_ready 1\n"));
    // A process that nobody tells of changes.
    let slow = Filters::with_source(fake, options(HOUR)).unwrap();
    until("ready", || slow.ready().is_ok());
    assert_eq!(get(&slow, &path, None).1[0], "public, max-age=3600");
}

#[test]
fn calls_are_one_and_one_during_a_reading_is_followed_by_another() {
    let (fake, (begun, begins)) = (Fake::new(), std::sync::mpsc::channel());
    let (goes_on, released) = std::sync::mpsc::channel::<()>();
    fake.hook(move |kind| {
        if kind == Spent {
            begun.send(Instant::now()).unwrap();
            let _ = released.recv_timeout(PATIENCE);
        }
        Ok(())
    });
    let filters = Filters::with_source(fake.clone(), options(Duration::from_millis(1))).unwrap();
    let mut last = begins.recv_timeout(PATIENCE).unwrap();
    for round in 0..4 {
        scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| (0..100).for_each(|_| filters.changed()));
            }
        });
        goes_on.send(()).unwrap();
        let next = begins.recv_timeout(PATIENCE).unwrap();
        // On a busy machine a reading may begin some time after its refresh.
        assert!(next - last >= LEAST / 2, "{round}: after {:?}", next - last);
        last = next;
        // No request waits for a reading.
        let served = get(&filters, &format!("/{}", path(Spent, 1)), None);
        let health = filters.health();
        assert_eq!((served.2, &health["spent"]), (3, &4.into()));
        assert!(last.elapsed() < PATIENCE / 2);
    }
    goes_on.send(()).unwrap();
    // All calls have been answered.
    assert!(begins.recv_timeout(3 * LEAST).is_err());
    assert_eq!(fake.state().asked[2..], [false; 8]);
    filters.reread();
    begins.recv_timeout(PATIENCE).unwrap();
    goes_on.send(()).unwrap();
    drop(filters);
    until("the source is dropped", || Arc::strong_count(&fake.0) == 1);
}

#[test]
fn filters_of_one_second_have_its_date_and_other_tags() {
    let (fake, clocks) = (Fake::new(), Clocks::at(1_000));
    let mut refresher = refresher(&fake, &clocks);
    let mut tags = vec![];
    // The note of 1000.95 is in a filter that is dated before it.
    for (at, expected) in
        [(1_000_050, 1_000), (1_000_100, 1_000), (1_000_950, 1_000), (1_001_000, 1_001)]
    {
        clocks.0.iter().for_each(|clock| clock.store(at, Ordering::Relaxed));
        fake.add(Spent, 1, 1);
        refresh(&mut refresher);
        assert_eq!(date(&refresher, Spent, 1), Some(expected), "{at}");
        let object = refresher.monitor().table().get(&path(Spent, 1)).unwrap();
        tags.push(object.tag().to_owned());
    }
    tags.dedup();
    assert_eq!((tags.len(), count(&refresher, Spent, 1)), (4, Some(7)));
}

#[test]
fn router_answers_wherever_a_mint_mounts_it() {
    let (directory, fake) = (tempfile::tempdir().unwrap(), Fake::new());
    let mut options = options(HOUR);
    options.directory = Some(directory.path().into());
    // The source enters a runtime, which no async thread can do; this one has neither timers nor other threads.
    fake.hook(|_| {
        tokio::runtime::Runtime::new().unwrap().block_on(async {});
        Ok(())
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (filters, report) = Filters::once(fake.clone(), options.clone()).unwrap();
        assert!(report.unwrap().is_complete());
        let second = Filters::with_source(fake, options).unwrap_err();
        assert!(matches!(second, crate::StartError::Directory(_)), "{second}");
        let count =
            axum::middleware::from_fn(|request, next: axum::middleware::Next| next.run(request));
        let own =
            axum::Router::new().route("/v1/swap", axum::routing::post(|| async { "swapped" }));
        let app = own.fallback(|| async { StatusCode::IM_A_TEAPOT });
        let app = app.nest("/mint/a", filters.router()).merge(filters.router()).layer(count);
        let path = path(Spent, 1);
        let tag = filters.site().monitor().table().get(&path).unwrap().tag().to_owned();
        for (method, path, tag, expected) in [
            ("GET", format!("/{path}"), "", (200, true)),
            ("GET", format!("/mint/a/{path}"), "", (200, true)),
            ("HEAD", format!("/mint/a/{path}"), "", (200, false)),
            ("GET", format!("/mint/a/{path}"), &*tag, (304, false)),
            ("POST", format!("/{path}"), "", (405, true)),
            ("POST", "/v1/swap".to_owned(), "", (200, true)),
            ("GET", "/v1/keys".to_owned(), "", (418, false)),
        ] {
            let request = Request::builder().method(method).uri(&path);
            let request = request.header("if-none-match", format!("\"{tag}\""));
            let answer = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let status = answer.status().as_u16();
            let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            assert_eq!((status, !body.is_empty()), expected, "{method} {path}");
        }
    });
}

#[test]
fn held_keyset_does_not_slow_down_others() {
    let (notes, source) = Notes::new(Fake::new());
    let filters = Filters::with_source(source, options(LEAST)).unwrap();
    until("ready", || filters.ready().is_ok());
    let start = Instant::now();
    for number in 0..5 {
        let mut commit = notes.begin();
        commit.spent(&keyset(1), [notes::point(number)]);
        commit.issued(&keyset(2), [b"not a point"]);
        commit.done();
        filters.changed();
        let path = format!("/{}", path(Spent, 1));
        until("in", || u64::from(get(&filters, &path, None).2) == 4 + number);
    }
    // After failures it would have waited for 1, 2, 4 and 8 s.
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(filters.status().failure.is_some());
}

#[test]
fn loss_of_a_held_keyset_is_accepted_while_the_mint_runs() {
    let (directory, fake) = (tempfile::tempdir().unwrap(), Fake::new());
    let start = |fake: &Fake| {
        let mut options = options(HOUR);
        options.directory = Some(directory.path().into());
        let filters = Filters::with_source(fake.clone(), options).unwrap();
        until("read", || filters.status().refreshes != [0; 3]);
        filters
    };
    let stop = |filters: Filters| assert!(filters.stop(PATIENCE));
    let date = |filters: &Filters| {
        let served = filters.site().monitor().table().get(&path(Spent, 1));
        served.map(|object| object.date())
    };
    let first = start(&fake);
    let before = date(&first);
    stop(first);
    // One keyset loses notes; then the store is another one.
    fake.state().rows[Spent as usize].remove(0);
    let other = Fake::default();
    other.state().listed = vec![7];
    for (fake, losses) in [(fake, &[(1, 1)][..]), (other, &[(1, 5), (2, 2)])] {
        let filters = start(&fake);
        let held = || Vec::from_iter(filters.status().held.iter().map(|loss| loss.values));
        assert_eq!(held(), Vec::from_iter(losses.iter().map(|loss| loss.1)));
        let refused = |number, values| {
            let error: LossError = filters.accept_loss(&keyset(number), values).unwrap_err();
            assert!(!held().is_empty());
            error.to_string()
        };
        let expected = "keyset 0000000000000009 is not held, so no loss can be accepted";
        assert_eq!(refused(9, 1), expected);
        for &(number, values) in losses {
            let less = values - 1;
            let expected = format!("lacks {values} values, more than the {less} ");
            assert!(refused(number, less).contains(&expected));
            filters.accept_loss(&keyset(number), values).unwrap();
        }
        let is_accepted = || held().is_empty() && !filters.status().other_mint;
        until("accepted", is_accepted);
        assert!(date(&filters).is_none_or(|date| Some(date) >= before));
        stop(filters);
    }
}

/// `cargo test --release -p nutfilter-mint --lib -- --ignored --nocapture cost_of_a_refresh` prints the table of docs/embedding.md.
#[test]
#[ignore = "prints what a refresh costs; `NUTFILTER_NOTES` is the number of spent and of issued notes"]
fn cost_of_a_refresh() {
    let first = std::env::var("NUTFILTER_NOTES").map_or(1_000_000, |notes| notes.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    for table in [Table::in_memory(), in_directory(directory.path())] {
        let place = table.is_in_memory();
        let (handed, source) = Notes::new(Fake::default());
        let mut refresher =
            Refresher::new(source, Monitor::new(Arc::new(table)), RefreshOptions::default());
        refresh(&mut refresher);
        let mut next = 0;
        for (new, times) in [(first, 1), (1, 9), (10_000, 9)] {
            let mut taken = vec![];
            for _ in 0..times {
                let points = (next..next + new).map(notes::point);
                next += new;
                let mut commit = handed.begin();
                commit.spent(&keyset(1), points.clone());
                commit.issued(&keyset(1), points);
                commit.done();
                let before = crate::thread::cpu_time();
                refresh(&mut refresher);
                let now = crate::thread::cpu_time();
                taken.push(now.unwrap_or_default() - before.unwrap_or_default());
            }
            taken.sort();
            let cpu = taken[times / 2];
            println!("in memory: {place}, {new} new notes of each kind: {cpu:.1?} of CPU");
        }
    }
}
