//! `nutfilter build`: builds a filter from items.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use nutfilter::gcs::{GcsHash, GcsHeader};
use nutfilter::{AnyHash, Filter, Params, SipHash, SortedHashes, bip158};
use nutfilter_cashu::FilterResponse;

use crate::error::CliError;
use crate::io::filter_file;
use crate::io::items::{HashSink, Input, InputArgs, ItemReceiver, check_point};
use crate::io::output::{self, Destination};
use crate::messages::Globals;
use crate::profile::{ProfileArgs, key_check};

mod memory_check;

use self::memory_check::Expected;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BuildArgs {
    /// File of items, or `-` for standard input. Empty items are ignored.
    items: PathBuf,

    #[command(flatten)]
    input: InputArgs,

    /// ITEMS are binary records of LEN bytes each.
    #[arg(long, value_name = "LEN", conflicts_with = "encoding", allow_negative_numbers = true)]
    record_bytes: Option<NonZeroUsize>,

    #[command(flatten)]
    pub(crate) profile: ProfileArgs,

    /// Remainder bits [default: the best for M].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    p: Option<u32>,

    /// Inverse false-positive rate: one look-up in M matches by chance [default: 784931].
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    m: Option<u64>,

    /// False-positive rate, instead of M, such as 0.001 or 1e-3.
    #[arg(long, value_name = "R", allow_hyphen_values = true, conflicts_with = "m")]
    rate: Option<f64>,

    /// Output format [default: gcs if the name of --output ends in .gcs, json otherwise].
    #[arg(long = "format", id = "output_format", value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,

    /// Write to FILE, or to standard output for `-`. A file is written atomically [default: -].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Timestamp of the filter in Unix seconds: at or before the start of the dump. With a later one the filter
    /// calls notes unspent that were spent in between [default: the start of this command, which is too late
    /// for items dumped earlier].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    timestamp: Option<u64>,

    /// Build an empty filter if there are no items, instead of failing.
    #[arg(long)]
    allow_empty: bool,
}

const EXAMPLES: &str = "\
Duplicate items are kept and counted, as mints do; only bip158 drops them.

A filter is valid as of its timestamp. For items that were dumped earlier, set
--timestamp to a time before the dump began, as in the second example.

Examples:
  nutfilter build spent.hex --output spent.json
  began=$(date +%s)
  sqlite3 mint.sqlite3 \"select y from proofs_used\" > spent.hex
  nutfilter build spent.hex --timestamp $began -o spent.json
  nutfilter build emails.txt --input text --rate 1e-6 -o emails.gcs
  head -c 16 /dev/urandom > key
  nutfilter build users.txt --input text --profile siphash \\
      --key-file key -o users.gcs
  nutfilter build notes.bin --record-bytes 33 -o notes.json
  nutfilter build scripts.hex --profile bip158 --block-hash $HASH \\
      --format raw -o block.filter


Unkeyed hashes hide nothing: anyone can check a guessed item against the filter.
For e-mail addresses, names or numbers, use --profile siphash with a secret key.";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// The JSON response of a mint: n, p, m, content, timestamp
    Json,
    /// A header with N, P, M, hash and time, the coded set, and a checksum
    Gcs,
    /// The coded set alone; with bip158, N in front of it
    Raw,
}

/// A filter that is ready to write.
struct Built {
    filter: Filter<Vec<u8>, AnyHash>,
    /// Number of items whose hash occurs more than once. With bip158: number of duplicate items that were dropped.
    repeated: u64,
}

pub(crate) fn run(args: &BuildArgs, globals: &Globals) -> Result<(), CliError> {
    let destination = Destination::of(args.output.as_deref());
    if args.format() != Format::Json {
        destination.no_terminal()?;
    }
    let params = params(args, globals)?;
    // Take the time before reading the items: a note spent during the read may be missing from the filter.
    let timestamp = args.timestamp.unwrap_or_else(now);
    let expected = expected_items(args, params)?;
    let built = match args.profile.profile() {
        GcsHash::Bip158 => build_bip158(args, params, globals)?,
        GcsHash::Nut25 | GcsHash::Nut23 | GcsHash::SipHash => {
            build_nut(args, params, expected, globals)?
        }
    };
    destination.write(|out| {
        let written = write(args, &built.filter, timestamp, out);
        written.map_err(|error| destination.failed(&error))
    })?;
    summarise(args, &built, globals);
    Ok(())
}

impl BuildArgs {
    fn format(&self) -> Format {
        let is_gcs = |path: &PathBuf| path.extension().is_some_and(|end| end == "gcs");
        let by_name = || match self.output.as_ref().is_some_and(is_gcs) {
            true => Format::Gcs,
            false => Format::Json,
        };
        self.format.unwrap_or_else(by_name)
    }
}

/// Writes a filter in the selected format.
fn write(
    args: &BuildArgs,
    filter: &Filter<Vec<u8>, AnyHash>,
    timestamp: u64,
    output: &mut dyn Write,
) -> io::Result<()> {
    let profile = args.profile.profile();
    let (n, params) = (filter.n(), filter.params());
    match args.format() {
        Format::Gcs => {
            let header = GcsHeader {
                hash: profile,
                params,
                n: u64::from(n),
                timestamp,
                key_check: key_check(profile, filter.hasher()),
            };
            let mut checksum = crc32fast::Hasher::new();
            for part in [&header.to_bytes(), filter.bytes()] {
                checksum.update(part);
                output.write_all(part)?;
            }
            output.write_all(&checksum.finalize().to_le_bytes())?;
        }
        // In front of a block filter there is its N. The hasher does not affect the bytes.
        Format::Raw if profile == GcsHash::Bip158 => {
            output.write_all(&bip158::serialize(&filter.with_hasher(SipHash::new(0, 0))))?;
        }
        Format::Raw => output.write_all(filter.bytes())?,
        Format::Json => {
            FilterResponse::write(&mut *output, n, params, filter.bytes(), timestamp)?;
            output.write_all(b"\n")?;
        }
    }
    output.flush()
}

