//! `nutfilter demo`: serves a sample mint, restores a wallet from it, and prints the figures.

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use clap::Args;
use nutfilter_cashu::{KeysetId, NoteKind, PointKind};
use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
use nutfilter_mint::{FilterSite, Monitor, RefreshOptions, Refresher};
use nutfilter_objects::{Opened, Table};
use nutfilter_serve::Limits;
use nutfilter_testing::{Sample, signatures, states};
use nutfilter_wallet::{MintClient, Outcome, Policy, Restore, RestoreOptions, Restored};
use serde_json::{Value, json};

use crate::commands::serve;
use crate::error::CliError;
use crate::io::output::{self, count};
use crate::log;
use crate::messages::{self, Globals};

/// Default number of notes of each kind: realistic, and finished in about a second.
const DEFAULT_ITEMS: u64 = 100_000;

/// Maximum number of notes of each kind. They take 27 GB; more would fill the disk without showing anything new.
const MAX_ITEMS: u64 = 50_000_000;

/// The wallet's candidates: how many of them are spent, live and unused.
const SPENT: usize = 2_000;
const LIVE: usize = 500;
const UNUSED: usize = 2_500;

/// Files for trying `nutfilter check` and `nutfilter restore`.
const FILTER_FILE: &str = "spent.json";
const WALLET_FILE: &str = "wallet.hex";
const PAIRS_FILE: &str = "pairs";

