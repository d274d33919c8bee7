//! `nutfilter restore`: gets a mint's signatures on the live notes of a wallet, showing it nothing else.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use nutfilter_wallet::cashu::{
    RestoredWallet, Seed, SeedError, WalletOptions, restore_wallet, tokens,
};
use nutfilter_wallet::{
    BlindSignature, CheckError, Fallback, FilterDates, MintClient, Outcome, QueryError,
    RestoreOptions, Restored, Warning,
};
use serde_json::{Value, json};

use crate::commands::serve::stop_signal;
use crate::error::{CliError, EXIT_ERROR};
use crate::io::fetch::{self, FetchArgs};
use crate::io::hex::{self, HexError};
use crate::io::items::Input;
use crate::io::output;
use crate::messages::{Globals, eprint_error};
use crate::value_parsers;

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "nutfilter restore [OPTIONS] --mint <URL> --seed-file <FILE>\n       \
                      nutfilter restore [OPTIONS] --mint <URL> --keyset <ID> <PAIRS>"
)]
pub(crate) struct RestoreArgs {
    /// File of candidates in counter order: one `B_<TAB>Y` in hex per line. `-`
    /// is standard input. Not with --seed-file.
    #[arg(value_name = "PAIRS", requires = "keyset")]
    pairs: Option<PathBuf>,

    /// URL of the mint, which is not trusted.
    #[arg(long = "mint", id = "mint", value_name = "URL", help_heading = "Mint")]
    url: String,

    /// File of the wallet's seed: BIP39 words in English, or 128 hex digits. `-`
    /// is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pairs", "keyset"])]
    seed_file: Option<PathBuf>,

    /// Unit of the notes to restore from the seed.
    #[arg(long, value_name = "UNIT", default_value = "sat", conflicts_with = "pairs")]
    unit: String,

    /// Whether to show the mint every message of the seed if its filters are
    /// missing: never, always, or only if it announces none (unannounced).
    #[arg(long, value_name = "WHEN", value_parser = value_parsers::fallback(), default_value = "unannounced", conflicts_with = "pairs")]
    fallback: Fallback,

    /// Keyset of the candidates.
    #[arg(
        long,
        value_name = "ID",
        allow_hyphen_values = true,
        requires = "pairs",
        help_heading = "Mint"
    )]
    keyset: Option<String>,

    /// Number of live notes that the wallet expects. If far more match, fails
    /// and shows the mint nothing; if far fewer match, warns.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    expected: Option<u64>,

    /// Confirm matches in the filter of spent notes with the mint, which shows it
    /// every spent note of the wallet, and with --seed-file the live ones too.
    #[arg(long)]
    confirm: bool,

    /// Also print notes that may be spent, each in its own token: those whose
    /// state a mint without filters did not report.
    #[arg(long, conflicts_with = "pairs")]
    unchecked: bool,

    /// Time limit in seconds for all requests, including waits [default: 600].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = fetch::parse_seconds, help_heading = "Mint")]
    time_limit: Option<Duration>,

    #[command(flatten)]
    fetch: FetchArgs,
}

const EXAMPLES: &str = "\
Fetches both filters of each keyset, looks up all counters locally, and requests
signatures (NUT-09) only for notes that are issued and not spent.

With --seed-file, restores all keysets of the unit and prints one token per 100
notes. Anyone who sees a token can spend it: receive it in a wallet at once.
A table of the keysets is printed to stderr. New notes of the same seed must
begin at the table's next counter. Gaps of up to 1,000 counters are searched,
of 300 before a keyset's first note and without filters.

With PAIRS, prints one line per candidate, in input order:
  live<TAB>B_<TAB>signature   the signature is JSON: amount, id, C_, maybe dleq
  spent<TAB>B_                in the filter of spent notes
  pending<TAB>B_              a payment is pending (with --confirm)
  unused<TAB>B_               not issued as of the filter's time
  unsigned<TAB>B_             in `issued`, but the mint gave no signature
  expired<TAB>B_              live, but the keyset has expired
  unknown<TAB>B_              not issued, but the filter's hash is in doubt
The signatures are not verified: unblind them, and check them against the keys
of the keyset that they name. On error or ctrl-c, results so far are printed;
rerun with the remaining candidates.

