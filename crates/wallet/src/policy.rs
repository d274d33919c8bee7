//! What a wallet accepts from a mint: every limit in one place, and the checks that need no network.

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nutfilter::{FilterResponse, ItemHash, Params};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{MintError, RejectReason, printable};
use crate::mint_filter::MintFilter;

/// 64 MiB: 19 million items in base64, more than any mint's keyset holds today.
const MAX_BYTES: u64 = 64 << 20;

/// Time for the whole of a fetch. At the byte cap that is 18 Mbit/s; at a million items, 1 Mbit/s.
const DEADLINE: Duration = Duration::from_secs(30);

/// A mint that has moved within its own host needs one or two.
const MAX_REDIRECTS: u32 = 3;

/// Three below the best `P` for the least `M`: such a filter is 1.4 times as large as it could be.
const MIN_P: u32 = 16;

/// The limit of the format.
const MAX_P: u32 = 32;

/// Clocks of phones and servers differ by seconds, rarely by minutes.
const MAX_FUTURE: Duration = Duration::from_secs(5 * 60);

/// Matches that are believed, as a multiple of what the wallet can explain.
const MAX_MATCH_FACTOR: u32 = 10;

/// Points in a request. Mints take 1,000; a request of so many is 4.6 KB, and small restores look alike.
const BATCH: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Matches of a wallet that was in use for years. A larger one says so.
const MAX_REVEALED: u64 = 1_000;

/// 64 KiB for each point of a usual batch: the witness of a spent note comes along, and may be long.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// An error object is a sentence and a number; what is longer is a web page.
const MAX_ERROR_BYTES: u64 = 64 << 10;

/// First allocation for a body whose length is declared. Declaring costs a mint nothing.
const FIRST_BUFFER: u64 = 64 << 10;

/// A `detail` that is no string is written anew, without its white space, up to so many bytes. What is longer is cut
/// anyway, and a list of lists takes ten times the memory that it takes as text.
const MAX_WRITTEN_ANEW: usize = 2 << 10;

/// Limits on what a mint may send, and on what it may be shown.
///
/// ```
/// # use nutfilter_wallet::Policy;
/// let policy = Policy { max_bytes: 8 << 20, ..Policy::default() };
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Largest body, in bytes. The filter in it is three quarters of that at most, as compressed bodies
    /// are refused. 64 MiB unless told otherwise.
    pub max_bytes: u64,
    /// Time for the whole fetch: name look-up, connection, redirects, and the last byte. 30 s unless told
    /// otherwise.
    pub deadline: Duration,
    /// Redirects that are followed, within the same scheme, host and port only. 3 unless told otherwise.
    pub max_redirects: u32,
    /// Least `M`, so that one look-up in `min_m` matches by chance. 784,931 unless told otherwise: a mint
    /// that serves `m = 1` would learn every `Y` from the confirmations.
    pub min_m: u64,
    /// Least `P`. 16 unless told otherwise; lower it together with `min_m`. The best `P` for the default
    /// `min_m` is 19, and each step below about doubles the unary part of the code: at `P` = 0 an item takes
    /// 98 KB.
    pub min_p: u32,
    /// Largest `P`. 32 unless told otherwise, the most that the format allows.
    pub max_p: u32,
    /// How far a filter's time may be ahead of the wallet's. 5 minutes unless told otherwise.
    pub max_future: Duration,
    /// The factor of [`match_limit`](crate::match_limit). 10 unless told otherwise.
    pub max_match_factor: u32,
    /// Points in each request that asks about matches. 64 unless told otherwise; many mints refuse more
    /// than 1,000.
    pub batch: NonZeroUsize,
    /// Whether the requests that confirm spent notes are filled up with points that belong to nobody, so
    /// that all are of one size. True unless told otherwise. False is for points that are not of
    /// secp256k1 (keysets whose id begins `02`), for which there are no decoys.
    pub decoys: bool,
    /// Most matches that may be shown to the mint in one [`Confirmation`](crate::Confirmation) or
    /// [`Restoration`](crate::Restoration), decoys not counted. 1,000 unless told otherwise.
    pub max_revealed: u64,
    /// Largest answer to a request about matches, in bytes. 4 MiB unless told otherwise.
    pub max_answer_bytes: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_bytes: MAX_BYTES,
            deadline: DEADLINE,
            max_redirects: MAX_REDIRECTS,
            min_m: Params::CASHU.m(),
            min_p: MIN_P,
            max_p: MAX_P,
            max_future: MAX_FUTURE,
            max_match_factor: MAX_MATCH_FACTOR,
            batch: BATCH,
            decoys: true,
            max_revealed: MAX_REVEALED,
            max_answer_bytes: MAX_ANSWER_BYTES,
        }
    }
}

