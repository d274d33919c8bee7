//! `nutfilter build`: items in, a filter out.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use nutfilter::{Filter, FilterResponse, KeysetId, Kind, Params, SipHash, SortedHashes, bip158};
use nutfilter_mint::source::{DatabaseLocation, MintSource, MintType, SqliteSource};
use serde_json::json;

use crate::error::CliError;
use crate::filter_file;
use crate::globals::Globals;
use crate::items::{HashSink, Input};
use crate::names;
use crate::output;
use crate::profile::{AnyHash, Profile, ProfileArgs};
use crate::progress::Progress;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
    #[arg(long, value_name = "P")]
    p: Option<u32>,

    /// Inverse false-positive rate. On its own it leaves P as it is [default: 784931].
    #[arg(long, value_name = "M")]
    m: Option<u64>,

    /// What to write.
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,

    /// Write here instead of standard output; the file appears whole or not at all.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// ITEMS are binary records of LEN bytes each instead of hex lines.
    #[arg(long, value_name = "LEN", requires = "items")]
    record_bytes: Option<NonZeroUsize>,

    /// The response's time in Unix seconds, for output that can be reproduced [default: now].
    #[arg(long, value_name = "SECONDS")]
    timestamp: Option<u64>,

    /// Read the items from a mint's database instead: a SQLite file, or the directory it is in.
    #[arg(long, value_name = "PATH|URL", requires_all = ["keyset", "kind"])]
    mint_database: Option<String>,

    /// Whose database it is [default: recognised by its tables].
    #[arg(long, value_parser = names::mint_type(), value_name = "TYPE", requires = "mint_database")]
    mint_type: Option<MintType>,

    /// Keyset to read from the database.
    #[arg(long, value_name = "ID", requires = "mint_database")]
    keyset: Option<String>,

    /// Which notes of the keyset.
    #[arg(long, value_parser = names::kind(), requires = "mint_database")]
    kind: Option<Kind>,

    /// Print the summary as a JSON object on standard output. Needs --output.
    #[arg(long, requires = "output")]
    json: bool,
}

const EXAMPLES: &str = "\
Repeated items are kept and counted, as mints do; bip158 alone drops them.

Examples:
  nutfilter build spent.hex --output spent.json
  sqlite3 mint.sqlite3 \"select y from proofs_used\" | nutfilter build - > spent.json
  nutfilter build --mint-database mint.sqlite3 --keyset 009a1f293253e41e --kind spent -o spent.json
  nutfilter build points.bin --record-bytes 33 --format raw -o points.gcs
  nutfilter build scripts.hex --profile bip158 --key 4c6eb1...(32 digits) --format raw -o block.filter";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// The response object: n, p, m, content, timestamp
    Json,
    /// The bytes alone; with bip158, N in front of them
    Raw,
}

/// A filter that is ready to be written, and what there is to say about it.
struct Built {
    response: FilterResponse,
    /// As the profile serialises it.
    raw: Vec<u8>,
    /// Items whose hash another item has as well.
    repeated: u64,
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
    summarise(args, &built, bytes.len(), globals)
}

fn build_nut(
    args: &BuildArgs,
    params: Params,
    timestamp: u64,
    globals: &Globals,
) -> Result<Built, CliError> {
    let mut sink = HashSink::new(args.profile.hasher()?);
    match args.record_bytes {
        Some(width) => {
            let input = input(args)?;
            input.records(width, globals, &mut |records| {
                sink.push_records(records, width)
            })?;
        }
        None => each_item(args, globals, &mut |item| sink.push(item))?,
    }
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
    match args.record_bytes {
        Some(width) => input(args)?.records(width, globals, &mut |records| {
            items.extend(records.chunks_exact(width.get()).map(<[u8]>::to_vec));
        })?,
        None => each_item(args, globals, &mut |item| items.push(item.to_vec()))?,
    }
    let filter: Filter<'_, SipHash> = bip158::build_with(key, items, params)?;
    Ok(Built {
        response: FilterResponse::new(&filter, timestamp),
        raw: bip158::serialize(&filter),
        repeated: 0,
    })
}

fn input(args: &BuildArgs) -> Result<Input, CliError> {
    let path = args
        .items
        .as_ref()
        .ok_or_else(|| CliError::usage("ITEMS are missing"))?;
    Input::open(path)
}

/// One item at a time, from hex lines or from a database.
fn each_item(
    args: &BuildArgs,
    globals: &Globals,
    sink: &mut dyn FnMut(&[u8]),
) -> Result<(), CliError> {
    match (&args.mint_database, &args.keyset, args.kind) {
        (Some(database), Some(keyset), Some(kind)) => {
            let mint_type = args.mint_type;
            read_database(database, mint_type, keyset, kind, globals, sink)
        }
        _ => input(args)?.hex_lines(globals, sink),
    }
}

fn read_database(
    database: &str,
    mint_type: Option<MintType>,
    keyset: &str,
    kind: Kind,
    globals: &Globals,
    sink: &mut dyn FnMut(&[u8]),
) -> Result<(), CliError> {
    let asked: KeysetId = keyset
        .parse()
        .map_err(|error| CliError::at("--keyset", error))?;
    let source = SqliteSource::open(&DatabaseLocation::parse(database)?, mint_type)?;
    // A keyset without notes has an empty filter; one that the mint does not have has none.
    let keysets = source.keysets()?.keysets;
    let Some(keyset) = keysets.iter().find(|keyset| keyset.id == asked) else {
        let known: Vec<&str> = keysets.iter().map(|keyset| keyset.id.as_str()).collect();
        return Err(CliError::failed(format_args!(
            "the database has no keyset {asked}; it has {}",
            if known.is_empty() {
                "none at all".to_owned()
            } else {
                known.join(", ")
            }
        )));
    };
    let progress = Progress::items(globals, format!("reading {}", source.mint()));
    // The database's own spelling of the id: SQL compares texts.
    source.stream(&keyset.id, kind, &mut |batch| {
        batch.items().for_each(&mut *sink);
        progress.advance(batch.len() as u64);
        ControlFlow::Continue(())
    })?;
    Ok(())
}

fn summarise(
    args: &BuildArgs,
    built: &Built,
    written: usize,
    globals: &Globals,
) -> Result<(), CliError> {
    let FilterResponse {
        n,
        params,
        timestamp,
        ..
    } = built.response;
    let bytes = built.response.content.len();
    let bits_per_item = bytes as f64 * 8.0 / f64::from(n.max(1));
    if args.json {
        return output::print_json(&json!({
            "n": n,
            "p": params.p(),
            "m": params.m(),
            "bytes": bytes,
            "bits_per_item": bits_per_item,
            "written": written,
            "repeated": built.repeated,
            "timestamp": timestamp,
        }));
    }
    let repeated = match built.repeated {
        0 => String::new(),
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
