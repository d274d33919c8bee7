//! What can go wrong between asking a mint and having an answer.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use nutfilter::{DecodeError, ResponseError};

use crate::dialect::OtherDialect;

/// The code of "unknown keyset" in a mint's error object.
pub const UNKNOWN_KEYSET: i64 = 12001;

/// Longest text of a mint that an error repeats, in characters. Enough for a sentence.
const MAX_QUOTED: usize = 300;

/// Why no filter came out of a fetch. Never to be read as "absent".
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// The base URL cannot be a mint's.
    BadUrl {
        /// The URL as it was given, without user name and password.
        url: String,
        /// What is the matter with it, as the end of a sentence that begins with the URL.
        why: &'static str,
    },
    /// The URL of a proxy that cannot be used.
    BadProxy {
        /// The URL as it was given, without user name and password.
        url: String,
        /// What is wrong, as the end of a sentence that begins with the URL.
        why: &'static str,
    },
    /// The whole fetch took longer than the policy allows, however steadily bytes were arriving.
    Deadline {
        /// What was allowed, from the first name look-up to the last byte.
        allowed: Duration,
    },
    /// The connection could not be made, or broke; TLS errors are here too.
    Transport(TransportError),
    /// The connection closed before the end of the body.
    Cut {
        /// Bytes of the body that had arrived.
        received: u64,
    },
    /// The response's head is larger than any mint needs.
    LargeHead {
        /// The limit, in bytes.
        max: usize,
    },
    /// A redirect to another scheme, host or port.
    RedirectElsewhere {
        /// Where it pointed, as far as that can be printed.
        to: String,
    },
    /// One redirect more than the policy allows.
    TooManyRedirects {
        /// How many are allowed.
        max: u32,
    },
    /// A redirect without a `Location` that can be understood.
    BadRedirect {
        /// The HTTP status.
        status: u16,
    },
    /// The filter cache cannot be read; nothing was sent.
    Cache(std::io::Error),
    /// Something came back whole, and is not a filter to be trusted.
    Refused(RejectReason),
}

/// Why a response was not taken. The part of [`FetchError`] that needs no network.
#[derive(Debug)]
#[non_exhaustive]
pub enum RejectReason {
    /// The body is larger than the policy allows.
    TooLarge {
        /// What `Content-Length` declared, when that was enough to refuse.
        declared: Option<u64>,
        /// The limit, in bytes.
        max: u64,
    },
    /// The body is compressed, which was not asked for and could hide any size.
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
    /// The response is well-formed and its filter is not.
    Filter(DecodeError),
    /// The filter would match more often than the policy allows.
    LowM {
        /// The filter's `M`.
        m: u64,
        /// The least that is accepted.
        min: u64,
    },
    /// The filter's `P` is outside the policy's range.
    PRange {
        /// The filter's `P`.
        p: u32,
        /// The least that is accepted.
        min: u32,
        /// The most that is accepted.
        max: u32,
    },
    /// The filter claims to be from the future.
    Future {
        /// The filter's time, in Unix seconds.
        timestamp: u64,
        /// The wallet's time, in Unix seconds.
        now: u64,
    },
}

/// A mint's error object, `{"detail": ..., "code": ...}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MintError {
    /// The HTTP status it came with. Some mints send 200.
    pub status: u16,
    /// The mint's code; [`UNKNOWN_KEYSET`] is the one to expect.
    pub code: Option<i64>,
    /// The mint's words: at most 300 characters, without control characters.
    pub detail: String,
}

/// Why a filter was not asked, or its answers are not to be used.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum CheckError {
    /// The filter is older than one that was seen before.
    RolledBack {
        /// The filter's time, in Unix seconds.
        timestamp: u64,
        /// The time of the newest filter seen before, in Unix seconds.
        last_seen: u64,
    },
    /// More matches than chance and the wallet's own books allow. Confirming them with the mint would
    /// tell it what it must not learn.
    TooManyMatches {
        /// Items that matched.
        matches: u64,
        /// Items that were looked up.
        lookups: u64,
        /// Items that the wallet believed to be in the set.
        expected: u64,
        /// The most that would have been believed, see [`match_limit`](crate::match_limit).
        limit: u64,
    },
    /// The filter was made with another hash than the one the items were looked up by: "absent" would be wrong
    /// for members.
    OtherDialect(OtherDialect),
}

/// An error of the connection.
#[derive(Debug)]
pub struct TransportError(ureq::Error);

impl FetchError {
    /// Whether the mint said that it does not know the keyset.
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

    /// Sorts out what the transport reports; `allowed` is the policy's deadline.
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
            FetchError::BadUrl { url, why } => write!(f, "mint URL {url:?} {why}"),
            FetchError::BadProxy { url, why } => write!(f, "proxy URL {url:?} {why}"),
            FetchError::Deadline { allowed } => {
                write!(f, "no complete answer within {} s", allowed.as_secs_f64())
            }
            FetchError::Transport(error) => error.fmt(f),
            FetchError::Cut { received } => {
                write!(
                    f,
                    "connection closed inside the response, after {received} bytes of its body"
                )
            }
            FetchError::LargeHead { max } => write!(f, "response head larger than {max} bytes"),
            FetchError::RedirectElsewhere { to } => {
                write!(f, "redirect to {to:?}, another scheme, host or port")
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
                write!(f, "response longer than the {max} bytes that are accepted")
            }
            RejectReason::Encoded { encoding } => {
                write!(
                    f,
                    "response compressed ({encoding:?}) though that was not asked for"
                )
            }
            RejectReason::Mint(error) => error.fmt(f),
            RejectReason::Status { status } => write!(f, "HTTP status {status}"),
            // It should quote nothing of the mint's; should it do so some day, then within bounds.
            RejectReason::Response(error) => f.write_str(&printable(&error.to_string())),
            RejectReason::Filter(error) => write!(f, "damaged filter: {error}"),
            RejectReason::LowM { m, min } => {
                write!(
                    f,
                    "filter matches one item in {m} by chance, at least one in {min} is wanted"
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
        write!(f, "the mint says {:?} (", self.detail)?;
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
                    "filter is dated {timestamp}, one dated {last_seen} was seen before"
                )
            }
            CheckError::TooManyMatches {
                matches,
                lookups,
                expected,
                limit,
            } => write!(
                f,
                "{matches} of {lookups} items match where {expected} were expected and at most {limit} \
                 are believable"
            ),
            CheckError::OtherDialect(other) => other.fmt(f),
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without this the words are "io: Connection refused (os error 111)".
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

/// A URL with an ellipsis for whatever stands before an `@`: errors end up in logs. The text need not be a
/// URL, and a password may hold any character, so the last `@` counts, wherever it is.
pub(crate) fn without_userinfo(url: &str) -> Cow<'_, str> {
    let Some(at) = url.rfind('@') else {
        return Cow::Borrowed(url);
    };
    let scheme = url[..at].find("://").map_or(0, |colon| colon + 3);
    Cow::Owned(format!("{}…{}", &url[..scheme], &url[at..]))
}

/// A mint's text, fit for a terminal and of bounded length.
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
