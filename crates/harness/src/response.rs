//! Any bytes as a response: the error or the filter that a simple JSON reader finds in it.

use arbitrary::Arbitrary;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nutfilter::Params;
use nutfilter_cashu::{FilterResponse, ResponseErrorKind};
use serde::de::IgnoredAny;
use serde_json::Value;

/// The text.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a>(pub &'a [u8]);

impl Case<'_> {
    /// Parses, compares with a simple parser, writes, and parses again.
    pub fn check(&self) {
        let plain = Plain::read(self.0);
        let read = FilterResponse::from_json(self.0);
        match (&read, &FilterResponse::from_json(self.0.to_vec())) {
            (Ok(read), Ok(in_place)) => assert_eq!(in_place, read),
            (Err(read), Err(in_place)) => assert_eq!(in_place.to_string(), read.to_string()),
            differ => panic!("{differ:?}: {}", self.text()),
        }
        let response = match read {
            Ok(response) => response,
            Err(error) => {
                let words = error.to_string();
                // Every error has a text, and does not quote the input at length.
                assert!((1..300).contains(&words.len()), "{words}: {self:?}");
                match plain {
                    Some(Ok(_)) => panic!("{words}, in what is a response: {}", self.text()),
                    // The length of such a content is checked before its characters.
                    Some(Err(ResponseErrorKind::Base64))
                        if error.kind() == ResponseErrorKind::Filter => {}
                    Some(Err(kind)) => assert_eq!(error.kind(), kind, "{words}: {}", self.text()),
                    // Invalid JSON, perhaps only within the content; then other faults may come first.
                    None => {}
                }
                return;
            }
        };
        let Some(plain) = plain else {
            // Members that are not needed are skipped: they may have numbers beyond any f64 and halves of surrogate
            // pairs, which JSON's grammar allows and a `Value` cannot have.
            let skipped: Result<IgnoredAny, _> = serde_json::from_slice(self.0);
            assert!(skipped.is_ok(), "accepted: {}", self.text());
            return;
        };
        let plain = plain.unwrap_or_else(|_| panic!("accepted: {}", self.text()));
        assert_eq!(u64::from(response.n), plain.n, "{}", self.text());
        assert_eq!(response.params, plain.params, "{}", self.text());
        assert_eq!(response.timestamp, plain.timestamp, "{}", self.text());
        assert_eq!(base64(&response.content), plain.content, "{}", self.text());
        self.check_writing(&response);
        if let Ok(filter) = response.clone().into_filter() {
            assert_eq!(FilterResponse::new(&filter, response.timestamp), response);
        }
    }

    /// Writes the response in every equivalent way.
    fn check_writing(&self, response: &FilterResponse) {
        let json = response.to_json();
        let read = |json: &str| {
            let again = FilterResponse::from_json(json.as_bytes());
            assert_eq!(again.as_ref().ok(), Some(response), "{json}: {}", self.text());
        };
        read(&json);
        let (n, timestamp) = (response.n, response.timestamp);
        let content = base64(&response.content);
        if response.params.p() == 19 {
            let m = response.params.m();
            read(&format!(
                r#"{{"p":null,"content":["{content}"],"timestamp":{timestamp},"m":{m},"n":{n}}}"#
            ));
        }
        if response.params.m() == 784_931 {
            let p = response.params.p();
            let escaped = content.replace('/', r"\/").replace('A', r"\u0041");
            read(&format!(r#"{{"n":{n},"p":{p},"content":"{escaped}","timestamp":{timestamp}}}"#));
        }

        let (params, mut written) = (response.params, Vec::new());
        FilterResponse::write(&mut written, n, params, &response.content, timestamp)
            .expect("memory takes everything");
        assert_eq!(written, json.into_bytes(), "{}", self.text());
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.0).into_owned()
    }
}

/// The result of parsing everything with `serde_json`.
struct Plain {
    n: u64,
    params: Params,
    content: String,
    timestamp: u64,
}

impl Plain {
    /// `None` if the text is not JSON.
    fn read(text: &[u8]) -> Option<Result<Self, ResponseErrorKind>> {
        let value: Value = serde_json::from_slice(text).ok()?;
        if !value.is_object() {
            return Some(Err(ResponseErrorKind::Json));
        }
        Some(Self::of(&value))
    }

    fn of(object: &Value) -> Result<Self, ResponseErrorKind> {
        let json = ResponseErrorKind::Json;
        // Of several members of one name the last one counts.
        let [n, p, m, content, timestamp] =
            ["n", "p", "m", "content", "timestamp"].map(|name| object.get(name));
        let number = |value: Option<&Value>| value.and_then(whole).ok_or(json);
        let or_default = |value: Option<&Value>, default| match value {
            None | Some(Value::Null) => Ok(default),
            given => number(given),
        };
        let (n, timestamp) = (number(n)?, number(timestamp)?);
        let (p, m) = (or_default(p, 19)?, or_default(m, 784_931)?);
        let p = u8::try_from(p).map_err(|_| json)?;
        let params = Params::new(u32::from(p), m).map_err(|_| ResponseErrorKind::BadParameter)?;
        let content = content.ok_or(json)?;
        let content = match content {
            Value::Array(list) if list.len() == 1 => &list[0],
            other => other,
        };
        let content = content.as_str().ok_or(json)?;
        let decoded = STANDARD.decode(content);
        let decoded = decoded.map_err(|_| ResponseErrorKind::Base64)?;
        let admitted =
            params.check_length(n, decoded.len() as u64).map_err(|_| ResponseErrorKind::Filter);
        admitted.map(|_| Self { n, params, content: content.to_owned(), timestamp })
    }
}

/// A number without a fraction, however it is written: below 2^53 with a point or an exponent.
fn whole(value: &Value) -> Option<u64> {
    let float = || {
        let number = value.as_f64()?;
        let is_whole = number >= 0.0 && number.trunc() == number && number < (1_u64 << 53) as f64;
        is_whole.then_some(number as u64)
    };
    value.as_u64().or_else(float)
}

/// By the crate base64, which is as strict: groups of four, padded, with unused bits zero.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
