//! All limits on what a wallet accepts from a mint, and the checks that need no network.

use std::io::{self, Read};
use std::time::Duration;

use nutfilter::{ItemHash, Params};
use nutfilter_cashu::{FilterResponse, integer_of};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{MintError, RejectReason, printable};
use crate::json_members::JsonText;
use crate::matches::FilterSource;
use crate::mint_filter::{FetchContext, MintFilter};

/// The limit of a body that does not begin with the numbers of a filter.
const MAX_UNEXPLAINED: u64 = 64 << 20;

/// Room for the members of a response besides `content`.
const MEMBERS: u64 = 64 << 10;

/// An error object holds a sentence and a number. A longer body is a web page.
const MAX_ERROR_BYTES: u64 = 64 << 10;

/// First allocation for a body with a declared length. A false declaration costs a mint nothing.
const FIRST_BUFFER: u64 = 64 << 10;

/// Limits on what a mint may send.
///
/// ```
/// # use nutfilter_wallet::Policy;
/// let policy = Policy { max_bytes: 8 << 20, ..Policy::default() };
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Maximum body size, in bytes, decompressed. The filter in it has at most three quarters of that size. A body is also limited to what its own `n`, `p` and `m` can take, or to 64 MiB if they
    /// are not among its first 64 KiB. Default: 1 GiB.
    pub max_bytes: u64,
    /// Maximum number of items of a filter. Default: 20 million, which take 70 MB as text.
    pub max_items: u32,
    /// Deadline for each step before the body: name look-up, connection, request, head. The body may then take one second
    /// more for each 16 KiB, with no pause of this length. Default: 30 s.
    pub deadline: Duration,
    /// Minimum `M`: one look-up in `min_m` matches by chance. Default: 784,931. A mint that serves `m = 1` would
    /// learn every message from a restore.
    pub min_m: u64,
    /// Minimum `P`. Default: 16; lower it together with `min_m`. The best `P` for the default `min_m` is 19. Each
    /// step below that about doubles the unary part of the code: at `P` = 0 an item takes 98 KB.
    pub min_p: u32,
    /// How far a filter's timestamp may be ahead of the wallet's clock. Default: 5 minutes.
    pub max_future: Duration,
    /// The factor of [`match_limit`](crate::match_limit). Default: 10.
    pub max_match_factor: u32,
    /// Maximum size of an answer to a request about matches, in bytes. Default: 4 MiB.
    pub max_answer_bytes: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            // 300 million items in base64. What a body may really take is decided by the numbers at its beginning.
            max_bytes: 1 << 30,
            max_items: 20_000_000,
            // Longer than an honest mint, also one behind Tor, takes to begin.
            deadline: Duration::from_secs(30),
            min_m: Params::CASHU.m(),
            // Three below the best `P` for the minimum `M`. Such a filter is 1.4 times the optimal size.
            min_p: 16,
            // The clocks of phones and servers differ by seconds, rarely by minutes.
            max_future: Duration::from_secs(5 * 60),
            max_match_factor: 10,
            // 4 KiB for each of 1,000 points: the answer includes the witness of a spent note, which may be long.
            max_answer_bytes: 4 << 20,
        }
    }
}

impl Policy {
    /// The same policy for answers about matches, which have their own size limit. Call
    /// [`admit_head`](Self::admit_head) and [`read_body`](Self::read_body) on it for such answers.
    #[must_use]
    pub fn for_answers(&self) -> Self {
        Self { max_bytes: self.max_answer_bytes, ..self.clone() }
    }

