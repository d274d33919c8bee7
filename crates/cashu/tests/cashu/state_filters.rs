//! The draft's values as its authors published them, from the folder that `NUTFILTER_VECTORS` names.

use nutfilter_cashu::state_filters::{
    Block, Element, ElementHash, Event, Positions, StateFilterError, StateFilterErrorKind as Kind,
};
use serde_json::Value;

/// The published file, or nothing if the variable is not set.
fn published() -> Option<Value> {
    let Some(folder) = std::env::var_os("NUTFILTER_VECTORS") else {
        eprintln!("skipped: NUTFILTER_VECTORS does not name the folder of published vectors");
        return None;
    };
    let path = std::path::Path::new(&folder).join("state-filters.json");
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(serde_json::from_slice(&text).unwrap())
}

fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap()
}

fn element(value: &Value) -> Element {
    hex(value).try_into().unwrap()
}

#[test]
fn elements_equal_the_published_ones() {
    let Some(file) = published() else { return };
    let cases = file["elements"].as_array().unwrap();
    assert!(cases.len() >= 16);
    for case in cases {
        let kind = case["kind"].as_str().unwrap();
        let event = Event::ALL.into_iter().find(|event| event.as_str() == kind);
        let hash = ElementHash::new(event.unwrap(), case["state"].as_str().unwrap()).unwrap();
        assert_eq!(
            hash.element(&hex(&case["id"])).unwrap(),
            element(&case["element"]),
            "{case}"
        );
    }
}

#[test]
fn bitmaps_equal_the_published_ones() {
    let Some(file) = published() else { return };
    let cases = file["bitmaps"].as_array().unwrap();
    assert!(cases.len() >= 6);
    for case in cases {
        let width = case["b"].as_u64().unwrap() as u32;
        let built_at = case["fold_of_b"]
            .as_u64()
            .map_or(width, |built| built as u32);
        let mut block = Block::new(built_at).unwrap();
        for inserted in case["elements"].as_array().unwrap() {
            block.insert(&element(inserted));
        }
        let block = block.fold(width).unwrap();
        assert_eq!(block.as_bytes(), hex(&case["hex"]), "{case}");
        assert_eq!(
            u64::from(block.popcount()),
            case["popcount"].as_u64().unwrap()
        );
        for inserted in case["elements"].as_array().unwrap() {
            assert!(block.may_contain(&element(inserted)));
        }
    }
}

#[test]
fn capacities_and_folded_widths_equal_the_published_ones() {
    let Some(file) = published() else { return };
    for (width, capacity) in file["capacity"].as_object().unwrap() {
        let computed = Block::capacity(width.parse().unwrap()).unwrap();
        assert_eq!(u64::from(computed), capacity.as_u64().unwrap(), "{width}");
    }
    for case in file["folded_width_of_count"].as_array().unwrap() {
        let count = case[0].as_u64().unwrap() as u32;
        assert_eq!(
            u64::from(Block::width_for(count)),
            case[1].as_u64().unwrap(),
            "{case}"
        );
    }
}

/// The element of this number.
fn numbered(number: u16) -> Element {
    let hash = ElementHash::new(Event::MintQuote, "").unwrap();
    hash.element(format!("quote {number}").as_bytes()).unwrap()
}

#[test]
fn fold_equals_the_block_built_at_the_smaller_width() {
    let built = |width| {
        let mut block = Block::new(width).unwrap();
        (0..300).for_each(|number| block.insert(&numbered(number)));
        block
    };
    for width in 5..=16 {
        for smaller in 5..=width {
            assert_eq!(
                built(width).fold(smaller).unwrap(),
                built(smaller),
                "{width}, {smaller}"
            );
        }
    }
}

#[test]
fn block_matches_members_and_few_others() {
    let mut block = Block::new(14).unwrap();
    assert_eq!((block.popcount(), block.false_positive_rate()), (0, 0.0));
    (0..700).for_each(|number| block.insert(&numbered(number)));
    assert!((0..700).all(|number| block.may_contain_at(Positions::of(&numbered(number)))));
    // Nearly at capacity, about half the bits are set: one in 65,536 matches by chance.
    let wrong = (700..20_000).filter(|&number| block.may_contain(&numbered(number)));
    assert!(wrong.count() < 6);
    let rate = block.false_positive_rate();
    assert!((1.0 / 90_000.0..1.0 / 50_000.0).contains(&rate), "{rate}");
}

#[test]
fn points_of_48_bytes_have_the_elements_of_the_rule() {
    let file = include_str!("../../../../tests/vectors/points.json");
    let file: Value = serde_json::from_str(file).unwrap();
    let spent = ElementHash::new(Event::ProofState, "SPENT").unwrap();
    let signed = ElementHash::new(Event::BlindSignature, "").unwrap();
    for note in file["notes"].as_array().unwrap() {
        let elements = [
            spent.element(&hex(&note["Y"])),
            signed.element(&hex(&note["B_"])),
        ];
        let expected = ["spent", "signed"].map(|field| hex(&note[field]));
        assert_eq!(
            elements.map(Result::unwrap).map(Vec::from),
            expected,
            "{note}"
        );
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, StateFilterError>, kind: Kind, words: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn invalid_input_is_refused_with_its_numbers() {
    let hash = ElementHash::new;
    let words = ["''", "proof_state", "SPENT"];
    refused(hash(Event::ProofState, ""), Kind::State, &words);
    let words = ["'PAID'", "UNSPENT or PENDING"];
    refused(hash(Event::ProofState, "PAID"), Kind::State, &words);
    let words = ["mint_quote", "no states"];
    refused(hash(Event::MintQuote, "PAID"), Kind::State, &words);
    let points = hash(Event::BlindSignature, "").unwrap();
    refused(points.element(&[2; 32]), Kind::Item, &["33", "32"]);
    for first in [0, 1, 4, 255] {
        let mut id = [2; 33];
        id[0] = first;
        let prefix = format!("not 33 that begin with {first:02x}");
        refused(points.elements(&[id]), Kind::Item, &["02 or 03", &prefix]);
    }
    assert!(points.element(&[3; 33]).is_ok());
    let words = ["80 to bf", "not 48 that begin with c0"];
    refused(points.element(&[0xc0; 48]), Kind::Item, &words);
    assert_eq!(
        points.elements(&[[2; 33]; 2]).unwrap(),
        [points.element(&[2; 33]).unwrap(); 2]
    );
    let quotes = hash(Event::MeltQuote, "PAID").unwrap();
    refused(quotes.element(b""), Kind::Item, &["empty"]);
    refused(quotes.element(b"\xff"), Kind::Item, &["UTF-8"]);
    for width in [0, 4, 27, 99] {
        refused(Block::new(width), Kind::Block, &[&width.to_string(), "2^5"]);
        assert!(Block::capacity(width).is_err());
    }
    refused(Block::new(9).unwrap().fold(10), Kind::Block, &["9", "10"]);
    for bytes in [0, 1, 2, 3, 5, 63, 65, 1 << 24] {
        let words = [&*bytes.to_string()];
        refused(Block::from_bytes(vec![0; bytes]), Kind::Block, &words);
    }
    assert_eq!(Block::from_bytes(vec![0; 4]).unwrap().width(), 5);
    assert_eq!(Block::from_bytes(vec![0; 1 << 23]).unwrap().width(), 26);
}
