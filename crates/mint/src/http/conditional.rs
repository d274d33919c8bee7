//! Conditional and partial requests: `If-None-Match`, `If-Modified-Since`, `Range` and `If-Range`.

use core::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE};
use axum::http::{HeaderMap, HeaderValue};

use super::negotiate::members;

/// The first of `tags` that the client already has. `*` matches every tag.
pub(super) fn known_tag<'a>(
    headers: &HeaderMap,
    tags: impl Iterator<Item = &'a HeaderValue>,
) -> Option<&'a HeaderValue> {
    if !headers.contains_key(IF_NONE_MATCH) {
        return None;
    }
    let mut tags = tags;
    tags.find(|tag| {
        members(headers, &IF_NONE_MATCH).any(|member| {
            // A compressing proxy weakens the tag. The weak tag still stands for the same content.
            let opaque = member.strip_prefix("W/").unwrap_or(member);
            member == "*" || opaque.as_bytes() == tag.as_bytes()
        })
    })
}

/// Whether a client that only sends a date already has the version modified at the Unix second `modified`.
pub(super) fn is_unmodified(headers: &HeaderMap, modified: u64) -> bool {
    if headers.contains_key(IF_NONE_MATCH) {
        return false;
    }
    headers
        .get(IF_MODIFIED_SINCE)
        .and_then(|value| httpdate::parse_http_date(value.to_str().ok()?).ok())
        .and_then(|since| since.duration_since(UNIX_EPOCH).ok())
        .is_some_and(|since| modified <= since.as_secs())
}

/// A Unix second as a header value; `None` after the year 9999.
pub(super) fn http_date(seconds: u64) -> Option<HeaderValue> {
    // The first second of a year with five digits, which `httpdate` cannot write.
    const YEAR_10000: u64 = 253_402_300_800;
    if seconds >= YEAR_10000 {
        return None;
    }
    let time: SystemTime = UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
    HeaderValue::try_from(httpdate::fmt_http_date(time)).ok()
}

/// The requested part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Bytes(Range<usize>),
    /// The requested range starts beyond the end.
    Unsatisfiable,
}

/// Returns the requested part of the body with this tag and length. It is the whole body if several parts are
/// requested, if the request is invalid, or if the client has a part of another body. A date in `If-Range` never
/// matches: two bodies may be of the same second, and a wrong mix of them is worse than a long answer.
pub(super) fn part(headers: &HeaderMap, tag: &HeaderValue, length: usize) -> Part {
    let Some(range) = headers.get(RANGE).and_then(|value| value.to_str().ok()) else {
        return Part::Whole;
    };
    if headers.get(IF_RANGE).is_some_and(|value| value != tag) {
        return Part::Whole;
    }
    let Some((unit, range)) = range.split_once('=') else {
        return Part::Whole;
    };
    if !unit.trim_matches([' ', '\t']).eq_ignore_ascii_case("bytes") {
        return Part::Whole;
    }
    let Some((first, last)) = range.split_once('-') else {
        return Part::Whole;
    };
    let trim = |text: &str| text.trim_matches([' ', '\t']).to_owned();
    match (trim(first).as_str(), trim(last).as_str()) {
        ("", suffix) => match position(suffix) {
            Some(0) => Part::Unsatisfiable,
            Some(_) if length == 0 => Part::Unsatisfiable,
            Some(suffix) => Part::Bytes(length.saturating_sub(suffix)..length),
            None => Part::Whole,
        },
        (first, "") => match position(first) {
            Some(first) if first >= length => Part::Unsatisfiable,
            Some(first) => Part::Bytes(first..length),
            None => Part::Whole,
        },
        (first, last) => match (position(first), position(last)) {
            (Some(first), Some(last)) if first > last => Part::Whole,
            (Some(first), Some(_)) if first >= length => Part::Unsatisfiable,
            (Some(first), Some(last)) => Part::Bytes(first..last.saturating_add(1).min(length)),
            _ => Part::Whole,
        },
    }
}

