//! `nutfilter build`: items in, a filter out.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use nutfilter::{Filter, FilterResponse, KeysetId, Kind, Params, SipHash, SortedHashes, bip158};
use nutfilter_mint::source::{
    self, DatabaseLocation, ItemBatch, MintSource, MintType, SourceError, twice_if_passing,
};
use serde_json::json;

use crate::error::CliError;
use crate::filter_file;
use crate::globals::Globals;
use crate::items::{HashSink, Input, ItemSink};
use crate::log;
use crate::names;
use crate::output;
use crate::profile::{AnyHash, Profile, ProfileArgs};
use crate::progress::Progress;

mod within;

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "nutfilter build [OPTIONS] <ITEMS>\n       \
                      nutfilter build [OPTIONS] --mint-database <PATH|URL> --keyset <ID> --kind <KIND>"
)]
pub(crate) struct BuildArgs {
    /// File of items, or `-` for standard input: one hex item a line. Blank lines do not count.
    #[arg(
        required_unless_present = "mint_database",
        conflicts_with = "mint_database"
    )]
    items: Option<PathBuf>,

    #[command(flatten)]
    profile: ProfileArgs,

    /// Remainder bits. On its own it leaves M as it is; `nutfilter plan` says which P suits an M
    /// [default: 19].
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = names::whole::<u32>)]
    p: Option<u32>,

    /// Inverse false-positive rate. On its own it leaves P as it is [default: 784931].
    #[arg(long, value_name = "M", allow_negative_numbers = true, value_parser = names::whole::<u64>)]
    m: Option<u64>,

    /// What to write.
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,

    /// Write here instead of standard output; the file appears whole or not at all.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// ITEMS are binary records of LEN bytes each instead of hex lines.
    #[arg(long, value_name = "LEN", requires = "items", allow_negative_numbers = true, value_parser = names::whole::<NonZeroUsize>)]
    record_bytes: Option<NonZeroUsize>,

    /// The response's time in Unix seconds, not later than the moment at which the dump began: a note
    /// spent after that is missing, and the filter would call it unspent [default: when this command
    /// started, which is too late for items dumped earlier].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = names::whole::<u64>)]
    timestamp: Option<u64>,

    /// Read the items from a mint's database instead: a SQLite file, or the directory it is in.
    #[arg(long, value_name = "PATH|URL", requires_all = ["keyset", "kind"])]
    mint_database: Option<String>,

    /// Whose database it is [default: recognised by its tables].
    #[arg(long, value_parser = names::mint_type(), value_name = "TYPE", requires = "mint_database")]
    mint_type: Option<MintType>,

    /// Keyset to read from the database.
    #[arg(
        long,
        value_name = "ID",
        requires = "mint_database",
        allow_hyphen_values = true
    )]
    keyset: Option<String>,

    /// Which notes of the keyset.
    #[arg(long, value_parser = names::kind(), requires = "mint_database")]
    kind: Option<Kind>,

    /// Build within so much memory, whatever the number of items: their hashes are sorted piece by piece
    /// and merged from --scratch. In bytes, or as in 512M or 2G; the program takes up to 8M beside it.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = names::bytes)]
    memory: Option<usize>,

    /// Directory for the hashes that --memory has no room for: 8 bytes an item, gone at the end in any case
    /// [default: where --output is, or the system's directory for temporary files].
    #[arg(long, value_name = "DIR", requires = "memory")]
    scratch: Option<PathBuf>,

    /// Print the summary as a JSON object on standard output. Needs --output.
    #[arg(long, requires = "output")]
    json: bool,
}

const EXAMPLES: &str = "\
Repeated items are kept and counted, as mints do; bip158 alone drops them.

A filter answers as of its time. With --mint-database that is before the reading begins; for items that were
dumped earlier give --timestamp, as in the second example: never later than the dump began.

Examples:
  nutfilter build spent.hex --output spent.json
  began=$(date +%s)
  sqlite3 mint.sqlite3 \"select y from proofs_used\" | nutfilter build - --timestamp $began > spent.json
  nutfilter build --mint-database mint.sqlite3 --keyset 009a1f293253e41e --kind spent -o spent.json
  nutfilter build points.bin --record-bytes 33 --format raw -o points.gcs
  nutfilter build huge.bin --record-bytes 33 --memory 512M --scratch /var/tmp -o huge.json
  nutfilter build scripts.hex --profile bip158 --key 4c6eb1...(32 digits) --format raw -o block.filter";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// The response object: n, p, m, content, timestamp
    Json,
    /// The bytes alone; with bip158, N in front of them
    Raw,
}

