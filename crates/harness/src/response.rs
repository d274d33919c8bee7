//! Any bytes as a response: an error, or what a plain reading of the JSON finds in it.

use arbitrary::Arbitrary;
use nutfilter::{FilterResponse, Nut25};
use serde_json::Value;

/// The text.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a>(pub &'a [u8]);

impl Case<'_> {
    /// Reads, compares with a plain reading, writes, reads again.
    ///
    /// # Panics
    ///
    /// Where something was accepted that should not have been, or read as something else.
    pub fn check(&self) {
        let response = match FilterResponse::from_json(self.0) {
            Ok(response) => response,
            Err(error) => {
                // Whatever is wrong, there are words for it.
                assert!(!error.to_string().is_empty());
                return;
            }
        };
        let text = String::from_utf8_lossy(self.0);
        let plain: Value = serde_json::from_slice(self.0)
            .unwrap_or_else(|error| panic!("{error} in what was accepted: {text}"));
        let or_default = |member: &Value, default| match member {
            Value::Null => Some(default),
            given => given.as_u64(),
        };
        let content = match &plain["content"] {
            Value::Array(list) if list.len() == 1 => &list[0],
            other => other,
        };
        assert_eq!(plain["n"].as_u64(), Some(response.n.into()), "{text}");
        let p = or_default(&plain["p"], 19);
        assert_eq!(p, Some(response.params.p().into()), "{text}");
        let m = or_default(&plain["m"], 784_931);
        assert_eq!(m, Some(response.params.m()), "{text}");
        assert_eq!(
            plain["timestamp"].as_u64(),
            Some(response.timestamp),
            "{text}"
        );
        assert_eq!(
            content.as_str(),
            Some(base64(&response.content).as_str()),
            "{text}"
        );

        let json = response.to_json();
        let again = FilterResponse::from_json(json.as_bytes()).expect("our own text");
        assert_eq!(again, response, "{text}");
        if let Ok(filter) = response.clone().into_filter::<Nut25>() {
            assert_eq!(FilterResponse::new(&filter, response.timestamp), response);
        }
    }
}

/// Base64 by the book: six bits at a time. What is decoded has one spelling, so encoding it is a check of
/// the decoder too.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | u32::from(chunk.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            text.push(if at <= chunk.len() {
                char::from(ALPHABET[(bits >> (18 - 6 * at) & 63) as usize])
            } else {
                '='
            });
        }
    }
    text
}
