//! The format: vectors that an independent implementation wrote (`tests/vectors`), and those that others
//! published (in the folder that `NUTFILTER_VECTORS` names).

use bitcoin::Block;
use bitcoin::bip158::FilterHeader;
use bitcoin::consensus::encode::deserialize;
use nutfilter::{Filter, ItemHash, Nut23, Nut25, Params, RawValues, SipHash, SortedHashes, bip158};
use nutfilter_cashu::{FilterResponse, Nut25EmptyTail};
use nutfilter_harness::vectors::{
    generate_items, hex, hex_u64, list, number, numbers, own, published, text,
};
use serde_json::Value;

#[test]
fn hashes_match_the_vectors_at_every_length() {
    let file = own("hashes.json");
    let sip_hash = SipHash::from_key(key(&file));
    for case in list(&file["hashes"]) {
        let item = hex(&case["item_hex"]);
        assert_eq!(Nut25.hash(&item), hex_u64(&case["nut25"]), "{case}");
        assert_eq!(Nut23.hash(&item), hex_u64(&case["nut23"]), "{case}");
        assert_eq!(sip_hash.hash(&item), hex_u64(&case["bip158"]), "{case}");
        let wrong = hex_u64(&case["nut25_wrong_dialect"]);
        assert_eq!(Nut25EmptyTail.hash(&item), wrong, "{case}");
    }
}

#[test]
fn coded_values_match_the_vectors() {
    let file = own("coder.json");
    let mut seen_the_article = false;
    for case in list(&file["cases"]) {
        let values = numbers(&case["values"]);
        let made = Filter::from_values(&values, params(case)).unwrap();
        assert_eq!(made.bytes(), hex(&case["filter_hex"]), "{case}");
        let read = Filter::parse_with(RawValues, made.bytes(), number(&case["n"]), params(case));
        assert!(read.is_ok_and(|read| read == made), "{case}");
        assert!(made.values().eq(values), "{case}");
        if case["name"] == "nato-words" {
            seen_the_article = true;
            assert_eq!(number(&case["bits"]), 197);
            let article = "cba920f780663a061f2065198ab1032d624c50331e66ae9818";
            assert_eq!(text(&case["filter_hex"]), article);
        }
    }
    assert!(seen_the_article);
}

#[test]
fn small_filters_match_the_vectors() {
    let file = own("filters-small.json");
    for case in list(&file["cases"]) {
        match text(&case["profile"]) {
            "nut25" => drop(check_small(case, Nut25)),
            "nut23" => drop(check_small(case, Nut23)),
            "bip158" => {
                let hasher = SipHash::from_key(key(&file));
                let filter = check_small(case, hasher);
                let serialized = hex(&case["serialized_hex"]);
                assert_eq!(bip158::serialize(&filter), serialized, "{case}");
                let read = bip158::parse_with(hasher, serialized, params(case));
                assert_eq!(read, Ok(filter), "{case}");
            }
            other => panic!("unknown profile {other}"),
        }
    }

    fn check_small<H: ItemHash>(case: &Value, hasher: H) -> Filter<Vec<u8>, H> {
        let items: Vec<Vec<u8>> = list(&case["items_hex"]).iter().map(hex).collect();
        let filter = SortedHashes::builder(hasher).hash_items(&items).encode(params(case)).unwrap();
        assert_eq!(filter.bytes(), hex(&case["filter_hex"]), "{case}");
        assert!(filter.values().eq(numbers(&case["values"])), "{case}");
        assert_eq!(filter.matches(&items), vec![true; items.len()], "{case}");
        filter
    }
}

#[test]
fn large_filters_match_the_vectors() {
    let file = own("filters-large.json");
    let sip_hash = SipHash::from_key(key(&file));
    for set in list(&file["sets"]) {
        let items = generate_items(number(&set["n"]), number(&set["seed"]));
        assert_eq!(Nut23.hash(&items.concat()), hex_u64(&set["items_murmur64"]));
        let nut25 = SortedHashes::from_records(&items.concat(), 33).unwrap();
        let nut23 = SortedHashes::builder(Nut23).hash_items(&items);
        let bip158 = SortedHashes::builder(sip_hash).hash_items(&items);
        let cases = list(&file["cases"]).iter();
        for case in cases.filter(|case| case["n"] == set["n"]) {
            match text(&case["profile"]) {
                "nut25" => check_large(case, &nut25),
                "nut23" => check_large(case, &nut23),
                "bip158" => check_large(case, &bip158),
                other => panic!("unknown profile {other}"),
            }
        }
    }

    fn check_large<H: ItemHash>(case: &Value, set: &SortedHashes<H>) {
        let filter = set.encode(params(case)).unwrap();
        assert_eq!(filter.bytes().len() as u64, number(&case["filter_bytes"]), "{case}");
        let digest = hex_u64(&case["filter_murmur64"]);
        assert_eq!(Nut23.hash(filter.bytes()), digest, "{case}");
        let mut values: Vec<u64> = filter.values().collect();
        for pair in list(&case["values_at"]) {
            assert_eq!(values[number(&pair[0]) as usize], number(&pair[1]), "{case}");
        }
        values.dedup();
        assert_eq!(values.len() as u64, number(&case["distinct_values"]), "{case}");
    }
}

