//! `nutfilter restore`: gets a mint's signatures on the blinded messages that match its filter.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nutfilter::{ItemHash, Nut23, Nut25};
use nutfilter_wallet::{BlindSignature, MintFilter, NoteKind, Restored};
use serde_json::{Value, json};

use crate::check::say_as_of;
use crate::error::CliError;
use crate::fetch::{self, AskArgs, FetchArgs};
use crate::globals::Globals;
use crate::items::{Input, ItemList};
use crate::output;
use crate::profile::{self, AnyHash, ProfileArgs};
use crate::progress::Progress;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// File of blinded messages `B_`, one hex item per line; `-` is standard input.
    #[arg(value_name = "ITEMS")]
    items: PathBuf,

    /// URL of the mint. The mint is not trusted.
    #[arg(
        long = "mint",
        id = "mint",
        value_name = "URL",
        help_heading = "Mint filter"
    )]
    url: String,

    /// Keyset of the messages.
    #[arg(
        long,
        value_name = "ID",
        allow_hyphen_values = true,
        help_heading = "Mint filter"
    )]
    keyset: String,

    #[command(flatten)]
    profile: ProfileArgs,

    /// Print the counts instead of a line for each item.
    #[arg(long)]
    count: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    fetch: FetchArgs,

    #[command(flatten)]
    ask: AskArgs,
}

const EXAMPLES: &str = "\
Fetches the filter of the keyset's issued notes, and asks the mint for signatures (NUT-09) on the matching
items. Prints one line per item, in input order:
  signed<TAB>item<TAB>signature   the signature is a JSON object with amount, id, C_ and, if present, dleq
  unsigned<TAB>item               the item matched by chance
  absent<TAB>item                 the item is not in the filter
Exit code: 0 some item has a signature, 1 none has, 2 error.

The signatures are not verified: unblind them, and check them against the keyset's keys. Deriving the messages
from a seed, and deciding when to stop (the gap limit of NUT-13), is up to the wallet.

Examples:
  nutfilter restore --mint https://mint.example --keyset 009a1f293253e41e blinded.hex
  nutfilter restore --mint https://mint.example --keyset 009a1f293253e41e blinded.hex | grep ^signed | cut -f2,3";

/// The results, and the properties of the filter.
struct Answers {
    restored: Vec<Restored>,
    n: u32,
    as_of: u64,
}

pub(crate) fn run(args: &RestoreArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let hasher = args.profile.hasher()?;
    let items = ItemList::read(Input::open(&args.items)?, globals)?;
    let answers = match hasher {
        AnyHash::Nut25(_) => restore::<Nut25>(args, &items, globals)?,
        AnyHash::Nut23(_) => restore::<Nut23>(args, &items, globals)?,
        _ => return Err(profile::not_of_mints()),
    };
    if !args.json {
        say_as_of(u64::from(answers.n), Some(answers.as_of), globals);
    }
    let is_signed = |one: &Restored| matches!(one, Restored::Signed(_));
    let any = answers.restored.iter().any(is_signed);
    output::exit_code(print(args, &answers, &items), any)
}

fn restore<H: ItemHash + Default>(
    args: &RestoreArgs,
    items: &ItemList,
    globals: &Globals,
) -> Result<Answers, CliError> {
    let keyset = fetch::keyset(&args.keyset)?;
    let client = fetch::client(&args.url, &args.fetch, &args.ask, globals)?;
    let filter: MintFilter<H> =
        fetch::filter(&client, &args.fetch, &keyset, NoteKind::Issued, globals)?;
    let items = items.items();
    let matches = filter
        .matches(&items, args.fetch.expected)
        .map_err(|error| fetch::refused(client.base_url(), error))?;
    fetch::warn(&matches, globals);
    let _progress = Progress::uncounted(globals, format!("querying {}", client.base_url()));
    let restored = client
        .restore(&keyset, &matches)
        .map_err(|error| CliError::at(fetch::place(&client), error))?;
    Ok(Answers {
        restored,
        n: filter.n(),
        as_of: filter.as_of(),
    })
}

fn print(args: &RestoreArgs, answers: &Answers, items: &ItemList) -> Result<(), CliError> {
    let all = || answers.restored.iter().zip(items.texts());
    let count = |wanted| all().filter(|(one, _)| word(one) == wanted).count();
    let words = ["signed", "unsigned", "absent"];
    if args.json {
        let mut object = json!({ "n": answers.n, "as_of": answers.as_of });
        for word in words {
            object[word] = count(word).into();
        }
        if !args.count {
            object["answers"] = all().map(|(one, item)| entry(one, item)).collect();
        }
        return output::print_json(&object);
    }
    let mut out = output::stdout();
    if args.count {
        for word in words {
            writeln!(out, "{word}\t{}", count(word))?;
        }
        return Ok(out.flush()?);
    }
    for (one, item) in all() {
        write!(out, "{}\t{item}", word(one))?;
        if let Restored::Signed(signature) = one {
            write!(out, "\t{}", as_json(signature))?;
        }
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

fn word(restored: &Restored) -> &'static str {
    match restored {
        Restored::Absent { .. } => "absent",
        Restored::Unsigned => "unsigned",
        Restored::Signed(_) => "signed",
    }
}

fn entry(restored: &Restored, item: &str) -> Value {
    let mut entry = json!({ "item": item, "answer": word(restored) });
    if let Restored::Signed(signature) = restored {
        entry["signature"] = as_json(signature);
    }
    entry
}

/// Writes a signature as in NUT-00, so that wallets can parse it.
fn as_json(signature: &BlindSignature) -> Value {
    let mut object = json!({
        "amount": signature.amount,
        "id": signature.keyset.as_str(),
        "C_": const_hex::encode(&signature.c),
    });
    if let Some(dleq) = signature.dleq {
        object["dleq"] = json!({ "e": const_hex::encode(dleq.e), "s": const_hex::encode(dleq.s) });
    }
    object
}
