//! `nutfilter build --memory`: merges sorted runs of hashes on disk, without holding the whole filter in memory.

use std::io::{self, Write};
use std::path::PathBuf;

use nutfilter::Params;
use nutfilter_store::{Options, Store, StoreErrorKind};

use super::{BuildArgs, Summary, check_not_empty, formatted, gather};
use crate::error::CliError;
use crate::globals::Globals;
use crate::output::Destination;
use crate::profile::AnyHash;
use crate::progress::Progress;

pub(super) fn run(
    args: &BuildArgs,
    params: Params,
    timestamp: u64,
    memory: usize,
    globals: &Globals,
) -> Result<Summary, CliError> {
    let options = Options::with_hasher(args.profile.hasher()?, memory);
    let mut store = Store::scratch_in(scratch(args), options)?;
    let mut batch = store.batch();
    gather(args, globals, &mut batch)?;
    let progress = Progress::spinner(globals, "sorting");
    batch.commit()?;
    drop(progress);

    check_not_empty(args, usize::try_from(store.len()).unwrap_or(usize::MAX))?;
    let mut summary = None;
    let destination = Destination::of(args.output.as_deref());
    destination.write(|output| {
        summary = Some(write(args, &store, params, timestamp, output, globals)?);
        Ok(())
    })?;
    summary.ok_or_else(|| CliError::failed("no output written"))
}

/// The directory for the runs. Prefer the output's directory, because the system's temporary directory may be in
/// memory.
pub(crate) fn scratch(args: &BuildArgs) -> PathBuf {
    match (&args.scratch, Destination::of(args.output.as_deref())) {
        (Some(directory), _) => directory.clone(),
        (None, Destination::File(path)) if !path.starts_with("/dev") => {
            nutfilter_files::directory_of(path).to_owned()
        }
        _ => std::env::temp_dir(),
    }
}

/// Writes the filter in the selected format.
pub(crate) fn write(
    args: &BuildArgs,
    store: &Store<AnyHash>,
    params: Params,
    timestamp: u64,
    output: &mut dyn Write,
    globals: &Globals,
) -> Result<Summary, CliError> {
    let n = u32::try_from(store.len()).map_err(CliError::failed)?;
    let progress = Progress::bytes(
        globals,
        "merging and encoding",
        Some(params.expected_bytes(n)),
    );
    let destination = Destination::of(args.output.as_deref());
    let (filter, written) = formatted(
        args,
        (store.hasher(), n, params, timestamp),
        output,
        &mut |coded| {
            let filter = store.encode_to(params, Watched(coded, &progress));
            filter.map_err(|error| match (error.kind(), error.io_error()) {
                (StoreErrorKind::Output, Some(reason)) => destination.failed(reason),
                _ => error.into(),
            })
        },
    )?;
    Ok(Summary {
        n: u64::from(n),
        bytes: filter.bytes,
        repeated: filter.repeated,
        written,
    })
}

/// Advances the progress bar as the filter is written.
struct Watched<'a>(&'a mut dyn Write, &'a Progress);

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.1.advance(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