    /// First check, on the response's head: whether the body is worth reading. The body of an error has other limits
    /// ([`read_body`](Self::read_body)), and its status is the news.
    ///
    /// `content_encodings` are the values of every `Content-Encoding` header that the HTTP client has not decoded. The
    /// content type is not checked: mints and the caches in front of them send many different ones.
    ///
    /// # Errors
    ///
    /// [`RejectReason::TooLarge`] and [`RejectReason::Encoded`].
    pub fn admit_head<'a>(
        &self,
        status: u16,
        content_length: Option<u64>,
        content_encodings: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), RejectReason> {
        if status != 200 {
            return Ok(());
        }
        for encoding in content_encodings.into_iter().map(str::trim) {
            if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
                return Err(RejectReason::Encoded { encoding: printable(encoding) });
            }
        }
        match content_length {
            Some(declared) if declared > self.max_bytes => {
                Err(RejectReason::TooLarge { declared: Some(declared), max: self.max_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Second step: reads the body, and stops one byte past the limit. Nothing beyond that is buffered.
    ///
    /// `status` matters because an error's body is read only up to the maximum size of an error object.
    ///
    /// # Errors
    ///
    /// The outer result holds the reader's error, the inner one [`RejectReason::TooLarge`].
    pub fn read_body(
        &self,
        status: u16,
        content_length: Option<u64>,
        body: impl Read,
    ) -> io::Result<Result<Vec<u8>, RejectReason>> {
        let first = content_length.unwrap_or(0).min(FIRST_BUFFER);
        let mut bytes = Vec::with_capacity(usize::try_from(first).unwrap_or(0));
        if status != 200 {
            body.take(MAX_ERROR_BYTES).read_to_end(&mut bytes)?;
            return Ok(Ok(bytes));
        }
        let mut body = body;
        let first = FIRST_BUFFER.min(self.max_bytes.saturating_add(1));
        body.by_ref().take(first).read_to_end(&mut bytes)?;
        let justified = match justified(&bytes) {
            Some((n, _)) if n > self.max_items.into() => return Ok(Err(self.too_many(n))),
            Some((_, bytes)) => bytes,
            None => MAX_UNEXPLAINED,
        };
        let limited = Self { max_bytes: self.max_bytes.min(justified), ..self.clone() };
        let most = limited.max_bytes.saturating_add(1);
        let mut left = most.saturating_sub(bytes.len() as u64);
        while left > 0 {
            // Growing by doubling would take twice the body.
            let piece =
                (bytes.len() as u64 / 8).clamp(FIRST_BUFFER, left.max(FIRST_BUFFER)).min(left);
            bytes.reserve_exact(usize::try_from(piece).unwrap_or(usize::MAX));
            let read = body.by_ref().take(piece).read_to_end(&mut bytes)? as u64;
            if read < piece {
                break;
            }
            left -= read;
        }
        // The caller keeps the buffer while it validates it.
        bytes.shrink_to_fit();
        Ok(limited.admit_length(bytes.len()).map(|()| bytes))
    }

    /// Last step: validates a complete response. It does not say whose filter it is; `source` does.
    ///
    /// # Errors
    ///
    /// Any [`RejectReason`] except [`RejectReason::Encoded`].
    ///
    /// # Cost
    ///
    /// Parses the JSON, decodes its base64 in the same buffer, and decodes the filter once.
    pub fn accept<H: ItemHash + Default>(
        &self,
        status: u16,
        body: Vec<u8>,
        source: FilterSource,
        moment: FetchContext,
    ) -> Result<MintFilter<H>, RejectReason> {
        check_status(status, &body)?;
        let mint_error = error_object(status, &body).map(RejectReason::Mint);
        self.admit_length(body.len())?;
        let head = &body[..body.len().min(FIRST_BUFFER as usize)];
        if let Some((n, _)) = justified(head).filter(|&(n, _)| n > self.max_items.into()) {
            return Err(self.too_many(n));
        }
        let response = FilterResponse::from_json(body).map_err(|error| {
            match (error.decode_error(), mint_error) {
                (Some(error), _) => RejectReason::Filter(error),
                (None, Some(error)) => error,
                (None, None) => RejectReason::Response(error),
            }
        })?;
        if response.n > self.max_items {
            return Err(self.too_many(response.n.into()));
        }
        let m = response.params.m();
        if m < self.min_m {
            return Err(RejectReason::LowM { m, min: self.min_m });
        }
        let p = response.params.p();
        if p < self.min_p {
            return Err(RejectReason::LowP { p, min: self.min_p });
        }
        let timestamp = response.timestamp;
        if timestamp > moment.now.saturating_add(self.max_future.as_secs()) {
            return Err(RejectReason::Future { timestamp, now: moment.now });
        }
        let filter = response.into_filter_with(H::default()).map_err(RejectReason::Filter)?;
        let factor = self.max_match_factor;
        Ok(MintFilter::new(filter, timestamp, source, moment, factor))
    }

    fn too_many(&self, n: u64) -> RejectReason {
        let max = self.max_items;
        RejectReason::TooManyItems { n, max }
    }

    fn admit_length(&self, bytes: usize) -> Result<(), RejectReason> {
        if bytes as u64 > self.max_bytes {
            return Err(RejectReason::TooLarge { declared: None, max: self.max_bytes });
        }
        Ok(())
    }
}

/// N, and the largest response that the numbers at its beginning allow, if it is a filter and they are there.
fn justified(head: &[u8]) -> Option<(u64, u64)> {
    let content = b"\"content\"";
    let before = head.windows(content.len()).position(|part| part == content)?;
    let head = &head[..before];
    let number = |name: &str| -> Option<u64> {
        let at = head.windows(name.len()).rposition(|part| part == name.as_bytes())?;
        let value = head[at + name.len()..].trim_ascii_start().strip_prefix(b":")?;
        let end = value.iter().position(|byte| b",}".contains(byte))?;
        integer_of(str::from_utf8(&value[..end]).ok()?.trim_ascii())
    };
    let n = number("\"n\"")?;
    // They are null if they have their usual values.
    let p = number("\"p\"").unwrap_or(u64::from(Params::CASHU.p()));
    let m = number("\"m\"").unwrap_or(Params::CASHU.m());
    Params::new(u32::try_from(p).ok()?, m).ok()?;
    let bits = u128::from(n) * u128::from(p + 1) + ((u128::from(n) * u128::from(m)) >> p);
    let base64 = bits.div_ceil(24) * 4;
    Some((n, u64::try_from(base64).unwrap_or(u64::MAX).saturating_add(MEMBERS)))
}

/// Accepts only status 200.
pub(crate) fn check_status(status: u16, body: &[u8]) -> Result<(), RejectReason> {
    if status == 200 {
        return Ok(());
    }
    let error = error_object(status, body);
    Err(error.map_or(RejectReason::Status { status }, RejectReason::Mint))
}

/// Parses `{"detail": ..., "code": ...}`, or returns `None`. A `detail` that is not a string (some web frameworks
/// send a list) is returned as its JSON.
pub(crate) fn error_object(status: u16, body: &[u8]) -> Option<MintError> {
    // Do not build the fields that are ignored.
    #[derive(Deserialize)]
    struct ErrorObject<'a> {
        #[serde(borrow)]
        detail: Option<&'a RawValue>,
        #[serde(borrow)]
        code: Option<&'a RawValue>,
    }
    if body.len() as u64 > MAX_ERROR_BYTES || !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let ErrorObject { detail, code } = serde_json::from_slice(body).ok()?;
    if detail.is_none() && code.is_none() {
        return None;
    }
    let code = code.and_then(|code| integer_of(code.get())).filter(|&code| code < 1 << 53);
    let code = code.and_then(|code| code.try_into().ok());
    Some(MintError { status, code, detail: detail.map(words).unwrap_or_default() })
}

/// A mint's text, safe to quote.
fn words(detail: &RawValue) -> String {
    let raw = detail.get();
    match serde_json::from_str::<JsonText>(raw) {
        Ok(JsonText(text)) => printable(&text),
        Err(_) => printable(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_limited_by_its_own_numbers() {
        let policy = Policy::default();
        let length = |head: &str, extra: usize| {
            let body = [head.as_bytes(), &vec![b'x'; extra]].concat();
            let read = policy.read_body(200, None, &*body).expect("bytes");
            read.map(|bytes| bytes.len()).map_err(|error| error.to_string())
        };
        let small = r#"{"n": 10, "p":19,"m":784931,"content":""#;
        assert_eq!(length(small, 60_000), Ok(small.len() + 60_000));
        assert!(length(small, 70_000).unwrap_err().contains("65572"));
        let usual = r#"{"n":10,"p":null,"m":null,"content":""#;
        assert_eq!(justified(usual.as_bytes()), justified(small.as_bytes()));
        // 50 million items, as they are encoded, fit; so does the largest set.
        let (_, large) = justified(br#"{"n":50000000,"p":19,"m":784931,"content":""#).unwrap();
        assert!((165 << 20..190 << 20).contains(&large), "{large}");
        assert!(justified(br#"{"n":4294967295,"p":0,"m":4294967295,"content":""#).is_some());
        for other in [r#"{"n":1,"p":1,"m":2}"#, "[]", "", r#"{"content":"","n":1}"#] {
            assert_eq!(justified(other.as_bytes()), None, "{other}");
        }
        let unexplained = length("", (64 << 20) + 1).unwrap_err();
        assert!(unexplained.contains("67108864"), "{unexplained}");
    }

    #[test]
    fn declared_length_limit_is_inclusive() {
        let policy = Policy::default();
        let max = policy.max_bytes;
        assert!(policy.admit_head(200, Some(max), []).is_ok());
        let refused = policy.admit_head(200, Some(max + 1), []);
        let Err(RejectReason::TooLarge { declared, max: of }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((declared, of), (Some(max + 1), max));
    }

    #[test]
    fn error_object_must_be_an_object_within_the_size_limit() {
        let longest = MAX_ERROR_BYTES as usize;
        let of_length = |len: usize| {
            let object = br#"{"detail":"no","code":7}"#;
            [&object[..], &vec![b' '; len - object.len()]].concat()
        };
        let read = error_object(400, &of_length(longest)).expect("an object");
        assert_eq!((read.code, read.detail.as_str()), (Some(7), "no"));
        assert!(error_object(400, &of_length(100)).is_some());
        assert!(error_object(400, &of_length(longest + 1)).is_none());
        // Reject an array, although its parts have the same order.
        assert!(error_object(400, br#"["no",7]"#).is_none());
    }
}
