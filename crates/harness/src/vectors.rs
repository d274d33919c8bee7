//! Loads test vector files, and generates the items that they define by a rule.
//!
//! These functions panic if a file is missing, or if a value has another type than expected.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

pub use nutfilter_reference::generate_items;

/// A file of the repository's own vectors, written by an independent implementation.
pub fn own(name: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    read(&root.join("../../tests/vectors").join(name))
}

/// A file of published vectors. They are not in the repository: `NUTFILTER_VECTORS` names their folder. If it is
/// not set or empty, this prints a message and returns `None`.
pub fn published(name: &str) -> Option<Value> {
    let folder = std::env::var_os("NUTFILTER_VECTORS").filter(|folder| !folder.is_empty());
    let Some(folder) = folder else {
        eprintln!("skipped: NUTFILTER_VECTORS does not say where {name} is");
        return None;
    };
    Some(read(&PathBuf::from(folder).join(name)))
}

fn read(path: &Path) -> Value {
    let fail = |error: &dyn std::fmt::Display| -> ! { panic!("{}: {error}", path.display()) };
    let content = std::fs::read_to_string(path).unwrap_or_else(|error| fail(&error));
    serde_json::from_str(&content).unwrap_or_else(|error| fail(&error))
}

/// The members of a list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// A number.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The numbers of a list.
pub fn numbers(value: &Value) -> Vec<u64> {
    list(value).iter().map(number).collect()
}

/// A text.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// The bytes of a hex text.
pub fn hex(value: &Value) -> Vec<u8> {
    const_hex::decode(text(value)).expect("hex digits")
}

/// The bytes of a text in base64.
pub fn base64_bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(text(value)).expect("base64")
}

/// The number of a text of 16 hex digits, most significant digit first.
pub fn hex_u64(value: &Value) -> u64 {
    u64::from_str_radix(text(value), 16).expect("hex digits")
}
