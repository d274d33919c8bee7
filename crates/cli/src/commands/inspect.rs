//! `nutfilter inspect`: validates a filter, and prints its properties; or those of all filters of a mint.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use clap::Args;
use nutfilter::{AnyHash, Filter, Nut25};
use nutfilter_wallet::{KeysetId, NoteKind};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::io::fetch::{self, FetchArgs};
use crate::io::filter_file::{self, FilterFile};
use crate::io::output::{self, utc};
use crate::messages::Globals;
use crate::profile::name_of;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// Filter file, `-` for standard input, or the URL of a mint or of one of its filters.
    #[arg(id = "mint", value_name = "FILTER|URL")]
    filter: PathBuf,

    /// With a URL: exit with 3 if a filter is older than this many seconds.
    #[arg(long, value_name = "SECONDS")]
    max_age: Option<u64>,

    #[command(flatten)]
    fetch: FetchArgs,

    /// Print a JSON object, even for an invalid filter.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Reads the whole filter and checks every value; needs no key. To see which hash a
mint's filter was made with, run `check` with items that are in the set. With a
URL, prints keyset, kind, number of items and timestamp of each filter, as
wallets get them.
Exit code: 0 valid, 2 invalid or unreadable, 3 older than --max-age.

Examples:
  nutfilter inspect spent.json
  nutfilter inspect https://mint.example --max-age 1800
  bitcoin-cli getblockfilter $HASH | nutfilter inspect - --json";

pub(crate) fn run(args: &InspectArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let url = args.filter.to_str().unwrap_or_default();
    match url.starts_with("http://") || url.starts_with("https://") {
        true => mint(args, url, globals),
        false if args.max_age.is_some() => Err(CliError::usage("--max-age needs a URL")),
        false => file(args).map(|()| ExitCode::SUCCESS),
    }
}

/// Exit code if a filter is too old.
const EXIT_TOO_OLD: u8 = 3;

/// All filters of a mint, or the one at a URL.
fn mint(args: &InspectArgs, url: &str, globals: &Globals) -> Result<ExitCode, CliError> {
    let one = NoteKind::ALL.into_iter().find_map(|kind| {
        let (base, keyset) = url.split_once(&format!("/v1/filter/{kind}/"))?;
        Some((base, kind, keyset))
    });
    let client = fetch::client(one.map_or(url, |(base, ..)| base), &args.fetch, globals)?;
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    // The mint may have removed the notes of a keyset that ended; its filters stay as they were.
    let has_ended = |end: Option<u64>| end.is_some_and(|end| end < now);
    let of_all = |keyset: &KeysetId, ended| NoteKind::ALL.map(|kind| (keyset.clone(), kind, ended));
    let wanted: Vec<_> = match one {
        Some((_, kind, keyset)) => vec![(fetch::keyset(&client, keyset)?, kind, false)],
        None => {
            let keysets = client.keysets();
            let keysets = keysets.map_err(|error| CliError::at(fetch::place(&client), error))?;
            let all = keysets.iter().flat_map(|one| of_all(&one.id, has_ended(one.final_expiry)));
            all.collect()
        }
    };
    if wanted.is_empty() {
        return Err(CliError::at(fetch::place(&client), "the mint has no keysets"));
    }
    let (mut rows, mut oldest) = (vec![], 0);
    for (keyset, kind, has_ended) in wanted {
        let filter = fetch::filter::<Nut25>(&client, &keyset, kind)?;
        let (n, timestamp) = (filter.n(), filter.as_of());
        let age = now.saturating_sub(timestamp);
        oldest = oldest.max(if has_ended { 0 } else { age });
        let kind = kind.as_str();
        match args.json {
            true => rows.push(json!({
                "keyset": keyset.as_str(), "kind": kind, "n": n, "timestamp": timestamp, "age": age,
            })),
            false => output::print(
                format!("{keyset}\t{kind}\t{n}\t{timestamp}\t{}\n", utc(timestamp)).as_bytes(),
            )?,
        }
    }
    if args.json {
        output::print_json(&rows.into())?;
    }
    match args.max_age.filter(|&limit| oldest > limit) {
        None => Ok(ExitCode::SUCCESS),
        Some(limit) => {
            globals.note(format_args!("a filter is {oldest} s old, maximum is {limit} s"));
            Ok(ExitCode::from(EXIT_TOO_OLD))
        }
    }
}

fn file(args: &InspectArgs) -> Result<(), CliError> {
    let file = match filter_file::read(&args.filter, None) {
        Ok(file) => file,
        Err(CliError::Failed(error)) if args.json => {
            return match output::print_json(&json!({ "valid": false, "error": error })) {
                // The filter is invalid even if nobody reads the reason.
                Ok(()) | Err(CliError::OutputClosed) => Err(CliError::Failed(error)),
                Err(error) => Err(error),
            };
        }
        Err(error) => return Err(error),
    };
    match args.json {
        true => output::print_json(&as_json(&file)),
        false => output::print(as_text(&file).as_bytes()),
    }
}

fn as_json(file: &FilterFile) -> Value {
    let filter = &file.filter;
    let params = filter.params();
    json!({
        "valid": true,
        "profile": file.names_profile.then(|| name_of(file.profile)),
        "n": filter.n(),
        "p": params.p(),
        "m": params.m(),
        "bytes": filter.bytes().len(),
        "bits_per_item": bits_per_item(filter),
        "rate": params.false_positive_rate(),
        "timestamp": file.timestamp,
    })
}

fn as_text(file: &FilterFile) -> String {
    let filter = &file.filter;
    let params = filter.params();
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14} {value}");
    };
    row("items", filter.n().to_string());
    if file.names_profile {
        row("profile", name_of(file.profile).to_owned());
    }
    row("P", params.p().to_string());
    row("M", params.m().to_string());
    row("bytes", output::size(filter.bytes().len() as u64));
    if let Some(bits) = bits_per_item(filter) {
        row("bits per item", format!("{bits:.3}"));
    }
    row("rate", format!("1 in {} look-ups", params.m()));
    if let Some(timestamp) = file.timestamp {
        row("timestamp", format!("{timestamp} ({})", utc(timestamp)));
    }
    row("valid", "yes".to_owned());
    text
}

fn bits_per_item(filter: &Filter<impl AsRef<[u8]>, AnyHash>) -> Option<f64> {
    (filter.n() > 0).then(|| filter.bytes().len() as f64 * 8.0 / f64::from(filter.n()))
}
