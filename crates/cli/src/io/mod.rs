//! What commands read and write: items, filters, mints' answers, and files that appear whole.

pub(crate) mod fetch;
pub(crate) mod filter_file;
pub(crate) mod hex;
pub(crate) mod items;
pub(crate) mod output;
pub(crate) mod output_file;
pub(crate) mod progress;
