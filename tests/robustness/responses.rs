//! The rows of the table that are text: JSON and base64.

use nutfilter::Params;
use nutfilter::error::DecodeErrorKind;
use nutfilter_cashu::FilterResponse;
use nutfilter_cashu::ResponseErrorKind::{self, BadParameter, Base64, Filter, Json};
use nutfilter_harness::vectors::{list, own, text};
use serde_json::Value;

use crate::allocations::{FIXED, peak_of};

/// The cell, the text, and what comes of it: a response, or the class of the error.
type Text = (String, Vec<u8>, Result<(), ResponseErrorKind>);

/// A response with one member replaced by `text`, or left out where that is empty.
fn with(name: &str, text: &str) -> String {
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

/// The usual response with something in front of its first member.
fn after_the_brace(text: &str) -> String {
    with("", "").replacen('{', &format!("{{{text}"), 1)
}

/// All rows: those of the file, and those that are too long or no text.
fn texts() -> Vec<Text> {
    let file = own("responses.json");
    let class = |row: &Value| match row["error"].as_str() {
        None => Ok(()),
        Some("Json") => Err(Json),
        Some("Base64") => Err(Base64),
        Some("BadParameter") => Err(BadParameter),
        Some("Filter") => Err(Filter),
        Some(other) => panic!("unknown class {other}"),
    };
    let rows = list(&file["rows"]).iter();
    let row = |row: &Value| {
        let (cell, what) = (text(&row["cell"]).to_owned(), text(&row["text"]));
        (cell, what.into(), class(row))
    };
    let mut rows: Vec<Text> = rows.map(row).collect();
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    let objects = r#"{"y":"#.repeat(100_000) + "1" + &"}".repeat(100_000);
    let usual = with("", "");
    for deep in [format!("{open}{close}"), objects] {
        let text = after_the_brace(&format!(r#""x": {deep}, "#)).into_bytes();
        rows.push(("any depth".to_owned(), text, Ok(())));
    }
    let more =
        [open.clone(), with("n", &(open.clone() + &close)), with("content", &(open + &close))];
    let cut = (0..usual.len()).map(|len| usual[..len].to_owned());
    let mut more: Vec<_> = more.into_iter().chain(cut).map(String::into_bytes).collect();
    for member in ["\"\u{1}\": 1, ", "\"x\": \"\u{1}\", ", "\"x\": [\"\u{1}\"], "] {
        // 0x01 stands for an invalid UTF-8 byte.
        let text = after_the_brace(member).into_bytes().into_iter();
        more.push(text.map(|byte| if byte == 1 { 0xff } else { byte }).collect());
    }
    rows.extend(more.into_iter().map(|text| ("not in the file".to_owned(), text, Err(Json))));
    rows
}

fn read(text: &[u8]) -> Result<FilterResponse, nutfilter_cashu::ResponseError> {
    let (read, peak) = peak_of(|| FilterResponse::from_json(text));
    let start = String::from_utf8_lossy(&text[..text.len().min(60)]);
    assert!(peak <= 2 * text.len() + FIXED, "{start}: {peak} bytes for {}", text.len());
    read
}

#[test]
fn response_rows_have_their_class_and_bound() {
    for (cell, text, class) in texts() {
        let found = read(&text).map(drop).map_err(|error| error.kind());
        let start = String::from_utf8_lossy(&text[..text.len().min(200)]);
        assert_eq!(found, class, "{cell}: {start}");
    }
}

#[test]
fn impossible_count_is_refused_before_decoding() {
    use DecodeErrorKind::{BadParameter, TooLong, TooShort};

    let content = "A".repeat(4 << 20);
    for (n, kind) in [
        ("0", TooLong),
        ("2", TooLong),
        ("4294967295", TooShort),
        ("4294967296", BadParameter),
        ("18446744073709551615", BadParameter),
    ] {
        let json = with("content", &format!(r#""{content}""#));
        let json = json.replacen(r#""n": 1"#, &format!(r#""n": {n}"#), 1);
        let (read, peak) = peak_of(|| FilterResponse::from_json(json.as_bytes()));
        let error = read.expect_err("a count that does not fit").decode_error();
        assert_eq!(error.map(|error| error.kind()), Some(kind), "{n}");
        assert_eq!(peak, 0, "{n}");
    }
}

#[test]
fn missing_members_have_defaults_and_unknown_are_ignored() {
    let usual = read(with("", "").as_bytes()).expect("a response");
    for (cell, text, _) in texts() {
        if cell == "p or m null or missing" || cell == "unknown members" {
            let read = read(&text).expect("a response");
            assert_eq!(read.params, Params::CASHU);
            assert_eq!(read, usual, "{cell}");
        }
    }
    for (escaped, plain) in [
        (r#"["AAAA"]"#, r#""AAAA""#),
        (r#""\/\/\/\/""#, r#""////""#),
        (r#""\u002f\u0041\/\u002F""#, r#""/A//""#),
    ] {
        let of = |content| read(with("content", content).as_bytes()).expect("a response");
        assert_eq!(of(escaped), of(plain), "{escaped}");
    }
}

/// Texts of megabytes, made to be copied, quoted or kept by a careless reader.
#[test]
fn long_texts_take_at_most_twice_their_length() {
    let nested = format!(r#"{{"x": {}"#, "[".repeat(1 << 20));
    // One level more than fits a buffer whose size is a power of two.
    let deeper = after_the_brace(&format!(
        r#""x": {}{}, "#,
        "[".repeat((1 << 20) + 2),
        "]".repeat((1 << 20) + 2)
    ));
    let lists = format!(r#"{{"x": [{}1]}}"#, "[],".repeat(1 << 18));
    let quoted = format!("\"{}\"", "\u{7f}".repeat(1 << 20));
    let mut texts = vec![nested, deeper, lists, quoted.clone()];
    // Strings where none belong: an error that quotes them writes six characters for each.
    for name in ["n", "p", "m", "content", "timestamp"] {
        texts.push(after_the_brace(&format!("\"{name}\": {quoted}, ")));
    }
    // Escapes make a parser copy. Lengths just beyond a power of two are where its buffer is largest.
    let sparse = |every: usize, len: usize| {
        format!("{}{}", "A".repeat(every - 1), r"\/").repeat(len / every)
    };
    for len in [(1 << 20) + 64, 3_200_000] {
        for every in [2, 1000, 100_000] {
            let text = sparse(every, len);
            texts.push(format!(r#"{{"n":1,"content":"{text}","timestamp":1}}"#));
            texts.push(format!(r#"{{"n":8,"content":["{text}"],"timestamp":1}}"#));
            texts.push(format!(r#"{{"n":1,"{text}":1}}"#));
            texts.push(format!(r#"{{"n":1,"x":"{text}"}}"#));
            texts.push(format!(r#"{{"n":"{text}"}}"#));
        }
    }
    for text in &texts {
        // A member of any depth is ignored, and so is one that is given again.
        let _ = read(text.as_bytes());
    }
    let unknown = format!("\"{}\": {quoted}, ", "\u{7f}".repeat(1 << 20));
    assert!(read(after_the_brace(&unknown).as_bytes()).is_ok());
    // Contents that fit their numbers, so that they are decoded: plain, escaped, and bad in the last letter.
    let zeros = "AAAA".repeat(1 << 19);
    for (end, is_good) in [("AA==", true), (r"\/A==", true), ("AB==", false), ("A-==", false)] {
        let text =
            format!(r#"{{"n":6291456,"p":0,"m":16,"content":"{zeros}{end}","timestamp":1}}"#);
        assert_eq!(read(text.as_bytes()).is_ok(), is_good, "{end}");
    }
}
