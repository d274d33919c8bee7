//! `nutfilter verify`: checks everything in a data directory.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::error::CliError;
use crate::globals::Globals;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Data directory of `serve` or `publish`, while neither is running, or a copy.
    data_dir: PathBuf,
}

const EXAMPLES: &str = "\
Reads every file: recorded state, sets, segments, blocks, manifests. Changes none. Prints a line per damaged file.

Sets are read again from the mint's database, and segments are rebuilt, when the service starts. Anything else in
state-filters/ must be restored from a backup.

Exit code: 0 nothing is damaged, 1 something is, 2 not a data directory, or in use.

Example:
  nutfilter verify /var/lib/nutfilter";

pub(crate) fn run(args: &VerifyArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let damage = nutfilter_mint::verify(&args.data_dir).map_err(CliError::failed)?;
    let lines: String = damage.iter().map(|line| format!("{line}\n")).collect();
    output::print(lines.as_bytes())?;
    let summary = match damage.len() {
        0 => "nothing is damaged".to_owned(),
        1 => "1 file is damaged".to_owned(),
        n => format!("{n} files are damaged"),
    };
    globals.note(format_args!("{}: {summary}", args.data_dir.display()));
    Ok(ExitCode::from(u8::from(!damage.is_empty())))
}
