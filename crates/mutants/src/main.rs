//! Writes a library's sources anew with all its mutants in them, one of which a process chooses by the environment
//! variable `MUTANT`: a build for all instead of one for each.
//!
//! `cargo mutants --list --json` says what the mutants are; `scripts/mutants.py` runs this, builds, and runs the tests.

mod positions;
mod schemata;
mod sites;
mod switch;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use serde::{Deserialize, Serialize};

/// What `cargo mutants --list --json` says of one mutant.
#[derive(Deserialize)]
struct Listed {
    file: String,
    genre: String,
    replacement: String,
    span: Span,
}

#[derive(Deserialize)]
struct Span {
    start: Position,
}

/// Both count from 1; columns count characters.
#[derive(Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

/// One mutant: the number that chooses it, and what it is. Numbers count from 1, in the order of the list; 0 chooses none.
#[derive(Clone, Debug, PartialEq)]
struct Mutant {
    number: u32,
    genre: String,
    /// The byte of the file at which what it changes begins.
    start: usize,
    replacement: String,
}

/// What became of a file.
#[derive(Serialize)]
struct Written {
    /// Where the text of which mutants lies in what was written, in bytes: a compiler's error in there is theirs.
    places: Vec<schemata::Place>,
    /// Those that cannot be switched: such as are in a constant, or in a condition with `let`.
    not_placed: Vec<u32>,
    /// Those in a `const fn`: what is computed when the library is built knows no mutant.
    in_const_fn: Vec<u32>,
}

/// Puts all mutants of a library into a copy of it
#[derive(Parser)]
struct Options {
    /// The repository
    #[arg(long)]
    from: PathBuf,
    /// A copy of it, in which the files with mutants are written
    #[arg(long)]
    into: PathBuf,
    /// The library's root, which gets the switch, from the repository's root
    #[arg(long)]
    root: PathBuf,
    /// A file with the list: `cargo mutants --list --json`
    #[arg(long)]
    mutants: PathBuf,
    /// A file with the numbers of those to leave out, as a JSON array
    #[arg(long)]
    without: PathBuf,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let listed: Vec<Listed> = json(&options.mutants)?;
    let without: HashSet<u32> = json(&options.without)?;
    let mut files: BTreeMap<String, Vec<(u32, Listed)>> = BTreeMap::new();
    for (number, mutant) in (1..).zip(listed) {
        let of_file = files.entry(mutant.file.clone()).or_default();
        if !without.contains(&number) {
            of_file.push((number, mutant));
        }
    }
    let mut written = BTreeMap::new();
    for (file, listed) in files {
        let text = read(&options.from.join(&file))?;
        let done = rewritten(&text, listed).with_context(|| file.clone())?;
        write(&options.into.join(&file), &done.0)?;
        written.insert(file, done.1);
    }
    // What the root had of mutants would be lost, or lie elsewhere.
    let root = options.root.to_string_lossy();
    anyhow::ensure!(
        !written.contains_key(&*root),
        "{root} has mutants of its own: they cannot be placed beside the switch"
    );
    write(
        &options.into.join(&options.root),
        &switch::added_to(&read(&options.from.join(&options.root))?)?,
    )?;
    println!("{}", serde_json::to_string(&written)?);
    Ok(())
}

/// `text` with all of its mutants, and where they are.
fn rewritten(text: &str, listed: Vec<(u32, Listed)>) -> Result<(String, Written)> {
    let positions = positions::Positions::of(text);
    let mutants = listed.into_iter().map(|(number, mutant)| {
        let Position { line, column } = mutant.span.start;
        let start = positions.byte(line, column - 1);
        Mutant {
            number,
            genre: mutant.genre,
            start,
            replacement: with_paths(&mutant.replacement),
        }
    });
    let mutants: Vec<Mutant> = mutants.collect();
    let found = sites::found(text, &positions, &mutants)?;
    let (new, places) = schemata::written(text, found.sites);
    let not_placed = mutants
        .iter()
        .map(|mutant| mutant.number)
        .filter(|number| !found.placed.contains(number))
        .collect();
    let mut in_const_fn: Vec<u32> = found.in_const_fn.into_iter().collect();
    in_const_fn.sort_unstable();
    Ok((
        new,
        Written {
            places,
            not_placed,
            in_const_fn,
        },
    ))
}

/// A value as cargo-mutants writes it, for a crate without the prelude of `std` too, where it would not compile.
fn with_paths(replacement: &str) -> String {
    let mut new = String::new();
    let mut rest = replacement;
    while let Some(at) = rest.find(|c: char| c.is_alphabetic() || c == '_') {
        let (before, word) = rest.split_at(at);
        let end = word
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        new.push_str(before);
        let path = match word {
            _ if new.ends_with("::") || new.ends_with('.') => "",
            "vec" if after.starts_with('!') => "::std::",
            "Vec" => "::std::vec::",
            "Box" => "::std::boxed::",
            "String" => "::std::string::",
            _ => "",
        };
        new.push_str(path);
        new.push_str(word);
        rest = after;
    }
    new + rest
}

fn json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    serde_json::from_str(&read(path)?).with_context(|| path.display().to_string())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// Writes what is new: a file that is as it was keeps its time, and what is built of it stays.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests;
