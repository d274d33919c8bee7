//! An honest mint, and what it learns.

use crate::conversation::*;
use crate::*;

#[test]
fn spent_notes_match_and_others_are_absent() {
    let response = honest(now());
    let mint = saying(json(response.to_json()));
    let filter = fetch(&mint).expect("an honest filter");
    assert_eq!(filter.n(), ITEMS);
    assert_eq!(filter.as_of(), response.timestamp);
    assert_eq!(filter.params(), Params::CASHU);
    assert_eq!(filter.rolled_back_from(), None);

    // Alternate spent and unspent notes, so that an answer in the wrong place is detected.
    let items: Vec<_> = (0..ITEMS).flat_map(|i| [item(i), item(i + ITEMS)]).collect();
    let absent = Answer::Absent { as_of: response.timestamp };
    let wanted: Vec<_> = (0..ITEMS).flat_map(|_| [Answer::MaybePresent, absent]).collect();
    let matches = filter.matches(&items, None).expect("answers");
    assert_eq!((matches.answers, matches.warnings), (wanted, vec![]));
}

#[test]
fn requests_do_not_identify_the_wallet() {
    let mint = saying(json(honest(now()).to_json()));
    let client = MintClient::new(&format!("{}/Bitcoin/", mint.url), Policy::default());
    let old_id = KeysetId::parse("I2yN+iRYf/zT").expect("a keyset id");
    client.expect("a good URL").fetch(&old_id, NoteKind::Issued).expect("a filter");

    let requests = mint.requests();
    let (line, headers) = requests[0].split_once("\r\n").expect("a request line");
    assert_eq!(line, "GET /Bitcoin/v1/filter/issued/I2yN%2BiRYf%2FzT HTTP/1.1");
    let names = header_names(headers);
    assert_eq!(names, ["accept", "accept-encoding", "host", "user-agent"]);
    assert!(headers.to_ascii_lowercase().contains("accept-encoding: gzip"));
}

#[test]
fn user_agent_and_headers_are_the_callers() {
    let mint = honest_mint();
    let number = AtomicU64::new(0);
    let client = client(&mint).with_user_agent("wallet/1.0").with_headers(move |path| {
        let number = number.fetch_add(1, Ordering::SeqCst);
        vec![("Blind-Auth".to_owned(), format!("{path} {number}"))]
    });
    let points = candidates(LIVE);
    client.restore(&keyset(), &points[..], &PLAIN).expect("an honest mint");
    for (number, request) in mint.requests().iter().enumerate() {
        let path = request.split(' ').nth(1).expect("a path");
        let head = request.to_ascii_lowercase();
        assert!(head.contains("user-agent: wallet/1.0\r\n"), "{request}");
        assert!(
            head.contains(&format!("blind-auth: {path} {number}\r\n").to_ascii_lowercase()),
            "{request}"
        );
    }
    assert!(!format!("{client:?}").contains("Blind-Auth"));
}

#[test]
fn cookies_are_not_returned() {
    let body = honest(now()).to_json();
    let cookie = [("Set-Cookie", "wallet=17; Path=/")];
    let mint = saying(response("200 OK", &cookie, body));
    let client = client(&mint);
    for _ in 0..2 {
        client.fetch(&keyset(), NoteKind::Spent).expect("a filter");
    }
    let requests = mint.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|head| !head.to_ascii_lowercase().contains("cookie")));
}

#[test]
fn content_type_is_ignored() {
    for content_type in ["application/json; charset=utf-8", "text/plain", "nonsense"] {
        let body = honest(now()).to_json();
        fetch_answer(response("200 OK", &[("Content-Type", content_type)], body))
            .unwrap_or_else(|error| panic!("{content_type}: {error}"));
    }
}

#[test]
fn fetched_filter_older_than_the_last_seen_one_is_rolled_back() {
    let then = now() - 100;
    let mint = saying(json(honest(then).to_json()));
    for (last_seen, rolled_back) in [(then, None), (then + 1, Some(then + 1))] {
        let filter = client(&mint).fetch_as::<Nut25>(&keyset(), NoteKind::Spent, Some(last_seen));
        assert_eq!(filter.expect("a filter").rolled_back_from(), rolled_back);
    }
}