/// When a response is judged, and what came before it. All times are Unix seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchContext {
    /// The wallet's clock.
    pub now: u64,
    /// [`MintFilter::as_of`] of the newest filter of this mint, keyset and kind that was seen before.
    pub last_seen: Option<u64>,
}

impl FetchContext {
    /// The system's clock. A clock before 1970 counts as 1970, and every filter is then in the future.
    #[must_use]
    pub fn now(last_seen: Option<u64>) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        Self { now, last_seen }
    }
}

impl Policy {
    /// The same for the answers about matches, which are measured by a limit of their own: what
    /// [`admit_head`](Self::admit_head) and [`read_body`](Self::read_body) are to be called on then.
    #[must_use]
    pub fn for_answers(&self) -> Self {
        Self {
            max_bytes: self.max_answer_bytes,
            ..self.clone()
        }
    }

    /// First check, as soon as the response's head is there: is the body worth reading?
    ///
    /// `content_encodings` are the values of every `Content-Encoding` header. The content type is not
    /// looked at: mints and the caches in front of them send many.
    ///
    /// # Errors
    ///
    /// [`RejectReason::TooLarge`] and [`RejectReason::Encoded`].
    pub fn admit_head<'a>(
        &self,
        content_length: Option<u64>,
        content_encodings: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), RejectReason> {
        for encoding in content_encodings.into_iter().map(str::trim) {
            if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
                return Err(RejectReason::Encoded {
                    encoding: printable(encoding),
                });
            }
        }
        match content_length {
            Some(declared) if declared > self.max_bytes => Err(RejectReason::TooLarge {
                declared: Some(declared),
                max: self.max_bytes,
            }),
            _ => Ok(()),
        }
    }

    /// Second step: reads the body, and stops one byte past the cap. Nothing beyond that is buffered.
    ///
    /// `status` matters because the body of an error is read only as far as an error object could go.
    ///
    /// # Errors
    ///
    /// The reader's error, in the outer result; [`RejectReason::TooLarge`] in the inner one.
    pub fn read_body(
        &self,
        status: u16,
        content_length: Option<u64>,
        body: impl Read,
    ) -> io::Result<Result<Vec<u8>, RejectReason>> {
        let first = content_length
            .unwrap_or(0)
            .min(FIRST_BUFFER)
            .min(self.max_bytes);
        let mut bytes = Vec::with_capacity(usize::try_from(first).unwrap_or(0));
        if status != 200 {
            body.take(MAX_ERROR_BYTES.min(self.max_bytes))
                .read_to_end(&mut bytes)?;
            return Ok(Ok(bytes));
        }
        body.take(self.max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)?;
        // It is kept while it is judged, and room for as much again was made for it.
        bytes.shrink_to_fit();
        Ok(self.admit_length(bytes.len()).map(|()| bytes))
    }

    /// Last step: judges a whole response.
    ///
    /// # Errors
    ///
    /// Any [`RejectReason`] but [`RejectReason::Encoded`].
    ///
    /// # Cost
    ///
    /// Parses the JSON, decodes its base64 and decodes the filter once.
    pub fn accept<H: ItemHash + Default>(
        &self,
        status: u16,
        body: &[u8],
        moment: FetchContext,
    ) -> Result<MintFilter<H>, RejectReason> {
        self.admit_length(body.len())?;
        if status != 200 {
            return Err(error_object(status, body)
                .map_or(RejectReason::Status { status }, RejectReason::Mint));
        }
        let response = FilterResponse::from_json(body).map_err(|error| {
            match (error.decode_error(), error_object(status, body)) {
                (Some(error), _) => RejectReason::Filter(error),
                (None, Some(error)) => RejectReason::Mint(error),
                (None, None) => RejectReason::Response(error),
            }
        })?;
        self.accept_response(response, body.len() as u64, moment)
    }

    fn accept_response<H: ItemHash + Default>(
        &self,
        response: FilterResponse,
        received: u64,
        moment: FetchContext,
    ) -> Result<MintFilter<H>, RejectReason> {
        let m = response.params.m();
        if m < self.min_m {
            return Err(RejectReason::LowM { m, min: self.min_m });
        }
        let p = response.params.p();
        if !(self.min_p..=self.max_p).contains(&p) {
            return Err(RejectReason::PRange {
                p,
                min: self.min_p,
                max: self.max_p,
            });
        }
        let timestamp = response.timestamp;
        if timestamp > self.latest(moment.now) {
            return Err(RejectReason::Future {
                timestamp,
                now: moment.now,
            });
        }
        let filter = response.into_filter::<H>().map_err(RejectReason::Filter)?;
        Ok(MintFilter::new(
            filter,
            timestamp,
            received,
            moment.last_seen,
            self.max_match_factor,
        ))
    }

    /// The latest time that a filter may have.
    pub(crate) fn latest(&self, now: u64) -> u64 {
        now.saturating_add(self.max_future.as_secs())
    }

    fn admit_length(&self, bytes: usize) -> Result<(), RejectReason> {
        if bytes as u64 > self.max_bytes {
            return Err(RejectReason::TooLarge {
                declared: None,
                max: self.max_bytes,
            });
        }
        Ok(())
    }
}

