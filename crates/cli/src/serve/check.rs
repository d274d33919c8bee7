//! `nutfilter serve --check-config`: everything that can be checked before starting.

use std::io;
use std::path::Path;

use nutfilter_mint::MintSource as _;

use super::layers::Resolved;
use super::options::{Listen, Options};
use crate::error::CliError;
use crate::globals::{self, Globals};
use crate::output;

/// Prints the effective configuration, tries everything in it that can be tried without changing anything, and
/// reports all problems.
pub(super) fn run(resolved: &Resolved, globals: &Globals) -> Result<(), CliError> {
    output::print(resolved.listing().as_bytes())?;
    let options = &resolved.options;
    let mut problems: Vec<String> = resolved
        .problems
        .iter()
        .map(|problem| problem.message.clone())
        .collect();
    let data_dir = options.data_dir.as_deref();
    let mut checks = vec![
        (
            "mint_database",
            database(options),
            "give a database that this user can read",
        ),
        (
            "data_dir",
            data_dir.map_or(Ok(()), writable),
            "let this user write to it",
        ),
        (
            "tls_certificate",
            tls(options),
            "give a certificate and its key as PEM files",
        ),
    ];
    for address in &options.listen {
        let cure = "give an address of this machine and a directory that exists";
        checks.push(("listen", bindable(address, globals), cure));
    }
    for (name, result, cure) in checks {
        // An option with an invalid value was reported, and has its default here.
        let reported = resolved
            .problems
            .iter()
            .any(|problem| problem.option == name);
        if let Err(error) = result
            && !reported
        {
            let problem = resolved.given(name).problem(format!("{error}; {cure}"));
            problems.push(problem.message);
        }
    }
    for problem in &problems {
        globals::eprint_error(problem);
    }
    match problems.len() {
        0 => output::print(b"# configuration OK\n"),
        1 => Err(CliError::usage("invalid configuration (1 problem)")),
        number => Err(CliError::usage(format!(
            "invalid configuration ({number} problems)"
        ))),
    }
}

/// Opens the database in the same way as the service, and closes it.
fn database(options: &Options) -> Result<(), CliError> {
    let mut source = super::source(options)?;
    let keysets = source.keysets()?;
    let mint = source.mint();
    output::print(format!("# {mint} database with {} keysets\n", keysets.keysets.len()).as_bytes())
}

/// Reads the certificate and its key.
fn tls(options: &Options) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(super::run::tls(options)).map(drop)
}

/// Whether files can be created in a directory, or the directory in its parent; tried with an unnamed file.
fn writable(directory: &Path) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::at(directory.display(), error);
    match std::fs::metadata(directory) {
        Ok(metadata) if !metadata.is_dir() => {
            return Err(CliError::at(directory.display(), "not a directory"));
        }
        Ok(_) => {}
        // The service would create it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = directory.parent().ok_or_else(|| failed(error))?;
            return tempfile::tempfile_in(above).map(drop).map_err(failed);
        }
        Err(error) => return Err(failed(error)),
    }
    tempfile::tempfile_in(directory).map(drop).map_err(failed)
}

/// Whether the service can listen at an address. The one that listens there may be this service.
fn bindable(address: &Listen, globals: &Globals) -> Result<(), CliError> {
    let tried = match address {
        Listen::Tcp(address) => std::net::TcpListener::bind(address).map(drop),
        Listen::Unix(path) => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            std::fs::metadata(directory).map(drop)
        }
    };
    match tried {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            globals.warn(format_args!(
                "listen: {address} is in use; unless by this service, give another address"
            ));
            Ok(())
        }
        tried => tried.map_err(|error| CliError::at(address, error)),
    }
}
