//! The files of test vectors, and the items that they describe by a rule.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file of the repository's own vectors, which an independent implementation wrote.
///
/// # Panics
///
/// Where it is missing or no JSON.
#[must_use]
pub fn own(name: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    read(&root.join("../../tests/vectors").join(name))
}

/// A file of published vectors. They are kept out of the repository: `NUTFILTER_VECTORS` names their
/// folder, and where it is not set this says so and gives nothing.
///
/// # Panics
///
/// Where the folder is named and the file is missing or no JSON.
#[must_use]
pub fn published(name: &str) -> Option<Value> {
    let Some(folder) = std::env::var_os("NUTFILTER_VECTORS") else {
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
///
/// # Panics
///
/// Where `value` is none.
#[must_use]
pub fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no list: {value}"))
}

/// A number.
///
/// # Panics
///
/// Where `value` is none.
#[must_use]
pub fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// A list of numbers.
///
/// # Panics
///
/// Where `value` is none.
#[must_use]
pub fn numbers(value: &Value) -> Vec<u64> {
    list(value).iter().map(number).collect()
}

/// A text.
///
/// # Panics
///
/// Where `value` is none.
#[must_use]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// The bytes that hex digits stand for.
///
/// # Panics
///
/// Where `value` is no text of hex digits.
#[must_use]
pub fn hex(value: &Value) -> Vec<u8> {
    let digits = text(value);
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The number that 16 hex digits stand for, the first digit the most significant.
///
/// # Panics
///
/// Where `value` is no such text.
#[must_use]
pub fn hex_u64(value: &Value) -> u64 {
    u64::from_str_radix(text(value), 16).expect("hex digits")
}

/// `count` items of 33 bytes that look like compressed points, by the rule that `filters-large.json`
/// describes in words: five outputs of SplitMix64 each, the first one only for the leading 02 or 03.
#[must_use]
pub fn generate_items(count: u64, seed: u64) -> Vec<[u8; 33]> {
    let mut state = seed;
    let mut output = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let item = |_| {
        let mut item = [0; 33];
        item[0] = 2 + (output() & 1) as u8;
        for place in item[1..].chunks_mut(8) {
            place.copy_from_slice(&output().to_le_bytes());
        }
        item
    };
    (0..count).map(item).collect()
}
