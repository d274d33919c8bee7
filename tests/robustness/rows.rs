//! The rows of `tests/vectors/malformed.json`, which the Python and npm packages read as well: what comes in with which
//! numbers, and its class. They are held against every way to read a filter (`readers.rs`).

use nutfilter::error::DecodeErrorKind::{self, *};
use nutfilter_harness::response::base64;
use nutfilter_harness::vectors::{base64_bytes, hex, list, number, own, text};
use serde_json::Value;

/// An input, and what every way of reading it has to make of it.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) n: u64,
    pub(crate) p: u32,
    pub(crate) m: u64,
    pub(crate) class: Result<(), DecodeErrorKind>,
}

impl Row {
    /// The response that carries the row; written here, as the library writes none that is wrong.
    pub(crate) fn json(&self) -> Vec<u8> {
        let (n, p, m) = (self.n, self.p, self.m);
        let content = base64(&self.bytes);
        let json =
            format!(r#"{{"n":{n},"p":{p},"m":{m},"content":"{content}","timestamp":1767225600}}"#);
        json.into_bytes()
    }
}

/// The bytes of a row, as the file says.
fn bytes(file: &Value, row: &Value) -> Vec<u8> {
    let mut bytes = match row["of"].as_str() {
        Some(name) => base64_bytes(&file["filters"][name]),
        None => hex(&row["hex"]).repeat(row["times"].as_u64().unwrap_or(1) as usize),
    };
    bytes.truncate(row["len"].as_u64().unwrap_or(u64::MAX) as usize);
    bytes.resize(bytes.len() + row["zeros"].as_u64().unwrap_or(0) as usize, 0);
    bytes
}

fn class(row: &Value) -> Result<(), DecodeErrorKind> {
    let kinds = [BadParameter, NonCanonical, OutOfRange, Padding, TooLong, TooShort, TrailingData];
    let is_it = |kind: &DecodeErrorKind| row["error"] == format!("{kind:?}");
    match kinds.into_iter().find(is_it) {
        Some(kind) => Err(kind),
        None => {
            assert!(row["error"].is_null(), "{row}");
            Ok(())
        }
    }
}

/// All rows of up to a megabyte.
pub(crate) fn rows() -> Vec<Row> {
    let file = own("malformed.json");
    let mut rows = Vec::new();
    for row in list(&file["rows"]) {
        let whole = bytes(&file, row);
        let lens = if row["cuts"] == true { 0..whole.len() } else { whole.len()..whole.len() + 1 };
        rows.extend(lens.map(|len| Row {
            name: format!("{}, {len} bytes", text(&row["name"])),
            bytes: whole[..len].to_vec(),
            n: number(&row["n"]),
            p: number(&row["p"]) as u32,
            m: number(&row["m"]),
            class: class(row),
        }));
    }
    rows
}

/// The rows of a filter with its count in front: bytes, and N or the class.
pub(crate) fn count_prefix_rows() -> Vec<(String, Vec<u8>, Result<u32, DecodeErrorKind>)> {
    let file = own("malformed.json");
    let n = |row: &Value| class(row).map(|()| number(&row["n"]) as u32);
    let row = |row: &Value| (text(&row["name"]).to_owned(), bytes(&file, row), n(row));
    list(&file["counted"]).iter().map(row).collect()
}
