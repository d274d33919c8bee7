//! Errors of fetching a filter and of looking up items in it.

#[cfg(feature = "client")]
use std::borrow::Cow;
use std::time::Duration;

use nutfilter::DecodeError;
use nutfilter_cashu::{KeysetId, ResponseError};
use thiserror::Error;

use crate::dialect_check::OtherDialect;

/// The error code of "keyset is not known" in a mint's error object.
pub const UNKNOWN_KEYSET: i64 = 12001;

/// Maximum length, in characters, of mint text quoted in an error. Enough for a sentence.
const MAX_QUOTED: usize = 300;

/// Why a fetch returned no filter. An error never means "absent".
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The base URL is invalid.
    #[error("invalid mint URL {url:?}: {why}")]
    BadUrl {
        /// The given URL, without user name and password.
        url: String,
        /// The fault of the URL, such as `no host`.
        why: &'static str,
    },
    /// The proxy URL is invalid.
    #[error(
        "invalid proxy URL {url:?}; expected http://, https://, socks5:// or socks5h://, then a host and a port"
    )]
    BadProxy {
        /// The given URL, without user name and password.
        url: String,
    },
    /// The text of root certificates is not PEM, or has none.
    #[error("invalid root certificates: expected PEM text with at least one certificate")]
    BadCertificates,
    /// The mint's `/v1/info` is not a JSON object.
    #[error("the mint's /v1/info is not a JSON object")]
    BadInfo,
    /// The mint's `/v1/keysets` has no list of keysets.
    #[error("the mint's /v1/keysets is not a list of keysets")]
    BadKeysets,
    /// The response did not begin within [`Policy::deadline`](crate::Policy::deadline), paused for so long, or came too
    /// slowly.
    #[error(
        "response too slow: expected the first byte within {seconds} s, then at least 16 KiB/s without a pause of {seconds} s",
        seconds = .allowed.as_secs_f64()
    )]
    Deadline {
        /// The deadline.
        allowed: Duration,
    },
    /// The caller set the flag of [`MintClient::with_abort`](crate::MintClient::with_abort).
    #[error("the caller aborted the request")]
    Aborted,
    /// The connection could not be established, or broke. Includes TLS errors.
    #[error(transparent)]
    Transport(TransportError),
    /// The connection closed before the end of the body.
    #[error("connection closed after {received} bytes of the response body")]
    Cut {
        /// Bytes of the body received so far.
        received: u64,
    },
    /// The response head exceeds the limit.
    #[error("response head larger than {max} bytes")]
    LargeHead {
        /// The limit, in bytes.
        max: usize,
    },
    /// The mint sends the wallet elsewhere. No redirect is followed.
    #[error("redirect (HTTP {status}) to {to:?} not followed")]
    Redirect {
        /// The HTTP status.
        status: u16,
        /// The target, as the mint wrote it: at most 300 characters, without control characters.
        to: String,
    },
    /// The mint does not serve filters of this keyset, which it has. No item was sent.
    #[error("the mint has no filters of this keyset")]
    NoFilters,
    /// The mint does not have this keyset. No item was sent.
    #[error("the mint does not have this keyset{}", listed(.keysets))]
    UnknownKeyset {
        /// The mint's keysets, at most 20.
        keysets: Vec<MintKeyset>,
    },
    /// The response was complete but was rejected.
    #[error(transparent)]
    Refused(#[from] RejectReason),
}

/// A keyset of a mint (NUT-02).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MintKeyset {
    /// Its id, in the mint's spelling.
    pub id: KeysetId,
    /// Its unit: at most 300 characters, without control characters.
    pub unit: String,
    /// Whether the mint signs with it.
    pub active: bool,
    /// When the mint stops to honour it, in Unix seconds. 0 means never: ids leave it out.
    pub final_expiry: Option<u64>,
    /// Its fee per 1,000 notes of a swap, which ids of version `01` contain.
    pub input_fee_ppk: u64,
}

/// The keysets in an error.
pub(crate) fn listed(keysets: &[MintKeyset]) -> String {
    let keysets = keysets.iter().map(|MintKeyset { id, unit, .. }| format!("{id} ({unit})"));
    let keysets = keysets.collect::<Vec<_>>().join(", ");
    match keysets.is_empty() {
        true => String::new(),
        false => format!("; it has {keysets}"),
    }
}

