//! The rows of the table that are text: JSON and base64.

use nutfilter::Params;
use nutfilter::error::DecodeErrorKind;
use nutfilter_cashu::FilterResponse;
use nutfilter_cashu::ResponseErrorKind::{self, BadParameter, Base64, Json};

use crate::allocations::{FIXED, peak_of};

/// The cell, what is special, the text, and what comes of it: a response, or the class of the error.
pub(crate) type Text = (&'static str, String, Vec<u8>, Result<(), ResponseErrorKind>);

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

/// All rows.
pub(crate) fn texts() -> Vec<Text> {
    [numbers(), base64(), objects()].concat()
}

fn numbers() -> Vec<Text> {
    let mut rows: Vec<Text> = Vec::new();
    let mut row = |cell, name: &str, text: &str, class| {
        let what = format!("{name}: '{text}'");
        rows.push((cell, what, with(name, text).into_bytes(), class));
    };
    row("accepted as it is", "", "", Ok(()));
    let cell = r#"a number as 2^64, -1, 1.0, 1e3, "10", [1], {} or true"#;
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
            row(cell, name, text, Err(Json));
        }
    }
    let cell = "n, content or timestamp null or missing";
    for name in ["n", "content", "timestamp"] {
        for text in ["", "null"] {
            row(cell, name, text, Err(Json));
        }
    }
    let cell = "p or m null or missing";
    for name in ["p", "m"] {
        for text in ["", "null"] {
            row(cell, name, text, Ok(()));
        }
    }
    row("P = 256 or negative", "p", "256", Err(Json));
    row("P = 256 or negative", "p", "-19", Err(Json));
    for p in ["33", "63", "64", "255"] {
        row("P = 33, 63, 64, 255", "p", p, Err(BadParameter));
    }
    for m in ["0", "4294967296", "18446744073709551615"] {
        row("M = 0; M = 2^32", "m", m, Err(BadParameter));
    }
    for m in ["1", "4294967295"] {
        row("M = 1; M = 2^32 - 1", "m", m, Ok(()));
    }
    rows
}

