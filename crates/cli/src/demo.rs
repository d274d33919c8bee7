//! `nutfilter demo`: a sample mint, served and restored from, and what it took.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use nutfilter_mint::sample::{Sample, SampleError};
use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
use nutfilter_mint::{
    FilterReport, FilterService, Kind, Publisher, ReadingReport, RefreshReport, ServiceOptions,
    http,
};
use nutfilter_wallet::{Answer, MintClient, Policy};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::error::CliError;
use crate::globals::{self, Globals};
use crate::log;
use crate::output;
use crate::progress::Progress;
use crate::serve;

/// The notes of each kind unless told otherwise: a mint of some size, in some seconds.
const DEFAULT_ITEMS: u64 = 1_000_000;

/// More would fill the disk before they prove anything: these take 27 GB.
const MAX_ITEMS: u64 = 50_000_000;

/// The notes of a wallet that restores, half of them known to the mint.
const RESTORED: u64 = 5_000;

/// The name that the Cashu Development Kit gives to its database.
const DATABASE: &str = "cdk-mintd.sqlite";

const NOTES: &str = "\
The sample database of the default size takes about 550 MB in the temporary directory (TMPDIR), or in that
of --keep; other sizes take in proportion.";

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct DemoArgs {
    /// Notes of each kind, spent and issued, in the sample mint.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ITEMS,
          value_parser = clap::value_parser!(u64).range(1..=MAX_ITEMS))]
    items: u64,

    /// End when the figures are printed, instead of serving on.
    #[arg(long)]
    once: bool,

    /// Make the sample database in this directory and leave it there [default: a temporary one, removed].
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Where the sample database is.
enum Place {
    Kept {
        directory: PathBuf,
        /// In the directory, and so on the same disk: what is written there appears in the directory
        /// once it is whole.
        draft: TempDir,
    },
    /// Removed when this is dropped.
    Temporary(TempDir),
}

impl Place {
    fn new(keep: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = keep else {
            return Ok(Place::Temporary(temporary().tempdir()?));
        };
        let at_path = |error| CliError::at(path.display(), error);
        std::fs::create_dir_all(path).map_err(at_path)?;
        Ok(Place::Kept {
            directory: path.to_owned(),
            draft: temporary().tempdir_in(path).map_err(at_path)?,
        })
    }

    /// Where the database is to be in the end.
    fn database(&self) -> PathBuf {
        match self {
            Place::Kept { directory, .. } => directory.join(DATABASE),
            Place::Temporary(directory) => directory.path().join(DATABASE),
        }
    }

    /// Where it is written.
    fn draft(&self) -> PathBuf {
        match self {
            Place::Kept { draft, .. } | Place::Temporary(draft) => draft.path().join(DATABASE),
        }
    }
}

fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("nutfilter-demo-");
    builder
}

pub(crate) fn run(args: DemoArgs, globals: &Globals) -> Result<(), CliError> {
    log::start_demo(globals);
    let runtime = serve::runtime(globals)?;
    let result = runtime.block_on(demonstrate(&args, *globals));
    // After a ctrl-c the rehearsal may still be at work: it is not waited for.
    runtime.shutdown_background();
    result
}

async fn demonstrate(args: &DemoArgs, globals: Globals) -> Result<(), CliError> {
    // From here on a ctrl-c comes to us, and what is made from here on is removed.
    let interrupted = serve::stop_signal(1)?;
    let end = serve::stop_signal(1)?;
    let at_once = serve::stop_signal(2)?;
    let place = Place::new(args.keep.as_deref())?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let base = serve::base_url(listener.local_addr()?, "");
    let service = FilterService::new(ServiceOptions::default());
    let server = tokio::spawn(http::serve(listener, http::router(service.clone()), end));

    let rehearsal = Rehearsal {
        sample: Sample::new(args.items, args.items),
        draft: place.draft(),
        database: place.database(),
        service: service.clone(),
        base: base.clone(),
        globals,
    };
    tokio::select! {
        done = tokio::task::spawn_blocking(move || rehearsal.run()) => {
            done.map_err(CliError::failed)??;
        }
        () = interrupted => return Err(CliError::failed("interrupted")),
    }
    if args.once {
        return Ok(());
    }
    if let Some(snapshot) = service.snapshot() {
        let lines = serve::curl_lines(&base, &snapshot);
        // Who said --quiet and not --once wants to know all the same where it is served.
        globals::eprint_line(format_args!("\nserving on until ctrl-c; try\n{lines}"));
    }
    tokio::select! {
        served = server => Ok(served.map_err(CliError::failed)??),
        () = at_once => Err(serve::stopped_at_once()),
    }
}

/// One run from an empty disk to answers in a wallet. It blocks throughout.
struct Rehearsal {
    sample: Sample,
    draft: PathBuf,
    database: PathBuf,
    service: FilterService,
    base: String,
    globals: Globals,
}

/// Everything about one filter.
struct Column<'a> {
    reading: &'a ReadingReport,
    built: &'a FilterReport,
    restored: Restored,
}

/// What a wallet saw of one filter.
struct Restored {
    fetch: Duration,
    check: Duration,
    /// Notes that the mint knows, and that matched.
    known_matched: u64,
    /// Notes that the mint knows. All of them have to match.
    known: u64,
    /// Notes that the mint does not know, and that matched by chance.
    false_positives: u64,
    strangers: u64,
}