Without --confirm, one unspent note in M is taken for spent; stderr says how
likely that is.
Exit code: 0 if a note is live, 1 if none is, 2 on error.

Examples:
  nutfilter restore --mint https://mint.example --seed-file words.txt
  nutfilter restore --mint https://mint.example \\
      --keyset 009a1f293253e41e pairs
  nutfilter restore --mint https://mint.example --keyset 009a1f293253e41e \\
      pairs --confirm | grep ^live | cut -f2,3";

/// Maximum size of a seed file: 24 words, and room for white space.
const MAX_SEED_BYTES: u64 = 10_000;

/// `B_` and `Y`.
type Pair = (Vec<u8>, Vec<u8>);

pub(crate) fn run(args: &RestoreArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let usual = RestoreOptions::default();
    let options = RestoreOptions {
        expected: args.expected,
        confirm: args.confirm,
        time_limit: args.time_limit.unwrap_or(usual.time_limit),
        fallback: args.fallback,
        ..usual
    };
    let client = || -> Result<_, CliError> {
        let client = fetch::client(&args.url, &args.fetch, globals)?;
        Ok(client.with_abort(stop_flag(globals)?))
    };
    match (&args.seed_file, &args.pairs, &args.keyset) {
        (Some(file), ..) => {
            let seed = read_seed(file, globals)?;
            from_seed(&client()?, &seed, args, options, globals)
        }
        (_, Some(pairs), Some(keyset)) => {
            let pairs = read_pairs(pairs)?;
            // Without filters, all of the list would be shown.
            let options = RestoreOptions { fallback: Fallback::Never, ..options };
            from_pairs(&client()?, &pairs, keyset, &options, globals)
        }
        _ => Err(CliError::usage("expected --seed-file, or --keyset and PAIRS")),
    }
}

/// A flag that the first ctrl-c or SIGTERM sets. The second one ends the process.
fn stop_flag(globals: &Globals) -> Result<Arc<AtomicBool>, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (first, second) = {
        let _context = runtime.enter();
        (stop_signal(1)?, stop_signal(2)?)
    };
    let (flag, globals) = (Arc::new(AtomicBool::new(false)), *globals);
    let set = flag.clone();
    thread::spawn(move || {
        runtime.block_on(first);
        set.store(true, Ordering::Relaxed);
        globals.note("stopping; a second signal ends the command without its results");
        runtime.block_on(second);
        std::process::exit(EXIT_ERROR.into());
    });
    Ok(flag)
}

/// Reads a seed. No error contains any of it.
fn read_seed(path: &Path, globals: &Globals) -> Result<Seed, CliError> {
    #[cfg(unix)]
    if let Ok(file) = path.metadata() {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.permissions().mode() & 0o777;
        if file.is_file() && mode & 0o077 != 0 {
            globals.warn(format_args!(
                "{}: other users may read the seed (mode {mode:03o}); use chmod 600",
                path.display()
            ));
        }
    }
    let input = Input::open(path)?;
    let name = input.name.clone();
    let bytes = input.read_at_most(MAX_SEED_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| CliError::at(&name, "invalid UTF-8"))?;
    text.parse().map_err(|error: SeedError| CliError::at(&name, error))
}

