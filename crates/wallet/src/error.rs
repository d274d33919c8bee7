//! Errors of fetching a filter and of looking up items in it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use nutfilter::DecodeError;
use nutfilter_cashu::ResponseError;

use crate::dialect::OtherDialect;

/// The error code of "keyset is not known" in a mint's error object.
pub const UNKNOWN_KEYSET: i64 = 12001;

/// Maximum length, in characters, of mint text quoted in an error. Enough for a sentence.
const MAX_QUOTED: usize = 300;

/// Why a fetch returned no filter. An error never means "absent".
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// The base URL is invalid.
    BadUrl {
        /// The given URL, without user name and password.
        url: String,
        /// The fault of the URL, such as `no host`.
        why: &'static str,
    },
    /// The proxy URL is invalid.
    BadProxy {
        /// The given URL, without user name and password.
        url: String,
        /// The fault of the URL, such as `no host`.
        why: &'static str,
    },
    /// The response did not begin within [`Policy::deadline`](crate::Policy::deadline), paused for so long, or came too
    /// slowly.
    Deadline {
        /// The deadline.
        allowed: Duration,
    },
    /// The connection could not be established, or broke. Includes TLS errors.
    Transport(TransportError),
    /// The connection closed before the end of the body.
    Cut {
        /// Bytes of the body received so far.
        received: u64,
    },
    /// The response head exceeds the limit.
    LargeHead {
        /// The limit, in bytes.
        max: usize,
    },
    /// A redirect to another scheme, host or port.
    RedirectElsewhere {
        /// The target, with unprintable characters replaced.
        to: String,
    },
    /// More redirects than the policy allows.
    TooManyRedirects {
        /// The maximum number of redirects.
        max: u32,
    },
    /// A redirect without a valid `Location`.
    BadRedirect {
        /// The HTTP status.
        status: u16,
    },
    /// The filter cache cannot be read; nothing was sent.
    Cache(std::io::Error),
    /// The response was complete but was rejected.
    Refused(RejectReason),
}

/// Why a response was rejected: the part of [`FetchError`] that needs no network.
#[derive(Debug)]
#[non_exhaustive]
pub enum RejectReason {
    /// The body is larger than the policy allows.
    TooLarge {
        /// The declared `Content-Length`, if that alone exceeded the limit.
        declared: Option<u64>,
        /// The limit, in bytes.
        max: u64,
    },
    /// The body is compressed. The client requests no compression, and compression could hide any size.
    Encoded {
        /// The `Content-Encoding`.
        encoding: String,
    },
    /// The mint answered with an error object.
    Mint(MintError),
    /// A status other than 200, with no error object to explain it.
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// The body is not a filter response.
    Response(ResponseError),
    /// The response is well-formed but its filter is invalid.
    Filter(DecodeError),
    /// The filter's false-positive rate is higher than the policy allows.
    LowM {
        /// The filter's `M`.
        m: u64,
        /// The minimum accepted.
        min: u64,
    },
    /// The filter's `P` is outside the policy's range.
    PRange {
        /// The filter's `P`.
        p: u32,
        /// The minimum accepted.
        min: u32,
        /// The maximum accepted.
        max: u32,
    },
    /// The filter's timestamp is too far in the future.
    Future {
        /// The filter's timestamp, in Unix seconds.
        timestamp: u64,
        /// The wallet's time, in Unix seconds.
        now: u64,
    },
}

/// A mint's error object, `{"detail": ..., "code": ...}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MintError {
    /// The HTTP status of the response. Some mints send 200.
    pub status: u16,
    /// The mint's error code; [`UNKNOWN_KEYSET`] is the most likely one.
    pub code: Option<i64>,
    /// The mint's text: at most 300 characters, without control characters.
    pub detail: String,
}

/// Why a filter was not queried, or its answers must not be used.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum CheckError {
    /// The filter is older than one that was seen before.
    RolledBack {
        /// The filter's timestamp, in Unix seconds.
        timestamp: u64,
        /// The timestamp of the newest filter seen before, in Unix seconds.
        last_seen: u64,
    },
    /// More matches than chance and the wallet's own records allow. Confirming them with the mint would reveal
    /// items that the mint must not learn.
    TooManyMatches {
        /// Items that matched.
        matches: u64,
        /// Items that were looked up.
        lookups: u64,
        /// Items that are in the set according to the wallet's records.
        expected: u64,
        /// The maximum that is accepted, see [`match_limit`](crate::match_limit).
        limit: u64,
    },
    /// The filter was made with a hash other than the one used for the look-up. "Absent" would be wrong for
    /// members.
    OtherDialect(OtherDialect),
}

/// An error of the connection.
#[derive(Debug)]
pub struct TransportError(ureq::Error);

impl FetchError {
    /// Whether the mint reported an unknown keyset.
    #[must_use]
    pub fn is_unknown_keyset(&self) -> bool {
        matches!(self, FetchError::Refused(RejectReason::Mint(error)) if error.code == Some(UNKNOWN_KEYSET))
    }

    pub(crate) fn bad_url(url: &str, why: &'static str) -> Self {
        FetchError::BadUrl {
            url: printable(&without_userinfo(url)),
            why,
        }
    }