/// P and M, with a warning if another P would give a smaller filter.
fn params(args: &BuildArgs, globals: &Globals) -> Result<Params, CliError> {
    let m = match args.rate {
        Some(rate) => Some(Params::for_rate(rate)?.m()),
        None => args.m,
    };
    let params = filter_file::params(args.p, m)?;
    let best = Params::with_best_p(params.m())?;
    let cost = params.bits_per_item() / best.bits_per_item() - 1.0;
    if best.p() != params.p() {
        globals.warn(format_args!(
            "P = {} makes the filter {:.0} % larger than P = {}, the best P for M = {}",
            params.p(),
            cost * 100.0,
            best.p(),
            params.m()
        ));
    }
    Ok(params)
}

/// About the number of items in a file, which must fit into memory; 0 if it is unknown.
fn expected_items(args: &BuildArgs, params: Params) -> Result<usize, CliError> {
    let path = &args.items;
    let Some(expected) = Expected::of_file(path, args.record_bytes) else {
        return Ok(0);
    };
    let item_bytes = match args.profile.profile() {
        // The items themselves: a vector each, on the heap.
        GcsHash::Bip158 => 48,
        // Their hashes.
        GcsHash::Nut25 | GcsHash::Nut23 | GcsHash::SipHash => 8,
    };
    let checked = expected.check(params, item_bytes);
    checked.map_err(|error| CliError::at(path.display(), error))?;
    Ok(usize::try_from(expected.items).unwrap_or(0))
}

/// Rejects an empty set: its usual cause is a failed command before a pipe.
fn check_not_empty(args: &BuildArgs, items: usize) -> Result<(), CliError> {
    if items > 0 || args.allow_empty {
        return Ok(());
    }
    Err(CliError::failed("the input has no items; use --allow-empty to build an empty filter"))
}

fn build_nut(
    args: &BuildArgs,
    params: Params,
    expected: usize,
    globals: &Globals,
) -> Result<Built, CliError> {
    let hasher = args.profile.hasher()?;
    let mut sink = HashSink::new(hasher, expected);
    gather(args, &mut sink, globals)?;
    let hashes: SortedHashes<AnyHash> = sink.finish();
    check_not_empty(args, hashes.len())?;
    let filter = hashes.encode(params)?;
    let repeated = hashes.as_slice().windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
    Ok(Built { filter, repeated })
}

fn build_bip158(args: &BuildArgs, params: Params, globals: &Globals) -> Result<Built, CliError> {
    let key = match args.profile.hasher()? {
        AnyHash::Sip(key) => key,
        other => unreachable!("the bip158 profile is hashed with SipHash, not {other:?}"),
    };
    // Duplicate items are dropped, but duplicate hashes are not, so the items must be kept.
    let mut items: Vec<Vec<u8>> = Vec::new();
    gather(args, &mut items, globals)?;
    check_not_empty(args, items.len())?;
    let given = items.len() as u64;
    let filter = bip158::build_with(key, items, params)?;
    let repeated = given - u64::from(filter.n());
    let filter = filter.with_hasher(AnyHash::Sip(key)).into_owned();
    Ok(Built { filter, repeated })
}

/// Reads all items into `sink`.
fn gather(
    args: &BuildArgs,
    sink: &mut dyn ItemReceiver,
    globals: &Globals,
) -> Result<(), CliError> {
    let mut input = Input::open(&args.items)?;
    if !globals.quiet {
        input = input.shown(&args.items);
    }
    // A response object is a mint's: with other items it would say "absent" of each of its notes.
    let profile = args.profile.profile();
    let is_of_notes =
        args.format() == Format::Json && matches!(profile, GcsHash::Nut25 | GcsHash::Nut23);
    match args.record_bytes {
        Some(width) => {
            if is_of_notes {
                check_point(width.get()).map_err(|error| CliError::at("--record-bytes", error))?;
            }
            input.records(width, &mut |records| sink.push_records(records, width))
        }
        None if is_of_notes => sink.push_lines(input, &args.input.of_notes()),
        None => sink.push_lines(input, &args.input),
    }
}

fn summarise(args: &BuildArgs, built: &Built, globals: &Globals) {
    let (filter, params) = (&built.filter, built.filter.params());
    let (n, bytes) = (filter.n(), filter.bytes().len() as u64);
    let bits_per_item = bytes as f64 * 8.0 / f64::from(n.max(1));
    let repeated = match built.repeated {
        0 => String::new(),
        dropped if args.profile.profile() == GcsHash::Bip158 => {
            format!(", {dropped} duplicates dropped")
        }
        repeated => format!(", {repeated} of them duplicates"),
    };
    globals.note(format_args!(
        "{n} items{repeated}; P {}, M {}: {} bytes, {bits_per_item:.2} bits per item",
        params.p(),
        params.m(),
        output::count(bytes),
    ));
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