/// Prints the notes of a seed as tokens, and a table of its keysets on stderr.
fn from_seed(
    client: &MintClient,
    seed: &Seed,
    args: &RestoreArgs,
    options: RestoreOptions,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let options = WalletOptions { restore: options, ..WalletOptions::default() };
    let at = |error: &dyn Display| CliError::at(fetch::place(client), error);
    let unit = &args.unit;
    let of = |notes| tokens(client.base_url(), unit, notes).map_err(|error| at(&error));
    // Before anything is shown: a URL that no token can have.
    of(Vec::new())?;
    let wallet = restore_wallet(client, seed, unit, &options).map_err(|error| at(&error))?;
    let mut tokens = of(wallet.notes().collect::<Vec<_>>())?;
    let unchecked = wallet.unchecked().count();
    if args.unchecked {
        // A spent note makes a mint refuse all of its token.
        for note in wallet.unchecked() {
            tokens.extend(of(vec![note])?);
        }
    }
    let printed = written(output::print((tokens.join("\n") + "\n").trim_start().as_bytes()));
    let mut problems = wallet.problems.len();
    for problem in &wallet.problems {
        eprint_error(problem);
    }
    for one in &wallet.keysets {
        let id = &one.keyset.id;
        for warning in one.restored.iter().flat_map(|restored| &restored.warnings) {
            let message = format!("keyset {id}: {warning}");
            match warning {
                Warning::Refused { .. } | Warning::Unchecked { .. } => {
                    eprint_error(message);
                    problems += 1;
                }
                _ => globals.warn(message),
            }
        }
        if let Some(chance) = one.restored.as_ref().and_then(|restored| restored.chance) {
            globals.note(format_args!("keyset {id}: {chance}; --confirm asks the mint"));
        }
        for problem in &one.problems {
            eprint_error(format_args!("keyset {id}: {problem}"));
        }
        problems += one.problems.len();
        let unproved = one.notes.iter().filter(|note| note.dleq.is_none()).count();
        if unproved > 0 {
            globals.warn(format_args!(
                "keyset {id}: {unproved} notes have no DLEQ proof; only a swap shows whether they are valid"
            ));
        }
    }
    fetch::warn(&wallet.warnings, globals);
    table(&wallet, globals);
    let (notes, worth) = (wallet.notes().count(), wallet.worth());
    globals.note(format_args!(
        "restored {notes} notes worth {worth} {unit}, in {} tokens",
        tokens.len()
    ));
    if unchecked > 0 && !args.unchecked {
        globals.warn(format_args!(
            "{unchecked} notes that may be spent are not printed; rerun when the mint answers, or with --unchecked"
        ));
    }
    printed?;
    if problems > 0 {
        return Err(CliError::failed(format_args!(
            "{problems} problems, so notes may be missing; the notes found are printed"
        )));
    }
    Ok(output::exit_code(notes > 0))
}

/// Prints a line for each keyset.
fn table(wallet: &RestoredWallet, globals: &Globals) {
    let heads = ["keyset", "found", "spent", "pending", "next counter", "as of"];
    let rows = wallet.keysets.iter().map(|one| {
        let id = one.keyset.id.to_string();
        let found = one.notes.len().to_string();
        let known = one.restored.as_ref();
        let Some(restored) = known.filter(|restored| !restored.outcomes.is_empty()) else {
            return [&id, "?", "?", "?", "?", "?"].map(str::to_owned);
        };
        let count = |wanted: &Outcome| {
            let outcomes = restored.outcomes.iter();
            outcomes.filter(|&outcome| outcome == wanted).count().to_string()
        };
        let (spent, pending) = (count(&Outcome::Spent), count(&Outcome::Pending));
        let oldest = restored.as_of.map(|as_of| as_of.spent.min(as_of.issued));
        let as_of = oldest.map_or_else(|| "now, without filters".to_owned(), output::utc);
        [id, found, spent, pending, restored.next_counter().to_string(), as_of]
    });
    let rows: Vec<_> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let lengths = |column: usize| rows.iter().map(move |row: &[String; 6]| row[column].len());
    let width = |column| lengths(column).max().unwrap_or_default();
    for [id, numbers @ .., as_of] in &rows {
        let mut line = format!("{id:width$}", width = width(0));
        for (column, number) in (1..).zip(numbers) {
            line.push_str(&format!("  {number:>width$}", width = width(column)));
        }
        globals.note(format_args!("{line}  {as_of}"));
    }
}

/// Prints a line for each candidate.
fn from_pairs(
    client: &MintClient,
    pairs: &[Pair],
    keyset: &str,
    options: &RestoreOptions,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let at = |error: QueryError| match error {
        QueryError::Check(error @ CheckError::TooManyMatches { .. }) => {
            fetch::refused(client.base_url(), error)
        }
        error => CliError::at(fetch::place(client), error),
    };
    let keyset = fetch::keyset(client, keyset)?;
    let (restored, error) = match client.restore(&keyset, pairs, options) {
        Ok(restored) => (restored, None),
        Err(error) => match error.unfinished {
            Some(unfinished) => (unfinished.so_far(), Some(at(error.cause))),
            None => return Err(at(error.cause)),
        },
    };
    let printed = written(print(&restored, pairs));
    if let Some(error) = error {
        eprint_error(error);
    }
    let left = report(&restored, globals);
    printed?;
    if left > 0 {
        let total = pairs.len();
        return Err(CliError::failed(format_args!(
            "{left} of {total} candidates have no result; rerun with only these"
        )));
    }
    let is_live = |one: &Outcome| matches!(one, Outcome::Live(_));
    Ok(output::exit_code(restored.outcomes.iter().any(is_live)))
}