#[test]
fn colliding_points_are_all_counted_and_found() {
    let file = own("collisions.json");
    let items: Vec<Vec<u8>> = list(&file["items"])
        .iter()
        .filter(|item| item["on_secp256k1"] == true)
        .map(|item| hex(&item["item_hex"]))
        .collect();
    assert!(items.len() >= 29);
    let filter = SortedHashes::from_items(&items).encode(Params::default()).unwrap();
    assert_eq!(filter.n() as usize, items.len());
    assert_eq!(filter.matches(&items), vec![true; items.len()]);
    let values: Vec<u64> = filter.values().collect();
    assert!(values.iter().all(|&value| value == values[0]));

    // With one of them in the set, nobody can tell the others from it; another hash can.
    let one = SortedHashes::from_items(&items[..1]).encode(Params::default()).unwrap();
    assert_eq!(one.matches(&items), vec![true; items.len()]);
    let other =
        SortedHashes::builder(Nut23).hash_items(&items[..1]).encode(Params::default()).unwrap();
    assert_eq!(other.matches(&items).iter().filter(|&&found| found).count(), 1);
}

#[test]
fn the_ten_items_of_nut25_give_its_filter() {
    let Some(file) = published("nut25-ten-items.json") else {
        return;
    };
    let items: Vec<Vec<u8>> = list(&file["items_hex"]).iter().map(hex).collect();
    let non_members: Vec<Vec<u8>> = list(&file["non_members_hex"]).iter().map(hex).collect();
    let filter = SortedHashes::from_items(&items).encode(Params::default()).unwrap();
    assert_eq!(filter.bytes(), hex(&file["filter_hex"]));
    assert_eq!(filter.matches(&items), [true; 10]);
    assert_eq!(filter.matches(&non_members), vec![false; non_members.len()]);

    let response = FilterResponse::new(&filter, 1_767_225_600);
    let json: Value = serde_json::from_str(&response.to_json()).unwrap();
    assert_eq!(json["content"], file["filter_base64"]);
    let read = FilterResponse::from_json(response.to_json().as_bytes()).unwrap();
    assert_eq!(read.into_filter(), Ok(filter));
}

#[test]
fn blocks_of_testnet_give_their_filters_and_headers() {
    let Some(file) = published("bip158-testnet-19.json") else {
        return;
    };
    let rows = &list(&file)[1..]; // the first row is the heading
    assert!(!rows.is_empty());
    for row in rows {
        let block: Block = deserialize(&hex(&row[2])).unwrap();
        let previous_scripts: Vec<bitcoin::ScriptBuf> =
            list(&row[3]).iter().map(|script| hex(script).into()).collect();
        let filter = bip158::block_filter(&block, &previous_scripts).unwrap();
        assert_eq!(bip158::serialize(&filter), hex(&row[5]), "block {}", row[0]);

        let header = |row: &Value| text(row).parse::<FilterHeader>().unwrap();
        let made = bip158::filter_hash(&hex(&row[5])).filter_header(header(&row[4]));
        assert_eq!(made, header(&row[6]).into(), "block {}", row[0]);

        let read = bip158::parse(*filter.hasher(), hex(&row[5])).unwrap();
        let items: Vec<&[u8]> = bip158::block_items(&block, &previous_scripts).collect();
        assert_eq!(read.matches(&items), vec![true; items.len()], "block {}", row[0]);
    }
}

fn params(case: &Value) -> Params {
    Params::new(number(&case["p"]) as u32, number(&case["m"])).unwrap()
}

fn key(file: &Value) -> [u8; 16] {
    hex(&file["bip158_key_hex"]).try_into().unwrap()
}
