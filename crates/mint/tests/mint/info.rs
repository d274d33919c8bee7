//! `/v1/info`, fetched from a mint over HTTP for each request.

use axum::Router;
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::get;
use nutfilter_mint::{DEFAULT_INFO_KEY, InfoError, MintInfo};

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

fn fetch(url: &str, key: &str) -> Result<String, InfoError> {
    let info = MintInfo::new(url, key).unwrap().fetch()?;
    Ok(String::from_utf8(info).unwrap())
}

#[test]
fn https_at_a_port_without_tls_is_named() {
    let url = serve(Router::new()).replace("http:", "https:");
    let error = fetch(&url, DEFAULT_INFO_KEY).unwrap_err().to_string();
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
            ),
    );
    let said = |path: &str| {
        fetch(&(url.clone() + path), "filters")
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        fetch(&(url.clone() + "/here/"), "x").unwrap(),
        r#"{"nuts":{"x":{"supported":true}}}"#
    );
    assert_eq!(said("/away"), "the mint returned 307");
    assert_eq!(said("/broken"), "the mint returned 500");
    let vacant = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let vacant = vacant.local_addr().unwrap();
    let error = fetch(&format!("http://{vacant}"), "filters").unwrap_err();
    assert!(matches!(error, InfoError::Transport(_)), "{error}");
}

#[test]
fn too_long_or_invalid_info_is_not_passed_on() {
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(1 << 20));
    for body in [long, "[]".to_owned(), "<html>".to_owned()] {
        let url = serve(Router::new().route("/v1/info", get(async move || body.clone())));
        fetch(&url, "filters").unwrap_err();
    }
}
