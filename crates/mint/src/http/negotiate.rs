//! Content negotiation: `Accept` and `Accept-Encoding`, with their weights.

use axum::http::header::{ACCEPT, ACCEPT_ENCODING, HeaderName};
use axum::http::{HeaderMap, HeaderValue};

/// Maximum number of list members that are parsed. Browsers send five or six; longer lists are not worth the time.
pub(super) const MAX_MEMBERS: usize = 32;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const OCTET_STREAM: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// A weight in thousandths.
type Weight = u16;

/// The media type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    Raw,
}

/// The content coding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
}

impl Coding {
    /// Its name in `Content-Encoding`; `None` for identity.
    pub(super) fn name(self) -> Option<HeaderValue> {
        match self {
            Coding::Identity => None,
            Coding::Gzip => Some(HeaderValue::from_static("gzip")),
        }
    }
}

/// The members of a list, which may be spread over several header lines, without surrounding white space. A line
/// that is not text has no members.
pub(super) fn members<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|member| member.trim_matches([' ', '\t']))
        .filter(|member| !member.is_empty())
        .take(MAX_MEMBERS)
}

/// The media type that a client wants; `None` if it accepts neither. The default is JSON. It is also sent if the
/// client asks for an unavailable type, because every mint answers regardless of `Accept`.
pub(super) fn media(headers: &HeaderMap) -> Option<Media> {
    // The most specific matching range decides. On a tie, the weight of JSON wins.
    let mut json: Option<(u8, Weight)> = None;
    let mut raw: Option<(u8, Weight)> = None;
    for member in members(headers, &ACCEPT) {
        let Some((range, weight)) = weighted(member) else {
            continue;
        };
        let range = range.to_ascii_lowercase();
        let (exactness, for_json, for_raw) = match range.as_str() {
            "*/*" => (1, true, true),
            "application/*" => (2, true, true),
            "application/json" => (3, true, false),
            "application/octet-stream" => (3, false, true),
            _ => continue,
        };
        for (best, fits) in [(&mut json, for_json), (&mut raw, for_raw)] {
            if fits && best.is_none_or(|(known, _)| known < exactness) {
                *best = Some((exactness, weight));
            }
        }
    }
    let weight = |found: Option<(u8, Weight)>| found.map(|(exactness, weight)| (weight, exactness));
    match (weight(json), weight(raw)) {
        (Some((0, _)), None | Some((0, _))) => None,
        (Some((0, _)), Some(_)) => Some(Media::Raw),
        // Raw filters must be requested by name: `*/*` does not ask for bytes, whatever its weight.
        (json, Some(raw @ (1.., 3))) if json.is_none_or(|json| raw > json) => Some(Media::Raw),
        _ => Some(Media::Json),
    }
}

/// The available coding that a client wants; `None` if it accepts none of them.
pub(super) fn coding(headers: &HeaderMap, available: &[Coding]) -> Option<Coding> {
    let [mut identity, mut gzip, mut any] = [None; 3];
    for member in members(headers, &ACCEPT_ENCODING) {
        let Some((name, weight)) = weighted(member) else {
            continue;
        };
        let weighed = match name.to_ascii_lowercase().as_str() {
            "identity" => &mut identity,
            "gzip" | "x-gzip" => &mut gzip,
            "*" => &mut any,
            _ => continue,
        };
        weighed.get_or_insert(weight);
    }
    // Identity is acceptable as the last choice, unless it is refused by name or by `*`.
    let identity = match (identity, any) {
        (Some(0), _) | (None, Some(0)) => None,
        (given, any) => Some(given.or(any).unwrap_or(0)),
    };
    let wanted = |weight: Option<Weight>| weight.or(any).filter(|&weight| weight > 0);
    // Of equal weights the last one wins, which is the shortest.
    [(Coding::Identity, identity), (Coding::Gzip, wanted(gzip))]
        .into_iter()
        .filter(|(coding, _)| available.contains(coding))
        .filter_map(|(coding, weight)| Some((weight?, coding)))
        .max_by_key(|(weight, _)| *weight)
        .map(|(_, coding)| coding)
}

/// A member and its weight; `None` if the weight is invalid.
fn weighted(member: &str) -> Option<(&str, Weight)> {
    let mut parts = member.split(';').map(|part| part.trim_matches([' ', '\t']));
    let name = parts.next()?;
    for parameter in parts {
        if let Some(weight) = parameter
            .strip_prefix("q=")
            .or_else(|| parameter.strip_prefix("Q="))
        {
            return Some((name, thousandths(weight)?));
        }
    }
    Some((name, 1000))
}

