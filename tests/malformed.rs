//! What bad input gets: a test for each row of the table in `docs/format.md`, at every gate that the
//! input has to pass. Never a panic, never the answer "no match".

use nutfilter::{
    DecodeErrorKind, Filter, FilterResponse, Nut25, Params, ResponseErrorKind, SeekIndex, SipHash,
    SortedHashes, Step, Unhashed, bip158,
};
use nutfilter_harness::class_of;

use DecodeErrorKind::{
    BadParameter, NonCanonical, OutOfRange, Padding, TooLong, TooShort, TrailingData,
};

/// The class of the error by every way to decode, and by the reference; all have to agree.
fn outcome(bytes: &[u8], n: u64, p: u32, m: u64) -> Result<u32, DecodeErrorKind> {
    let found = by_library(bytes, n, p, m);
    let expected = nutfilter_reference::decode(bytes, n, p, m);
    assert_eq!(
        found,
        expected.map(|values| values.len() as u32).map_err(class_of)
    );
    found
}

fn by_library(bytes: &[u8], n: u64, p: u32, m: u64) -> Result<u32, DecodeErrorKind> {
    let params = Params::new(p, m).map_err(|_| BadParameter)?;
    let parsed = Filter::<Nut25>::parse(bytes, n, params).map_err(|error| error.kind());
    let one_pass = Filter::<Nut25>::admit(bytes, n, params)
        .and_then(|admitted| admitted.matches(&[b"target"]))
        .map_err(|error| error.kind());
    assert_eq!(
        parsed.as_ref().map(|_| ()).map_err(|kind| *kind),
        one_pass.map(|_| ())
    );
    parsed.map(|filter| filter.n())
}

fn cashu(bytes: &[u8], n: u64) -> Result<u32, DecodeErrorKind> {
    outcome(bytes, n, 19, 784_931)
}

#[test]
fn an_empty_set_is_empty_bytes() {
    assert_eq!(cashu(&[], 0), Ok(0));
    let filter = Filter::<Nut25>::parse(&[][..], 0, Params::default()).unwrap();
    assert!(!filter.contains(b"anything"));
    assert_eq!(filter.matches(&[b"a", b"b"]), [false, false]);
    assert_eq!(filter.values().count(), 0);
    let index = SeekIndex::build(&filter, Step::Items(128));
    assert!(!filter.with_index(&index).unwrap().contains(b"anything"));
    assert_eq!(cashu(&[0], 0), Err(TooLong));
    assert_eq!(cashu(&[0; 1000], 0), Err(TooLong));
}

#[test]
fn items_without_bytes_are_too_short() {
    assert_eq!(cashu(&[], 1), Err(TooShort));
    assert_eq!(cashu(&[], 1000), Err(TooShort));
    assert_eq!(cashu(&[1, 2, 3], (1 << 32) - 1), Err(TooShort));
}

#[test]
fn a_count_beyond_32_bits_is_a_bad_parameter() {
    for n in [1 << 32, u64::MAX] {
        assert_eq!(cashu(&[1, 2, 3], n), Err(BadParameter));
    }
}

#[test]
fn remainder_bits_are_0_to_32() {
    for (p, m) in [(0, 1), (32, u64::from(u32::MAX))] {
        let params = Params::new(p, m).unwrap();
        let filter = SortedHashes::<Nut25>::from_items([b"a", b"b"])
            .encode(params)
            .unwrap();
        assert_eq!(outcome(filter.bytes(), 2, p, m), Ok(2));
        assert_eq!(filter.matches(&[b"a", b"b"]), [true, true]);
    }
    for p in [33, 63, 64, 255] {
        assert_eq!(outcome(&[0; 5], 1, p, 1), Err(BadParameter), "P = {p}");
    }
}

#[test]
fn the_inverse_rate_is_1_to_2_to_the_32_less_1() {
    for m in [0, 1 << 32] {
        assert_eq!(outcome(&[0; 3], 1, 19, m), Err(BadParameter), "M = {m}");
    }
    // M = 1 with one item: F = 1, so the only value is 0.
    assert_eq!(outcome(&[0; 3], 1, 19, 1), Ok(1));
    let largest = u64::from(u32::MAX);
    let params = Params::new(32, largest).unwrap();
    let filter = SortedHashes::<Nut25>::from_items([b"a", b"b"])
        .encode(params)
        .unwrap();
    assert_eq!(outcome(filter.bytes(), 2, 32, largest), Ok(2));
}

