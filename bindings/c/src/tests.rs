//! The rows of `tests/vectors/malformed.json` that have the numbers of a block filter.

use super::*;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use nutfilter_reference::serialize_bip158;
use serde_json::Value;

fn row_bytes(file: &Value, row: &Value) -> Vec<u8> {
    let number = |name: &str| row[name].as_u64().map(|number| number as usize);
    let mut bytes = match row["of"].as_str() {
        Some(name) => BASE64_STANDARD.decode(file["filters"][name].as_str().unwrap()).unwrap(),
        None => {
            hex::decode(row["hex"].as_str().unwrap()).unwrap().repeat(number("times").unwrap_or(1))
        }
    };
    bytes.truncate(number("len").unwrap_or(usize::MAX));
    bytes.resize(bytes.len() + number("zeros").unwrap_or(0), 0);
    bytes
}

/// Alone, and as the middle one of three whose header commits to it.
fn statuses_of(bytes: &[u8]) -> (Status, [Status; 3]) {
    let list = nutfilter_watchlist_new();
    let good = [0];
    let filters = [(0, &good[..]), (1, bytes), (2, &good)].map(|(height, bytes)| Filter {
        block_hash: [7; 32],
        height,
        bytes: bytes.as_ptr(),
        len: bytes.len(),
    });
    let hashes = [&good, bytes, &good].map(|filter| bip158::filter_hash(filter).to_byte_array());
    let mut results = [NutfilterNull; 3];
    // SAFETY: the handles are open, and the pointers have what their numbers say.
    unsafe {
        nutfilter_watchlist_insert(list, b"script".as_ptr(), 6);
        let alone = nutfilter_match(list, &filters[1]);
        let chain = nutfilter_chain_new(0, [0; 32].as_ptr());
        let start = [0; 32].as_ptr();
        let extended = nutfilter_chain_extend(chain, start, hashes.as_ptr().cast(), 3, ptr::null());
        assert_eq!(extended, NutfilterYes);
        nutfilter_scan(list, chain, filters.as_ptr(), 3, results.as_mut_ptr());
        nutfilter_chain_free(chain);
        nutfilter_watchlist_free(list);
        (alone, results)
    }
}

#[test]
fn malformed_filters_are_invalid_alone_and_among_others() {
    let file = include_str!("../../../tests/vectors/malformed.json");
    let file: Value = serde_json::from_str(file).unwrap();
    let [rows, counted] = ["rows", "counted"].map(|name| file[name].as_array().unwrap());
    let rows = rows.iter().filter(|row| row["p"] == 19 && row["m"] == 784931);
    let rows =
        rows.map(|row| (row, serialize_bip158(row["n"].as_u64().unwrap(), &row_bytes(&file, row))));
    let counted = counted.iter().map(|row| (row, row_bytes(&file, row)));
    let mut invalid = 0;
    for (row, whole) in rows.chain(counted) {
        let cuts = row["cuts"] == true;
        let lens = if cuts { 0..whole.len() } else { whole.len()..whole.len() + 1 };
        for len in lens {
            let (alone, [before, this, after]) = statuses_of(&whole[..len]);
            assert_eq!((before, after), (NutfilterNo, NutfilterNo), "{row} {len}");
            assert_eq!(alone, this, "{row} {len}");
            assert_eq!(alone == NutfilterInvalidFilter, row["error"].is_string(), "{row} {len}");
            invalid += usize::from(alone == NutfilterInvalidFilter);
        }
    }
    assert!(invalid > 500, "{invalid}");
}