/// A filter that is ready to be written.
struct Built {
    response: FilterResponse,
    /// As the profile serialises it.
    raw: Vec<u8>,
    /// Items whose hash another item has as well; with bip158, items that were dropped because the same one
    /// is there already.
    repeated: u64,
}

/// What there is to say about a filter that was written.
struct Summary {
    n: u32,
    params: Params,
    timestamp: u64,
    /// The length of the filter.
    bytes: u64,
    repeated: u64,
    /// The length of all that was written.
    written: u64,
}

pub(crate) fn run(args: &BuildArgs, globals: &Globals) -> Result<(), CliError> {
    if args.format == Format::Raw && args.output.is_none() && output::stdout_is_terminal() {
        return Err(CliError::usage(
            "--format raw writes binary, which a terminal cannot show: give --output FILE, or a pipe",
        ));
    }
    let params = filter_file::params(args.p, args.m)?;
    // Before the items are read: what is spent while reading may be missing from the filter.
    let timestamp = args.timestamp.unwrap_or_else(now);
    if let Some(memory) = args.memory {
        let summary = within::run(args, params, timestamp, memory, globals)?;
        return summarise(args, &summary, globals);
    }
    let built = match args.profile.profile {
        Profile::Bip158 => build_bip158(args, params, timestamp, globals)?,
        Profile::Nut25 | Profile::Nut23 => build_nut(args, params, timestamp, globals)?,
    };

    let json = || built.response.to_json() + "\n";
    let bytes = match args.format {
        Format::Json => &json().into_bytes(),
        Format::Raw => &built.raw,
    };
    match &args.output {
        Some(path) => output::write_file(path, bytes)?,
        None => output::print(bytes)?,
    }
    let summary = Summary {
        n: built.response.n,
        params,
        timestamp,
        bytes: built.response.content.len() as u64,
        repeated: built.repeated,
        written: bytes.len() as u64,
    };
    summarise(args, &summary, globals)
}

fn build_nut(
    args: &BuildArgs,
    params: Params,
    timestamp: u64,
    globals: &Globals,
) -> Result<Built, CliError> {
    let hasher = args.profile.hasher()?;
    let mut sink = HashSink::new(hasher);
    gather(args, globals, &mut sink)?;
    let progress = Progress::spinner(globals, "sorting and coding");
    let hashes: SortedHashes<AnyHash> = sink.finish();
    let filter = hashes.encode(params)?;
    drop(progress);
    let repeated = hashes
        .as_slice()
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .count() as u64;
    Ok(Built {
        response: FilterResponse::new(&filter, timestamp),
        raw: filter.into_bytes(),
        repeated,
    })
}

fn build_bip158(
    args: &BuildArgs,
    params: Params,
    timestamp: u64,
    globals: &Globals,
) -> Result<Built, CliError> {
    let key = match args.profile.hasher()? {
        AnyHash::Sip(key) => key,
        other => unreachable!("the bip158 profile is hashed with SipHash, not {other:?}"),
    };
    // Whole items have to be kept, as it is them, and not hashes, of which repetitions are dropped.
    let mut items: Vec<Vec<u8>> = Vec::new();
    gather(args, globals, &mut items)?;
    let given = items.len() as u64;
    let filter: Filter<'_, SipHash> = bip158::build_with(key, items, params)?;
    Ok(Built {
        response: FilterResponse::new(&filter, timestamp),
        raw: bip158::serialize(&filter),
        repeated: given - u64::from(filter.n()),
    })
}

fn input(args: &BuildArgs) -> Result<Input, CliError> {
    let path = args
        .items
        .as_ref()
        .ok_or_else(|| CliError::usage("ITEMS are missing"))?;
    Input::open(path)
}

