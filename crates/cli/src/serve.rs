//! `nutfilter serve`: the filters of a mint's database, over HTTP.

use std::future::Future;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
use nutfilter_mint::{
    FilterService, Kind, MintType, Publisher, Refresher, ServiceOptions, Snapshot, http,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use crate::error::CliError;
use crate::globals::Globals;
use crate::names;

/// Loopback, until somebody decides otherwise: a proxy is meant to stand in front.
const DEFAULT_HOST: &str = "127.0.0.1";

/// Next to 3338, the port that mints are found at.
const DEFAULT_PORT: u16 = 3339;

/// Wallets restore rarely, and are told the time of the filter: a minute does no harm.
const DEFAULT_REFRESH_SECONDS: u64 = 60;

/// How long a query under way may keep the process from ending. It only reads.
const REFRESHER_PATIENCE: Duration = Duration::from_secs(5);

/// How often to look whether the first build is done. It takes seconds, and happens once.
const FIRST_BUILD_POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// The mint's database: a SQLite file, or the directory it is in. It is only read.
    #[arg(
        long,
        value_name = "PATH|URL",
        env = "MINT_DATABASE",
        hide_env_values = true
    )]
    mint_database: String,

    /// Whose database it is [default: recognised by its tables].
    #[arg(long, value_name = "TYPE", env = "MINT_TYPE", value_parser = names::mint_type())]
    mint_type: Option<MintType>,

    /// Where to listen, instead of --host and --port. Port 0 takes any that is free.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,

    /// Address to listen at.
    #[arg(long, env = "SERVER_HOST", default_value = DEFAULT_HOST)]
    host: String,

    /// Port to listen at.
    #[arg(long, env = "SERVER_PORT", default_value_t = DEFAULT_PORT)]
    port: u16,

    /// The mint's own URL. With it, /v1/keysets is left to the mint.
    #[arg(long, value_name = "URL", env = "MINT_API")]
    mint_api: Option<String>,

    /// Seconds from one reading of the database to the next.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_REFRESH_SECONDS,
          value_parser = clap::value_parser!(u64).range(1..))]
    refresh: u64,

    /// Serve everything under this path, as in /Bitcoin/v1/filter/..
    #[arg(long, value_name = "PATH", default_value = "/")]
    base_path: String,

    /// What to log: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL", default_value = "info")]
    log_level: String,
}

const EXAMPLES: &str = "\
Examples:
  nutfilter serve --mint-database /var/lib/cdk-mintd/cdk-mintd.sqlite
  nutfilter serve --mint-database data/mint --listen 127.0.0.1:3339 --mint-api https://mint.example
  MINT_DATABASE=mint.sqlite3 SERVER_PORT=8080 LOG_LEVEL=debug nutfilter serve";

pub(crate) fn run(args: ServeArgs, globals: &Globals) -> Result<(), CliError> {
    start_log(&args.log_level, globals)?;
    let options = ServiceOptions::default().serve_keysets(!has_api(&args)?);
    let service = FilterService::new(options);
    let router = http::under(&args.base_path, http::router(service.clone()))
        .map_err(|error| CliError::usage(error.to_string()))?;
    let location = DatabaseLocation::parse(&args.mint_database)?;
    let source = SqliteSource::open(&location, args.mint_type)?;
    let mint = source.mint_type();

    let runtime = runtime(globals)?;
    runtime.block_on(async {
        let listener = listen(&args).await?;
        let base = base_url(listener.local_addr()?, &args.base_path);
        globals.note(format_args!(
            "listening on {base}, reading the database of a {mint} mint"
        ));
        let publisher = Publisher::new(source, service.clone());
        let refresher = Refresher::start(publisher, Duration::from_secs(args.refresh))?;
        let announcement = tokio::spawn(announce(service, base, *globals));
        let served = http::serve(listener, router, stop_signal()?).await;
        announcement.abort();
        if !refresher.stop(REFRESHER_PATIENCE) {
            tracing::warn!("a query is still being answered, and ends with the process");
        }
        globals.note("stopped");
        Ok(served?)
    })
}

/// Whether the mint answers for itself, at a URL that is one.
fn has_api(args: &ServeArgs) -> Result<bool, CliError> {
    match args.mint_api.as_deref() {
        None | Some("") => Ok(false),
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => Ok(true),
        Some(url) => Err(CliError::usage(format!(
            "--mint-api {url}: a URL begins with http:// or https://"
        ))),
    }
}

async fn listen(args: &ServeArgs) -> Result<TcpListener, CliError> {
    let bound = match &args.listen {
        Some(address) => TcpListener::bind(address).await,
        None => TcpListener::bind((args.host.as_str(), args.port)).await,
    };
    bound.map_err(|error| match &args.listen {
        Some(address) => CliError::at(address, error),
        None => CliError::at(format_args!("{}:{}", args.host, args.port), error),
    })
}

/// Waits for the first build and says what there is to ask for.
async fn announce(service: FilterService, base: String, globals: Globals) {
    loop {
        if let Some(snapshot) = service.snapshot() {
            let keysets = service.options().serve_keysets;
            return globals.note(format_args!(
                "ready; try\n{}",
                curl_lines(&base, &snapshot, keysets)
            ));
        }
        tokio::time::sleep(FIRST_BUILD_POLL).await;
    }
}

/// Lines to paste into a shell.
pub(crate) fn curl_lines(base: &str, snapshot: &Snapshot, with_keysets: bool) -> String {
    let mut paths = vec!["health".to_owned()];
    if with_keysets {
        paths.push("v1/keysets".to_owned());
    }
    // One keyset shows how it goes; the active one is the likeliest to be asked for.
    let mut keysets = snapshot.keysets();
    let first = keysets.next();
    if let Some(keyset) = keysets.find(|keyset| keyset.info.active).or(first) {
        // A legacy id goes into a URL with its `/` and `+` replaced.
        let id = keyset.info.id.as_str().replace('/', "_").replace('+', "-");
        paths.extend(Kind::ALL.map(|kind| format!("v1/filter/{kind}/{id}")));
    }
    let lines: Vec<String> = paths
        .iter()
        .map(|path| format!("  curl -s {base}/{path}"))
        .collect();
    lines.join("\n")
}

/// The URL without a slash at its end.
pub(crate) fn base_url(address: SocketAddr, base_path: &str) -> String {
    let path = base_path.trim_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    format!("http://{address}{slash}{path}")
}

/// A runtime with as many threads as were asked for.
pub(crate) fn runtime(globals: &Globals) -> Result<Runtime, CliError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = globals.threads {
        builder.worker_threads(threads);
    }
    Ok(builder.enable_all().build()?)
}

/// Ready at ctrl-c, and at the SIGTERM of a service manager. Both are caught from now on, whether or
/// not the future is waited for.
#[cfg(unix)]
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()> + Send + 'static, CliError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Ready at ctrl-c.
#[cfg(not(unix))]
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()> + Send + 'static, CliError> {
    Ok(async {
        // An error means that there is no such signal here, and nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// Logs go to stderr, like everything that is no result.
fn start_log(level: &str, globals: &Globals) -> Result<(), CliError> {
    let level = if globals.quiet { "error" } else { level };
    let filter = EnvFilter::try_new(level)
        .map_err(|error| CliError::usage(format!("--log-level {level}: {error}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}
