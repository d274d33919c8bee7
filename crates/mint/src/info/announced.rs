//! Adds one entry to the mint's info.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{InfoError, Kind};

/// Returns the info with the entry `key`, which has this JSON as its value, added to `nuts`, and everything else byte for
/// byte; `None` if the mint has its own entry of that name.
pub(super) fn announced(info: &[u8], key: &str, value: &str) -> Result<Option<Vec<u8>>, InfoError> {
    // Quoted and escaped as JSON.
    let entry = format!("{}:{value}", serde_json::Value::from(key));
    let malformed = |error| InfoError(Kind::Malformed(error));
    let text = str::from_utf8(info).map_err(|_| InfoError(Kind::NoText))?;
    let members: Members<'_> = serde_json::from_str(text).map_err(malformed)?;
    let Some(nuts) = members.get("nuts") else {
        let nuts = format!(r#""nuts":{{{entry}}}"#);
        let is_only = members.is_empty();
        return Ok(Some(with_member(text, opening(text), &nuts, is_only)));
    };
    let entries: Members<'_> = serde_json::from_str(nuts.get()).map_err(malformed)?;
    if entries.contains_key(key) {
        return Ok(None);
    }
    // A raw value borrows from the text, so the difference of the addresses is its offset.
    let start = nuts.get().as_ptr().addr() - text.as_ptr().addr();
    let at = start + opening(nuts.get());
    let is_only = entries.is_empty();
    Ok(Some(with_member(text, at, &entry, is_only)))
}

/// Length of an object's text up to and including its opening brace, in bytes.
fn opening(object: &str) -> usize {
    object.find('{').map_or(0, |brace| brace + 1)
}

fn with_member(text: &str, at: usize, member: &str, is_only: bool) -> Vec<u8> {
    let (before, after) = text.split_at(at);
    let comma = if is_only { "" } else { "," };
    [before, member, comma, after].concat().into_bytes()
}

/// The members of an object, with unparsed values. If a name occurs twice, parsers use the last member.
type Members<'a> = BTreeMap<String, &'a RawValue>;

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = r#"{"supported":true}"#;

    #[track_caller]
    fn assert_announced(info: &str, expected: &str) {
        let made = announced(info.as_bytes(), "25", VALUE).expect("an info");
        let made = made.expect("a free key");
        assert_eq!(String::from_utf8(made).expect("text"), expected);
        serde_json::from_str::<serde_json::Value>(expected).expect("JSON");
    }

    #[test]
    fn all_other_bytes_are_unchanged() {
        assert_announced(
            "{ \"name\" : \"x\\u00e9\", \"n\":1.10, \"big\": 123456789012345678901234567890,\n\
             \"nuts\" : { \"4\":{\"methods\":[]} , \"7\": {\"supported\":true}} , \"z\":[1,2] }\n",
            "{ \"name\" : \"x\\u00e9\", \"n\":1.10, \"big\": 123456789012345678901234567890,\n\
             \"nuts\" : {\"25\":{\"supported\":true}, \"4\":{\"methods\":[]} , \"7\": {\"supported\":true}} , \
             \"z\":[1,2] }\n",
        );
    }

    #[test]
    fn missing_or_empty_nuts_get_the_entry() {
        assert_announced("{}", r#"{"nuts":{"25":{"supported":true}}}"#);
        assert_announced(
            r#" { "a":1}"#,
            r#" {"nuts":{"25":{"supported":true}}, "a":1}"#,
        );
        assert_announced(r#"{"nuts":{ }}"#, r#"{"nuts":{"25":{"supported":true} }}"#);
        // A `nuts` in another object does not count.
        assert_announced(
            r#"{"x":{"nuts":{}},"nuts":{}}"#,
            r#"{"x":{"nuts":{}},"nuts":{"25":{"supported":true}}}"#,
        );
        assert_announced(
            r#"{"n\u0075ts":{}}"#,
            r#"{"n\u0075ts":{"25":{"supported":true}}}"#,
        );
    }

    #[test]
    fn entry_has_the_given_key() {
        let info = br#"{"nuts":{"25":{"supported":true}}}"#;
        let made = announced(info, "filters", VALUE).expect("an info");
        let expected = br#"{"nuts":{"filters":{"supported":true},"25":{"supported":true}}}"#;
        assert_eq!(made.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn existing_entry_25_is_kept() {
        for info in [
            r#"{"nuts":{"25":{"supported":false,"more":1}}}"#,
            r#"{"nuts":{"4":{},"25":[]}}"#,
        ] {
            let made = announced(info.as_bytes(), "25", VALUE).expect("an info");
            assert_eq!(made, None);
        }
    }

    #[test]
    fn invalid_info_is_refused() {
        for info in [
            "",
            "[]",
            "null",
            "{",
            "{}x",
            "\"{}\"",
            r#"{"nuts":[]}"#,
            r#"{"nuts":null}"#,
            "{\"a\":}",
        ] {
            let error = announced(info.as_bytes(), "25", VALUE).expect_err(info);
            assert!(error.to_string().starts_with("invalid mint info"));
        }
        assert!(announced(b"{\"a\":\"\xff\"}", "25", VALUE).is_err());
        // Deep nesting must not overflow the stack.
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let _ = announced(deep.as_bytes(), "25", VALUE);
    }
}
