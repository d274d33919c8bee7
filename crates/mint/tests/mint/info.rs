//! `/v1/info`, fetched from a mint over HTTP.

use axum::Router;
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::get;
use nutfilter_mint::{InfoError, MintInfo};

/// Serves a router until this process ends. Returns its URL.
fn serve(router: Router) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
    format!("http://{address}")
}

fn fetch(url: &str) -> Result<String, InfoError> {
    let info = MintInfo::new(url).unwrap().fetch()?;
    Ok(String::from_utf8(info).unwrap())
}

#[test]
fn https_at_a_port_without_tls_is_named() {
    let url = serve(Router::new()).replace("http:", "https:");
    let error = fetch(&url).unwrap_err().to_string();
    assert!(error.contains("give its http:// address"), "{error}");
}

#[test]
fn mint_that_is_down_or_redirects_has_no_info() {
    let away = Redirect::temporary("/here/v1/info");
    let url = serve(
        Router::new()
            .route("/here/v1/info", get(|| async { "{}" }))
            .route("/away/v1/info", get(async move || away.clone()))
            .route(
                "/broken/v1/info",
                get(|| async { StatusCode::INTERNAL_SERVER_ERROR }),
            )
            .route("/loop/v1/info", get(|| async { StatusCode::LOOP_DETECTED })),
    );
    let said = |path: &str| fetch(&(url.clone() + path)).unwrap_err().to_string();
    assert_eq!(
        fetch(&(url.clone() + "/here/")).unwrap(),
        r#"{"filters":{"supported":true}}"#
    );
    assert_eq!(said("/away"), "the mint returned 307");
    assert_eq!(said("/broken"), "the mint returned 500");
    assert!(said("/loop").contains("give the mint's own address"));
    let vacant = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let vacant = vacant.local_addr().unwrap();
    let error = fetch(&format!("http://{vacant}")).unwrap_err();
    assert!(matches!(error, InfoError::Transport(_)), "{error}");
}

#[test]
fn long_info_is_passed_on_and_an_endless_one_is_not() {
    let info = |mib: usize| format!(r#"{{"name":"{}"}}"#, "x".repeat(mib << 20));
    for (body, is_good) in [
        (info(8), true),
        (info(17), false),
        ("[]".to_owned(), false),
        ("<html>".to_owned(), false),
    ] {
        let url = serve(Router::new().route("/v1/info", get(async move || body.clone())));
        assert_eq!(fetch(&url).is_ok(), is_good);
    }
}