/// `0`, `1`, or one of them with up to three digits after the point, and not above 1.
fn thousandths(text: &str) -> Option<Weight> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = match whole {
        "0" => 0,
        "1" => 1000,
        _ => return None,
    };
    let fraction = format!("{fraction:0<3}").parse::<Weight>().ok()?;
    Some(whole + fraction).filter(|&weight| weight <= 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    #[test]
    fn json_is_the_default_media_type() {
        use Media::{Json, Raw};
        for (accept, expected) in [
            (&[][..], Some(Json)),
            (&["*/*"], Some(Json)),
            (&["application/*"], Some(Json)),
            (&["application/json"], Some(Json)),
            (&["text/html,application/xhtml+xml,*/*;q=0.8"], Some(Json)),
            (&["text/html"], Some(Json)),
            (&["nonsense"], Some(Json)),
            (&["application/octet-stream"], Some(Raw)),
            (&["APPLICATION/Octet-Stream"], Some(Raw)),
            (&["application/octet-stream, */*"], Some(Raw)),
            (&["application/octet-stream, application/json"], Some(Json)),
            (
                &["application/octet-stream, application/json;q=0.9"],
                Some(Raw),
            ),
            (
                &["application/json;q=0.9", "application/octet-stream"],
                Some(Raw),
            ),
            (
                &["application/octet-stream;q=0.5, application/json;q=0.501"],
                Some(Json),
            ),
            (&["application/octet-stream;q=0.5, */*;q=0.4"], Some(Raw)),
            (&["application/octet-stream;q=0, */*"], Some(Json)),
            (&["application/octet-stream;q=0"], Some(Json)),
            (&["application/json;q=0, */*"], Some(Raw)),
            (&["application/json;q=0.9, */*"], Some(Json)),
            (&["application/json;q=0"], None),
            (&["*/*;q=0"], None),
            (&["application/octet-stream;v=1;q=0.1"], Some(Raw)),
            // Members with an invalid weight are ignored.
            (&["application/octet-stream;q=2"], Some(Json)),
        ] {
            assert_eq!(media(&headers(ACCEPT, accept)), expected, "{accept:?}");
        }
    }

    #[test]
    fn coding_with_highest_weight_then_shortest_wins() {
        use Coding::{Gzip, Identity};
        let all = [Identity, Gzip];
        let cases: &[(&[&str], &[Coding], Option<Coding>)] = &[
            (&[], &all, Some(Identity)),
            (&[""], &all, Some(Identity)),
            (&["gzip"], &all, Some(Gzip)),
            (&["x-gzip"], &all, Some(Gzip)),
            (&["gzip, deflate, br, zstd"], &all, Some(Gzip)),
            (&["gzip;q=0.1, identity;q=0.9"], &all, Some(Identity)),
            (&["gzip;q=0.001"], &all, Some(Gzip)),
            (&["gzip;q=0"], &all, Some(Identity)),
            (&["*"], &all, Some(Gzip)),
            (&["*;q=0.5, gzip;q=0"], &all, Some(Identity)),
            (&["*;q=0"], &all, None),
            (&["*;q=0, identity;q=0.1"], &all, Some(Identity)),
            (&["identity;q=0"], &all, None),
            (&["identity;q=0, gzip"], &all, Some(Gzip)),
            (&["identity;q=0", "gzip"], &all, Some(Gzip)),
            (&["gzip"], &[Identity], Some(Identity)),
            (&["gzip, identity;q=0"], &[Identity], None),
            (&["br, zstd"], &all, Some(Identity)),
            (&["gzip;q=nan", "*;q=0.1234"], &all, Some(Identity)),
        ];
        for (accept, available, expected) in cases {
            let headers = headers(ACCEPT_ENCODING, accept);
            assert_eq!(coding(&headers, available), *expected, "{accept:?}");
        }
    }

    #[test]
    fn weights_have_at_most_three_digits_and_do_not_exceed_one() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("0.5", Some(500)),
            ("0.05", Some(50)),
            ("0.", Some(0)),
            ("1.000", Some(1000)),
            ("0.001", Some(1)),
            ("1.001", None),
            ("0.0001", None),
            ("2", None),
            ("-1", None),
            ("", None),
            (".5", None),
            ("0.+5", None),
        ] {
            assert_eq!(thousandths(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_the_beginning_of_a_long_list_is_parsed() {
        let mut long = "br,".repeat(MAX_MEMBERS - 1);
        long.push_str("gzip;q=0.5,identity");
        let headers = headers(ACCEPT_ENCODING, &[&long]);
        let all = [Coding::Identity, Coding::Gzip];
        assert_eq!(coding(&headers, &all), Some(Coding::Gzip));
    }
}
