//! A mint of the Cashu Development Kit that publishes its filters itself: one process, one port, one database. Nothing in CDK changes.
//!
//!     cdk-mint DATABASE HOST:PORT [DIRECTORY [MILLISECONDS [SECONDS]]]
//!
//! The filters are kept in DIRECTORY, or in memory if it is `-`, which is for tries. They are as fresh as MILLISECONDS; the default is
//! that of the library. With `none` the mint has no filters, to compare. Payments are simulated: every invoice is paid at once,
//! or within SECONDS.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use cdk::mint::{Mint, MintBuilder, MintMeltLimits};
use cdk::nuts::nut00::KnownMethod;
use cdk::nuts::{CurrencyUnit, PaymentMethod};
use cdk::types::{FeeReserve, QuoteTTL};
use cdk_fake_wallet::FakeWallet;
use cdk_sqlite::mint::MintSqliteDatabase;
use nutfilter_mint::source::DatabaseLocation;
use nutfilter_mint::{Filters, Options};

const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, listen, more @ ..] = &arguments[..] else {
        anyhow::bail!("usage: cdk-mint DATABASE HOST:PORT [DIRECTORY [MILLISECONDS [SECONDS]]]");
    };
    let delay = more.get(2).map_or(Ok(0), |seconds| seconds.parse())?;
    let mint = mint(database, delay).await?;
    let routes = cdk_axum::create_mint_router(Arc::new(mint), vec!["bolt11".into()]).await?;

    let mut options = Options::default();
    let directory = more.first().map_or("-", String::as_str);
    options.directory = (directory != "-").then(|| directory.into());
    if let Some(milliseconds) = more.get(1) {
        options.min_interval = Duration::from_millis(milliseconds.parse()?);
    }
    let app = if directory == "none" {
        routes
    } else {
        // The mint has made its tables by now.
        let filters = Filters::open(&DatabaseLocation::from(Path::new(database)), options)?;
        routes
            .layer(from_fn_with_state(filters.clone(), tell_changes))
            .layer(from_fn(announce))
            .merge(filters.router())
    };

    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// Tells the filters after each request that may have spent or issued notes.
async fn tell_changes(State(filters): State<Filters>, request: Request, next: Next) -> Response {
    let writes = ["/v1/swap", "/v1/mint", "/v1/melt"];
    let may_write = writes.iter().any(|path| request.uri().path().starts_with(path));
    let _told = may_write.then(|| Changed(filters));
    next.run(request).await
}

/// Tells it also if the client leaves, and axum drops the future of the handler behind its commit.
struct Changed(Filters);

impl Drop for Changed {
    fn drop(&mut self) {
        self.0.changed();
    }
}

/// Announces the filters in the mint's info, beside `nuts`.
async fn announce(request: Request, next: Next) -> Response {
    let is_info = request.uri().path() == "/v1/info";
    let response = next.run(request).await;
    if !is_info || !response.status().is_success() {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let Ok(mut info) = serde_json::from_slice::<serde_json::Value>(&bytes) else {
        return Response::from_parts(head, bytes.into());
    };
    let (name, value) = Filters::announcement();
    info[name] = value;
    head.headers.remove("content-length");
    Response::from_parts(head, Body::from(info.to_string()))
}

/// A mint as CDK's guide builds it.
async fn mint(database: &str, delay: u64) -> anyhow::Result<Mint> {
    let store = Arc::new(MintSqliteDatabase::new(database).await?);
    let fees = FeeReserve { min_fee_reserve: 1.into(), percent_fee_reserve: 0.0 };
    let wallet =
        FakeWallet::new(fees, HashMap::default(), HashSet::default(), delay, CurrencyUnit::Sat);
    let mut builder = MintBuilder::new(store.clone()).with_name("embedded".into());
    let method = PaymentMethod::Known(KnownMethod::Bolt11);
    let limits = MintMeltLimits::new(1, 1_000_000);
    builder.add_payment_processor(CurrencyUnit::Sat, method, limits, Arc::new(wallet)).await?;
    let seed = bip39::Mnemonic::parse(WORDS)?.to_seed_normalized("");
    let mint = builder.build_with_seed(store, &seed).await?;
    mint.set_quote_ttl(QuoteTTL::new(10_000, 10_000)).await?;
    mint.start().await?;
    Ok(mint)
}
