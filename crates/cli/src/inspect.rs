//! `nutfilter inspect`: validates a filter, and prints its properties.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use nutfilter::Filter;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::filter_file::{self, FilterFile};
use crate::output::{self, utc};
use crate::profile::AnyHash;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// Filter file, or `-` for standard input.
    filter: PathBuf,

    /// Print a JSON object, even for an invalid filter.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Reads the whole filter and checks every value; needs no key. Exit code: 0 valid,
2 invalid or unreadable. `check` with items that are in the set says which hash
made a mint's filter.

Examples:
  nutfilter inspect spent.json
  bitcoin-cli getblockfilter $HASH | nutfilter inspect - --json";

pub(crate) fn run(args: &InspectArgs) -> Result<(), CliError> {
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
        "profile": file.names_profile.then(|| file.profile.name()),
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
        row("profile", file.profile.name().to_owned());
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
