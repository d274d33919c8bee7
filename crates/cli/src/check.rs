//! `nutfilter check`: which of these items may be in the set?

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use nutfilter::{ItemHash, Nut23, Nut25};
use nutfilter_wallet::{Answer, KeysetId, Kind, MintClient, Policy, RestoreFilter};
use serde_json::json;

use crate::error::CliError;
use crate::filter_file::{self, RawArgs};
use crate::globals::Globals;
use crate::inspect::utc;
use crate::items::{Input, ItemList, is_stdin};
use crate::names;
use crate::output;
use crate::profile::{Profile, ProfileArgs};
use crate::progress::Progress;

/// No item matched. (Errors have 2.)
const EXIT_NONE_MATCHED: u8 = 1;

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "nutfilter check [OPTIONS] <FILTER> <ITEMS>\n       \
                      nutfilter check [OPTIONS] --mint <URL> --keyset <ID> <ITEMS>"
)]
pub(crate) struct CheckArgs {
    /// The filter: a response object, or raw bytes with --raw. Not with --mint.
    #[arg(value_name = "FILTER")]
    first: PathBuf,

    /// The items to ask about, one hex item a line. For FILTER and ITEMS alike, `-` is standard input.
    #[arg(value_name = "ITEMS")]
    second: Option<PathBuf>,

    #[command(flatten)]
    profile: ProfileArgs,

    #[command(flatten)]
    raw: RawArgs,

    /// Print the two counts instead of a line for each item.
    #[arg(long)]
    count: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    mint: MintArgs,
}

/// What a wallet would ask a mint for, and what it would put up with.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filter of a mint")]
struct MintArgs {
    /// Fetch the filter from this mint instead of reading a file. The mint is not trusted.
    #[arg(
        long = "mint",
        id = "mint",
        value_name = "URL",
        requires = "keyset",
        conflicts_with = "raw"
    )]
    url: Option<String>,

    /// Keyset to ask for.
    #[arg(long, value_name = "ID", requires = "mint", allow_hyphen_values = true)]
    keyset: Option<String>,

    /// Which notes of the keyset [default: spent].
    #[arg(long, value_parser = names::kind(), requires = "mint")]
    kind: Option<Kind>,

    /// Least M that is accepted [default: 784931].
    #[arg(long, value_name = "M", requires = "mint", allow_negative_numbers = true, value_parser = names::whole::<u64>)]
    min_m: Option<u64>,

    /// Largest response that is accepted, in bytes [default: 67108864].
    #[arg(long, value_name = "BYTES", requires = "mint", allow_negative_numbers = true, value_parser = names::whole::<u64>)]
    max_bytes: Option<u64>,

    /// Seconds for the whole fetch [default: 30].
    #[arg(long, value_name = "SECONDS", requires = "mint", allow_negative_numbers = true, value_parser = parse_seconds)]
    timeout: Option<Duration>,

    /// Refuse a filter older than this, in Unix seconds: the time of the newest one seen before.
    #[arg(long, value_name = "SECONDS", requires = "mint", allow_negative_numbers = true, value_parser = names::whole::<u64>)]
    last_seen: Option<u64>,

    /// How many of the items are believed to be in the set. Far more matches than that are an error.
    #[arg(long, value_name = "COUNT", requires = "mint", allow_negative_numbers = true, value_parser = names::whole::<u64>)]
    expected: Option<u64>,
}

const EXAMPLES: &str = "\
Prints `maybe<TAB>item` or `absent<TAB>item` for each item, in order. `maybe` is to be confirmed with the
mint; `absent` is certain, as of the filter's time and as far as its maker is honest. With --count:
`maybe<TAB>number` and `absent<TAB>number`. The filter's size and time go to stderr. Exit code: 0 some item matched, 1 none did, 2 error.

Examples:
  nutfilter check spent.json mine.hex
  nutfilter check --mint https://mint.example/Bitcoin --keyset 009a1f293253e41e mine.hex
  nutfilter check --raw --n 1000 points.gcs mine.hex --count
  nutfilter check --raw --profile bip158 --key 4c6eb1...(32 digits) block.filter scripts.hex
  nutfilter check spent.json mine.hex | grep ^maybe | cut -f2";

/// The answers, and what is worth saying about the filter that gave them.
struct Checked {
    /// Whether the item may be in the set; one for each, in order.
    maybe: Vec<bool>,
    n: u32,
    /// Unix seconds, where the filter has a time.
    as_of: Option<u64>,
}

pub(crate) fn run(args: &CheckArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (filter, items) = paths(args)?;
    let items = ItemList::read(Input::open(items)?, globals)?;
    let checked = match (filter, &args.mint.url) {
        (Some(path), _) => check_file(args, path, &items, globals)?,
        (None, Some(url)) => check_mint(args, url, &items, globals)?,
        (None, None) => {
            return Err(CliError::usage(
                "give FILTER and ITEMS, or --mint and ITEMS",
            ));
        }
    };
    if !args.json {
        say_as_of(&checked, globals);
    }
    let matched = checked.maybe.contains(&true);
    match print(args, &checked, &items) {
        // The answer is known, whether or not somebody reads all of it.
        Ok(()) | Err(CliError::OutputClosed) => {}
        Err(error) => return Err(error),
    }
    Ok(if matched {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_NONE_MATCHED)
    })
}