const NOTES: &str = "\
The sample database takes about 55 MB per 100,000 items, in the temporary
directory (TMPDIR) or in the directory of --keep. With --once and without
--keep, the database is removed. A filter and a wallet for `nutfilter check`
then stay in a temporary directory (less than 2 MB by default). The mint answers
`/v1/checkstate` and `/v1/restore` for this wallet; its signatures are invalid.";

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct DemoArgs {
    /// Notes of each kind, spent and issued, in the sample mint.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ITEMS, value_parser = clap::value_parser!(u64).range(1..=MAX_ITEMS))]
    items: u64,

    /// Exit after printing the figures, instead of serving until ctrl-c.
    #[arg(long)]
    once: bool,

    /// Write the sample database and the files to this new directory and keep
    /// them.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// The name that CDK gives its database.
const DATABASE: &str = "cdk-mintd.sqlite";

/// Commands to paste into a shell.
fn lines_to_try(base: &str, keyset: &KeysetId, pairs: &Path) -> String {
    // Filters are large, so they are not printed to a terminal.
    [
        format!("  curl -s {base}/health"),
        format!("  curl -s {base}/v1/keysets"),
        format!("  curl -sI {base}/v1/filter/spent/{keyset}"),
        format!("  curl -s -o issued.json {base}/v1/filter/issued/{keyset}"),
        format!(
            "  {} restore --mint {base} --keyset {keyset} {}",
            this_program(),
            shell_word(pairs)
        ),
    ]
    .join("\n")
}

pub(crate) fn run(args: DemoArgs, globals: &Globals) -> Result<(), CliError> {
    log::start_demo(globals);
    let runtime = serve::runtime()?;
    let result = runtime.block_on(demonstrate(&args, *globals));
    // After a ctrl-c the run may still be working; do not wait for it.
    runtime.shutdown_background();
    result
}

async fn demonstrate(args: &DemoArgs, globals: Globals) -> Result<(), CliError> {
    // From here on this command handles ctrl-c, and removes its temporary directory.
    let interrupted = serve::stop_signal(1)?;
    let end = serve::stop_signal(1)?;
    let at_once = serve::stop_signal(2)?;
    if let Some(keep) = &args.keep {
        std::fs::create_dir(keep).map_err(|error| CliError::at(keep.display(), error))?;
    }
    let temporary = tempfile::Builder::new().prefix("nutfilter-demo-").tempdir()?;
    let work = args.keep.as_deref().unwrap_or(temporary.path()).to_owned();
    let listener = nutfilter_serve::listen("127.0.0.1:0").await?;
    let base = format!("http://{}", listener.local_addr()?);
    let monitor = Monitor::new(Arc::new(Table::in_memory()));
    let interval = Duration::from_secs(60);
    let site = FilterSite::new(Arc::clone(&monitor), interval, false, Duration::MAX);
    let router = nutfilter_serve::router(site);
    let sample = Sample::new(args.items, args.items);
    let wallet = Arc::new(Wallet::new(&sample));
    let router = router.merge(wallet.clone().mint(sample.keyset.clone()));
    let limits = Limits::default();
    let server = tokio::spawn(nutfilter_serve::serve(listener, router, limits, end));

    let keyset = sample.keyset.clone();
    let run = DemoRun {
        sample,
        wallet,
        work: work.clone(),
        monitor,
        base: base.clone(),
        stays: match (&args.keep, args.once) {
            (None, true) => {
                let path = work.display();
                format!("A filter and a wallet stay in {path}; remove it when you are done.\n")
            }
            _ => String::new(),
        },
        globals,
    };
    let pairs = run.path(PAIRS_FILE);
    tokio::select! {
        done = tokio::task::spawn_blocking(move || run.run()) => {
            done.map_err(CliError::failed)??;
        }
        () = interrupted => return Err(CliError::failed("interrupted")),
    }
    if args.once {
        if args.keep.is_none() {
            std::fs::remove_file(work.join(DATABASE))?;
            let _ = temporary.keep();
        }
        return Ok(());
    }
    // Print this even with --quiet: a service without a known address is useless.
    let lines = lines_to_try(&base, &keyset, &pairs);
    messages::eprint_line(format_args!("\nServing until ctrl-c. Try\n{lines}"));
    tokio::select! {
        served = server => served.map_err(CliError::failed),
        () = at_once => Err(serve::stopped_at_once()),
    }
}

/// One run, from an empty disk to results in a wallet. All of it blocks.
struct DemoRun {
    sample: Sample,
    wallet: Arc<Wallet>,
    /// The directory for all files.
    work: PathBuf,
    monitor: Arc<Monitor>,
    base: String,
    /// Says where files stay after the end, if any do.
    stays: String,
    globals: Globals,
}

/// A wallet that has only its seed: what it derives for each counter.
struct Wallet {
    /// `B_` and `Y`. The spent ones come first, then the live and the unused ones.
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    spent: Range<usize>,
    live: Range<usize>,
}

impl Wallet {
    /// Pairs notes of the sample. Half of them are not points of the curve, and belong to nobody.
    fn new(sample: &Sample) -> Self {
        let of = |kind, indexes: Range<u64>, number| -> Vec<Vec<u8>> {
            let notes = indexes.map(|index| sample.note(kind, index));
            let notes = notes.filter(|note| PointKind::on_curve(note).is_some());
            notes.take(number).collect()
        };
        let mut messages = of(NoteKind::Issued, 0..sample.issued, SPENT + LIVE);
        let issued = messages.len();
        let mut ys = of(NoteKind::Spent, 0..sample.spent, SPENT.min(issued * 4 / 5));
        let spent = ys.len();
        messages.extend(of(NoteKind::Issued, sample.issued..u64::MAX, UNUSED));
        let unspent = messages.len() - spent;
        ys.extend(of(NoteKind::Spent, sample.spent..u64::MAX, unspent));
        Self { pairs: messages.into_iter().zip(ys).collect(), spent: 0..spent, live: spent..issued }
    }

    /// What a mint answers about this wallet (NUT-07 and NUT-09).
    fn mint(self: Arc<Self>, keyset: KeysetId) -> Router {
        let hex = const_hex::encode::<&Vec<u8>>;
        let issued = self.pairs[..self.live.end].iter();
        let issued: HashSet<_> = issued.map(|(message, _)| hex(message)).collect();
        let spent = self.pairs[self.spent.clone()].iter();
        let spent: HashSet<_> = spent.map(|(_, y)| hex(y)).collect();
        let checkstate = move |body: String| async move {
            let state = |y: &str| if spent.contains(y) { "SPENT" } else { "UNSPENT" };
            states(&parsed(&body), state).to_string()
        };
        let restore = move |body: String| async move {
            let sign = |message: &str, _: &Value| {
                // A point that no key has made: the message itself.
                let signature = json!({"amount": 1, "id": keyset.as_str(), "C_": message});
                issued.contains(message).then_some(signature)
            };
            signatures(&parsed(&body), sign).to_string()
        };
        Router::new().route("/v1/checkstate", post(checkstate)).route("/v1/restore", post(restore))
    }
}

fn parsed(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_default()
}

/// What the wallet got.
struct WalletRestore {
    restored: Restored,
    /// A line about each filter, and the bytes of both.
    filters: String,
    bytes: usize,
    look_up: Duration,
    ask: Duration,
}

impl DemoRun {
    fn run(self) -> Result<(), CliError> {
        self.write_sample()?;
        self.refresh()?;
        let found = self.restore()?;
        self.write_files()?;
        let text = format!(
            "{}{}\n\n{}Try\n  {} check {} {} --count\n",
            found.filters,
            self.conclusion(&found),
            self.stays,
            this_program(),
            shell_word(&self.path(FILTER_FILE)),
            shell_word(&self.path(WALLET_FILE)),
        );
        output::print(text.as_bytes())?;
        self.verify(&found.restored)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    fn write_sample(&self) -> Result<(), CliError> {
        let database = self.path(DATABASE);
        let step = DemoStep::start(&self.globals, 1, "write the database of a sample mint");
        let written = self.sample.write(&database);
        written.map_err(|error| CliError::at(database.display(), error))?;
        step.finish(format_args!(
            "{} spent and {} issued notes, {}",
            count(self.sample.spent),
            count(self.sample.issued),
            output::size(std::fs::metadata(&database)?.len()),
        ));
        Ok(())
    }

    fn refresh(&self) -> Result<(), CliError> {
        let location = DatabaseLocation::from(self.path(DATABASE).as_path());
        let source = SqliteSource::open(&location, None)?;
        let monitor = Arc::clone(&self.monitor);
        let mut refresher = Refresher::new(source, monitor, RefreshOptions::default());
        let step = DemoStep::start(&self.globals, 2, "read it and build the filters");
        let mut report = refresher.refresh(true).map_err(CliError::failed)?;
        if let Some((what, error)) = report.failures.pop() {
            return Err(CliError::at(what, error));
        }
        // There is one keyset, so each kind has one filter.
        let bytes: usize =
            NoteKind::ALL.map(|kind| self.body(kind).map_or(0, |body| body.len())).iter().sum();
        step.finish(format_args!(
            "{} filters, {} as JSON",
            report.encoded,
            output::size(bytes as u64)
        ));
        Ok(())
    }

    /// The filter of a kind as it is served.
    fn body(&self, kind: NoteKind) -> Result<Vec<u8>, CliError> {
        let path = format!("v1/filter/{kind}/{}", self.sample.keyset);
        match self.monitor.table().open(&path, false)? {
            Some((_, Opened::Memory(bytes))) => Ok(bytes.to_vec()),
            _ => Err(CliError::failed("no filter is served")),
        }
    }

    /// Does what a wallet does that has only its seed: fetches both filters, looks its candidates up, and asks the mint
    /// about the live ones.
    fn restore(&self) -> Result<WalletRestore, CliError> {
        let pairs = &self.wallet.pairs;
        let step = DemoStep::start(&self.globals, 3, "restore a wallet");
        let client = MintClient::new(&self.base, Policy::default())?;
        let keyset = &self.sample.keyset;
        let (mut lines, mut bytes, mut filters) = (String::new(), 0, Vec::new());
        for kind in [NoteKind::Issued, NoteKind::Spent] {
            let start = Instant::now();
            let filter = client.fetch(keyset, kind)?;
            let fetch = start.elapsed();
            let (n, size) = (filter.n(), filter.filter().bytes().len());
            let bits = size as f64 * 8.0 / f64::from(n);
            lines += &format!(
                "The filter of {} {kind} notes has {} bytes, {bits:.3} bits per note; fetched and validated in {}.\n",
                count(n.into()),
                count(size as u64),
                time(fetch)
            );
            bytes += self.body(kind)?.len();
            filters.push(filter);
        }
        let [issued, spent] = &filters[..] else {
            return Err(CliError::failed("the mint has no filters"));
        };
        let options = RestoreOptions::default();
        let start = Instant::now();
        let restore = Restore::new(keyset, &pairs[..], spent, issued, &options, client.policy());
        let restore = restore.map_err(CliError::failed)?;
        let look_up = start.elapsed();
        let start = Instant::now();
        let restored = client.resume(restore, &pairs[..]).map_err(CliError::failed)?;
        let ask = start.elapsed();
        step.finish(format_args!("{} candidates", count(pairs.len() as u64)));
        Ok(WalletRestore { restored, filters: lines, bytes, look_up, ask })
    }

    /// Writes the response as served, and the wallet.
    fn write_files(&self) -> Result<(), CliError> {
        let (mut ys, mut pairs) = (String::new(), String::new());
        for (message, y) in &self.wallet.pairs {
            let [message, y] = [message, y].map(const_hex::encode);
            ys += &format!("{y}\n");
            pairs += &format!("{message}\t{y}\n");
        }
        std::fs::write(self.path(FILTER_FILE), self.body(NoteKind::Spent)?)?;
        std::fs::write(self.path(WALLET_FILE), ys)?;
        std::fs::write(self.path(PAIRS_FILE), pairs)?;
        Ok(())
    }

    /// What the wallet got, and what the mint was shown.
    fn conclusion(&self, found: &WalletRestore) -> String {
        let number = |word| {
            let outcomes = found.restored.outcomes.iter();
            count(outcomes.filter(|outcome| outcome.word() == word).count() as u64)
        };
        let live = number("live");
        let mut text = format!(
            "Of {} candidates, {} are spent, {live} live and {} unused: looked up in {}, signatures in {}.\n\
             The mint was shown the messages of the {live} live notes, and nothing else. Downloaded: {:.2} MB.",
            count(self.wallet.pairs.len() as u64),
            number("spent"),
            number("unused"),
            time(found.look_up),
            time(found.ask),
            found.bytes as f64 / 1e6,
        );
        if let Some(chance) = found.restored.chance {
            let _ = write!(text, "\nThe chance is {chance}.");
        }
        text
    }

    /// Fails if a filter has false negatives: such a filter is worse than none.
    fn verify(&self, restored: &Restored) -> Result<(), CliError> {
        for (place, outcome) in restored.outcomes.iter().enumerate() {
            let is_right = match outcome {
                Outcome::Spent => place < self.wallet.live.end,
                Outcome::Live(_) => self.wallet.live.contains(&place),
                _ => place >= self.wallet.live.end,
            };
            if !is_right {
                let word = outcome.word();
                return Err(CliError::failed(format_args!("candidate {place} is not {word}")));
            }
        }
        Ok(())
    }
}

/// A numbered step, with a line when it is finished.
struct DemoStep {
    number: u32,
    what: &'static str,
    start: Instant,
    globals: Globals,
}

/// The steps are: write, build, restore.
const STEPS: u32 = 3;

impl DemoStep {
    fn start(globals: &Globals, number: u32, what: &'static str) -> Self {
        Self { number, what, start: Instant::now(), globals: *globals }
    }

    fn finish(self, result: impl fmt::Display) {
        let (number, what) = (self.number, self.what);
        let took = time(self.start.elapsed());
        let line = format_args!("{number}/{STEPS} {what}: {result} ({took})");
        self.globals.note(line);
    }
}

/// The path of this program. `cargo run` installs no `nutfilter`.
fn this_program() -> String {
    shell_word(&std::env::current_exe().unwrap_or_else(|_| "nutfilter".into()))
}

/// Quotes a path for a shell.
fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match path.chars().all(plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

/// Formats a duration in a unit that leaves a few significant digits.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}
