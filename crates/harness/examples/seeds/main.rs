//! Writes the seeds of all fuzz targets, named by what they are, to a folder per target. Run `just fuzz-tool seeds` when the fields
//! of a case change.

mod codec;
mod others;

use std::path::Path;
use std::{env, io};

fn main() -> io::Result<()> {
    let root = env::args().nth(1).expect("usage: seeds FOLDER");
    let root = Path::new(&root);
    others::write(root);
    codec::write(root)
}
