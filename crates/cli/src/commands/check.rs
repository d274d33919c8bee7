//! `nutfilter check`: checks which items may be in a filter.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use nutfilter::{AnyHash, ItemHash, Nut23, Nut25};
use nutfilter_cashu::PointKind;
use nutfilter_wallet::{Answer, CheckError, MintFilter, NoteKind, Warning, other_dialect};
use serde_json::json;

use crate::error::CliError;
use crate::io::fetch::{self, FetchArgs};
use crate::io::filter_file;
use crate::io::items::{Input, InputArgs, ItemList, is_stdin};
use crate::io::output::{self, utc};
use crate::messages::Globals;
use crate::profile::{ProfileArgs, is_keyed};
use crate::value_parsers;

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "nutfilter check [OPTIONS] <FILTER> <ITEMS>\n       \
                      nutfilter check [OPTIONS] --mint <URL> --keyset <ID> <ITEMS>"
)]
pub(crate) struct CheckArgs {
    /// The filter: a response object or a .gcs file. Not with --mint.
    #[arg(value_name = "FILTER")]
    first: PathBuf,

    /// File of items to check. `-` means standard input, also for FILTER.
    #[arg(value_name = "ITEMS")]
    second: Option<PathBuf>,

    #[command(flatten)]
    input: InputArgs,

    #[command(flatten)]
    profile: ProfileArgs,

    /// Print the counts instead of a line for each item.
    #[arg(long)]
    count: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    mint: MintArgs,

    #[command(flatten)]
    fetch: FetchArgs,
}

/// The options that select a mint's filter.
#[derive(Debug, Args)]
#[command(next_help_heading = "Mint")]
struct MintArgs {
    /// Fetch the filter from this mint, which is not trusted. Items are points
    /// in hex.
    #[arg(
        long = "mint",
        id = "mint",
        value_name = "URL",
        requires = "keyset",
        conflicts_with = "encoding"
    )]
    url: Option<String>,

    /// Keyset whose filter to fetch.
    #[arg(long, value_name = "ID", requires = "mint", allow_hyphen_values = true)]
    keyset: Option<String>,

    /// Kind of notes in the filter [default: spent].
    #[arg(long, value_parser = value_parsers::kind(), requires = "mint")]
    kind: Option<NoteKind>,

    /// Number of items that should match. Far more matches are an error, far
    /// fewer a warning.
    #[arg(long, value_name = "COUNT", requires = "mint", allow_negative_numbers = true)]
    expected: Option<u64>,
}

const EXAMPLES: &str = "\
Prints `maybe<TAB>item` or `absent<TAB>item` for each item, in input order. An
item with a line break is printed as a JSON string. `absent` is definitive as
of the filter's timestamp, if the filter is honest; `maybe` is a false positive
for one non-member in M. If the filter seems to be of another hash, a warning
says so and `unknown` is printed instead of `absent`. With --count:
`maybe<TAB>number` and `absent<TAB>number`. The filter's size and timestamp go
to stderr. Items for a mint's filter are points: `Y` of spent notes, `B_` of
issued ones.
Exit code: 0 if an item matched, 1 if none did, 2 on error.

Examples:
  nutfilter check spent.json mine.hex
  nutfilter check --mint https://mint.example/Bitcoin \\
      --keyset 009a1f293253e41e mine.hex
  nutfilter check emails.gcs mine.txt --input text --json
  nutfilter check users.gcs users.txt --input text --key-file key
  nutfilter check spent.json mine.hex | grep ^maybe | cut -f2";

/// The results of a check, and the properties of the filter.
struct Checked {
    /// Whether each item matched, in order.
    found: Vec<bool>,
    /// Whether the filter may have been made with another hash.
    doubt: bool,
    n: u64,
    /// Unix seconds, if the filter has a timestamp.
    as_of: Option<u64>,
}

impl Checked {
    /// The word that is printed before an item.
    fn word(&self, found: bool) -> &'static str {
        match (found, self.doubt) {
            (true, _) => "maybe",
            (false, false) => "absent",
            (false, true) => "unknown",
        }
    }

    /// Each word with its number of items, in the order in which they are printed.
    fn counts(&self) -> Vec<(&'static str, usize)> {
        let matched = self.found.iter().filter(|&&found| found).count();
        let (maybe, others) = (("maybe", matched), self.found.len() - matched);
        match self.doubt {
            false => vec![maybe, ("absent", others)],
            true => vec![maybe, ("absent", 0), ("unknown", others)],
        }
    }
}

pub(crate) fn run(args: &CheckArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (checked, items) = match (&args.first, &args.second, &args.mint.url) {
        (filter, Some(items), None) if is_stdin(filter) && is_stdin(items) => {
            Err(CliError::usage("FILTER and ITEMS cannot both be standard input"))
        }
        (filter, Some(items), None) => check_file(args, filter, items, globals),
        (items, None, Some(url)) => check_mint(args, url, items, globals),
        (_, Some(_), Some(_)) => {
            Err(CliError::usage("with --mint, ITEMS is the only file to give"))
        }
        (_, None, None) => {
            Err(CliError::usage("give FILTER and ITEMS, or --mint URL --keyset ID and ITEMS"))
        }
    }?;
    if !args.json {
        say_as_of(checked.n, checked.as_of, globals);
    }
    let matched = checked.found.contains(&true);
    match print(args, &checked, &items) {
        // The code is known even if nobody reads the whole output.
        Ok(()) | Err(CliError::OutputClosed) => Ok(output::exit_code(matched)),
        Err(error) => Err(error),
    }
}

