//! Mounts the filters in a larger axum application, as a mint written in Rust would.
//!
//!     cargo run -p nutfilter-mint --example mount -- /var/lib/cdk-mintd/cdk-mintd.sqlite
//!     curl http://127.0.0.1:3338/cashu/v1/filter/spent/<keyset id>

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
use nutfilter_mint::{FilterService, RefreshThread, Refresher};
use nutfilter_serve::{Limits, Listener};

const REFRESH_INTERVAL: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        // Printed as a sentence: an error returned from `main` would be printed as the fields of a struct.
        Err(error) => {
            eprintln!("mount: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let database = std::env::args().nth(1).ok_or("usage: mount DATABASE")?;
    let source = SqliteSource::open(&DatabaseLocation::parse(&database)?, None)?;
    println!("the database of a {} mint", source.mint_type());

    // The mint answers /v1/keysets itself, from more than its database.
    let service = FilterService::without_keysets();
    let thread = RefreshThread::start(
        Refresher::new(source, service.clone()),
        REFRESH_INTERVAL,
        0.0,
    )?;

    // The mint's own routes, and the filters under the same base path. Only the filters' router sets their CORS
    // header, so the mint's middleware cannot conflict with it.
    let mint = Router::new()
        .route(
            "/v1/info",
            get(|| async { r#"{"nuts":{"25":{"supported":true}}}"# }),
        )
        .merge(nutfilter_serve::filter_router(service));
    let application = Router::new()
        .route("/", get(|| async { "a mint and its filters\n" }))
        .nest("/cashu", mint);

    let listener = Listener::tcp("127.0.0.1:3338").await?;
    println!("listening on {listener}/cashu");
    nutfilter_serve::serve(
        vec![listener],
        application,
        Limits::default(),
        stop_signal(),
    )
    .await;
    if !thread.stop(Duration::from_secs(5)) {
        eprintln!("a query is still being answered; it only reads, and ends with the process");
    }
    Ok(())
}

/// Ready at ctrl-c. If waiting for it fails, the server runs until it is killed.
async fn stop_signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