impl Rehearsal {
    fn run(self) -> Result<(), CliError> {
        let start = Instant::now();
        self.write_sample()?;
        let written = start.elapsed();
        let size = std::fs::metadata(&self.database)?.len();
        let report = self.publish()?;

        let mut columns = Vec::new();
        for (reading, built) in report.readings.iter().zip(&report.filters) {
            let restored = self.restore(built)?;
            columns.push(Column {
                reading,
                built,
                restored,
            });
        }
        let mut text = format!(
            "sample mint: {} spent and {} issued, a database of {}, written in {}\n\n",
            count(self.sample.spent),
            count(self.sample.issued),
            HumanBytes(size),
            time(written),
        );
        text += &table(&columns);
        output::print(text.as_bytes())?;
        verify(&columns)
    }

    fn write_sample(&self) -> Result<(), CliError> {
        // Before it takes its time.
        if self.database.try_exists().unwrap_or(true) {
            let path = self.database.clone();
            return Err(CliError::failed(SampleError::Exists { path }));
        }
        let progress = Progress::items(&self.globals, "writing the sample mint");
        let mut told = 0;
        let mut advance = |written: u64| {
            progress.advance(written - told);
            told = written;
        };
        self.sample
            .write(&self.draft, &mut |progress| advance(progress.written))
            .map_err(CliError::failed)?;
        std::fs::rename(&self.draft, &self.database)
            .map_err(|error| CliError::at(self.database.display(), error))
    }

    fn publish(&self) -> Result<RefreshReport, CliError> {
        let location = DatabaseLocation::from(self.database.as_path());
        let source = SqliteSource::open(&location, None)?;
        let mut publisher = Publisher::new(source, self.service.clone());
        let progress = Progress::items(&self.globals, "building the filters");
        let mut told = (Kind::Spent, 0);
        let mut report = publisher
            .refresh_with_progress(&mut |at| {
                if told.0 != at.kind {
                    told = (at.kind, 0);
                }
                // A filter that is read a second time begins at nothing again.
                progress.advance(at.items.saturating_sub(told.1));
                told.1 = at.items;
            })
            .map_err(CliError::failed)?;
        match report.failures.pop() {
            Some(failure) => Err(CliError::at(failure.kind, failure.error)),
            // One keyset, and so one filter for each reading.
            None => Ok(report),
        }
    }

    /// What a wallet does that has nothing but its seed: derive notes, fetch the filter, ask it.
    fn restore(&self, built: &FilterReport) -> Result<Restored, CliError> {
        let kind = built.kind;
        let known = (RESTORED / 2).min(self.sample.count(kind));
        // Known ones from all over the mint's life, and then as many that it never saw.
        let stride = self.sample.count(kind) / known;
        let strangers = self.sample.count(kind)..self.sample.count(kind) + known;
        let indexes = (0..known).map(|i| i * stride).chain(strangers);
        let notes: Vec<_> = indexes.map(|index| self.sample.note(kind, index)).collect();

        let default = Policy::default();
        let max_bytes = default.max_bytes.max(built.body_bytes as u64);
        let client = MintClient::new(
            &self.base,
            Policy {
                max_bytes,
                ..default
            },
        )?;
        let _progress = Progress::spinner(&self.globals, "restoring");
        let start = Instant::now();
        let filter = client.fetch(&built.keyset, kind)?;
        let fetch = start.elapsed();
        let start = Instant::now();
        let answers = filter.check(&notes)?;
        let check = start.elapsed();

        let (of_known, of_strangers) = answers.split_at(notes.len() / 2);
        Ok(Restored {
            fetch,
            check,
            known_matched: maybes(of_known),
            known,
            false_positives: maybes(of_strangers),
            strangers: of_strangers.len() as u64,
        })
    }
}

fn maybes(answers: &[Answer]) -> u64 {
    answers
        .iter()
        .filter(|answer| matches!(answer, Answer::Maybe))
        .count() as u64
}

/// A filter that denies a note it holds is worse than none.
fn verify(columns: &[Column<'_>]) -> Result<(), CliError> {
    for Column {
        built, restored, ..
    } in columns
    {
        if restored.known_matched != restored.known {
            return Err(CliError::failed(format_args!(
                "of {} {} notes only {} were found",
                restored.known, built.kind, restored.known_matched
            )));
        }
    }
    Ok(())
}

fn table(columns: &[Column<'_>]) -> String {
    type Cell = fn(&Column<'_>) -> String;
    let rows: [(&str, Cell); 16] = [
        ("", |of| of.built.kind.to_string()),
        ("notes in the filter", |of| count(u64::from(of.built.n))),
        ("filter, bytes", |of| count(of.built.filter_bytes as u64)),
        ("bits a note", |of| {
            let bits = of.built.filter_bytes as f64 * 8.0;
            format!("{:.3}", bits / f64::from(of.built.n))
        }),
        ("response, bytes", |of| count(of.built.body_bytes as u64)),
        ("mint: read database", |of| time(of.reading.read)),
        ("mint: hash", |of| time(of.reading.hash)),
        ("mint: sort", |of| time(of.reading.sort)),
        ("mint: encode", |of| time(of.built.times.encode)),
        ("mint: JSON, gzip, zstd", |of| time(of.built.times.publish)),
        ("wallet: fetch, validate", |of| time(of.restored.fetch)),
        ("wallet: check all notes", |of| time(of.restored.check)),
        ("notes checked", |of| {
            count(of.restored.known + of.restored.strangers)
        }),
        ("known to the mint", |of| count(of.restored.known)),
        ("of them found", |of| count(of.restored.known_matched)),
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

fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// In a unit that leaves a few digits to read.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}