/// Why a response was rejected: the part of [`FetchError`] that needs no network.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// The body is larger than the policy allows.
    #[error("response {}", match .declared {
        Some(bytes) => format!("declares {bytes} bytes, at most {max} are accepted"),
        None => format!("longer than {max} bytes"),
    })]
    TooLarge {
        /// The declared `Content-Length`, if that alone exceeded the limit.
        declared: Option<u64>,
        /// The limit, in bytes.
        max: u64,
    },
    /// The body has another encoding than gzip, which alone was requested.
    #[error("unexpected content encoding {encoding:?}")]
    Encoded {
        /// The `Content-Encoding`.
        encoding: String,
    },
    /// The mint answered with an error object.
    #[error(transparent)]
    Mint(MintError),
    /// A status other than 200, with no error object to explain it.
    #[error("HTTP status {status}")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// The body is not a filter response.
    // The error should quote no text of the mint. Bound its length in case it ever does.
    #[error("{}", printable(&.0.to_string()))]
    Response(#[source] ResponseError),
    /// The response is well-formed but its filter is invalid.
    #[error("damaged filter: {0}")]
    Filter(#[source] DecodeError),
    /// The filter's false-positive rate is higher than the policy allows.
    #[error("filter has a false-positive rate of 1 in {m}; at most 1 in {min} is accepted")]
    LowM {
        /// The filter's `M`.
        m: u64,
        /// The minimum accepted.
        min: u64,
    },
    /// The filter's `P` is lower than the policy allows.
    #[error("filter has P = {p}; at least {min} is accepted")]
    LowP {
        /// The filter's `P`.
        p: u32,
        /// The policy's minimum.
        min: u32,
    },
    /// The filter has more items than the policy allows.
    #[error("filter of {n} items; at most {max} are accepted")]
    TooManyItems {
        /// The filter's N.
        n: u64,
        /// The policy's maximum.
        max: u32,
    },
    /// The filter's timestamp is too far in the future.
    #[error("filter is dated {timestamp}, {} s in the future", .timestamp.saturating_sub(*.now))]
    Future {
        /// The filter's timestamp, in Unix seconds.
        timestamp: u64,
        /// The wallet's time, in Unix seconds.
        now: u64,
    },
}

/// A mint's error object, `{"detail": ..., "code": ...}`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Error)]
#[error("the mint returned error {detail:?} ({}HTTP {status})", .code.map(|code| format!("code {code}, ")).unwrap_or_default())]
pub struct MintError {
    /// The HTTP status of the response. Some mints send 200.
    pub status: u16,
    /// The mint's error code; [`UNKNOWN_KEYSET`] is the most likely one.
    pub code: Option<i64>,
    /// The mint's text: at most 300 characters, without control characters.
    pub detail: String,
}

/// Why a filter was not queried, or its answers must not be used.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// There is nothing to look up.
    #[error("no items")]
    NoItems,
    /// A number of counters in the options is above the last counter of NUT-13. Nothing was sent.
    #[error("the option {option} is {value}; expected at most 2147483647, the last counter")]
    BadOption {
        /// `search` or `gap`.
        option: &'static str,
        /// Its value.
        value: u32,
    },
    /// An item is not a point of a note. `Y`, `B_` and `C_` are points; secrets and tokens are not.
    #[error(
        "{what} {} ({bytes} bytes) is not a point of {}; give `Y` for spent notes, `B_` for issued ones",
        .place + 1, curve_of(*.expected)
    )]
    NotAPoint {
        /// `B_` or `Y` of a candidate, or `item`.
        what: &'static str,
        /// Index of the item or candidate, counted from 0. The message counts from 1.
        place: usize,
        /// Its length, in bytes.
        bytes: usize,
        /// The length of a point of the keyset; `None` if the keyset is not known.
        expected: Option<usize>,
    },
    /// The filter is older than one that was seen before.
    #[error("filter is dated {timestamp}, older than the last one seen ({last_seen})")]
    RolledBack {
        /// The filter's timestamp, in Unix seconds.
        timestamp: u64,
        /// The timestamp of the newest filter seen before, in Unix seconds.
        last_seen: u64,
    },
    /// More matches than chance and the wallet's own records allow; in a restore, more live notes. To ask the mint about
    /// them would reveal items that it must not learn.
    #[error(
        "implausible filter: {matches} of {lookups} items match; expected {expected}, accepted up to {limit}"
    )]
    TooManyMatches {
        /// Items that matched, or live notes.
        matches: u64,
        /// Items that were looked up.
        lookups: u64,
        /// The number according to the wallet's records.
        expected: u64,
        /// The maximum that is accepted, see [`match_limit`](crate::match_limit).
        limit: u64,
    },
    /// The mint gave the same filter for spent notes and for issued ones.
    #[error("the filters of spent and of issued notes are the same ({n} notes)")]
    EqualFilters {
        /// Number of notes in each.
        n: u32,
    },
    /// `Y` is in the filter of issued notes, or `B_` in that of spent ones.
    #[error(
        "the filters are swapped, or `B_` and `Y` are: {matches} of {lookups} points match in the filter of the other kind"
    )]
    Exchanged {
        /// Points that match in the wrong filter.
        matches: u64,
        /// Points that were looked up there.
        lookups: u64,
    },
    /// More spent notes were never issued than chance explains: the filters contradict each other.
    #[error(
        "the filters contradict each other: {missing} spent notes were not issued, chance explains {limit}{}",
        if *.is_fresh { "" } else { "; fetch both again without caches" }
    )]
    SpentNotIssued {
        /// Spent notes that are not in `issued`.
        missing: u64,
        /// The maximum that chance explains.
        limit: u64,
        /// Whether both filters were requested with `Cache-Control: no-cache`. If not, fetch both once more.
        is_fresh: bool,
    },
    /// The filter was made with a hash other than the one used for the look-up. "Absent" would be wrong for
    /// members.
    #[error("{0}")]
    OtherDialect(OtherDialect),
}

