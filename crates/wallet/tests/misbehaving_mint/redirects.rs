//! Redirects: few, and never to another origin.

use crate::*;

#[test]
fn three_redirects_are_followed_and_a_fourth_is_an_error() {
    for (hops, taken) in [(3, true), (4, false)] {
        let body = json(honest(now()).to_json());
        let mint = Loopback::start(move |head, stream| {
            let hop = (1..=hops).find(|hop| head.contains(&format!("/hop{hop} ")));
            let next = hop.unwrap_or(0) + 1;
            if next > hops {
                return stream.write_all(&body);
            }
            let location = format!("/hop{next}");
            stream.write_all(&response("302 Found", &[("Location", &location)], ""))
        });
        let fetched = fetch(&mint);
        if taken {
            assert_eq!(fetched.expect("a filter").n(), ITEMS);
        } else {
            assert_failed!(fetched, FetchError::TooManyRedirects { max: 3 });
        }
        assert_eq!(mint.requests().len(), 4);
    }
}

#[test]
fn redirect_to_itself_ends() {
    let mint = Loopback::saying(response("301 Moved", &[("Location", "")], ""));
    assert_failed!(fetch(&mint), FetchError::TooManyRedirects { max: 3 });
}

#[test]
fn redirects_to_another_origin_are_not_followed() {
    let elsewhere = Loopback::saying(json(honest(now()).to_json()));
    let port = elsewhere.address().port();
    for location in [
        elsewhere.url(),
        format!("//127.0.0.1:{port}/x"),
        format!("https://127.0.0.1:{port}/x"),
        format!("http://localhost:{port}/x"),
        "http://192.0.2.1/".to_owned(),
        format!("http://127.0.0.1:{port}@192.0.2.1/"),
        format!("HTTP://127.0.0.1:{port}/x"),
        format!("ftp://127.0.0.1:{port}/x"),
        "file:///etc/passwd".to_owned(),
        "data:application/json,{}".to_owned(),
    ] {
        for status in [
            "301 Moved",
            "302 Found",
            "303 See",
            "307 There",
            "308 There",
        ] {
            let mint = Loopback::saying(response(status, &[("Location", &location)], ""));
            match fetch(&mint) {
                Err(FetchError::RedirectElsewhere { to }) => assert_eq!(to, location),
                Err(FetchError::BadRedirect { .. })
                    if location.starts_with("file") || location.starts_with("data") => {}
                other => panic!("{status} to {location}: {other:?}"),
            }
        }
    }
    assert_eq!(elsewhere.requests(), [] as [&str; 0]);
}

#[test]
fn redirect_without_a_location_is_an_error() {
    assert_failed!(
        fetch_answer(response("302 Found", &[], "")),
        FetchError::BadRedirect { status: 302 }
    );
    let spaces = [("Location", "http://a b/")];
    assert_failed!(
        fetch_answer(response("302 Found", &spaces, "")),
        FetchError::BadRedirect { status: 302 }
    );
}

#[test]
fn loop_of_several_redirects_ends() {
    let mint = Loopback::start(|head, stream| {
        let location = if head.starts_with("GET /a ") {
            "/b"
        } else {
            "/a"
        };
        stream.write_all(&response("307 There", &[("Location", location)], ""))
    });
    assert_failed!(fetch(&mint), FetchError::TooManyRedirects { max: 3 });
    assert_eq!(mint.requests().len(), 4);
}

#[test]
fn duplicate_locations_never_lead_to_another_origin() {
    let elsewhere = Loopback::saying(json(honest(now()).to_json()));
    let away = elsewhere.url();
    for locations in [["/here", away.as_str()], [away.as_str(), "/here"]] {
        let headers = locations.map(|location| ("Location", location));
        let fetched = fetch_answer(response("302 Found", &headers, ""));
        assert_failed!(
            fetched,
            FetchError::TooManyRedirects { .. } | FetchError::RedirectElsewhere { .. }
        );
    }
    assert_eq!(elsewhere.requests(), [] as [&str; 0]);
}

#[test]
fn long_location_is_quoted_in_part_and_printable() {
    let long = format!("http://192.0.2.1/{}", "x".repeat(10_000));
    let error = fetch_answer(response("302 Found", &[("Location", &long)], ""));
    let error = error.expect_err("elsewhere").to_string();
    assert!(error.len() < 1_000, "{} bytes", error.len());
}
