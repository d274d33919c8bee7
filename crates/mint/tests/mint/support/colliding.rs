//! Items with equal hashes. Like `history`, this file does not depend on the others.

/// Different points with the same 64-bit hash.
pub(crate) fn colliding_items() -> Vec<Vec<u8>> {
    let text = include_str!("../../../../../tests/vectors/collisions.json");
    let file: serde_json::Value = serde_json::from_str(text).unwrap();
    let hex = |text: &str| {
        let pairs = text.as_bytes().chunks(2);
        let digits = pairs.map(|pair| core::str::from_utf8(pair).unwrap());
        digits
            .map(|two| u8::from_str_radix(two, 16).unwrap())
            .collect()
    };
    let items = file["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| hex(item["item_hex"].as_str().unwrap()))
        .collect()
}