#[test]
fn the_largest_count_and_inverse_rate_together_do_not_overflow() {
    let largest = u64::from(u32::MAX);
    for p in [0, 19, 32] {
        assert_eq!(
            outcome(&[0; 16], largest, p, largest),
            Err(TooShort),
            "P = {p}"
        );
    }
}

#[test]
fn a_cut_in_a_run_or_a_remainder_is_too_short() {
    // P = 3, M = 40, N = 2: F = 80, at least one byte and at most (8 + 9) / 8, so three of them.
    assert_eq!(
        outcome(&[0b0000_1111], 2, 3, 40),
        Err(TooShort),
        "in the run"
    );
    assert_eq!(
        outcome(&[0b0000_1110], 2, 3, 40),
        Err(TooShort),
        "in the remainder"
    );
    assert_eq!(outcome(&[0b0000_1110, 0b0000_0000], 2, 3, 40), Ok(2));
}

#[test]
fn every_cut_of_a_filter_is_too_short() {
    let set = SortedHashes::<Nut25>::from_items((0..200_u8).map(|i| [i; 33]));
    let filter = set.encode(Params::default()).unwrap();
    for len in 0..filter.bytes().len() {
        assert_eq!(
            cashu(&filter.bytes()[..len], 200),
            Err(TooShort),
            "{len} bytes"
        );
    }
}

#[test]
fn a_megabyte_of_ones_is_refused_by_the_bound() {
    let ones = vec![0xff; 1 << 20];
    assert_eq!(cashu(&ones, 1), Err(TooLong));
    assert_eq!(cashu(&ones, 300_000), Err(TooLong));
    assert_eq!(cashu(&ones, 500_000), Err(TooShort));
    // The bound lets it in where P is small and M large; there the first run is out of range.
    assert_eq!(outcome(&ones, 1, 0, 1 << 23), Err(OutOfRange));
    assert_eq!(outcome(&ones, 1, 0, (1 << 23) + 1), Err(TooShort));
}

#[test]
fn values_at_or_beyond_the_range_are_out_of_range() {
    // P = 3, M = 20, N = 2: F = 40, so a quotient is at most 39 >> 3 = 4.
    let code = |values: &[u64]| nutfilter_reference::encode_values(values, 3);
    assert_eq!(outcome(&code(&[0, 39]), 2, 3, 20), Ok(2));
    assert_eq!(outcome(&code(&[39, 39]), 2, 3, 20), Ok(2));
    assert_eq!(
        outcome(&code(&[0, 40]), 2, 3, 20),
        Err(OutOfRange),
        "a run above 4"
    );
    assert_eq!(
        outcome(&code(&[20, 40]), 2, 3, 20),
        Err(OutOfRange),
        "a sum of F"
    );
    assert_eq!(outcome(&code(&[39, 47]), 2, 3, 20), Err(OutOfRange));
}

#[test]
fn the_widest_range_ends_where_it_should() {
    // Sums beyond 64 bits take N close to 2^32, 17 GiB of filter: src/decode/scan.rs tests those from
    // within.
    let params = Params::new(32, u64::from(u32::MAX)).unwrap();
    let mut values = [params.range(1000) - 1; 1000];
    let coded = |values: &[u64]| nutfilter_reference::encode_values(values, 32);
    assert_eq!(outcome(&coded(&values), 1000, 32, params.m()), Ok(1000));
    values[999] += 1;
    assert_eq!(
        outcome(&coded(&values), 1000, 32, params.m()),
        Err(OutOfRange)
    );
}

#[test]
fn zeros_are_duplicates_of_value_0() {
    for n in [1_u64, 2, 8, 100] {
        let bytes = vec![0; (n as usize * 20).div_ceil(8)];
        assert_eq!(cashu(&bytes, n), Ok(n as u32));
        let filter = Filter::<Unhashed>::parse(bytes, n, Params::default()).unwrap();
        assert_eq!(filter.matches_values(&[0, 1]), [true, false]);
    }
}

#[test]
fn a_count_that_is_off_by_one_is_noticed() {
    let set = SortedHashes::<Nut25>::from_items((0..100_u8).map(|i| [i; 33]));
    let filter = set.encode(Params::default()).unwrap();
    assert_eq!(cashu(filter.bytes(), 100), Ok(100));
    assert_eq!(cashu(filter.bytes(), 99), Err(TrailingData));
    assert_eq!(cashu(filter.bytes(), 101), Err(TooShort));
}

