//! [`FilterResponse`]: the JSON object that carries a filter in NUT-25 (and, with the same members, in NUT-23).
//!
//! ```text
//! { "n": int, "p": int or null, "m": int or null, "content": base64, "timestamp": int }
//! ```
//!
//! Reading is strict about types: a number in quotes or with a fraction is rejected. It is lenient where
//! deployed servers and parsers differ: `p` and `m` may be missing or null, `content` may be a list of one string, as
//! in the schema of NUT-23, 1.0 and 1e0 are 1, and the last of several members of one name counts. Writing always gives all five members and a plain string.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64_simd::STANDARD;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Error;
use serde_json::value::RawValue;

use nutfilter::error::ParamsError;
use nutfilter::{DecodeError, Filter, Nut25, Params};

/// A filter with its numbers, as sent over the network.
///
/// ```
/// use nutfilter_cashu::FilterResponse;
///
/// let json = br#"{"n": 0, "p": null, "content": "", "timestamp": 1767225600}"#;
/// let response = FilterResponse::from_json(json)?;
/// assert_eq!(response.params.m(), 784_931);
/// assert!(!response.into_filter()?.contains("a note"));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterResponse {
    /// N: the number of items, duplicates included.
    pub n: u32,
    /// P and M.
    pub params: Params,
    /// The coded set.
    pub content: Vec<u8>,
    /// When the set was read, in Unix seconds. Items that do not match were not in the set at that time.
    pub timestamp: u64,
}

impl fmt::Debug for FilterResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterResponse")
            .field("n", &self.n)
            .field("params", &self.params)
            .field("len", &self.content.len())
            .field("timestamp", &self.timestamp)
            .finish_non_exhaustive()
    }
}

impl FilterResponse {
    /// The response for `filter`.
    #[must_use]
    pub fn new<H>(filter: &Filter<impl AsRef<[u8]>, H>, timestamp: u64) -> Self {
        Self { n: filter.n(), params: filter.params(), content: filter.bytes().to_vec(), timestamp }
    }

    /// Parses a response.
    ///
    /// Checks the numbers, and the length of the content against them, before decoding the content. It does not
    /// check the content's bits; [`FilterResponse::into_filter`] does.
    ///
    /// # Errors
    ///
    /// The text is not this object, the base64 is invalid, the parameters are outside the limits, or the
    /// content is too long or too short for them.
    ///
    /// # Cost
    ///
    /// One pass. The base64 is decoded in the buffer of the text: given a `Vec<u8>` or `String`, a large response is in
    /// memory once; a borrowed text is copied. With a copy of the base64 text if that contains escapes, the memory is
    /// at most twice the size of any input.
    pub fn from_json(json: impl AsRef<[u8]> + Into<Vec<u8>>) -> Result<Self, ResponseError> {
        let bytes = json.as_ref();
        let Read { n, params, text, timestamp } = Read::new(bytes)?;
        let mut content = match text {
            Cow::Owned(text) => text,
            Cow::Borrowed(text) => {
                let begin = text.as_ptr() as usize - bytes.as_ptr() as usize;
                let end = begin + text.len();
                let mut buffer: Vec<u8> = json.into();
                buffer.truncate(end);
                buffer.drain(..begin);
                buffer
            }
        };
        let decoded = STANDARD.decode_inplace(&mut content).map(|decoded| decoded.len());
        let len = decoded.map_err(|_| bad_base64(&content))?;
        content.truncate(len);
        content.shrink_to_fit();
        Ok(Self { n, params, content, timestamp })
    }

    /// Serialises the response.
    #[must_use]
    pub fn to_json(&self) -> String {
        // No member needs escaping, so a serialiser has no use here. Servers keep this text, so it is made in
        // one allocation.
        let (head, tail) = (head(self.n, self.params), tail(self.timestamp));
        let mut json = String::with_capacity(
            head.len() + STANDARD.encoded_length(self.content.len()) + tail.len(),
        );
        json.push_str(&head);
        STANDARD.encode_append(&self.content, &mut json);
        json.push_str(&tail);
        json
    }