/// All items, from records, hex lines or a database, into `sink`.
fn gather(args: &BuildArgs, globals: &Globals, sink: &mut dyn ItemSink) -> Result<(), CliError> {
    let (Some(database), Some(keyset), Some(kind)) = (&args.mint_database, &args.keyset, args.kind)
    else {
        let input = input(args)?;
        return match args.record_bytes {
            Some(width) => input.records(width, globals, &mut |records| {
                sink.push_records(records, width)
            }),
            None => input.hex_lines(globals, &mut |item| sink.push(item)),
        };
    };
    let (mut source, keyset) = open_database(database, args.mint_type, keyset, globals)?;
    twice_if_passing(|| {
        let progress = Progress::items(globals, format!("reading {}", source.mint()));
        sink.restart();
        let mut of_keyset = OfKeyset {
            keyset: &keyset,
            sink,
            progress,
            found: vec![],
            failed: None,
        };
        let read = source.read(kind, None, &mut of_keyset);
        match (of_keyset.failed, read) {
            // What the sink has to say is why it broke off.
            (Some(NotTaken::Sink(error)), _) => Ok(Err(error)),
            (Some(NotTaken::Row(error)), _) => Err(error),
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Ok(check_known(&mut source, &keyset, of_keyset.found)),
        }
    })?
}

/// Takes the items of one keyset out of all.
struct OfKeyset<'a> {
    keyset: &'a KeysetId,
    sink: &'a mut dyn ItemSink,
    progress: Progress,
    /// The keysets that have items.
    found: Vec<KeysetId>,
    failed: Option<NotTaken>,
}

enum NotTaken {
    Row(SourceError),
    Sink(CliError),
}

impl source::ItemSink for OfKeyset<'_> {
    fn items(&mut self, keyset: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
        if !self.found.contains(keyset) {
            self.found.push(keyset.clone());
        }
        if keyset != self.keyset {
            return ControlFlow::Continue(());
        }
        self.progress.advance(items.len() as u64);
        match items.items().try_for_each(|item| self.sink.push(item)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(NotTaken::Sink(error));
                ControlFlow::Break(())
            }
        }
    }

    fn bad_row(&mut self, keyset: &KeysetId, error: SourceError) -> ControlFlow<()> {
        if keyset != self.keyset {
            return ControlFlow::Continue(());
        }
        self.failed = Some(NotTaken::Row(error));
        ControlFlow::Break(())
    }
}

fn open_database(
    database: &str,
    mint_type: Option<MintType>,
    keyset: &str,
    globals: &Globals,
) -> Result<(Box<dyn MintSource>, KeysetId), CliError> {
    let keyset = keyset
        .parse()
        .map_err(|error| CliError::at("--keyset", error))?;
    log::start_command(globals);
    let source = source::open(&DatabaseLocation::parse(database)?, mint_type)?;
    Ok((source, keyset))
}

/// A keyset without notes has an empty filter; one that the mint does not have has none.
fn check_known(
    source: &mut dyn MintSource,
    asked: &KeysetId,
    found: Vec<KeysetId>,
) -> Result<(), CliError> {
    let listed = twice_if_passing(|| source.keysets())?;
    listed.warn_of_unservable();
    let listed = listed.keysets.into_iter().map(|keyset| keyset.id);
    let known: BTreeSet<KeysetId> = listed.chain(found).collect();
    if known.contains(asked) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().map(KeysetId::as_str).collect();
    Err(CliError::failed(format_args!(
        "the database has no keyset {asked}; it has {}",
        if known.is_empty() {
            "none at all".to_owned()
        } else {
            known.join(", ")
        }
    )))
}

fn summarise(args: &BuildArgs, summary: &Summary, globals: &Globals) -> Result<(), CliError> {
    let &Summary {
        n,
        params,
        timestamp,
        bytes,
        repeated,
        written,
    } = summary;
    let bits_per_item = bytes as f64 * 8.0 / f64::from(n.max(1));
    if args.json {
        return output::print_json(&json!({
            "n": n,
            "p": params.p(),
            "m": params.m(),
            "bytes": bytes,
            "bits_per_item": bits_per_item,
            "written": written,
            "repeated": repeated,
            "timestamp": timestamp,
        }));
    }
    let repeated = match repeated {
        0 => String::new(),
        dropped if args.profile.profile == Profile::Bip158 => {
            format!(", {dropped} repeated ones dropped")
        }
        repeated => format!(", {repeated} of them repeated"),
    };
    globals.note(format_args!(
        "{n} items{repeated}; P {}, M {}: {bytes} bytes, {bits_per_item:.2} bits per item",
        params.p(),
        params.m(),
    ));
    Ok(())
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
