//! `nutfilter serve`: the filters of a mint's database, over HTTP.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
use nutfilter_mint::{
    FilterService, Kind, MintType, Publisher, Refresher, ServiceOptions, Snapshot, http,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tracing_subscriber::filter::LevelFilter;

use crate::error::CliError;
use crate::globals::Globals;
use crate::log;
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
        env = unless_empty("MINT_DATABASE"),
        hide_env_values = true
    )]
    mint_database: String,

    /// Whose database it is [default: recognised by its tables].
    #[arg(long, value_name = "TYPE", env = unless_empty("MINT_TYPE"), ignore_case = true,
          value_parser = names::mint_type())]
    mint_type: Option<MintType>,

    /// Where to listen, instead of --host and --port. Port 0 takes any that is free.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,

    /// Address to listen at.
    #[arg(long, env = unless_empty("SERVER_HOST"), default_value = DEFAULT_HOST)]
    host: String,

    /// Port to listen at.
    #[arg(long, env = unless_empty("SERVER_PORT"), default_value_t = DEFAULT_PORT)]
    port: u16,

    /// The mint's own URL. With it, /v1/keysets is left to the mint.
    #[arg(long, value_name = "URL", env = unless_empty("MINT_API"))]
    mint_api: Option<String>,

    /// Seconds from one reading of the database to the next.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_REFRESH_SECONDS,
          value_parser = clap::value_parser!(u64).range(1..))]
    refresh: u64,

    /// Serve everything under this path, as in /Bitcoin/v1/filter/..
    #[arg(long, value_name = "PATH", default_value = "/")]
    base_path: String,

    /// The least that is worth a line in the log. With --quiet it is `error`.
    #[arg(long, value_name = "LEVEL", env = unless_empty("LOG_LEVEL"), default_value = "info",
          ignore_case = true, value_parser = log::level())]
    log_level: LevelFilter,
}

const EXAMPLES: &str = "\
Examples:
  nutfilter serve --mint-database /var/lib/cdk-mintd/cdk-mintd.sqlite
  nutfilter serve --mint-database data/mint --listen 127.0.0.1:3339 --mint-api https://mint.example
  MINT_DATABASE=mint.sqlite3 SERVER_PORT=8080 LOG_LEVEL=debug nutfilter serve";

pub(crate) fn run(args: ServeArgs, globals: &Globals) -> Result<(), CliError> {
    log::start_service(args.log_level, globals);
    let options = ServiceOptions::default().serve_keysets(!has_api(&args)?);
    let service = FilterService::new(options);
    let router = http::under(&args.base_path, http::router(service.clone()))
        .map_err(|error| CliError::usage(error.to_string()))?;
    let location = DatabaseLocation::parse(&args.mint_database)?;
    let source = SqliteSource::open(&location, args.mint_type)?;
    let mint = source.mint_type();

    let runtime = runtime(globals)?;
    let result = runtime.block_on(async {
        let (stop, at_once) = (stop_signal(1)?, stop_signal(2)?);
        let listener = listen(&args).await?;
        let base = base_url(listener.local_addr()?, &args.base_path);
        globals.note(format_args!(
            "listening on {base}, reading the database of a {mint} mint"
        ));
        let publisher = Publisher::new(source, service.clone());
        let refresher = Refresher::start(publisher, Duration::from_secs(args.refresh))?;
        let announcement = tokio::spawn(announce(service, base, *globals));
        let orderly = async {
            let served = http::serve(listener, router, stop).await;
            announcement.abort();
            let ending = tokio::task::spawn_blocking(|| refresher.stop(REFRESHER_PATIENCE));
            if !ending.await.map_err(CliError::failed)? {
                tracing::warn!("a query is still being answered, and ends with the process");
            }
            globals.note("stopped");
            Ok(served?)
        };
        tokio::select! {
            result = orderly => result,
            () = at_once => Err(stopped_at_once()),
        }
    });
    // What is not over by now ends with the process.
    runtime.shutdown_background();
    result
}

/// For who asked to stop, and then did not want to wait for it.
pub(crate) fn stopped_at_once() -> CliError {
    CliError::failed("stopped at the second signal, without waiting for requests under way")
}

/// The name of a variable of the environment, unless it is empty: compose files write `NAME=` for what
/// nobody has set.
fn unless_empty(name: &'static str) -> Option<&'static str> {
    match std::env::var_os(name) {
        Some(value) if value.is_empty() => None,
        _ => Some(name),
    }
}

/// Whether the mint answers for itself, at a URL that is one.
fn has_api(args: &ServeArgs) -> Result<bool, CliError> {
    match args.mint_api.as_deref() {
        None => Ok(false),
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
    // One keyset shows how it goes; an active one is the likeliest to be asked for.
    let active = snapshot.keysets().find(|keyset| keyset.info.active);
    if let Some(keyset) = active.or_else(|| snapshot.keysets().next()) {
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

/// A runtime that answers on as many threads as were asked for; filters are built on others.
pub(crate) fn runtime(globals: &Globals) -> Result<Runtime, CliError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = globals.threads {
        builder.worker_threads(threads);
    }
    Ok(builder.enable_all().build()?)
}

/// Ready at the `nth` ctrl-c or SIGTERM, the signal of service managers. Both are caught from now on,
/// whether or not the future is waited for.
#[cfg(unix)]
pub(crate) fn stop_signal(nth: u32) -> Result<impl Future<Output = ()> + Send + 'static, CliError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        for _ in 0..nth {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
    })
}

/// Ready at the `nth` ctrl-c.
#[cfg(not(unix))]
pub(crate) fn stop_signal(nth: u32) -> Result<impl Future<Output = ()> + Send + 'static, CliError> {
    Ok(async {
        for _ in 0..nth {
            // An error means that there is no such signal here, and nothing to wait for.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use nutfilter_mint::source::KeysetInfo;
    use nutfilter_mint::{KeysetEntry, KeysetId};

    use super::*;

    /// The lines for a mint with three keysets, some of them active.
    fn lines(active: [bool; 3]) -> String {
        let ids = ["001111111111111a", "002222222222222b", "003333333333333c"];
        let entry = |(id, active)| KeysetEntry {
            info: KeysetInfo {
                id: KeysetId::parse(id).unwrap(),
                unit: None,
                active,
                input_fee_ppk: 0,
            },
            spent: None,
            issued: None,
        };
        let entries = ids.into_iter().zip(active).map(entry).collect();
        curl_lines("http://mint", &Snapshot::new(entries, 0), true)
    }

    #[test]
    fn an_active_keyset_is_shown_wherever_it_is_and_the_first_one_if_there_is_none() {
        for (active, id) in [
            ([true, false, false], "001111111111111a"),
            ([true, true, true], "001111111111111a"),
            ([false, true, false], "002222222222222b"),
            ([false, false, true], "003333333333333c"),
            ([false, false, false], "001111111111111a"),
        ] {
            let lines = lines(active);
            assert!(lines.contains(&format!("/v1/filter/spent/{id}")), "{lines}");
            assert_eq!(lines.lines().count(), 4, "{lines}");
        }
    }
}
