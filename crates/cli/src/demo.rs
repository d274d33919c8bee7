//! `nutfilter demo`: serves a sample mint, restores a wallet from it, and prints the figures.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use nutfilter_cashu::{FilterResponse, KeysetId, NoteKind};
use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
use nutfilter_mint::{Monitor, RefreshOptions, Refresher};
use nutfilter_objects::{Opened, Table};
use nutfilter_sample::{Sample, SampleError};
use nutfilter_serve::{Limits, Listener};
use nutfilter_wallet::{Answer, MintClient, Policy};

use crate::error::CliError;
use crate::globals::{self, Globals};
use crate::log;
use crate::output::{self, count};
use crate::progress::Progress;
use crate::serve::{self, Service};
use crate::value_parsers;

/// Default number of notes of each kind: realistic, and finished in about a second.
const DEFAULT_ITEMS: u64 = 100_000;

/// Maximum number of notes of each kind. They take 27 GB; more would fill the disk without showing anything new.
const MAX_ITEMS: u64 = 50_000_000;

/// Number of notes of each kind that the wallet checks. The mint knows half of them.
const RESTORED: u64 = 5_000;

/// The database name of the Cashu Development Kit.
const DATABASE: &str = "cdk-mintd.sqlite";

/// Files for trying `nutfilter check`.
const FILTER_FILE: &str = "spent.json";
const WALLET_FILE: &str = "wallet.hex";