/// The points of a keyset, in words.
fn curve_of(bytes: Option<usize>) -> String {
    match bytes {
        Some(bytes) => format!("the keyset's curve ({bytes} bytes)"),
        None => "a curve of Cashu (33 or 48 bytes)".to_owned(),
    }
}

/// An error of the connection.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct TransportError(Box<dyn std::error::Error + Send + Sync>);

impl FetchError {
    /// Whether the mint answered. If nothing came, that says nothing about its filters.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        use FetchError::{LargeHead, NoFilters, Redirect, Refused, UnknownKeyset};
        matches!(
            self,
            LargeHead { .. } | Redirect { .. } | NoFilters | UnknownKeyset { .. } | Refused(_)
        )
    }

    #[cfg(feature = "client")]
    pub(crate) fn bad_url(url: &str, why: &'static str) -> Self {
        FetchError::BadUrl { url: printable(&without_userinfo(url)), why }
    }

    /// Converts an error of the transport; `allowed` is the policy's deadline.
    #[cfg(feature = "client")]
    pub(crate) fn from_transport(error: ureq::Error, allowed: Duration, received: u64) -> Self {
        match error {
            ureq::Error::Timeout(_) => FetchError::Deadline { allowed },
            ureq::Error::LargeResponseHeader(_, max) => FetchError::LargeHead { max },
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                FetchError::Cut { received }
            }
            // Without the prefix "io: ".
            // What rustls says of an answer that is not TLS.
            ureq::Error::Io(error) if error.to_string().contains("InvalidContentType") => {
                let cause = "the server did not respond with TLS; try http://";
                FetchError::Transport(TransportError(cause.into()))
            }
            ureq::Error::Io(error) => FetchError::Transport(TransportError(error.into())),
            other => FetchError::Transport(TransportError(other.into())),
        }
    }
}

/// Replaces everything before an `@` in a URL by an ellipsis, because errors end up in logs. The text may not be a
/// valid URL, and a password may contain any character. The last `@` therefore counts, wherever it is.
#[cfg(feature = "client")]
pub(crate) fn without_userinfo(url: &str) -> Cow<'_, str> {
    let Some(at) = url.rfind('@') else {
        return Cow::Borrowed(url);
    };
    let scheme = url[..at].find("://").map_or(0, |colon| colon + 3);
    Cow::Owned(format!("{}…{}", &url[..scheme], &url[at..]))
}

/// A mint's text, truncated, safe for a terminal, and without what may be a point: an answer may echo the request.
pub(crate) fn printable(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    for _ in 0..MAX_QUOTED {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let Some(first) = rest.chars().next() else {
            return shown;
        };
        let len = if digits < POINT_LIKE { first.len_utf8() } else { digits };
        shown.push(match (digits < POINT_LIKE, is_unprintable(first)) {
            (false, _) => '…',
            (true, true) => char::REPLACEMENT_CHARACTER,
            (true, false) => first,
        });
        rest = &rest[len..];
    }
    shown + if rest.is_empty() { "" } else { "…" }
}

/// Hex digits that may be part of a point or of a secret.
const POINT_LIKE: usize = 8;

/// Control characters, and those that reorder or hide the text after them.
fn is_unprintable(c: char) -> bool {
    let is_format = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_has_no_points_and_no_characters_that_reorder() {
        let point = "02AbCdEf01";
        for (text, shown) in [
            ("no such keyset", "no such keyset"),
            ("1234567", "1234567"),
            ("bad 12345678 here", "bad … here"),
            (&format!("{point}...{point}"), "…...…"),
            (&format!("x{point}"), "x…"),
            ("sat\u{202e}tas", "sat\u{fffd}tas"),
            ("a\u{2066}b\u{200b}c\u{feff}\u{1b}[2J", "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}[2J"),
        ] {
            assert_eq!(printable(text), shown);
        }
        let long = printable(&"é".repeat(400));
        assert_eq!((long.chars().count(), long.ends_with('…')), (301, true));
        assert_eq!(printable(&"é".repeat(300)).chars().count(), 300);
    }

    #[test]
    fn keysets_with_a_valid_id_and_a_unit_are_listed() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let body = format!(
            r#"{{"keysets":[{{"id":"009a1f293253e41e","unit":"sat","active":true,"final_expiry":1.7e9,"x":{deep}}},
            {{"id":"x","unit":"sat"}},7,{{"id":"00ffd48b8f5ecf80","unit":"\u202eusd","active":false}}]}}"#
        );
        let found = MintKeyset::parse(body.as_bytes()).expect("a list");
        let found: Vec<_> =
            found.iter().map(|one| (one.unit.as_str(), one.active, one.final_expiry)).collect();
        assert_eq!(found, [("sat", true, Some(1_700_000_000)), ("\u{fffd}usd", false, None)]);
    }
}
