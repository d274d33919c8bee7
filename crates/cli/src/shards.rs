//! Sets of 2^32 items and more: a folder of filters, called shards. The low bits of an item's hash select its shard.
//!
//! The high bits would not do: they decide where a hash lies in a filter, and those of one shard would all lie together.

use std::fs;
use std::path::{Path, PathBuf};

use nutfilter::ItemHash;

use crate::error::CliError;
use crate::filter_file::{self, FilterFile, Key, RawArgs};
use crate::globals::Globals;
use crate::profile::ProfileArgs;

/// Maximum number of shards: room for a trillion items.
pub(crate) const MAX: u16 = 256;

/// Parses a number of shards.
pub(crate) fn count(text: &str) -> Result<u16, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (2..=MAX).contains(number));
    number
        .filter(|number: &u16| number.is_power_of_two())
        .ok_or_else(|| format!("expected a power of two from 2 to {MAX}"))
}

pub(crate) fn name(shard: u16, shards: u16) -> String {
    format!("{shard:03}-of-{shards:03}.gcs")
}

pub(crate) fn shard_of(hash: u64, shards: u16) -> u16 {
    (hash % u64::from(shards)) as u16
}

/// The files of a folder of shards, in order.
fn paths(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let at = |why: &dyn std::fmt::Display| CliError::at(folder.display(), why);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| at(&error))? {
        names.push(entry.map_err(|error| at(&error))?.file_name());
    }
    names.sort_unstable();
    let first = names
        .first()
        .and_then(|name| name.to_str()?.strip_suffix(".gcs"));
    let shards =
        first.and_then(|first| count(first.rsplit_once("-of-")?.1.trim_start_matches('0')).ok());
    let shards = shards.ok_or_else(|| at(&"not a folder of `build --shards`"))?;
    let wanted: Vec<_> = (0..shards).map(|shard| name(shard, shards)).collect();
    if let Some(missing) = wanted.iter().find(|name| !names.contains(&name.into())) {
        return Err(at(&format_args!("{missing} is missing")));
    }
    if names.len() > wanted.len() {
        return Err(at(&format_args!(
            "{} files instead of {shards}",
            names.len()
        )));
    }
    Ok(wanted.into_iter().map(|name| folder.join(name)).collect())
}

/// Takes a filter, and a function that tells which items belong to it.
type Visit<'a> = dyn FnMut(FilterFile, &dyn Fn(&[u8]) -> bool) -> Result<(), CliError> + 'a;

/// Reads the filter at `path`, or each shard of a folder in turn.
pub(crate) fn each(
    path: &Path,
    raw: &RawArgs,
    profile: &ProfileArgs,
    key: Key,
    globals: &Globals,
    visit: &mut Visit<'_>,
) -> Result<u16, CliError> {
    if !path.is_dir() {
        let file = filter_file::read(path, raw, profile, key, globals)?;
        visit(file, &|_| true)?;
        return Ok(1);
    }
    let paths = paths(path)?;
    let shards = paths.len() as u16;
    let mut first = None;
    for (shard, path) in (0..).zip(&paths) {
        let file = filter_file::read(path, raw, profile, key, globals)?;
        let made = (file.profile, file.filter.params(), file.timestamp);
        if *first.get_or_insert(made) != made {
            let why = "hash, P, M or time differ from those of the first shard";
            return Err(CliError::at(path.display(), why));
        }
        let hasher = file.filter.hasher().clone();
        visit(file, &|item| shard_of(hasher.hash(item), shards) == shard)?;
    }
    Ok(shards)
}
