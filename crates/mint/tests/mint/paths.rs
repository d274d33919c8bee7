//! Paths from untrusted clients, sent to the router without a network. Each finds the filter of the id that it
//! denotes, or nothing.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use nutfilter_mint::{FilterService, KeysetId, NoteKind};
use nutfilter_serve as http;
use percent_encoding::percent_decode_str;
use tower::Service;

use crate::http::refreshed;
use crate::support::history::Random;
use crate::support::{LEGACY, V1, V2, V3};

const IDS: [&str; 4] = [V1, V2, V3, LEGACY];

/// Pieces of hostile paths. `?` and `#` are left out because they end a path.
const PIECES: [&str; 24] = [
    "%", "%2", "%zz", "%00", "%2f", "%2F", "%2B", "%25", "%252F", "%c3%a9", "%ff", "+", "-", "_",
    "/", "//", ".", "..", "/../", "%2e%2e", "0", "A", "=", "~",
];

/// The text of an id with some characters in other spellings, and occasionally something invalid.
fn spelled(random: &mut Random, id: &str) -> String {
    let mut text = String::new();
    for character in id.chars() {
        match random.below(12) {
            0 => text += &format!("%{:02x}", u32::from(character)),
            1 => text += &format!("%{:02X}", u32::from(character)),
            2 if id.len() == 12 => text.push(match character {
                '+' => '-',
                '/' => '_',
                other => other,
            }),
            2 => text.push(character.to_ascii_uppercase()),
            _ => text.push(character),
        }
    }
    for _ in 0..random.below(6).saturating_sub(3) {
        let at = random.below(text.len() as u64 + 1) as usize;
        let to = (at + random.below(3) as usize).min(text.len());
        text.replace_range(at..to, PIECES[random.below(24) as usize]);
    }
    text
}

/// The decoded end of a path; `None` if it is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

async fn get(router: &mut Router, path: &str) -> Option<(StatusCode, Vec<u8>)> {
    // An invalid URI never reaches a router.
    let request = Request::get(path)
        .header("host", "mint")
        .body(Body::empty())
        .ok()?;
    let reply = router.call(request).await.expect("a router always answers");
    let status = reply.status();
    let body = to_bytes(reply.into_body(), 1 << 20).await.expect("a body");
    Some((status, body.to_vec()))
}

#[tokio::test]
async fn path_finds_the_filter_of_its_id_or_nothing() {
    let plain = http::router(refreshed(FilterService::default()));
    let under = http::under("/cashu", plain.clone()).expect("a base path");
    let mut filters = Vec::new();
    for id in IDS {
        let path = nutfilter_cashu::endpoint_path(&id.parse().expect("an id"), NoteKind::Spent);
        let (status, body) = get(&mut plain.clone(), &path).await.expect("a path");
        assert_eq!(status, StatusCode::OK, "{path}");
        filters.push((KeysetId::parse(id).expect("an id"), body));
    }

    let mut random = Random::new(25);
    let (mut found, mut unknown, mut invalid) = (0, 0, 0);
    for _ in 0..6000 {
        let (mut router, base) = match random.one_in(2) {
            true => (plain.clone(), ""),
            false => (under.clone(), "/cashu"),
        };
        let id = IDS[random.below(4) as usize];
        let text = spelled(&mut random, id);
        let path = format!("{base}/v1/filter/spent/{text}");
        let Some((status, body)) = get(&mut router, &path).await else {
            continue;
        };
        let id = decoded(&text).and_then(|text| KeysetId::parse(&text).ok());
        let filter = id
            .as_ref()
            .map(|id| filters.iter().find(|(known, _)| known == id));
        let (expected, words, count) = match filter {
            Some(Some((_, filter))) => (StatusCode::OK, filter.as_slice(), &mut found),
            Some(None) => (
                StatusCode::BAD_REQUEST,
                &b"keyset is not known"[..],
                &mut unknown,
            ),
            None => (
                StatusCode::BAD_REQUEST,
                &b"invalid keyset id"[..],
                &mut invalid,
            ),
        };
        *count += 1;
        assert_eq!(status, expected, "{path}");
        let said = body.windows(words.len()).any(|window| window == words);
        assert!(said, "{path}: {}", String::from_utf8_lossy(&body));
    }
    // Each of the three results must occur often enough.
    assert!(
        found > 1000 && unknown > 30 && invalid > 500,
        "{found}, {unknown}, {invalid}"
    );
}

#[tokio::test]
async fn other_paths_to_an_id_find_nothing() {
    let plain = http::router(refreshed(FilterService::default()));
    let mut under = http::under("/cashu", plain).expect("a base path");
    let mut random = Random::new(26);
    let right = format!("/cashu/v1/filter/spent/{V1}");
    let fixed = right.len() - V1.len();
    for _ in 0..4000 {
        let mut path = right.clone();
        let at = 1 + random.below(fixed as u64 - 1) as usize;
        let to = (at + random.below(3) as usize).min(fixed);
        path.replace_range(at..to, PIECES[random.below(24) as usize]);
        // Equal replacements, and insertions at the start of the id, are covered by the test above.
        if path.starts_with(&right[..fixed]) {
            continue;
        }
        if let Some((status, _)) = get(&mut under, &path).await {
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        }
    }
}