    /// Writes the text of [`to_json`](Self::to_json) for this coded set without holding all of it in memory.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    #[cfg(feature = "std")]
    pub fn write(
        mut output: impl std::io::Write,
        n: u32,
        params: Params,
        content: &[u8],
        timestamp: u64,
    ) -> std::io::Result<()> {
        output.write_all(head(n, params).as_bytes())?;
        for piece in content.chunks(PIECE) {
            output.write_all(STANDARD.encode_to_string(piece).as_bytes())?;
        }
        output.write_all(tail(timestamp).as_bytes())?;
        output.flush()
    }

    /// Validates the filter and returns it, with the hasher [`Nut25`].
    ///
    /// # Errors
    ///
    /// As [`Filter::parse`].
    pub fn into_filter(self) -> Result<Filter, DecodeError> {
        self.into_filter_with(Nut25)
    }

    /// [`FilterResponse::into_filter`] with a given hasher.
    ///
    /// # Errors
    ///
    /// As [`Filter::parse`].
    pub fn into_filter_with<H>(self, hasher: H) -> Result<Filter<Vec<u8>, H>, DecodeError> {
        Filter::parse_with(hasher, self.content, u64::from(self.n), self.params)
    }
}

/// The members of a response, checked against each other.
struct Read<'a> {
    n: u32,
    params: Params,
    /// The content in base64, not yet decoded.
    text: Cow<'a, [u8]>,
    timestamp: u64,
}

impl<'a> Read<'a> {
    fn new(json: &'a [u8]) -> Result<Self, ResponseError> {
        let bad_json = |error| ResponseError(ResponseFault::Json(error));
        if !json.trim_ascii_start().starts_with(b"{") {
            // The parser's own error would quote the input, whatever its length.
            return Err(bad_json(Error::custom("not an object")));
        }
        let json = core::str::from_utf8(json).map_err(|_| bad_json(Error::custom("not UTF-8")))?;
        let Wire([n, p, m, content, timestamp]) = serde_json::from_str(json).map_err(bad_json)?;
        let optional = |name, value: Option<&RawValue>, default| {
            value.map_or(Ok(default), |value| integer(name, Some(value))).map_err(bad_json)
        };
        let p = optional("p", p, Params::CASHU.p().into())?;
        let m = optional("m", m, Params::CASHU.m())?;
        let n = integer("n", n).map_err(bad_json)?;
        let timestamp = integer("timestamp", timestamp).map_err(bad_json)?;
        let p = u8::try_from(p).map_err(|_| bad_json(Error::custom("p is above 255")))?;
        let params = Params::new(p.into(), m)
            .map_err(|error| ResponseError(ResponseFault::Params(error)))?;
        let content = content.ok_or_else(|| bad_json(Error::missing_field("content")))?;
        let text = base64_text(content).map_err(bad_json)?;
        let len = STANDARD.decoded_length(&text).map_err(|_| bad_base64(&text))?;
        let n = params
            .check_length(n, len as u64)
            .map_err(|error| ResponseError(ResponseFault::Filter(error)))?;
        Ok(Self { n, params, text, timestamp })
    }
}

fn bad_base64(text: &[u8]) -> ResponseError {
    ResponseError(ResponseFault::Base64 { len: text.len() })
}

/// Bytes of content that are encoded at once: a multiple of three, so that only the last piece has padding.
#[cfg(feature = "std")]
const PIECE: usize = 48 << 10;

