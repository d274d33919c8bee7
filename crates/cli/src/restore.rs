//! `nutfilter restore`: gets a mint's signatures on the blinded messages that match its filter.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use data_encoding::HEXLOWER;
use nutfilter::{ItemHash, Nut23, Nut25};
use nutfilter_cashu::state_filters::Event;
use nutfilter_wallet::follow::{FollowError, Follower};
use nutfilter_wallet::{BlindSignature, MintClient, MintFilter, NoteKind, Restored};
use serde_json::{Value, json};

use crate::check::{Verdict, say_as_of};
use crate::error::CliError;
use crate::fetch::{self, AskArgs, FetchArgs};
use crate::globals::Globals;
use crate::items::{Input, ItemList};
use crate::output::{self, utc};
use crate::profile::{self, AnyHash, ProfileArgs};
use crate::progress::Progress;
use crate::state_filters::announce;

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

    /// Use the mint's state filters (kind blind_signature, all keysets in one sequence) instead of the filter of the
    /// keyset. --min-m, --min-p, --max-p, --last-seen, --expected and --cache have no effect.
    #[arg(long, conflicts_with_all = ["min_m", "min_p", "max_p", "last_seen", "expected", "cache", "profile"])]
    state_filters: bool,

    /// File of the points Y of the same notes, in the same order as ITEMS. Those of the signed items are looked up in
    /// the state filters for proof_state, and the mint is asked which of the matches are spent.
    #[arg(
        long,
        value_name = "FILE",
        requires = "state_filters",
        conflicts_with = "count"
    )]
    ys: Option<PathBuf>,

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
With --ys, `signed` lines end in <TAB>spent, pending, unspent (matched by chance) or absent (not in the state
filters for spent proofs).
Exit code: 0 some item has a signature, 1 none has, 2 error.

The signatures are not verified: unblind them, and check them against the keyset's keys. Deriving the messages
from a seed, and deciding when to stop (the gap limit of NUT-13), is up to the wallet.

Examples:
  nutfilter restore --mint https://mint.example --keyset 009a1f293253e41e blinded.hex
  nutfilter restore --mint https://mint.example --keyset 009a1f293253e41e blinded.hex | grep ^signed | cut -f2,3
  nutfilter restore --mint https://mint.example --keyset 009a1f293253e41e --state-filters --ys ys.hex blinded.hex";

/// The results, and the properties of the filter.
struct Answers {
    restored: Vec<Restored>,
    /// Unknown for state filters.
    n: Option<u32>,
    as_of: u64,
    /// For each item with a signature, whether its proof is spent, if that was asked.
    spent: Vec<Option<Verdict>>,
}