/// A position with any number of digits. A number that overflows lies beyond the end too.
fn position(digits: &str) -> Option<usize> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    static TAG: HeaderValue = HeaderValue::from_static("\"abc\"");

    fn ranged(range: &str, length: usize) -> Part {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_str(range).expect("a value"));
        part(&headers, &TAG, length)
    }

    #[test]
    fn one_range_within_the_body_is_that_part() {
        for (range, expected) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-99", 0..100),
            ("bytes=0-1000", 0..100),
            ("bytes=99-", 99..100),
            ("bytes=0-", 0..100),
            ("bytes=-1", 99..100),
            ("bytes=-100", 0..100),
            ("bytes=-1000", 0..100),
            ("BYTES = 5 - 6 ", 5..7),
            ("bytes=5-18446744073709551615", 5..100),
            ("bytes=5-99999999999999999999999999", 5..100),
        ] {
            assert_eq!(ranged(range, 100), Part::Bytes(expected), "{range}");
        }
    }

    #[test]
    fn ranges_beyond_the_end_cannot_be_satisfied() {
        for range in [
            "bytes=100-",
            "bytes=100-200",
            "bytes=-0",
            "bytes=99999999999999999999999-",
        ] {
            assert_eq!(ranged(range, 100), Part::Unsatisfiable, "{range}");
        }
        for range in ["bytes=0-", "bytes=-5", "bytes=0-0"] {
            assert_eq!(ranged(range, 0), Part::Unsatisfiable, "{range}");
        }
    }

    #[test]
    fn other_than_a_single_range_is_answered_in_full() {
        for range in [
            "bytes=0-1,5-6",
            "bytes=",
            "bytes=-",
            "bytes",
            "lines=0-1",
            "bytes=5-4",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes=0x1-2",
            "bytes=--5",
        ] {
            assert_eq!(ranged(range, 100), Part::Whole, "{range}");
        }
        assert_eq!(part(&HeaderMap::new(), &TAG, 100), Part::Whole);
    }

    #[test]
    fn if_range_requires_the_current_tag() {
        for (if_range, expected) in [
            ("\"abc\"", Part::Bytes(1..3)),
            ("\"abd\"", Part::Whole),
            ("W/\"abc\"", Part::Whole),
            ("Thu, 01 Jan 2026 00:00:00 GMT", Part::Whole),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_static("bytes=1-2"));
            headers.insert(IF_RANGE, HeaderValue::from_static(if_range));
            assert_eq!(part(&headers, &TAG, 100), expected, "{if_range}");
        }
    }

    #[test]
    fn tag_is_found_in_lists_and_in_its_weak_form() {
        let other = HeaderValue::from_static("\"other\"");
        for (sent, expected) in [
            (&["\"abc\""][..], Some(&TAG)),
            (&["\"x\", W/\"abc\""], Some(&TAG)),
            (&["\"x\"", "\"abc\""], Some(&TAG)),
            (&["*"], Some(&TAG)),
            (&["\"other\""], Some(&other)),
            (&["\"other\", \"abc\""], Some(&TAG)),
            (&["\"x\""], None),
            (&["abc"], None),
            (&["w/\"abc\""], None),
            (&[""], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append(IF_NONE_MATCH, HeaderValue::from_static(value));
            }
            let known = known_tag(&headers, [&TAG, &other].into_iter());
            assert_eq!(known, expected, "{sent:?}");
        }
    }

    #[test]
    fn dates_count_only_without_a_tag() {
        let date = http_date(1_767_225_600).expect("a date");
        assert_eq!(date, "Thu, 01 Jan 2026 00:00:00 GMT");
        let mut headers = HeaderMap::new();
        headers.insert(IF_MODIFIED_SINCE, date);
        assert!(is_unmodified(&headers, 1_767_225_600));
        assert!(is_unmodified(&headers, 1_767_225_599));
        assert!(!is_unmodified(&headers, 1_767_225_601));
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("\"x\""));
        assert!(!is_unmodified(&headers, 0));
        headers.clear();
        headers.insert(IF_MODIFIED_SINCE, HeaderValue::from_static("yesterday"));
        assert!(!is_unmodified(&headers, 0));
        assert!(!is_unmodified(&HeaderMap::new(), 0));
    }

    #[test]
    fn unrepresentable_times_have_no_header() {
        for seconds in [u64::MAX, 253_402_300_800] {
            assert_eq!(http_date(seconds), None);
        }
        assert!(http_date(253_402_300_799).is_some());
    }
}