#[test]
fn padding_is_zeros_and_less_than_a_byte() {
    // One item of 20 bits: four bits of padding.
    assert_eq!(cashu(&[0, 0, 0b0000_0000], 1), Ok(1));
    for bit in 0..4 {
        assert_eq!(cashu(&[0, 0, 1 << bit], 1), Err(Padding), "bit {bit}");
    }
    // Eight items of 20 bits end with a byte; the bound lets one byte more in.
    assert_eq!(cashu(&[0; 20], 8), Ok(8));
    assert_eq!(cashu(&[0; 21], 8), Err(TrailingData));
}

#[test]
fn counts_in_front_of_a_filter_are_minimal_and_whole() {
    let hasher = SipHash::new(1, 2);
    let kind = |bytes: &[u8]| {
        bip158::parse(hasher, bytes)
            .map(|filter| filter.n())
            .map_err(|error| error.kind())
    };
    assert_eq!(kind(&[0]), Ok(0));
    assert_eq!(kind(&[1, 0, 0, 0]), Ok(1));
    assert_eq!(kind(&[]), Err(TooShort));
    assert_eq!(kind(&[0xfd, 0, 0]), Err(NonCanonical));
    assert_eq!(kind(&[0xfd, 0xfc, 0]), Err(NonCanonical));
    assert_eq!(
        kind(&[0xfd, 0xfd, 0]),
        Err(TooShort),
        "253 items in no bytes"
    );
    assert_eq!(kind(&[0xfe, 0xff, 0xff, 0, 0]), Err(NonCanonical));
    assert_eq!(
        kind(&[0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
        Err(NonCanonical)
    );
    assert_eq!(kind(&[0xff; 9]), Err(BadParameter));
    for (first, width) in [(0xfd, 2), (0xfe, 4), (0xff, 8)] {
        for given in 0..width {
            let bytes = [vec![first], vec![0xff; given]].concat();
            assert_eq!(
                kind(&bytes),
                Err(TooShort),
                "{given} bytes after {first:#x}"
            );
        }
    }
    // 253 zeros of 20 bits, and 65,536 of them, with a count of the right width.
    for (count, n) in [
        (vec![0xfd, 253, 0], 253),
        (vec![0xfe, 0, 0, 1, 0], 65_536_u32),
    ] {
        let bytes = [count.clone(), vec![0; (n as usize * 20).div_ceil(8)]].concat();
        assert_eq!(kind(&bytes), Ok(n));
        let filter = bip158::parse(hasher, bytes.clone()).unwrap();
        assert_eq!(bip158::serialize(&filter), bytes);
    }
}

/// A response with one member replaced by `text`, or left out where that is empty.
fn json_with(name: &str, text: &str) -> String {
    let members = [
        ("n", "1"),
        ("p", "19"),
        ("m", "784931"),
        ("content", r#""AAAA""#),
        ("timestamp", "1767225600"),
    ];
    let members: Vec<String> = members
        .into_iter()
        .map(|(member, usual)| (member, if member == name { text } else { usual }))
        .filter(|(_, text)| !text.is_empty())
        .map(|(member, text)| format!(r#""{member}": {text}"#))
        .collect();
    format!("{{{}}}", members.join(", "))
}

fn response(json: &str) -> Result<FilterResponse, ResponseErrorKind> {
    FilterResponse::from_json(json.as_bytes()).map_err(|error| error.kind())
}

#[test]
fn numbers_in_json_are_integers_of_their_size() {
    assert!(response(&json_with("", "")).is_ok());
    for name in ["n", "p", "m", "timestamp"] {
        for text in [
            "18446744073709551616",
            "-1",
            "1.0",
            "1e3",
            r#""10""#,
            "[1]",
            "{}",
            "true",
        ] {
            let kind = response(&json_with(name, text)).unwrap_err();
            assert_eq!(kind, ResponseErrorKind::Json, "{name}: {text}");
        }
    }
    for name in ["n", "content", "timestamp"] {
        for text in ["", "null"] {
            let kind = response(&json_with(name, text)).unwrap_err();
            assert_eq!(kind, ResponseErrorKind::Json, "{name}: '{text}'");
        }
    }
    assert_eq!(
        response(&json_with("p", "256")),
        Err(ResponseErrorKind::Json)
    );
}

#[test]
fn missing_or_null_p_and_m_are_the_usual_ones() {
    for name in ["p", "m"] {
        for text in ["", "null"] {
            let read = response(&json_with(name, text)).unwrap();
            assert_eq!(read.params, Params::CASHU, "{name}: '{text}'");
        }
    }
}

#[test]
fn numbers_in_json_are_within_the_limits_of_the_format() {
    for p in ["33", "63", "64", "255"] {
        assert_eq!(
            response(&json_with("p", p)),
            Err(ResponseErrorKind::BadParameter),
            "{p}"
        );
    }
    for m in ["0", "4294967296"] {
        assert_eq!(
            response(&json_with("m", m)),
            Err(ResponseErrorKind::BadParameter),
            "{m}"
        );
    }
    assert_eq!(response(&json_with("m", "1")).unwrap().params.m(), 1);
    for n in ["4294967296", "18446744073709551615"] {
        let error = FilterResponse::from_json(json_with("n", n).as_bytes()).unwrap_err();
        assert_eq!(
            error.decode_error().map(|error| error.kind()),
            Some(BadParameter)
        );
    }
    let error = FilterResponse::from_json(json_with("n", "0").as_bytes()).unwrap_err();
    assert_eq!(
        error.decode_error().map(|error| error.kind()),
        Some(TooLong)
    );
    let error = FilterResponse::from_json(json_with("n", "2").as_bytes()).unwrap_err();
    assert_eq!(
        error.decode_error().map(|error| error.kind()),
        Some(TooShort)
    );
}

#[test]
fn base64_is_standard_padded_and_clean() {
    // Eight items, P = 0 and M = 3: one to four bytes pass the bound, so it is the text that decides.
    let json = |content: &str| {
        format!(r#"{{"n": 8, "p": 0, "m": 3, "content": {content}, "timestamp": 0}}"#)
    };
    for content in [r#""AA==""#, r#""AAA=""#, r#""AAAA""#] {
        assert!(response(&json(content)).is_ok(), "{content}");
    }
    for content in [
        r#""AAA""#,       // no padding
        r#""AAA==""#,     // too much of it
        r#""AAAA=""#,     // some where none belongs
        r#""AA-_""#,      // the alphabet for addresses
        r#""AA AA""#,     // white space
        r#"" AAAA""#,     // in front
        r#""AAAA\n""#,    // behind
        r#""AAA\u0000""#, // NUL
        r#""AAB=""#,      // bits beyond the last byte
        r#""AB==""#,      // the same, one byte
        r#""=AAA""#,      // padding in front
        r#""AAÄ=""#,      // no ASCII
        r#""AA\nA""#,     // an escape that is no character of base64
        r#""AA\u00e4A""#,
        r#""AA\u0041\u0000""#,
        r#""AA\\A""#,
        r#""AA\"A""#,
        r#""\ud800AAA""#,
        r#""====""#, // padding alone
    ] {
        let kind = response(&json(content)).unwrap_err();
        assert_eq!(kind, ResponseErrorKind::Base64, "{content}");
    }
}

#[test]
fn content_may_be_a_list_of_one_string() {
    let plain = response(&json_with("", "")).unwrap();
    assert_eq!(
        response(&json_with("content", r#"["AAAA"]"#)).unwrap(),
        plain
    );
    for content in [
        "[]",
        r#"["AAAA", "AAAA"]"#,
        r#"["AAAA", null]"#,
        "[1]",
        r#"[["AAAA"]]"#,
        "1",
    ] {
        let kind = response(&json_with("content", content)).unwrap_err();
        assert_eq!(kind, ResponseErrorKind::Json, "{content}");
    }
    // An escaped solidus is the same text.
    let escaped = response(&json_with("content", r#""\/\/\/\/""#));
    let unescaped = response(&json_with("content", r#""////""#));
    assert_eq!(escaped.unwrap().content, unescaped.unwrap().content);
    let by_number = response(&json_with("content", r#""\u002f\u0041\/\u002F""#)).unwrap();
    assert_eq!(
        by_number,
        response(&json_with("content", r#""/A//""#)).unwrap()
    );
    for content in [r#""\q""#, r#""\u00""#, r#""\u00zz""#, r#""AAA\""#] {
        let kind = response(&json_with("content", content)).unwrap_err();
        assert_eq!(kind, ResponseErrorKind::Json, "{content}");
    }
}

#[test]
fn json_that_is_not_one_plain_object_is_refused() {
    let usual = json_with("", "");
    let deep = 100_000;
    for (what, text) in [
        ("nothing", String::new()),
        ("null", "null".into()),
        ("a list", format!("[{usual}]")),
        ("a repeated n", usual.replacen('{', r#"{"n": 1, "#, 1)),
        ("a repeated p", usual.replacen('{', r#"{"p": null, "#, 1)),
        (
            "a repeated content",
            usual.replacen('{', r#"{"content": "AAAA", "#, 1),
        ),
        ("depth", "[".repeat(deep)),
        (
            "depth in a member",
            format!(
                r#"{{"x": {}{}, {}"#,
                "[".repeat(deep),
                "]".repeat(deep),
                &usual[1..]
            ),
        ),
        (
            "depth of objects",
            format!(
                r#"{{"x": {}1{}, {}"#,
                r#"{"y":"#.repeat(deep),
                "}".repeat(deep),
                &usual[1..]
            ),
        ),
        ("NaN", usual.replacen('{', r#"{"x": NaN, "#, 1)),
        ("data after the end", format!("{usual} 1")),
        ("a second object", format!("{usual}{usual}")),
        ("a byte-order mark", format!("\u{feff}{usual}")),
        ("a cut", usual[..usual.len() - 1].into()),
        ("a comma at the end", usual.replace('}', ",}")),
    ] {
        assert_eq!(response(&text), Err(ResponseErrorKind::Json), "{what}");
    }
    for place in ["{\"\u{1}\": 1, ", "{\"x\": \"\u{1}\", "] {
        // 0x01 stands for a byte that is no UTF-8.
        let bytes: Vec<u8> = usual
            .replacen('{', place, 1)
            .bytes()
            .map(|byte| if byte == 1 { 0xff } else { byte })
            .collect();
        let kind = FilterResponse::from_json(&bytes).unwrap_err().kind();
        assert_eq!(kind, ResponseErrorKind::Json, "in {place:?}");
    }
}

#[test]
fn unknown_members_are_ignored() {
    for extra in [
        r#""x": null"#,
        r#""x": [1, -2, 3.5e7, "text", {"y": [true, false]}]"#,
        r#""N": 7"#,
        r#""x": 1, "x": 2"#,
    ] {
        let text = json_with("", "").replacen('{', &format!("{{{extra}, "), 1);
        assert_eq!(response(&text), response(&json_with("", "")), "{extra}");
    }
}

#[test]
fn duplicate_and_colliding_targets_get_an_answer_each() {
    let items: Vec<[u8; 33]> = (0..50).map(|i| [i; 33]).collect();
    let filter = SortedHashes::<Nut25>::from_items(&items)
        .encode(Params::default())
        .unwrap();
    let (member, stranger) = ([7; 33], [200; 33]);
    let targets = [member, stranger, member, member, stranger];
    assert_eq!(filter.matches(&targets), [true, false, true, true, false]);
    let value = filter.values().nth(20).unwrap();
    assert_eq!(filter.matches_values(&[value, value]), [true, true]);
    // A range of one value: everything collides.
    let all = SortedHashes::<Nut25>::from_items([b"a"])
        .encode(Params::new(0, 1).unwrap())
        .unwrap();
    assert_eq!(all.matches(&[b"a", b"b", b"c"]), [true, true, true]);
}

#[test]
fn an_empty_target_is_hashed_like_any_and_no_targets_give_no_answers() {
    let with = SortedHashes::<Nut25>::from_items([&b""[..], b"x"])
        .encode(Params::default())
        .unwrap();
    let without = SortedHashes::<Nut25>::from_items([b"x"])
        .encode(Params::default())
        .unwrap();
    assert_eq!(with.matches(&[b""]), [true]);
    assert_eq!(without.matches(&[b""]), [false]);
    assert!(with.matches::<&[u8]>(&[]).is_empty());
    assert!(!with.match_any::<&[u8]>(&[]));
}

#[test]
fn errors_carry_their_numbers() {
    let error = |bytes: &[u8], n| {
        Filter::<Nut25>::parse(bytes, n, Params::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(&[0; 2], 812),
        "filter declares 812 items, which take at least 2030 bytes, and has 2"
    );
    assert_eq!(
        error(&[0; 9], 1),
        "filter declares 1 items, which take at most 3 bytes, and has 9"
    );
    assert_eq!(
        error(&[0, 0, 1], 1),
        "the bits that pad the last byte are not zero (the 1 items end at bit 20)"
    );
    let text = Params::new(33, 1).unwrap_err().to_string();
    assert_eq!(
        text,
        "P is 33, and the format allows 0 to 32 remainder bits"
    );
}