pub(crate) fn run(args: &RestoreArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let hasher = args.profile.hasher()?;
    let items = ItemList::read(Input::open(&args.items)?, globals)?;
    let answers = match hasher {
        _ if args.state_filters => restore_by_state_filters(args, &items, globals)?,
        AnyHash::Nut25(_) => restore::<Nut25>(args, &items, globals)?,
        AnyHash::Nut23(_) => restore::<Nut23>(args, &items, globals)?,
        _ => return Err(profile::not_of_mints()),
    };
    if !args.json {
        match answers.n {
            Some(n) => say_as_of(u64::from(n), Some(answers.as_of), globals),
            None => globals.note(format_args!("as of {}", utc(answers.as_of))),
        }
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
    let policy = fetch::policy(&args.fetch, &args.ask);
    let client = fetch::client(&args.url, policy, &args.fetch.connection, globals)?;
    let filter: MintFilter<H> =
        fetch::filter(&client, &args.fetch, &keyset, NoteKind::Issued, globals)?;
    let items = items.items();
    let matches = filter
        .matches(&items, args.fetch.expected)
        .map_err(|error| fetch::refused(client.base_url(), error))?;
    fetch::warn(&matches, globals);
    let _progress = Progress::spinner(globals, format!("querying {}", client.base_url()));
    let restored = client
        .restore(&keyset, &matches)
        .map_err(|error| CliError::at(fetch::place(&client), error))?;
    Ok(Answers {
        restored,
        n: Some(filter.n()),
        as_of: filter.as_of(),
        spent: vec![],
    })
}

fn restore_by_state_filters(
    args: &RestoreArgs,
    items: &ItemList,
    globals: &Globals,
) -> Result<Answers, CliError> {
    let keyset = fetch::keyset(&args.keyset)?;
    let policy = fetch::policy(&args.fetch, &args.ask);
    let client = fetch::client(&args.url, policy, &args.fetch.connection, globals)?;
    let place = fetch::place(&client);
    let at = |error: FollowError| CliError::at(&place, error);
    let items = items.items();
    let ys = match &args.ys {
        Some(path) => Some(read_ys(path, items.len(), globals)?),
        None => None,
    };
    let follower = Follower::new(client.clone(), Event::BlindSignature, &[], &items)?;
    let plan = follower.plan(None, None, None).map_err(at)?;
    announce(&plan, globals);
    let matches = follower.matches(&plan, &items).map_err(at)?;
    let restored = client
        .restore(&keyset, &matches)
        .map_err(|error| CliError::at(&place, error))?;
    let spent = match ys {
        Some(ys) => look_up_spent(&client, &restored, &ys.items(), globals)?,
        None => vec![],
    };
    Ok(Answers {
        restored,
        n: None,
        as_of: matches.as_of(),
        spent,
    })
}

fn read_ys(path: &Path, items: usize, globals: &Globals) -> Result<ItemList, CliError> {
    let ys = ItemList::read(Input::open(path)?, globals)?;
    let count = ys.items().len();
    if count != items {
        return Err(CliError::at(
            path.display(),
            format_args!("{count} points for {items} items; give one for each item"),
        ));
    }
    Ok(ys)
}

/// For each item with a signature, whether its proof is spent: the state filters first, and the mint about matches.
fn look_up_spent(
    client: &MintClient,
    restored: &[Restored],
    ys: &[&[u8]],
    globals: &Globals,
) -> Result<Vec<Option<Verdict>>, CliError> {
    let place = fetch::place(client);
    let at = |error: FollowError| CliError::at(&place, error);
    let is_signed = |one: &Restored| matches!(one, Restored::Signed(_));
    let signed = restored.iter().zip(ys).filter(|(one, _)| is_signed(one));
    let signed: Vec<&[u8]> = signed.map(|(_, y)| *y).collect();
    if signed.is_empty() {
        return Ok(vec![None; restored.len()]);
    }
    let follower = Follower::new(client.clone(), Event::ProofState, &["SPENT"], &signed)?;
    let plan = follower.plan(None, None, None).map_err(at)?;
    announce(&plan, globals);
    let matches = follower.matches(&plan, &signed).map_err(at)?;
    let confirmed = client
        .confirm(&matches)
        .map_err(|error| CliError::at(&place, error))?;
    let mut verdicts = confirmed.into_iter().map(Verdict::of);
    let verdict = |one| is_signed(one).then(|| verdicts.next()).flatten();
    Ok(restored.iter().map(verdict).collect())
}

fn print(args: &RestoreArgs, answers: &Answers, items: &ItemList) -> Result<(), CliError> {
    let all = || answers.restored.iter().zip(items.texts());
    let spent = || answers.spent.iter().copied().chain(std::iter::repeat(None));
    let count = |wanted| all().filter(|(one, _)| word(one) == wanted).count();
    let words = ["signed", "unsigned", "absent"];
    if args.json {
        let mut object = json!({ "n": answers.n, "as_of": answers.as_of });
        for word in words {
            object[word] = count(word).into();
        }
        if !args.count {
            let entries = all().zip(spent());
            object["answers"] = entries
                .map(|((one, item), spent)| entry(one, item, spent))
                .collect();
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
    for ((one, item), spent) in all().zip(spent()) {
        write!(out, "{}\t{item}", word(one))?;
        if let Restored::Signed(signature) = one {
            write!(out, "\t{}", as_json(signature))?;
        }
        match spent {
            Some(verdict) => writeln!(out, "\t{}", verdict.as_str())?,
            None => writeln!(out)?,
        }
    }
    Ok(out.flush()?)
}

pub(crate) fn word(restored: &Restored) -> &'static str {
    match restored {
        Restored::Absent { .. } => "absent",
        Restored::Unsigned => "unsigned",
        Restored::Signed(_) => "signed",
    }
}

fn entry(restored: &Restored, item: &str, spent: Option<Verdict>) -> Value {
    let mut entry = json!({ "item": item, "answer": word(restored) });
    if let Restored::Signed(signature) = restored {
        entry["signature"] = as_json(signature);
    }
    if let Some(verdict) = spent {
        entry["state"] = verdict.as_str().into();
    }
    entry
}

/// Writes a signature as in NUT-00, so that wallets can parse it.
pub(crate) fn as_json(signature: &BlindSignature) -> Value {
    let mut object = json!({
        "amount": signature.amount,
        "id": signature.keyset.as_str(),
        "C_": HEXLOWER.encode(&signature.c),
    });
    if let Some(dleq) = signature.dleq {
        object["dleq"] = json!({ "e": HEXLOWER.encode(&dleq.e), "s": HEXLOWER.encode(&dleq.s) });
    }
    object
}
