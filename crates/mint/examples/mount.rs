//! Mounts the filters in a larger axum application, as a mint written in Rust would.
//!
//!     cargo run -p nutfilter-mint --example mount -- /var/lib/cdk-mintd/cdk-mintd.sqlite
//!     curl http://127.0.0.1:3338/cashu/v1/filter/spent/<keyset id>

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use nutfilter_mint::source::{self, DatabaseLocation};
use nutfilter_mint::{KeysetId, Monitor, RefreshOptions, RefreshThread, Refresher};
use nutfilter_objects::Table;
use nutfilter_serve::{Limits, Listener, Refusal, Site, object_router, serve};

const REFRESH_INTERVAL: Duration = Duration::from_secs(60);

/// The filters, for clients that may spell the id of a keyset in several ways.
struct Filters(Arc<Monitor>);

impl Site for Filters {
    fn table(&self) -> &Table {
        self.0.table()
    }

    fn canonical(&self, path: &str) -> Option<String> {
        let id = path.splitn(4, '/').nth(3)?;
        let canonical = KeysetId::parse(id).ok()?.canonical();
        Some(path.strip_suffix(id)?.to_owned() + &canonical)
    }

    fn missing(&self, _: &str) -> Refusal {
        match self.0.status().is_read() {
            false => Refusal::new(503, "not built yet"),
            // NUT-00 has this code for it.
            true => Refusal {
                code: 12_001,
                ..Refusal::new(400, "keyset is not known")
            },
        }
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn health(&self) -> String {
        "{}".to_owned()
    }
}

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
    let source = source::open(&DatabaseLocation::parse(&database)?, None)?;

    let monitor = Monitor::new(Arc::new(Table::in_memory()));
    let mut options = RefreshOptions::default();
    // The mint answers /v1/keysets itself, from more than its database.
    options.lists_keysets = false;
    let refresher = Refresher::new(source, Arc::clone(&monitor), options);
    let thread = RefreshThread::start(refresher, REFRESH_INTERVAL)?;

    // The mint's own routes, and the filters under the same base path. Only the filters' router sets their CORS
    // header, so the mint's middleware cannot conflict with it.
    let mint = Router::new()
        .route(
            "/v1/info",
            get(|| async { r#"{"nuts":{"filters":{"supported":true}}}"# }),
        )
        .merge(object_router(Filters(monitor), "/v1/filter"));
    let application = Router::new()
        .route("/", get(|| async { "a mint and its filters\n" }))
        .nest("/cashu", mint);

    let listener = Listener::tcp("127.0.0.1:3338").await?;
    println!("listening on {listener}/cashu");
    serve(
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