fn check_file(
    args: &CheckArgs,
    path: &Path,
    items: &Path,
    globals: &Globals,
) -> Result<(Checked, ItemList), CliError> {
    let file = filter_file::read(path, Some(&args.profile))?;
    // A response object is about notes, and those are points; with a key it is somebody's own.
    let is_of_notes = !file.names_profile && !is_keyed(file.profile);
    let input = match is_of_notes {
        true => &args.input.of_points(),
        false => &args.input,
    };
    let list = read(items, input)?;
    let items = list.items();
    let is_point = |item: &&[u8]| PointKind::ALL.iter().any(|kind| kind.bytes() == item.len());
    if let Some(place) = items.iter().position(|item| is_of_notes && !is_point(item)) {
        let (what, bytes, expected) = ("item", items[place].len(), None);
        let error = CheckError::NotAPoint { what, place, bytes, expected };
        return Err(CliError::failed(error));
    }
    let matched = file.filter.matches(&items);
    let mut doubt = false;
    if let Some(other) = other_dialect(&file.filter, &items, &matched) {
        if other.is_certain() {
            return Err(fetch::refused(
                &path.display().to_string(),
                CheckError::OtherDialect(other),
            ));
        }
        globals.warn(other);
        doubt = true;
    }
    let checked =
        Checked { found: matched, doubt, n: u64::from(file.filter.n()), as_of: file.timestamp };
    Ok((checked, list))
}

fn read(path: &Path, args: &InputArgs) -> Result<ItemList, CliError> {
    let list = ItemList::read_as(Input::open(path)?, args)?;
    match list.items().is_empty() {
        true => Err(CliError::at(path.display(), CheckError::NoItems)),
        false => Ok(list),
    }
}

fn check_mint(
    args: &CheckArgs,
    url: &str,
    items: &Path,
    globals: &Globals,
) -> Result<(Checked, ItemList), CliError> {
    let hasher = args.profile.hasher()?;
    let items = read(items, &args.input.of_points())?;
    let checked = match hasher {
        AnyHash::Nut25 => ask_mint::<Nut25>(args, url, &items, globals),
        AnyHash::Nut23 => ask_mint::<Nut23>(args, url, &items, globals),
        _ => Err(CliError::usage("mints do not use this hash; use --profile nut25 or nut23")),
    };
    Ok((checked?, items))
}

fn ask_mint<H: ItemHash + Default>(
    args: &CheckArgs,
    url: &str,
    items: &ItemList,
    globals: &Globals,
) -> Result<Checked, CliError> {
    let client = fetch::client(url, &args.fetch, globals)?;
    let keyset = fetch::keyset(&client, args.mint.keyset.as_deref().unwrap_or_default())?;
    let kind = args.mint.kind.unwrap_or(NoteKind::Spent);
    let filter: MintFilter<H> = fetch::filter(&client, &keyset, kind)?;
    let matches = filter
        .matches(&items.items(), args.mint.expected)
        .map_err(|error| fetch::refused(client.base_url(), error))?;
    fetch::warn(&matches.warnings, globals);
    let is_doubt = |warning: &Warning| matches!(warning, Warning::PossibleOtherDialect(_));
    let doubt = matches.warnings.iter().any(is_doubt);
    let answers = matches.answers.into_iter();
    Ok(Checked {
        found: answers.map(|answer| answer == Answer::MaybePresent).collect(),
        doubt,
        n: u64::from(filter.n()),
        as_of: Some(filter.as_of()),
    })
}

/// Prints the time of the filter: `absent` means nothing without it.
fn say_as_of(n: u64, as_of: Option<u64>, globals: &Globals) {
    match as_of {
        Some(seconds) => {
            globals.note(format_args!("filter of {n} items, as of {seconds} ({})", utc(seconds)))
        }
        None => globals.note(format_args!("filter of {n} items, without a timestamp")),
    }
}

fn print(args: &CheckArgs, checked: &Checked, items: &ItemList) -> Result<(), CliError> {
    if args.json {
        let mut object = json!({ "n": checked.n, "as_of": checked.as_of });
        for (word, count) in checked.counts() {
            object[word] = count.into();
        }
        if !args.count {
            let answers = checked.found.iter().zip(items.given());
            let answer = |(&found, item): (&bool, &[u8])| json!({ "item": String::from_utf8_lossy(item), "answer": checked.word(found) });
            object["answers"] = answers.map(answer).collect();
        }
        return output::print_json(&object);
    }
    let mut out = output::stdout();
    if args.count {
        for (word, count) in checked.counts() {
            writeln!(out, "{word}\t{count}")?;
        }
    } else {
        for (&found, item) in checked.found.iter().zip(items.given()) {
            write!(out, "{}\t", checked.word(found))?;
            let breaks = item.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
            if breaks {
                serde_json::to_writer(&mut out, &String::from_utf8_lossy(item))
                    .map_err(io::Error::from)?;
            } else {
                out.write_all(item)?;
            }
            out.write_all(b"\n")?;
        }
    }
    Ok(out.flush()?)
}