/// The JSON text before the content.
fn head(n: u32, params: Params) -> String {
    let (p, m) = (params.p(), params.m());
    alloc::format!(r#"{{"n":{n},"p":{p},"m":{m},"content":""#)
}

/// The JSON text after the content.
fn tail(timestamp: u64) -> String {
    alloc::format!(r#"","timestamp":{timestamp}}}"#)
}

/// The response is not a valid filter response.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ResponseError(ResponseFault);

#[derive(Debug, thiserror::Error)]
enum ResponseFault {
    #[error("not a filter response: {0}")]
    Json(#[source] Error),
    #[error("the content, {len} characters, is not padded standard base64")]
    Base64 { len: usize },
    #[error("filter response with bad parameters: {0}")]
    Params(#[source] ParamsError),
    #[error("filter response with bad content: {0}")]
    Filter(#[source] DecodeError),
}

/// The class of a [`ResponseError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResponseErrorKind {
    /// The text is not a JSON object with the right members of the right types.
    Json,
    /// The content is not padded standard base64.
    Base64,
    /// P or M is outside the limits of the format.
    BadParameter,
    /// The content cannot be a filter of N items.
    Filter,
}

impl ResponseError {
    /// The class of the fault.
    #[must_use]
    pub fn kind(&self) -> ResponseErrorKind {
        match self.0 {
            ResponseFault::Json(_) => ResponseErrorKind::Json,
            ResponseFault::Base64 { .. } => ResponseErrorKind::Base64,
            ResponseFault::Params(_) => ResponseErrorKind::BadParameter,
            ResponseFault::Filter(_) => ResponseErrorKind::Filter,
        }
    }

    /// The filter's fault, if that is the cause.
    #[must_use]
    pub fn decode_error(&self) -> Option<DecodeError> {
        match self.0 {
            ResponseFault::Filter(error) => Some(error),
            _ => None,
        }
    }
}

/// The members of a response.
const MEMBERS: [&str; 5] = ["n", "p", "m", "content", "timestamp"];

/// The text of their values. An error of the parser for a value would quote it, and a string can be as long as the response.
#[derive(Default)]
struct Wire<'a>([Option<&'a RawValue>; 5]);

impl<'de> Deserialize<'de> for Wire<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Wire::default())
    }
}

/// Derived code would refuse a member that is given twice.
impl<'de> Visitor<'de> for Wire<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Self, A::Error> {
        while let Some(Name(place)) = members.next_key()? {
            match place {
                Some(place) => self.0[place] = members.next_value()?,
                None => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(self)
    }
}

/// The place of a name in [`MEMBERS`]. No name is kept, since it can be as long as the response.
#[derive(Default)]
struct Name(Option<usize>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(Name::default())
    }
}

impl Visitor<'_> for Name {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self, E> {
        Ok(Name(MEMBERS.iter().position(|&one| one == name)))
    }
}

/// A number without sign or fraction, however it is written.
fn integer(name: &str, value: Option<&RawValue>) -> Result<u64, Error> {
    let value = value.ok_or_else(|| Error::custom(format_args!("missing field `{name}`")))?;
    integer_of(value.get())
        .ok_or_else(|| Error::custom(format_args!("{name} is not an integer from 0 to 2^64 - 1")))
}

/// The integer of a JSON text. One with a fraction or an exponent must be below 2^53, where it is exact.
#[doc(hidden)]
#[must_use]
pub fn integer_of(json: &str) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    json.parse().ok().or_else(|| {
        let number: f64 = json.parse().ok()?;
        // Also refuses NaN.
        let is_integer = (0.0..=EXACT).contains(&number) && number % 1.0 == 0.0;
        is_integer.then_some(number as u64)
    })
}

/// The base64 text of `content`, which is a string or a list of one; without its escapes.
///
/// The parser's own strings are not used. The parser's buffer for a string with escapes grows to twice its
/// contents, and the text would then be copied out of it.
fn base64_text(content: &RawValue) -> Result<Cow<'_, [u8]>, Error> {
    let mut raw = content.get();
    if raw.starts_with('[') {
        let [only]: [&RawValue; 1] = serde_json::from_str(raw)
            .map_err(|_| Error::custom("content is a list, but not of one string"))?;
        raw = only.get();
    }
    let text = raw
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .ok_or_else(|| Error::custom("content is not a string"))?;
    Ok(if text.contains('\\') {
        Cow::Owned(unescape(text.as_bytes()))
    } else {
        Cow::Borrowed(text.as_bytes())
    })
}

/// Replaces escaped base64 characters. Any other escape stays, as its backslash is outside base64, too.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        // The parser has checked that escapes are complete: a letter, or u and four hex digits.
        let (byte, after) = match (byte, after) {
            (b'\\', [b'/', after @ ..]) => (b'/', after),
            (b'\\', [b'u', b'0', b'0', high @ b'0'..=b'7', low, after @ ..]) => {
                let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
                (digit(*high) << 4 | digit(*low), after)
            }
            _ => (*byte, after),
        };
        plain.push(byte);
        rest = after;
    }
    plain
}
