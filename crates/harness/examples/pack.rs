//! Packs the files of a folder into a zip archive; equal files give equal bytes. Used by `just fuzz-tool`.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::{env, io};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, archive] = arguments.as_slice() else {
        return Err("usage: pack FOLDER ZIP".into());
    };
    let entries: io::Result<Vec<_>> = fs::read_dir(folder)?.collect();
    let mut paths: Vec<PathBuf> = entries?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default());
    let mut zip = ZipWriter::new(File::create(archive)?);
    for path in &paths {
        let name = path.file_name().and_then(|name| name.to_str());
        zip.start_file(name.ok_or("a name that is not UTF-8")?, options)?;
        zip.write_all(&fs::read(path)?)?;
    }
    zip.finish()?;
    println!("{archive}: {} files", paths.len());
    Ok(())
}