/// The filter's path, unless a mint is asked, and the items'.
fn paths(args: &CheckArgs) -> Result<(Option<&Path>, &Path), CliError> {
    match (&args.first, &args.second, &args.mint.url) {
        (filter, Some(items), None) if is_stdin(filter) && is_stdin(items) => Err(CliError::usage(
            "FILTER and ITEMS cannot both be standard input",
        )),
        (filter, Some(items), None) => Ok((Some(filter), items)),
        (items, None, Some(_)) => Ok((None, items)),
        (_, Some(_), Some(_)) => Err(CliError::usage(
            "with --mint, ITEMS is the only file to give",
        )),
        (_, None, None) => Err(CliError::usage(
            "give FILTER and ITEMS, or --mint URL --keyset ID and ITEMS",
        )),
    }
}

fn check_file(
    args: &CheckArgs,
    path: &Path,
    items: &ItemList,
    globals: &Globals,
) -> Result<Checked, CliError> {
    let hasher = args.profile.hasher()?;
    let file = filter_file::read(path, &args.raw, args.profile.profile, hasher, globals)?;
    let _progress = Progress::spinner(globals, "checking");
    Ok(Checked {
        maybe: file.filter.matches(&items.items()),
        n: file.filter.n(),
        as_of: file.timestamp,
    })
}

fn check_mint(
    args: &CheckArgs,
    url: &str,
    items: &ItemList,
    globals: &Globals,
) -> Result<Checked, CliError> {
    // Says what is wrong with --key, should there be one.
    args.profile.hasher()?;
    match args.profile.profile {
        Profile::Nut25 => ask_mint::<Nut25>(args, url, items, globals),
        Profile::Nut23 => ask_mint::<Nut23>(args, url, items, globals),
        Profile::Bip158 => Err(CliError::usage("no mint speaks --profile bip158")),
    }
}

fn ask_mint<H: ItemHash + Default>(
    args: &CheckArgs,
    url: &str,
    items: &ItemList,
    globals: &Globals,
) -> Result<Checked, CliError> {
    let mint = &args.mint;
    let keyset: KeysetId = mint
        .keyset
        .as_deref()
        .unwrap_or_default()
        .parse()
        .map_err(|error| CliError::at("--keyset", error))?;
    let kind = mint.kind.unwrap_or(Kind::Spent);
    let client = MintClient::new(url, policy(mint))?;
    let filter: RestoreFilter<H> = {
        let _progress = Progress::spinner(globals, format!("fetching from {}", client.base_url()));
        client
            .fetch_as(&keyset, kind, mint.last_seen)
            .map_err(|error| CliError::at(client.base_url(), error))?
    };
    let answers = match mint.expected {
        Some(expected) => filter.check_expecting(&items.items(), expected),
        None => filter.check(&items.items()),
    };
    let answers = answers.map_err(|error| CliError::at(client.base_url(), error))?;
    Ok(Checked {
        maybe: answers
            .into_iter()
            .map(|answer| answer == Answer::Maybe)
            .collect(),
        n: filter.n(),
        as_of: Some(filter.as_of()),
    })
}

fn policy(mint: &MintArgs) -> Policy {
    let usual = Policy::default();
    Policy {
        min_m: mint.min_m.unwrap_or(usual.min_m),
        max_bytes: mint.max_bytes.unwrap_or(usual.max_bytes),
        deadline: mint.timeout.unwrap_or(usual.deadline),
        ..usual
    }
}

/// `absent` is worth nothing without the time it speaks of.
fn say_as_of(checked: &Checked, globals: &Globals) {
    let n = checked.n;
    match checked.as_of {
        Some(seconds) => globals.note(format_args!(
            "filter of {n} items, as of {seconds} ({})",
            utc(seconds)
        )),
        None => globals.note(format_args!(
            "filter of {n} items, which does not say as of when"
        )),
    }
}

fn print(args: &CheckArgs, checked: &Checked, items: &ItemList) -> Result<(), CliError> {
    let maybe = checked.maybe.iter().filter(|&&maybe| maybe).count();
    let absent = checked.maybe.len() - maybe;
    if args.json {
        return print_json(args, checked, items, maybe);
    }
    let mut out = output::stdout();
    if args.count {
        writeln!(out, "maybe\t{maybe}\nabsent\t{absent}")?;
    } else {
        for (&maybe, item) in checked.maybe.iter().zip(items.texts()) {
            writeln!(out, "{}\t{item}", word(maybe))?;
        }
    }
    Ok(out.flush()?)
}

fn print_json(
    args: &CheckArgs,
    checked: &Checked,
    items: &ItemList,
    maybe: usize,
) -> Result<(), CliError> {
    let mut object = json!({
        "n": checked.n,
        "as_of": checked.as_of,
        "maybe": maybe,
        "absent": checked.maybe.len() - maybe,
    });
    if !args.count {
        let answers = checked.maybe.iter().zip(items.texts());
        object["answers"] = answers
            .map(|(&maybe, item)| json!({ "item": item, "answer": word(maybe) }))
            .collect();
    }
    output::print_json(&object)
}

fn word(maybe: bool) -> &'static str {
    if maybe { "maybe" } else { "absent" }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("{text} s is no time to wait"))
}
