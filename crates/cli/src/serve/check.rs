//! `nutfilter serve --check-config`: everything that can be known before starting.

use std::io;
use std::net::ToSocketAddrs;
use std::path::Path;

use nutfilter_mint::MintSource as _;

use super::config::{Config, Listen};
use super::resolve::{Resolved, listing};
use crate::error::CliError;
use crate::globals;
use crate::output;

/// Prints the configuration in force, tries everything in it that can be tried without changing anything, and
/// says all that is wrong.
pub(super) fn run(resolved: &Resolved) -> Result<(), CliError> {
    output::print(listing(resolved).as_bytes())?;
    let config = &resolved.config;
    let checks = [
        ("mint_database", database(resolved)),
        (
            "data_dir",
            config.data_dir.as_deref().map_or(Ok(()), writable),
        ),
        ("tls_certificate", certificate(config)),
    ];
    let mut problems: Vec<String> = vec![];
    for (name, result) in checks {
        problems.extend(result.err().map(|error| format!("{name}: {error}")));
    }
    for address in config.addresses() {
        problems.extend(
            reachable(&address)
                .err()
                .map(|error| format!("listen: {address}: {error}")),
        );
    }
    for problem in &problems {
        globals::eprint_error(problem);
    }
    match problems.len() {
        0 => output::print(b"# nothing is wrong with it\n"),
        1 => Err(CliError::usage(
            "there is 1 problem with this configuration",
        )),
        number => Err(CliError::usage(format!(
            "there are {number} problems with this configuration"
        ))),
    }
}

/// Opens the database as the service would, and closes it again.
fn database(resolved: &Resolved) -> Result<(), CliError> {
    let mut source = super::source(resolved)?;
    let keysets = source.keysets()?;
    let mint = source.mint();
    output::print(
        format!(
            "# the database of a {mint} mint with {} keysets\n",
            keysets.keysets.len()
        )
        .as_bytes(),
    )
}

/// Whether files can be made in a directory, or it in the one above, tried with a file that has no name.
fn writable(directory: &Path) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::at(directory.display(), error);
    match std::fs::metadata(directory) {
        Ok(metadata) if !metadata.is_dir() => {
            return Err(CliError::at(directory.display(), "is no directory"));
        }
        Ok(_) => {}
        // The service would make it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = directory.parent().ok_or_else(|| failed(error))?;
            return tempfile::tempfile_in(above).map(drop).map_err(failed);
        }
        Err(error) => return Err(failed(error)),
    }
    tempfile::tempfile_in(directory).map(drop).map_err(failed)
}

/// Whether certificate and key are there and fit.
fn certificate(config: &Config) -> Result<(), CliError> {
    super::run::tls(config).map(drop)
}

/// Whether an address means something on this machine.
fn reachable(address: &Listen) -> io::Result<()> {
    match address {
        Listen::Tcp(address) => match address.to_socket_addrs()?.next() {
            Some(_) => Ok(()),
            None => Err(io::Error::other("the name has no address")),
        },
        Listen::Unix(path) => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            std::fs::metadata(directory).map(drop)
        }
    }
}
