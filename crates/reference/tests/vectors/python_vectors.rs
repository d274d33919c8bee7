//! Checks the reference against `tests/vectors` at the root of the repository, written by an independent
//! implementation in Python. The script that wrote them is in the same folder.

use nutfilter_harness::vectors::{
    generate_items, hex, hex_u64, list, number, numbers, own as vector_file, text,
};
use nutfilter_reference::{
    Profile, build, decode, encode_values, mapped_values, matches, serialize_bip158,
};
use serde_json::Value;

#[test]
fn hashes_agree_for_items_of_every_length() {
    let file = vector_file("hashes.json");
    for case in list(&file["hashes"]) {
        let item = hex(&case["item_hex"]);
        for name in ["nut25", "nut23", "bip158"] {
            assert_eq!(
                profile(name, &file).hash(&item),
                hex_u64(&case[name]),
                "{name}: {case}"
            );
        }
    }
}

#[test]
fn values_and_bytes_agree_both_ways() {
    let file = vector_file("coder.json");
    for case in list(&file["cases"]) {
        let (n, p, m) = parameters(case);
        let values = numbers(&case["values"]);
        let filter = hex(&case["filter_hex"]);
        assert_eq!(
            filter.len() as u64,
            number(&case["bits"]).div_ceil(8),
            "{case}"
        );
        assert_eq!(encode_values(&values, p), filter, "{case}");
        assert_eq!(decode(&filter, n, p, m), Ok(values), "{case}");
    }
}

#[test]
fn small_sets_agree_in_full() {
    let file = vector_file("filters-small.json");
    for case in list(&file["cases"]) {
        let (n, p, m) = parameters(case);
        let profile = profile(text(&case["profile"]), &file);
        let items: Vec<Vec<u8>> = list(&case["items_hex"]).iter().map(hex).collect();
        let values = numbers(&case["values"]);
        let filter = hex(&case["filter_hex"]);

        assert_eq!(items.len() as u64, n, "{case}");
        assert_eq!(mapped_values(profile, &items, m), values, "{case}");
        assert_eq!(build(profile, &items, p, m), filter, "{case}");
        assert_eq!(decode(&filter, n, p, m), Ok(values), "{case}");
        assert_eq!(
            matches(&filter, n, p, m, profile, &items),
            Ok(vec![true; items.len()]),
            "{case}"
        );
        if let Some(serialized) = case.get("serialized_hex").map(hex) {
            assert_eq!(serialize_bip158(n, &filter), serialized, "{case}");
        }
    }
}

#[test]
fn large_sets_agree_by_digest() {
    let file = vector_file("filters-large.json");
    for set in list(&file["sets"]) {
        let (n, seed) = (number(&set["n"]), number(&set["seed"]));
        let items = generate_items(n, seed);
        assert_eq!(items[0], hex(&set["first_item_hex"])[..], "{set}");
        assert_eq!(
            items[items.len() - 1],
            hex(&set["last_item_hex"])[..],
            "{set}"
        );
        assert_eq!(
            Profile::Nut23.hash(&items.concat()),
            hex_u64(&set["items_murmur64"]),
            "{set}"
        );

        let mut cases = 0;
        for case in list(&file["cases"])
            .iter()
            .filter(|case| case["n"] == set["n"])
        {
            assert_eq!(case["seed"], set["seed"]);
            cases += 1;
            let (n, p, m) = parameters(case);
            let profile = profile(text(&case["profile"]), &file);
            let mut values = mapped_values(profile, &items, m);
            for pair in list(&case["values_at"]) {
                assert_eq!(
                    values[number(&pair[0]) as usize],
                    number(&pair[1]),
                    "{case}"
                );
            }
            let filter = encode_values(&values, p);
            assert_eq!(filter.len() as u64, number(&case["filter_bytes"]), "{case}");
            assert_eq!(
                Profile::Nut23.hash(&filter),
                hex_u64(&case["filter_murmur64"]),
                "{case}"
            );
            assert_eq!(decode(&filter, n, p, m).as_ref(), Ok(&values), "{case}");
            values.dedup();
            assert_eq!(
                values.len() as u64,
                number(&case["distinct_values"]),
                "{case}"
            );
        }
        assert!(cases > 0, "no case for {set}");
    }
}

#[test]
fn items_that_collide_with_a_member_all_match() {
    let file = vector_file("collisions.json");
    let items: Vec<Vec<u8>> = list(&file["items"])
        .iter()
        .map(|item| hex(&item["item_hex"]))
        .collect();
    assert!(items.len() >= 29);
    for (item, case) in items.iter().zip(list(&file["items"])) {
        assert_eq!(Profile::Nut25.hash(item), hex_u64(&file["nut25"]), "{case}");
        assert_eq!(Profile::Nut23.hash(item), hex_u64(&case["nut23"]), "{case}");
    }
    let filter = build(Profile::Nut25, &items[..1], 19, 784_931);
    let found = matches(&filter, 1, 19, 784_931, Profile::Nut25, &items);
    assert_eq!(found, Ok(vec![true; items.len()]));
}

fn profile(name: &str, file: &Value) -> Profile {
    match name {
        "nut25" => Profile::Nut25,
        "nut23" => Profile::Nut23,
        "bip158" => Profile::bip158(hex(&file["bip158_key_hex"]).try_into().unwrap()),
        other => panic!("unknown profile {other}"),
    }
}

fn parameters(case: &Value) -> (u64, u32, u64) {
    (
        number(&case["n"]),
        number(&case["p"]) as u32,
        number(&case["m"]),
    )
}
