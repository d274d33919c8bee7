//! Redirects: none is followed, and the error says where they point.

use crate::*;

#[test]
fn no_redirect_is_followed() {
    let elsewhere = saying(json(honest(now()).to_json()));
    for location in [
        "/here".to_owned(),
        elsewhere.url.clone(),
        "http://a b/".to_owned(),
        "data:application/json,{}".to_owned(),
    ] {
        for status in [301_u16, 302, 303, 307, 308] {
            let line = format!("{status} Elsewhere");
            let headers = [("Location", location.as_str()), ("Location", "/second")];
            let mint = saying(response(&line, &headers, ""));
            match fetch(&mint) {
                Err(FetchError::Redirect { status: s, to }) => {
                    assert_eq!((s, to), (status, location.clone()))
                }
                other => panic!("{status} to {location}: {other:?}"),
            }
            assert_eq!(mint.requests().len(), 1);
        }
    }
    assert_eq!(elsewhere.requests(), [] as [&str; 0]);
    let nowhere = fetch_answer(response("302 Found", &[], ""));
    assert_refused!(nowhere, RejectReason::Status { status: 302 });
    // A long target is quoted in part.
    let long = format!("http://192.0.2.1/{}", "x".repeat(10_000));
    let error = fetch_answer(response("302 Found", &[("Location", &long)], ""));
    let error = error.expect_err("elsewhere").to_string();
    assert!(error.len() < 1_000, "{} bytes", error.len());
}
