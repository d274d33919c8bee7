//! The commands for state filters: elements, Bloom blocks of the open draft, and segments.

pub(crate) mod block;
pub(crate) mod element;
pub(crate) mod follow;
pub(crate) mod segment;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use nutfilter_cashu::state_filters::Element;
use nutfilter_wallet::follow::{Plan, SequenceFormat};

use crate::error::CliError;
use crate::globals::Globals;
use crate::items::{Input, InputArgs, is_stdin};
use crate::output::{self, Destination, utc};

/// Where a binary result goes.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write to FILE, or to standard output for `-`. A file is written atomically [default: -].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl OutputArgs {
    fn write(&self, bytes: &[u8]) -> Result<(), CliError> {
        let destination = Destination::of(self.output.as_deref());
        destination.no_terminal()?;
        destination.write(|out| {
            let written = out.write_all(bytes);
            written.map_err(|error| destination.failed(&error))
        })
    }
}

/// The files of a `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The block or segment, or `-` for standard input.
    file: PathBuf,

    /// Elements in hex, one per line, or `-` for standard input.
    elements: PathBuf,
}

/// The contents of the files of a `check`.
struct Checked {
    name: String,
    bytes: Vec<u8>,
    elements: Vec<Element>,
    /// The elements as given.
    texts: Vec<String>,
}

impl CheckArgs {
    fn read(&self, globals: &Globals) -> Result<Checked, CliError> {
        if is_stdin(&self.file) && is_stdin(&self.elements) {
            return Err(CliError::usage(
                "FILE and ELEMENTS cannot both be standard input",
            ));
        }
        let (name, bytes) = read_file(&self.file, globals)?;
        let (mut elements, mut texts) = (Vec::new(), Vec::new());
        for_each_element(&self.elements, globals, |element, text| {
            elements.push(element);
            // Hex digits are always valid UTF-8.
            texts.push(String::from_utf8_lossy(text).into_owned());
        })?;
        Ok(Checked {
            name,
            bytes,
            elements,
            texts,
        })
    }
}

/// Prints `maybe` or `absent` before each element, as `check` does for items.
fn print_answers(texts: &[String], found: &[bool]) -> Result<ExitCode, CliError> {
    let mut out = output::stdout();
    let printed = texts.iter().zip(found).try_for_each(|(text, &found)| {
        let answer = if found { "maybe" } else { "absent" };
        writeln!(out, "{answer}\t{text}")
    });
    let printed = printed.and_then(|()| out.flush());
    output::exit_code(printed.map_err(CliError::from), found.contains(&true))
}

/// The name and the contents of a file.
fn read_file(path: &Path, globals: &Globals) -> Result<(String, Vec<u8>), CliError> {
    let input = Input::open(path)?;
    Ok((input.name.clone(), input.read_all(globals)?))
}

/// Reads elements in hex, one per line. Empty lines are ignored.
fn read_elements(path: &Path, globals: &Globals) -> Result<Vec<Element>, CliError> {
    let mut elements = Vec::new();
    for_each_element(path, globals, |element, _| elements.push(element))?;
    Ok(elements)
}

fn for_each_element(
    path: &Path,
    globals: &Globals,
    mut each: impl FnMut(Element, &[u8]),
) -> Result<(), CliError> {
    let input = Input::open(path)?;
    let name = input.name.clone();
    let mut number = 0_u64;
    input.items(&InputArgs::default(), globals, &mut |item| {
        number += 1;
        let element = Element::try_from(item.bytes).map_err(|_| {
            let bytes = item.bytes.len();
            let place = format_args!("{name}, element {number}");
            CliError::at(
                place,
                format_args!("expected 64 hex digits, not {}", bytes * 2),
            )
        })?;
        each(element, item.text);
        Ok(())
    })
}

/// Prints what will be downloaded.
pub(crate) fn announce(plan: &Plan, globals: &Globals) {
    let (name, limit) = match plan.format() {
        SequenceFormat::Segments => ("segments", ""),
        SequenceFormat::Blocks => ("blocks", "at most "),
    };
    let from = match plan.from() {
        0 => "the beginning".to_owned(),
        from => utc(from),
    };
    globals.note(format_args!(
        "{} {name} from {from} on, {limit}{} bytes; {:.2e} false matches expected",
        plan.objects(),
        indicatif::HumanCount(plan.bytes()),
        plan.false_matches()
    ));
}