/// Notes that nobody has read are not restored, whether the disk is full or the reader has gone.
fn written(result: Result<(), CliError>) -> Result<(), CliError> {
    result.map_err(|error| {
        let error = format_args!("{error}; not all results were written; run the command again");
        CliError::at("standard output", error)
    })
}

fn read_pairs(path: &Path) -> Result<Vec<Pair>, CliError> {
    let input = Input::open(path)?;
    let name = input.name.clone();
    let bytes = input.read_all()?;
    let mut pairs = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        let fields = line.split(u8::is_ascii_whitespace);
        let fields: Vec<_> = fields.filter(|field| !field.is_empty()).collect();
        let decoded = fields.iter().map(|field| {
            let mut bytes = Vec::new();
            let decoded = hex::decode_into(field, &mut bytes);
            let explain =
                |error: HexError| hex::about_token(field).map_or(error.to_string(), str::to_owned);
            decoded.map(|()| bytes).map_err(explain)
        });
        let at = |error: &dyn std::fmt::Display| {
            CliError::at(format_args!("{name}, line {number}"), error)
        };
        let decoded: Vec<_> = decoded.collect::<Result<_, _>>().map_err(|error| at(&error))?;
        match <[Vec<u8>; 2]>::try_from(decoded) {
            Ok([blinded, y]) => pairs.push((blinded, y)),
            Err(decoded) if decoded.is_empty() => {}
            Err(decoded) => {
                let found = decoded.len();
                return Err(at(&format_args!("expected B_ and Y in hex, found {found} fields")));
            }
        }
    }
    match pairs.is_empty() {
        true => Err(CliError::at(name, "no candidates")),
        false => Ok(pairs),
    }
}

/// Prints a line for each candidate whose outcome is known.
fn print(restored: &Restored, pairs: &[Pair]) -> Result<(), CliError> {
    let mut out = output::stdout();
    for (outcome, (blinded, _)) in restored.outcomes.iter().zip(pairs) {
        let (word, blinded) = (outcome.word(), const_hex::encode(blinded));
        match outcome {
            Outcome::Open | Outcome::Refused(_) => {}
            Outcome::Live(signature) => {
                writeln!(out, "{word}\t{blinded}\t{}", as_json(signature))?;
            }
            _ => writeln!(out, "{word}\t{blinded}")?,
        }
    }
    Ok(out.flush()?)
}

/// Says on stderr what the lines do not. Returns the number of candidates without a line.
fn report(restored: &Restored, globals: &Globals) -> usize {
    let mut left = 0;
    if let Some(FilterDates { spent, issued }) = restored.as_of {
        let [spent, issued] = [spent, issued].map(|at| format!("{at} ({})", output::utc(at)));
        globals.note(format_args!("as of {spent} for spent notes, {issued} for issued ones"));
    }
    // Refused candidates are named below, each with its error.
    let is_said = |one: &&Warning| !matches!(one, Warning::Refused { .. });
    restored.warnings.iter().filter(is_said).for_each(|warning| globals.warn(warning));
    for (number, outcome) in (1..).zip(&restored.outcomes) {
        match outcome {
            Outcome::Open => left += 1,
            Outcome::Refused(error) => {
                globals.warn(format_args!("candidate {number}: {error}"));
                left += 1;
            }
            _ => {}
        }
    }
    if let Some(chance) = restored.chance {
        globals.note(format_args!("{chance}; --confirm asks the mint"));
    }
    let next = restored.next_counter();
    let gap = restored.gap;
    globals.note(format_args!(
        "next counter: {next}, with a gap of {gap}, if the first candidate has counter 0"
    ));
    left
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
