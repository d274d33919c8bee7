//! `nutfilter inspect`: validates a filter, prints its properties, and detects its hash profile.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use nutfilter::{Filter, Nut23, Nut25, SipHash};
use nutfilter_cashu::Nut25EmptyTail;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::filter_file::{self, FilterFile, Key, RawArgs};
use crate::globals::Globals;
use crate::items::Encoding;
use crate::output::{self, utc};
use crate::profile::{AnyHash, ProfileArgs};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// Filter file, or `-` for standard input.
    filter: PathBuf,

    #[command(flatten)]
    raw: RawArgs,

    #[command(flatten)]
    profile: ProfileArgs,

    /// Item known to be in the set, to detect the filter's profile. Can be repeated.
    #[arg(long = "member", value_name = "ITEM")]
    members: Vec<String>,

    /// Encoding of the --member items.
    #[arg(long = "input", value_enum, value_name = "ENCODING", default_value_t = Encoding::Hex)]
    encoding: Encoding,

    /// Print a JSON object, even for an invalid filter.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Reads the whole filter and checks every value. Exit code: 0 valid, 2 invalid or unreadable.

With --member, each known hash is tried. One of them is a bug of an early mint, whose second half hashes no
input: other wallets do not find the members of its filters. Below a few thousand items it cannot be told from
nut25, because the second half hardly matters there.

Examples:
  nutfilter inspect spent.json
  nutfilter inspect spent.json --member 02a9ac... --member 03f1b2... --json
  bitcoin-cli getblockfilter $HASH | nutfilter inspect - --block-hash $HASH --member 0014...";

/// A hash that may have made the filter, and the number of members that match by it.
struct Candidate {
    name: &'static str,
    matched: usize,
}

/// The name of [`Nut25EmptyTail`] in the output.
const EMPTY_TAIL: &str = "nut25-empty-tail";

pub(crate) fn run(args: &InspectArgs, globals: &Globals) -> Result<(), CliError> {
    // Validation does not use the hasher. Members are hashed with each hasher in turn.
    let key = Key::Optional;
    let file = match filter_file::read(&args.filter, &args.raw, &args.profile, key, globals) {
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
    let candidates = candidates(args, &file)?;
    match args.json {
        true => output::print_json(&as_json(args, &file, &candidates)),
        false => output::print(as_text(args, &file, &candidates).as_bytes()),
    }
}

fn candidates(args: &InspectArgs, file: &FilterFile) -> Result<Vec<Candidate>, CliError> {
    if args.members.is_empty() {
        return Ok(Vec::new());
    }
    let mut hashers = vec![
        ("nut25", AnyHash::Nut25(Nut25)),
        ("nut23", AnyHash::Nut23(Nut23)),
        (EMPTY_TAIL, AnyHash::Nut25EmptyTail(Nut25EmptyTail)),
    ];
    if file.profile.is_keyed() {
        let Some(key) = args.profile.key()? else {
            return Err(CliError::usage(format!(
                "--member with --profile {} needs --block-hash HASH or --key-file FILE",
                file.profile.name()
            )));
        };
        hashers.push((file.profile.name(), AnyHash::Sip(SipHash::from_key(key))));
    }
    let members = args
        .members
        .iter()
        .map(|member| {
            let mut bytes = Vec::new();
            let decoded = args.encoding.decode_into(member.as_bytes(), &mut bytes);
            decoded.map_err(|error| CliError::at("--member", error))?;
            Ok(bytes)
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    let count = |(name, hasher): (&'static str, AnyHash)| {
        let matches = file.filter.with_hasher(hasher).matches(&members);
        let matched = matches.into_iter().filter(|&matched| matched).count();
        Candidate { name, matched }
    };
    Ok(hashers.into_iter().map(count).collect())
}

/// The hashes by which every member matches. One of them made the filter, unless all matches are chance.
fn speakers(args: &InspectArgs, candidates: &[Candidate]) -> Vec<&'static str> {
    let finds_all = |candidate: &&Candidate| candidate.matched == args.members.len();
    candidates
        .iter()
        .filter(finds_all)
        .map(|candidate| candidate.name)
        .collect()
}

fn as_json(args: &InspectArgs, file: &FilterFile, candidates: &[Candidate]) -> Value {
    let filter = &file.filter;
    let params = filter.params();
    let mut object = json!({
        "valid": true,
        "profile": file.names_profile.then(|| file.profile.name()),
        "n": filter.n(),
        "p": params.p(),
        "m": params.m(),
        "bytes": filter.bytes().len(),
        "bits_per_item": bits_per_item(filter),
        "rate": params.false_positive_rate(),
        "timestamp": file.timestamp,
    });
    if !candidates.is_empty() {
        let speakers = speakers(args, candidates);
        object["members"] = json!(args.members.len());
        object["matched"] = candidates
            .iter()
            .map(|tried| (tried.name, tried.matched))
            .collect();
        object["verdict"] = match speakers.as_slice() {
            [] => json!("none"),
            [one] => json!(one),
            _ => json!("ambiguous"),
        };
        object["speakers"] = json!(speakers);
    }
    object
}

fn as_text(args: &InspectArgs, file: &FilterFile, candidates: &[Candidate]) -> String {
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
    for Candidate { name, matched } in candidates {
        row(
            "members",
            format!("{matched} of {} by {name}", args.members.len()),
        );
    }
    if !candidates.is_empty() {
        row("verdict", verdict(&speakers(args, candidates)));
    }
    text
}

fn verdict(speakers: &[&str]) -> String {
    match speakers {
        [] => "no known profile matches every member: they are not members, or the hash is unknown"
            .to_owned(),
        [EMPTY_TAIL] => {
            format!("{EMPTY_TAIL}: wallets that follow NUT-25 will see spent notes as unspent")
        }
        [one] => one.to_string(),
        several => {
            format!("{}: ambiguous; give more members", several.join(" or "))
        }
    }
}

fn bits_per_item(filter: &Filter<impl AsRef<[u8]>, AnyHash>) -> Option<f64> {
    (filter.n() > 0).then(|| filter.bytes().len() as f64 * 8.0 / f64::from(filter.n()))
}