/// `{"detail": ..., "code": ...}`, if that is what the body is. A `detail` that is not a string (some web
/// frameworks send a list) is given as its JSON.
pub(crate) fn error_object(status: u16, body: &[u8]) -> Option<MintError> {
    // What is not looked at is not built either.
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
    let code = code.and_then(|code| serde_json::from_str(code.get()).ok());
    if detail.is_none() && code.is_none() {
        return None;
    }
    Some(MintError {
        status,
        code,
        detail: detail.map(words).unwrap_or_default(),
    })
}

/// A mint's words, fit to be repeated.
fn words(detail: &RawValue) -> String {
    let raw = detail.get();
    if let Ok(text) = serde_json::from_str::<String>(raw) {
        return printable(&text);
    }
    if raw.len() > MAX_WRITTEN_ANEW {
        return printable(raw);
    }
    let value: Option<serde_json::Value> = serde_json::from_str(raw).ok();
    value.map_or_else(|| printable(raw), |value| printable(&value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_length_may_be_the_largest_and_no_more() {
        let policy = Policy::default();
        let max = policy.max_bytes;
        assert!(policy.admit_head(Some(max), []).is_ok());
        let refused = policy.admit_head(Some(max + 1), []);
        let Err(RejectReason::TooLarge { declared, max: of }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((declared, of), (Some(max + 1), max));
    }

    #[test]
    fn an_error_object_is_an_object_and_as_long_as_one_may_be() {
        let longest = MAX_ERROR_BYTES as usize;
        let of_length = |len: usize| {
            let object = br#"{"detail":"no","code":7}"#;
            [&object[..], &vec![b' '; len - object.len()]].concat()
        };
        let read = error_object(400, &of_length(longest)).expect("an object");
        assert_eq!((read.code, read.detail.as_str()), (Some(7), "no"));
        assert!(error_object(400, &of_length(100)).is_some());
        assert!(error_object(400, &of_length(longest + 1)).is_none());
        // A list has its parts in the same order.
        assert!(error_object(400, br#"["no",7]"#).is_none());
    }

    #[test]
    fn a_detail_of_more_than_2_kib_that_is_no_string_keeps_its_white_space() {
        let of_length = |len: usize| {
            let detail = format!("[1, 2,{}3]", " ".repeat(len - "[1, 2,3]".len()));
            assert_eq!(detail.len(), len);
            let raw: Box<RawValue> = serde_json::from_str(&detail).unwrap();
            words(&raw)
        };
        assert_eq!(of_length(MAX_WRITTEN_ANEW), "[1,2,3]");
        assert!(of_length(MAX_WRITTEN_ANEW + 1).starts_with("[1, 2, "));
    }
}