    /// Converts an error of the transport; `allowed` is the policy's deadline.
    pub(crate) fn from_transport(error: ureq::Error, allowed: Duration, received: u64) -> Self {
        match error {
            ureq::Error::Timeout(_) => FetchError::Deadline { allowed },
            ureq::Error::LargeResponseHeader(_, max) => FetchError::LargeHead { max },
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                FetchError::Cut { received }
            }
            other => FetchError::Transport(TransportError(other)),
        }
    }
}

impl From<RejectReason> for FetchError {
    fn from(refusal: RejectReason) -> Self {
        FetchError::Refused(refusal)
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::BadUrl { url, why } => write!(f, "invalid mint URL {url:?}: {why}"),
            FetchError::BadProxy { url, why } => write!(f, "invalid proxy URL {url:?}: {why}"),
            FetchError::Deadline { allowed } => {
                let seconds = allowed.as_secs_f64();
                write!(
                    f,
                    "answer too slow: it must begin within {seconds} s, come at 16 KiB/s, and never pause for {seconds} s"
                )
            }
            FetchError::Transport(error) => error.fmt(f),
            FetchError::Cut { received } => {
                write!(
                    f,
                    "connection closed after {received} bytes of the response body"
                )
            }
            FetchError::LargeHead { max } => write!(f, "response head larger than {max} bytes"),
            FetchError::RedirectElsewhere { to } => {
                write!(
                    f,
                    "redirect to {to:?} refused: different scheme, host or port"
                )
            }
            FetchError::TooManyRedirects { max } => write!(f, "more than {max} redirects"),
            FetchError::BadRedirect { status } => {
                write!(f, "redirect (HTTP {status}) without a usable location")
            }
            FetchError::Cache(error) => write!(f, "filter cache: {error}"),
            FetchError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RejectReason::TooLarge {
                declared: Some(bytes),
                max,
            } => {
                write!(
                    f,
                    "response declares {bytes} bytes, at most {max} are accepted"
                )
            }
            RejectReason::TooLarge {
                declared: None,
                max,
            } => {
                write!(f, "response longer than {max} bytes")
            }
            RejectReason::Encoded { encoding } => {
                write!(f, "unexpected content encoding {encoding:?}")
            }
            RejectReason::Mint(error) => error.fmt(f),
            RejectReason::Status { status } => write!(f, "HTTP status {status}"),
            // The error should quote no text of the mint. Bound its length in case it ever does.
            RejectReason::Response(error) => f.write_str(&printable(&error.to_string())),
            RejectReason::Filter(error) => write!(f, "damaged filter: {error}"),
            RejectReason::LowM { m, min } => {
                write!(
                    f,
                    "filter has a false-positive rate of 1 in {m}; at most 1 in {min} is accepted"
                )
            }
            RejectReason::PRange { p, min, max } => {
                write!(f, "filter has P = {p}, accepted are {min} to {max}")
            }
            RejectReason::Future { timestamp, now } => {
                write!(
                    f,
                    "filter is dated {timestamp}, {} s in the future",
                    timestamp.saturating_sub(*now)
                )
            }
        }
    }
}

impl fmt::Display for MintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the mint returned error {:?} (", self.detail)?;
        if let Some(code) = self.code {
            write!(f, "code {code}, ")?;
        }
        write!(f, "HTTP {})", self.status)
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::RolledBack {
                timestamp,
                last_seen,
            } => {
                write!(
                    f,
                    "filter is dated {timestamp}, older than the last one seen ({last_seen})"
                )
            }
            CheckError::TooManyMatches {
                matches,
                lookups,
                expected,
                limit,
            } => write!(
                f,
                "implausible filter: {matches} of {lookups} items match; expected {expected}, \
                 accepted up to {limit}"
            ),
            CheckError::OtherDialect(other) => other.fmt(f),
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Skip the "io: " prefix of "io: Connection refused (os error 111)".
        match &self.0 {
            ureq::Error::Io(error) => error.fmt(f),
            other => other.fmt(f),
        }
    }
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FetchError::Transport(error) => Some(error),
            FetchError::Cache(error) => Some(error),
            FetchError::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl std::error::Error for RejectReason {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RejectReason::Mint(error) => Some(error),
            RejectReason::Response(error) => Some(error),
            RejectReason::Filter(error) => Some(error),
            _ => None,
        }
    }
}

impl std::error::Error for MintError {}
impl std::error::Error for CheckError {}
impl std::error::Error for TransportError {}

/// Replaces everything before an `@` in a URL by an ellipsis, because errors end up in logs. The text may not be a
/// valid URL, and a password may contain any character. The last `@` therefore counts, wherever it is.
pub(crate) fn without_userinfo(url: &str) -> Cow<'_, str> {
    let Some(at) = url.rfind('@') else {
        return Cow::Borrowed(url);
    };
    let scheme = url[..at].find("://").map_or(0, |colon| colon + 3);
    Cow::Owned(format!("{}…{}", &url[..scheme], &url[at..]))
}

/// A mint's text, truncated and safe for a terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut cut: String = text
        .chars()
        .take(MAX_QUOTED)
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        cut.push('…');
    }
    cut
}
