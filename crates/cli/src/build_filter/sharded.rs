//! `nutfilter build --shards`: several filters, each with the items of its shard.

use std::fs;
use std::num::NonZeroUsize;

use nutfilter::{ItemHash, Params};
use nutfilter_store::{Batch, Options, Store};

use super::external::{scratch, write};
use super::{BuildArgs, Format, Summary, check_not_empty, gather};
use crate::error::CliError;
use crate::globals::Globals;
use crate::items::ItemSink;
use crate::output::Destination;
use crate::profile::AnyHash;
use crate::shards::{name, shard_of};

/// Writes the shards of the items into the folder `--output`, which must be new or empty.
pub(super) fn build(
    args: &BuildArgs,
    shards: u16,
    (params, timestamp): (Params, u64),
    memory: usize,
    globals: &Globals,
) -> Result<Summary, CliError> {
    let Destination::File(folder) = Destination::of(args.output.as_deref()) else {
        return Err(CliError::usage(
            "--shards writes a folder: give --output DIR",
        ));
    };
    if args.format.is_some_and(|format| format != Format::Gcs) {
        return Err(CliError::usage("--shards writes .gcs files only"));
    }
    let at = |error| CliError::at(folder.display(), error);
    fs::create_dir_all(folder).map_err(at)?;
    if fs::read_dir(folder).map_err(at)?.next().is_some() {
        let why = "not empty; shards need a folder of their own";
        return Err(CliError::at(folder.display(), why));
    }
    let hasher = args.profile.hasher()?;
    let store = || {
        let options = Options::with_hasher(hasher.clone(), memory / usize::from(shards));
        Store::scratch_in(scratch(args), options)
    };
    let mut stores = (0..shards)
        .map(|_| store())
        .collect::<Result<Vec<_>, _>>()?;
    let mut sink = Sink {
        hasher: &hasher,
        batches: stores.iter_mut().map(Store::batch).collect(),
        hashes: Vec::new(),
    };
    gather(args, globals, &mut sink)?;
    for batch in sink.batches {
        batch.commit()?;
    }
    let items: u64 = stores.iter().map(Store::len).sum();
    check_not_empty(args, usize::try_from(items).unwrap_or(usize::MAX))?;
    let mut summary = Summary::default();
    for (shard, store) in (0..).zip(&stores) {
        let path = folder.join(name(shard, shards));
        Destination::File(&path).write(|output| {
            let one = write(args, store, params, timestamp, output, globals)?;
            summary.n += one.n;
            summary.bytes += one.bytes;
            summary.repeated += one.repeated;
            summary.written += one.written;
            Ok(())
        })?;
    }
    Ok(summary)
}

/// Spills each hash to the store of its shard.
struct Sink<'a> {
    hasher: &'a AnyHash,
    batches: Vec<Batch<'a, AnyHash>>,
    /// Those of the records at hand.
    hashes: Vec<u64>,
}

impl Sink<'_> {
    fn push_hash(&mut self, hash: u64) -> Result<(), CliError> {
        let shard = shard_of(hash, self.batches.len() as u16);
        let batch = &mut self.batches[usize::from(shard)];
        Ok(batch.push_hashes(&[hash])?)
    }
}

impl ItemSink for Sink<'_> {
    fn restart(&mut self) {
        self.batches.iter_mut().for_each(Batch::clear);
    }

    fn push(&mut self, item: &[u8]) -> Result<(), CliError> {
        self.push_hash(self.hasher.hash(item))
    }

    fn push_records(&mut self, records: &[u8], width: NonZeroUsize) -> Result<(), CliError> {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.resize(records.len() / width, 0);
        self.hasher.hash_records(records, width, &mut hashes);
        hashes.iter().try_for_each(|&hash| self.push_hash(hash))?;
        self.hashes = hashes;
        Ok(())
    }
}
