//! Writes the seeds of all fuzz targets to `fuzz/seeds`, named by what they are:
//!
//! ```text
//! cargo run -p nutfilter-harness --example seeds
//! ```
//!
//! Run this anew whenever the fields of a case change.

mod codec;
mod others;

fn main() -> std::io::Result<()> {
    others::write_all();
    codec::write()
}