const NOTES: &str = "\
The sample database takes about 55 MB per 100,000 items, in the temporary directory (TMPDIR) or in the
directory of --keep. With --once and without --keep, the database is removed. A filter and a list of notes for
`nutfilter check` then stay in a temporary directory (less than 1 MB by default).";

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct DemoArgs {
    /// Notes of each kind, spent and issued, in the sample mint, such as 1000000, 1e6 or 1M.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ITEMS, value_parser = parse_items)]
    items: u64,

    /// Exit after printing the figures, instead of serving until ctrl-c.
    #[arg(long)]
    once: bool,

    /// Write the sample database and the files to this directory and keep them.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Commands to paste into a shell.
fn curl_lines(base: &str, keyset: &KeysetId) -> String {
    // Filters are large, so they are not printed to a terminal.
    [
        format!("  curl -s {base}/health"),
        format!("  curl -s {base}/v1/keysets"),
        format!("  curl -sI {base}/v1/filter/spent/{keyset}"),
        format!("  curl -s -o issued.json {base}/v1/filter/issued/{keyset}"),
    ]
    .join("\n")
}

fn parse_items(text: &str) -> Result<u64, String> {
    let items = value_parsers::count(text)?;
    match items {
        1..=MAX_ITEMS => Ok(items),
        _ => Err(format!("{items} is not in 1..={MAX_ITEMS}")),
    }
}

pub(crate) fn run(args: DemoArgs, globals: &Globals) -> Result<(), CliError> {
    log::start_demo(globals);
    let runtime = serve::runtime(globals)?;
    let result = runtime.block_on(demonstrate(&args, *globals));
    // After a ctrl-c the run may still be working; do not wait for it.
    runtime.shutdown_background();
    result
}

async fn demonstrate(args: &DemoArgs, globals: Globals) -> Result<(), CliError> {
    // From here on this command handles ctrl-c, and removes everything that it creates.
    let interrupted = serve::stop_signal(1)?;
    let end = serve::stop_signal(1)?;
    let at_once = serve::stop_signal(2)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix("nutfilter-demo-");
    let work = match &args.keep {
        None => builder.tempdir()?,
        Some(keep) => {
            let at_keep = |error| CliError::at(keep.display(), error);
            std::fs::create_dir_all(keep).map_err(at_keep)?;
            builder.tempdir_in(keep).map_err(at_keep)?
        }
    };
    let listener = Listener::tcp("127.0.0.1:0").await?;
    let base = listener.to_string();
    let monitor = Monitor::new(Arc::new(Table::in_memory()));
    let router = nutfilter_serve::router(Service {
        monitor: Arc::clone(&monitor),
        info: None,
        ready_within: Duration::MAX,
        max_age: Duration::from_secs(60),
    });
    let limits = Limits::default();
    let server = tokio::spawn(nutfilter_serve::serve(vec![listener], router, limits, end));

    let sample = Sample::new(args.items, args.items);
    let keyset = sample.keyset.clone();
    let run = DemoRun {
        sample,
        work: work.path().to_owned(),
        keep: args.keep.clone(),
        monitor,
        base: base.clone(),
        stays: match (&args.keep, args.once) {
            (None, true) => {
                let path = work.path().display();
                format!("A filter and a wallet stay in {path}; remove it when you are done.\n")
            }
            _ => String::new(),
        },
        globals,
    };
    tokio::select! {
        done = tokio::task::spawn_blocking(move || run.run()) => {
            done.map_err(CliError::failed)??;
        }
        () = interrupted => return Err(CliError::failed("interrupted")),
    }
    if args.once {
        if args.keep.is_none() {
            std::fs::remove_file(work.path().join(DATABASE))?;
            let _ = work.keep();
        }
        return Ok(());
    }
    // Print this even with --quiet: a service without a known address is useless.
    let lines = curl_lines(&base, &keyset);
    globals::eprint_line(format_args!("\nServing until ctrl-c. Try\n{lines}"));
    tokio::select! {
        served = server => served.map_err(CliError::failed),
        () = at_once => Err(serve::stopped_at_once()),
    }
}

/// One run, from an empty disk to results in a wallet. All of it blocks.
struct DemoRun {
    sample: Sample,
    /// A temporary directory for all files, removed if the run is interrupted.
    work: PathBuf,
    /// Where the files go in the end, on the same disk, unless they stay there.
    keep: Option<PathBuf>,
    monitor: Arc<Monitor>,
    base: String,
    /// Says where files stay after the end, if any do.
    stays: String,
    globals: Globals,
}

/// All figures about one filter.
struct Column {
    kind: NoteKind,
    n: u32,
    filter_bytes: usize,
    body_bytes: usize,
    restored: Restored,
}

/// The results of one filter in the wallet.
struct Restored {
    fetch: Duration,
    check: Duration,
    /// Number of notes that the mint knows and that matched.
    known_matched: u64,
    /// Number of notes that the mint knows. All of them must match.
    known: u64,
    /// Number of notes that the mint does not know and that matched by chance.
    false_positives: u64,
    unknown: u64,
}

impl DemoRun {
    fn run(self) -> Result<(), CliError> {
        self.write_sample()?;
        self.refresh()?;
        let columns = self.restore_all()?;
        self.write_files()?;
        let spent = columns
            .iter()
            .find(|column| column.kind == NoteKind::Spent)
            .ok_or_else(|| CliError::failed("the mint has no filter of spent notes"))?;
        let text = format!(
            "{}\n{}\n\n{}Try\n  {} check {} {} --count\n",
            table(&columns),
            conclusion(spent),
            self.stays,
            // `cargo run` installs no `nutfilter`.
            shell_word(&std::env::current_exe().unwrap_or_else(|_| "nutfilter".into())),
            shell_word(&self.path(FILTER_FILE)),
            shell_word(&self.path(WALLET_FILE)),
        );
        output::print(text.as_bytes())?;
        verify(&columns)
    }

    /// The path of a file in the end.
    fn path(&self, name: &str) -> PathBuf {
        self.keep.as_ref().unwrap_or(&self.work).join(name)
    }

    fn write_sample(&self) -> Result<(), CliError> {
        // Check this before writing the database, which takes time.
        for name in [DATABASE, FILTER_FILE, WALLET_FILE] {
            let path = self.path(name);
            if path.try_exists().unwrap_or(true) {
                return Err(CliError::failed(SampleError::Exists { path }));
            }
        }
        let database = self.work.join(DATABASE);
        let total = self.sample.spent + self.sample.issued;
        let step = Step::start(
            &self.globals,
            1,
            "write the database of a sample mint",
            total,
        );
        self.sample
            .write(&database, &mut |written| step.progress.set(written.written))
            .map_err(CliError::failed)?;
        step.finish(format_args!(
            "{} spent and {} issued notes, {}",
            count(self.sample.spent),
            count(self.sample.issued),
            output::size(std::fs::metadata(&database)?.len()),
        ));
        Ok(())
    }

    fn refresh(&self) -> Result<(), CliError> {
        let location = DatabaseLocation::from(self.work.join(DATABASE).as_path());
        let source = SqliteSource::open(&location, None)?;
        let monitor = Arc::clone(&self.monitor);
        let mut refresher = Refresher::new(source, monitor, RefreshOptions::default());
        let total = self.sample.spent + self.sample.issued;
        let step = Step::start(&self.globals, 2, "read it and build the filters", total);
        let mut report = refresher.refresh(true).map_err(CliError::failed)?;
        if let Some((what, error)) = report.failures.pop() {
            return Err(CliError::at(what, error));
        }
        // There is one keyset, so each kind has one filter.
        let bytes: usize = NoteKind::ALL
            .map(|kind| self.body(kind).map_or(0, |body| body.len()))
            .iter()
            .sum();
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

    fn restore_all(&self) -> Result<Vec<Column>, CliError> {
        let total = RESTORED * NoteKind::ALL.len() as u64;
        let what = "download them and check a wallet's notes";
        let step = Step::start(&self.globals, 3, what, total);
        let mut columns = Vec::new();
        let mut checked = 0;
        for kind in NoteKind::ALL {
            let body = self.body(kind)?;
            let response = FilterResponse::from_json(&body[..]).map_err(CliError::failed)?;
            let restored = self.restore(kind, body.len())?;
            checked += restored.known + restored.unknown;
            step.progress.set(checked);
            columns.push(Column {
                kind,
                n: response.n,
                filter_bytes: response.content.len(),
                body_bytes: body.len(),
                restored,
            });
        }
        step.finish(format_args!("{} notes", count(checked)));
        Ok(columns)
    }

    /// Writes the response as served, and the notes that were checked. The files go where they are kept.
    fn write_files(&self) -> Result<(), CliError> {
        std::fs::write(self.work.join(FILTER_FILE), self.body(NoteKind::Spent)?)?;
        let notes = self.notes(NoteKind::Spent);
        let lines: String = notes
            .iter()
            .map(|note| const_hex::encode(note) + "\n")
            .collect();
        std::fs::write(self.work.join(WALLET_FILE), lines)?;
        if self.keep.is_some() {
            for name in [DATABASE, FILTER_FILE, WALLET_FILE] {
                let path = self.path(name);
                std::fs::rename(self.work.join(name), &path)
                    .map_err(|error| CliError::at(path.display(), error))?;
            }
        }
        Ok(())
    }

    /// The notes that the wallet checks: known notes from the mint's whole lifetime, and as many unknown ones.
    fn notes(&self, kind: NoteKind) -> Vec<Vec<u8>> {
        let all = self.sample.count(kind);
        let known = (RESTORED / 2).min(all);
        let indexes = (0..known)
            .map(|i| i * (all / known))
            .chain(all..all + known);
        indexes.map(|index| self.sample.note(kind, index)).collect()
    }

    /// Does what a wallet does that has only its seed: derives notes, fetches the filter, and checks them.
    fn restore(&self, kind: NoteKind, body_bytes: usize) -> Result<Restored, CliError> {
        let notes = self.notes(kind);

        let default = Policy::default();
        let max_bytes = default.max_bytes.max(body_bytes as u64);
        let client = MintClient::new(
            &self.base,
            Policy {
                max_bytes,
                ..default
            },
        )?;
        let start = Instant::now();
        let filter = client.fetch(&self.sample.keyset, kind)?;
        let fetch = start.elapsed();
        let start = Instant::now();
        let answers = filter.check(&notes)?;
        let check = start.elapsed();

        let (of_known, of_unknown) = answers.split_at(notes.len() / 2);
        Ok(Restored {
            fetch,
            check,
            known_matched: maybes(of_known),
            known: of_known.len() as u64,
            false_positives: maybes(of_unknown),
            unknown: of_unknown.len() as u64,
        })
    }
}

/// A numbered step with its progress, and a line when it is finished.
struct Step {
    number: u32,
    what: &'static str,
    progress: Progress,
    start: Instant,
    globals: Globals,
}

/// The steps are: write, build, check.
const STEPS: u32 = 3;

impl Step {
    fn start(globals: &Globals, number: u32, what: &'static str, total: u64) -> Self {
        let text = format!("{number}/{STEPS} {what}");
        Self {
            number,
            what,
            progress: Progress::items(globals, text, Some(total)),
            start: Instant::now(),
            globals: *globals,
        }
    }

    fn finish(self, result: impl fmt::Display) {
        drop(self.progress);
        let (number, what) = (self.number, self.what);
        let took = time(self.start.elapsed());
        let line = format_args!("{number}/{STEPS} {what}: {result} ({took})");
        self.globals.note(line);
    }
}

/// The conclusion about the spent notes.
fn conclusion(column: &Column) -> String {
    let restored = &column.restored;
    format!(
        "{} of {} spent notes found, {} false positives; downloaded {:.2} MB; the mint learned 0 notes.",
        count(restored.known_matched),
        count(restored.known),
        count(restored.false_positives),
        column.body_bytes as f64 / 1e6,
    )
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

fn maybes(answers: &[Answer]) -> u64 {
    answers
        .iter()
        .filter(|answer| matches!(answer, Answer::MaybePresent))
        .count() as u64
}

/// Fails if a filter has false negatives: such a filter is worse than none.
fn verify(columns: &[Column]) -> Result<(), CliError> {
    for Column { kind, restored, .. } in columns {
        if restored.known_matched != restored.known {
            return Err(CliError::failed(format_args!(
                "of {} {kind} notes only {} were found",
                restored.known, restored.known_matched
            )));
        }
    }
    Ok(())
}

fn table(columns: &[Column]) -> String {
    type Cell = fn(&Column) -> String;
    let rows: [(&str, Cell); 11] = [
        ("", |of| of.kind.to_string()),
        ("notes in the filter", |of| count(u64::from(of.n))),
        ("filter, bytes", |of| count(of.filter_bytes as u64)),
        ("bits per note", |of| {
            let bits = of.filter_bytes as f64 * 8.0;
            format!("{:.3}", bits / f64::from(of.n))
        }),
        ("response, bytes", |of| count(of.body_bytes as u64)),
        ("wallet: fetch, validate", |of| time(of.restored.fetch)),
        ("wallet: check all notes", |of| time(of.restored.check)),
        ("notes checked", |of| {
            count(of.restored.known + of.restored.unknown)
        }),
        ("known to the mint", |of| count(of.restored.known)),
        ("found", |of| count(of.restored.known_matched)),
        ("false positives", |of| count(of.restored.false_positives)),
    ];
    let mut text = String::new();
    for (name, cell) in rows {
        // Writing to a string cannot fail.
        let _ = write!(text, "{name:<26}");
        for column in columns {
            let _ = write!(text, "{:>14}", cell(column));
        }
        text.push('\n');
    }
    text
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
