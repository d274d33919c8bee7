//! `nutfilter element`: prints the elements of events.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use data_encoding::HEXLOWER;
use nutfilter_cashu::state_filters::{ElementHash, Event};

use crate::error::CliError;
use crate::globals::Globals;
use crate::items::{Input, InputArgs};
use crate::output;
use crate::value_parsers;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ElementArgs {
    /// Kind of events.
    #[arg(long, value_parser = event())]
    kind: Event,

    /// State of the events: UNSPENT, PENDING or SPENT for proof_state; UNPAID, PENDING or PAID for melt_quote. Other
    /// kinds have no states.
    #[arg(long)]
    state: Option<String>,

    /// File of IDs, one per line, or `-` for standard input: compressed points in hex for proof_state and
    /// blind_signature, quote IDs as text for mint_quote and melt_quote.
    items: PathBuf,
}

const EXAMPLES: &str = "\
Prints one element per ID, in order, as 64 hex digits. Empty lines are ignored; repeated IDs are not.

Examples:
  nutfilter element --kind proof_state --state SPENT ys.hex > elements.hex
  nutfilter element --kind mint_quote quotes.txt";

pub(super) fn event() -> impl TypedValueParser<Value = Event> {
    value_parsers::words(Event::ALL.map(|event| {
        let help = match event {
            Event::ProofState => "A proof changed its state; IDs are points Y",
            Event::MintQuote => "A mint quote changed",
            Event::MeltQuote => "A melt quote changed its state",
            _ => "A signature can be restored; IDs are points B_",
        };
        (event.as_str(), help, event)
    }))
}

pub(crate) fn run(args: &ElementArgs, globals: &Globals) -> Result<(), CliError> {
    let states = args.kind.states();
    let state = match (&args.state, states) {
        (Some(state), _) => state.as_str(),
        (None, [""]) => "",
        (None, states) => {
            let message = format!("--kind {} needs --state {}", args.kind, states.join(" or "));
            return Err(CliError::usage(message));
        }
    };
    let hash =
        ElementHash::new(args.kind, state).map_err(|error| CliError::usage(error.to_string()))?;
    let format = InputArgs::of(args.kind);
    let input = Input::open(&args.items)?;
    let name = input.name.clone();
    // All items are read before the first line is printed, so invalid input prints nothing.
    let mut lines = Vec::new();
    let mut number = 0_u64;
    input.items(&format, globals, &mut |item| {
        number += 1;
        let element = hash
            .element(item.bytes)
            .map_err(|error| CliError::at(format_args!("{name}, item {number}"), error))?;
        lines.extend_from_slice(HEXLOWER.encode(&element).as_bytes());
        lines.push(b'\n');
        Ok(())
    })?;
    let mut out = output::stdout();
    out.write_all(&lines)?;
    Ok(out.flush()?)
}