fn base64() -> Vec<Text> {
    // Eight items, P = 0 and M = 3: one to four bytes pass the bound, so it is the text that decides.
    let json = |content: &str| {
        format!(r#"{{"n": 8, "p": 0, "m": 3, "content": {content}, "timestamp": 0}}"#)
    };
    let cell = "base64 of the alphabet for addresses; with a missing or needless `=`, white space, NUL, bits behind the end";
    let mut rows: Vec<Text> = Vec::new();
    let mut row = |cell, content: &str, class| {
        rows.push((cell, content.to_owned(), json(content).into_bytes(), class));
    };
    for content in [
        r#""AAA""#,       // no padding
        r#""AAA==""#,     // too much of it
        r#""AAAA=""#,     // some where none belongs
        r#""AA-_""#,      // the alphabet for addresses
        r#""AA AA""#,     // white space
        r#"" AAAA""#,     // in front
        r#""AAAA ""#,     // behind
        r#""AAAA\n""#,    // a line's end
        r#""AAA\u0000""#, // NUL
        r#""AAB=""#,      // bits behind the last byte
        r#""AB==""#,      // the same, one byte
        r#""=AAA""#,      // padding in front
        r#""A===""#,      // one letter is not a byte
        r#""AAÄ=""#,      // no ASCII
        r#""AA\nA""#,     // an escape that is not a base64 character
        r#""AA\u00e4A""#,
        r#""AA\u0041\u0000""#,
        r#""AA\\A""#,
        r#""AA\"A""#,
        r#""\ud800AAA""#,
        r#""====""#, // padding alone
    ] {
        row(cell, content, Err(Base64));
    }
    for content in [r#""AA==""#, r#""AAA=""#, r#""AAAA""#] {
        row("accepted as it is", content, Ok(()));
    }
    let cell = "content as a list of one string; with escapes";
    for content in [r#"["AAAA"]"#, r#""\u0041AAA""#, r#"["AA\u0041\u0041"]"#] {
        row(cell, content, Ok(()));
    }
    let cell = "content as another list, a number or a string that does not end";
    for content in [
        "[]",
        r#"["AAAA", "AAAA"]"#,
        r#"["AAAA", null]"#,
        "[1]",
        r#"[["AAAA"]]"#,
        "1",
        "{}",
        r#""\q""#,
        r#""\u00""#,
        r#""\u00zz""#,
        r#""AAA\""#,
    ] {
        row(cell, content, Err(Json));
    }
    rows
}

fn objects() -> Vec<Text> {
    let usual = with("", "");
    let deep = 100_000;
    let (open, close) = ("[".repeat(deep), "]".repeat(deep));
    let (open_objects, close_objects) = (r#"{"y":"#.repeat(deep), "}".repeat(deep));
    let mut rows: Vec<Text> = Vec::new();
    let mut row = |cell, name: &str, text: Vec<u8>, class| {
        rows.push((cell, name.to_owned(), text, class));
    };
    let cell = "a member given twice; a depth of 100,000; NaN; data behind the end; a byte-order mark; invalid UTF-8";
    for first in [
        r#""n": 1, "#,
        r#""p": null, "#,
        r#""m": 784931, "#,
        r#""content": "AAAA", "#,
        r#""timestamp": 1, "#,
        r#""\u006e": 1, "#, // a repeated n, escaped
        &format!(r#""x": {open}{close}, "#),
        &format!(r#""x": {open_objects}1{close_objects}, "#),
        r#""x": NaN, "#,
        r#""x": -Infinity, "#,
    ] {
        let name = format!("begins with {:.40}", first);
        row(cell, &name, after_the_brace(first).into_bytes(), Err(Json));
    }
    for (name, text) in [
        ("depth", open.clone()),
        ("depth of n", with("n", &(open.clone() + &close))),
        ("depth of content", with("content", &(open + &close))),
        ("n is NaN", with("n", "NaN")),
        ("data behind the end", format!("{usual} 1")),
        ("a second object", format!("{usual}{usual}")),
        ("NUL behind the end", format!("{usual}\0")),
        ("a byte-order mark", format!("\u{feff}{usual}")),
    ] {
        row(cell, name, text.into_bytes(), Err(Json));
    }
    for place in [
        "\"\u{1}\": 1, ",
        "\"x\": \"\u{1}\", ",
        "\"x\": [\"\u{1}\"], ",
    ] {
        // 0x01 stands for an invalid UTF-8 byte.
        let mut text = after_the_brace(place).into_bytes();
        text.iter_mut()
            .filter(|byte| **byte == 1)
            .for_each(|byte| *byte = 0xff);
        row(cell, &format!("0xff in {place:?}"), text, Err(Json));
    }
    let cell = "text that is not an object, or not all of one";
    let mut others = vec![
        String::new(),
        "null".into(),
        "17".into(),
        format!("[{usual}]"),
    ];
    others.extend([
        usual.replace('}', ",}"),
        usual.replace(':', "="),
        "{}".into(),
    ]);
    others.extend((0..usual.len()).map(|len| usual[..len].to_owned()));
    for text in others {
        let name = text.chars().take(60).collect::<String>();
        row(cell, &name, text.into_bytes(), Err(Json));
    }
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for extra in [
        r#""x": 1e999, "#,
        r#""x": [-1e999, 123456789012345678901234567890, 1e-999], "#,
        r#""x": "\ud800", "#,
        // 127 levels with the object around it.
        &format!(r#""x": {}, "#, nested(126)),
        &format!(r#""x": "{}\"{}", "#, nested(126), nested(126)),
        r#""x": null, "#,
        r#""x": [1, -2, 3.5e7, "text", {"y": [true, false]}], "#,
        r#""N": 7, "#,
        r#""x": 1, "x": 2, "#,
        r#""detail": "not an error", "code": 12001, "#,
    ] {
        row(
            "unknown members",
            extra,
            after_the_brace(extra).into_bytes(),
            Ok(()),
        );
    }
    let too_deep = after_the_brace(&format!(r#""x": {}, "#, nested(127)));
    let cell = "a member given twice; a depth of 100,000; NaN; data behind the end; a byte-order mark; invalid UTF-8";
    row(cell, "128 levels", too_deep.into_bytes(), Err(Json));
    rows
}

fn read(text: &[u8]) -> Result<FilterResponse, nutfilter_cashu::ResponseError> {
    let (read, peak) = peak_of(|| FilterResponse::from_json(text));
    let start = String::from_utf8_lossy(&text[..text.len().min(60)]);
    assert!(
        peak <= 2 * text.len() + FIXED,
        "{start}: {peak} bytes for {}",
        text.len()
    );
    read
}

#[test]
fn response_rows_have_their_class_and_bound() {
    for (cell, name, text, class) in texts() {
        let found = read(&text).map(drop).map_err(|error| error.kind());
        assert_eq!(found, class, "{cell}: {name}");
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
    for (cell, name, text, _) in texts() {
        if cell == "p or m null or missing" || cell == "unknown members" {
            let read = read(&text).expect("a response");
            assert_eq!(read.params, Params::CASHU, "{name}");
            assert_eq!(read, usual, "{name}");
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
        assert!(read(text.as_bytes()).is_err(), "{}", &text[..60]);
    }
    let unknown = format!("\"{}\": {quoted}, ", "\u{7f}".repeat(1 << 20));
    assert!(read(after_the_brace(&unknown).as_bytes()).is_ok());
    // Contents that fit their numbers, so that they are decoded: plain, escaped, and bad in the last letter.
    let zeros = "AAAA".repeat(1 << 19);
    for (end, is_good) in [
        ("AA==", true),
        (r"\/A==", true),
        ("AB==", false),
        ("A-==", false),
    ] {
        let text =
            format!(r#"{{"n":6291456,"p":0,"m":16,"content":"{zeros}{end}","timestamp":1}}"#);
        assert_eq!(read(text.as_bytes()).is_ok(), is_good, "{end}");
    }
}
