//! The cases of `tests/vectors/misbehaving-mints.json`, which the npm package runs as well.

use std::fmt::Debug;

use serde_json::Value;

use crate::conversation::*;
use crate::*;
use nutfilter_wallet::{
    Dleq, Fallback, FetchContext, FilterDates, FilterSource, Outcome, QueryError, RestoreOptions,
    Restored, Warning,
};

fn file() -> Value {
    let text = include_str!("../../../../tests/vectors/misbehaving-mints.json");
    serde_json::from_str(text).expect("JSON")
}

/// The cases in one member of the file, by name.
pub(crate) fn cases(member: &str) -> Vec<(String, Value)> {
    let cases = file()[member].as_array().expect("a list").clone();
    assert!(cases.len() > 20, "{member}");
    let name = |case: &Value| format!("{member}: {}", case["name"].as_str().expect("a name"));
    cases.into_iter().map(|case| (name(&case), case)).collect()
}

/// The name of an enum's variant.
pub(crate) fn variant(error: &impl Debug) -> String {
    let text = format!("{error:?}");
    let end = text.find(|letter: char| !letter.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

/// The text of a body, changed as a case says.
fn text_of(case: &Value, body: &Value) -> String {
    let members = body.as_object().expect("an object").iter();
    // In the order in which mints write them.
    let order = ["n", "p", "m", "content", "timestamp"];
    let mut members: Vec<_> = members.map(|(name, value)| (name.as_str(), value)).collect();
    members.sort_by_key(|(name, _)| order.iter().position(|one| one == name));
    let members = members.iter().map(|(name, value)| format!("\"{name}\":{value}"));
    let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
    let mut text = case["body"].as_str().map_or(text, str::to_owned);
    if let Some([from, to]) = case["replace"].as_array().map(Vec::as_slice) {
        let [from, to] = [from, to].map(|part| part.as_str().expect("text"));
        assert!(text.contains(from), "{case}");
        text = text.replacen(from, to, 1);
    }
    if let Some(depth) = case["nested"].as_u64() {
        let lists = ["[", "]"].map(|bracket| bracket.repeat(depth as usize)).concat();
        text = text.replacen('{', &format!(r#"{{"x":{lists},"#), 1);
    }
    text
}

/// Matches and warnings of a response, or the name of its error.
fn look_up(file: &Value, case: &Value) -> Result<(usize, Vec<String>), String> {
    let mut body = file["honest"].clone();
    for (member, set) in case["set"].as_object().into_iter().flatten() {
        body[member] = set.clone();
    }
    let body = text_of(case, &body);
    let mut policy = Policy::default();
    policy.min_m = case["policy"]["min_m"].as_u64().unwrap_or(policy.min_m);
    let max_items = case["policy"]["max_items"].as_u64();
    policy.max_items = max_items.map_or(policy.max_items, |max| max as u32);
    let context = FetchContext {
        now: file["now"].as_u64().expect("a time"),
        last_seen: case["last_seen"].as_u64(),
        no_cache: false,
    };
    let status = case["status"].as_u64().unwrap_or(200) as u16;
    let source = FilterSource { mint: String::new(), keyset: keyset(), kind: NoteKind::Spent };
    let filter: MintFilter =
        policy.accept(status, body.into_bytes(), source, context).map_err(|reason| {
            if let RejectReason::Mint(error) = &reason {
                assert_eq!((error.status, error.code), (status, case["code"].as_i64()));
                let detail = case["detail"].as_str().unwrap_or(&error.detail);
                assert_eq!(error.detail, detail);
            }
            let text = reason.to_string();
            assert!(text.len() < 1_000 && !text.contains('\u{1b}'), "{text}");
            variant(&reason)
        })?;
    let number =
        |at: usize, otherwise| case["look_up"][at].as_u64().map_or(otherwise, |n| n as u32);
    let items: Vec<_> = (number(0, 0)..number(1, 1_000)).map(item).collect();
    let matches = filter.matches(&items, case["expected"].as_u64());
    let matches = matches.map_err(|error| variant(&error))?;
    let warnings = matches.warnings.iter().map(variant).collect();
    let found = matches.answers.iter().filter(|&&one| one == Answer::MaybePresent);
    Ok((found.count(), warnings))
}

#[test]
fn responses_are_accepted_or_refused_as_in_the_file() {
    let file = file();
    for (name, case) in cases("responses") {
        let expected = match case["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => {
                let warning = case["warning"].as_str().map(str::to_owned);
                let matches = case["matches"].as_u64().expect("a number");
                Ok((matches as usize, warning.into_iter().collect()))
            }
        };
        assert_eq!(look_up(&file, &case), expected, "{name}");
    }
}

/// Changes an answer as a case says.
pub(crate) fn apply(answer: &mut Value, change: &Value) {
    let path = |name: &str| change[name].as_str();
    let new = match path("from") {
        Some(from) => answer.pointer(from).expect("a value").clone(),
        None => change["to"].clone(),
    };
    let list = ["each", "upper", "reverse", "append"].into_iter().find_map(path);
    if let Some(list) = list.and_then(|list| answer.pointer_mut(list)?.as_array_mut()) {
        if let Some(member) = path("member") {
            for one in list {
                let upper = || one[member].as_str().map(str::to_uppercase);
                one[member] = match path("upper") {
                    Some(_) => upper().into(),
                    None => new.clone(),
                };
            }
        } else if path("reverse").is_some() {
            list.reverse();
        } else {
            list.push(new);
        }
    } else {
        let (parent, name) =
            path("set").or(path("remove")).and_then(|path| path.rsplit_once('/')).expect("a path");
        let remove = path("remove").is_some();
        match answer.pointer_mut(parent).expect("a parent") {
            Value::Array(list) if remove => drop(list.remove(name.parse().expect("an index"))),
            Value::Array(list) => list[name.parse::<usize>().expect("an index")] = new,
            Value::Object(object) if remove => drop(object.remove(name).expect("a member")),
            parent => parent[name] = new,
        }
    }
}

/// The answer of the mint in a case.
fn respond(case: &Value, request: &str) -> Vec<u8> {
    let mut answer = honest_answer(request);
    let max = case["max_points"].as_u64();
    let points = asked(request);
    let status = match max {
        Some(max) if points.len() as u64 <= max => 200,
        _ => case["status"].as_u64().unwrap_or(200),
    };
    for change in case["change"].as_array().into_iter().flatten() {
        // A request about other points, such as those that are not spent after all.
        let path = change["set"].as_str().or(change["remove"].as_str());
        if path.is_none_or(|path| answer.pointer(path).is_some()) {
            apply(&mut answer, change);
        }
    }
    let other = case["replace"][0].as_str().is_some_and(|from| !answer.to_string().contains(from));
    let body = if other { answer.to_string() } else { text_of(case, &answer) };
    let (first, last) = (&points[0][..20], &points[0][points[0].len() - 20..]);
    let body = body
        .replace("$POINT", &points[0])
        .replace("$CAPITALS", &points[0].to_uppercase())
        .replace("$SHORT", &format!("{first}...{last}"));
    let status = format!("{status} Said");
    response(&status, &[("Content-Type", "application/json")], body)
}

/// Whether so many digits of a point in a row are in a text.
fn echoes(text: &str, points: &[String]) -> bool {
    let text = text.to_ascii_lowercase();
    let parts = |point: &String| (0..=point.len() - 8).any(|at| text.contains(&point[at..at + 8]));
    points.iter().any(parts)
}

/// The code of an error; checks that nothing but what was asked first was sent, and that the error shows no note.
pub(crate) fn name_of_lie(mint: &Loopback, error: &QueryError) -> String {
    let posts = posts(mint);
    let points: Vec<_> = posts.iter().flat_map(|post| asked(post)).collect();
    let text = format!("{error} {error:?}");
    assert!(!echoes(&text, &points), "{text}");
    code(error)
}

/// The code of an error in the file.
fn code(error: &QueryError) -> String {
    match error {
        QueryError::Answer(fault) => variant(fault),
        QueryError::Fetch(FetchError::Refused(reason)) => variant(reason),
        QueryError::Fetch(error) => variant(error),
        QueryError::Check(error) => variant(error),
        other => variant(other),
    }
}

/// The code of a warning in the file.
fn code_of(warning: &Warning) -> String {
    match warning {
        Warning::OddAnswer(fault) => variant(fault),
        other => variant(other),
    }
}

#[test]
fn lies_about_candidates_have_the_errors_in_the_file() {
    for (member, numbers) in [("checkstate", 0..100), ("restore", LIVE.start..LIVE.start + 80)] {
        for (name, case) in cases(member) {
            let said = case.clone();
            // Some are unspent for this mint.
            let mint =
                mint(move |request| respond(&said, request)).checked(eavesdrop::anything_in_posts);
            let options = match member {
                "checkstate" => CONFIRM,
                _ => PLAIN,
            };
            let (restored, error) = match restore(&mint, numbers.clone(), &options) {
                Ok(restored) => (restored, None),
                Err(error) => {
                    let point = format!("{:?}", &point(numbers.start + 1)[20..]);
                    let debug = format!("{error:?}");
                    assert!(!debug.contains(&point[1..point.len() - 1]), "{debug}");
                    let found = error.unfinished.as_ref().expect("a restore").so_far();
                    (found, Some(name_of_lie(&mint, &error.cause)))
                }
            };
            assert_eq!(error.as_deref(), case["error"].as_str(), "{name}");
            for (number, outcome) in numbers.clone().zip(&restored.outcomes) {
                if let Outcome::Live(one) = outcome {
                    assert!(one.c[1..] == point(number)[1..] || name.contains("equal"), "{name}");
                    // As the mint sends them.
                    if name.contains("promises and a proof") {
                        let (e, s) = ([0x01; 32], [0xab; 32]);
                        assert_eq!(one.dleq, Some(Dleq { e, s }), "{name}");
                        assert_eq!(one.keyset.as_str(), "009A1F293253E41E", "{name}");
                    }
                    assert!(one.keyset == keyset() || name.contains("keyset"), "{name}");
                }
            }
            for (counted, word) in [("spent", "spent"), ("signed", "live")] {
                let wanted = case[counted].as_u64();
                let found = counts(&restored).get(word).copied().unwrap_or(0) as u64;
                assert!(wanted.is_none_or(|wanted| wanted == found), "{name}: {found} {word}");
            }
            if error.is_none() {
                let warnings: Vec<_> = restored.warnings.iter().map(code_of).collect();
                let wanted: Vec<_> = case["warning"].as_str().into_iter().collect();
                assert_eq!(warnings, wanted, "{name}");
            }
            if let Some(requests) = case["requests"].as_u64() {
                assert_eq!(posts(&mint).len() as u64, requests, "{name}");
            }
        }
    }
}

/// A point of the wallet in "restores", or of somebody else.
fn point_of(kind: &str, number: u64) -> [u8; 33] {
    match kind {
        "B_" => point(number as usize),
        "Y" => point(ALL.end + number as usize),
        _ => item(number as u32),
    }
}

fn numbers_of(range: &Value) -> (String, std::ops::Range<u64>) {
    let number = |at: usize| range[at].as_u64().expect("a number");
    (range[0].as_str().expect("a kind").to_owned(), number(1)..number(2))
}

/// The filter of a kind, as a case or its "again" says.
fn filter_in(case: &Value, kind: &str, now: u64) -> FilterResponse {
    let honest = match kind {
        "issued" => serde_json::json!([["B_", 0, 120]]),
        _ => serde_json::json!([["Y", 0, 60]]),
    };
    let ranges = case.get(kind).unwrap_or(&honest).as_array().expect("ranges");
    let points = ranges.iter().map(numbers_of);
    let points =
        points.flat_map(|(kind, numbers)| numbers.map(move |number| point_of(&kind, number)));
    let age = case[format!("{kind}_age")].as_u64().unwrap_or(0);
    filter_of(points, Params::CASHU, now - age)
}

fn said(answer: &Value) -> Vec<u8> {
    if answer["cut"] == true {
        return [&head("200 OK", &[("Content-Length", "9")])[..], b"{"].concat();
    }
    let headers = answer["headers"].as_object().into_iter().flatten();
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.as_str(), value.as_str().expect("text"))).collect();
    let status = format!("{} Said", answer["status"]);
    response(&status, &headers, answer["body"].as_str().unwrap_or_default())
}

/// The answer of the mint of a case in "restores".
fn mint_of(case: &Value, now: u64, is_first: impl Fn(&str) -> bool, request: &str) -> Vec<u8> {
    let path = request.split(' ').nth(1).expect("a path");
    let name = ["/issued/", "/spent/", "info", "keysets", "restore", "checkstate"]
        .into_iter()
        .find(|name| path.contains(name))
        .expect("a known path")
        .trim_matches('/');
    if let Some(answer) = case["answers"].get(name) {
        return said(answer);
    }
    let is_filter = ["issued", "spent"].contains(&name);
    if is_filter && case.get("once").is_some() && is_first(name) {
        return said(&case["once"]);
    }
    match name {
        "info" => {
            let mut info = case["info"].to_string();
            let wanted = case["info_bytes"].as_u64().unwrap_or(0) as usize;
            info += &" ".repeat(wanted.saturating_sub(info.len()));
            json(info)
        }
        "keysets" => {
            let after = case["final_expiry"].as_i64().map(|after| now as i64 + after);
            let expiry = after.or(case["final_expiry"].as_str().and_then(|at| at.parse().ok()));
            let keyset = serde_json::json!({"id": KEYSET, "unit": "sat", "active": true, "final_expiry": expiry});
            json(serde_json::json!({ "keysets": [keyset] }).to_string())
        }
        "issued" | "spent" => {
            let is_fresh = request.to_ascii_lowercase().contains("cache-control: no-cache");
            match case.get("again").filter(|_| is_fresh) {
                Some(again) if again["status"].is_u64() => said(again),
                again => json(filter_in(again.unwrap_or(case), name, now).to_json()),
            }
        }
        _ => {
            let most = case["max_points"].as_u64().unwrap_or(u64::MAX);
            if asked(request).len() as u64 > most {
                return response(&format!("{} Too many", case["too_many"]), &[], "");
            }
            json(honest_until(request, 60, 120).to_string())
        }
    }
}

#[test]
fn restores_end_as_in_the_file() {
    for (name, case) in cases("restores") {
        let (said, seen, time) = (case.clone(), std::sync::Mutex::new(Vec::new()), now());
        let mint = start(move |request, stream| {
            let is_first = |name: &str| {
                let mut seen = seen.lock().expect("no panic");
                seen.push(name.to_owned());
                seen.iter().filter(|one| *one == name).count() == 1
            };
            stream.write_all(&mint_of(&said, time, is_first, request))
        })
        .checked(eavesdrop::anything_in_posts);
        let given = &case["options"];
        let ago = |name: &str| given[name].as_u64().map(|age| now() - age);
        let options = RestoreOptions {
            expected: given["expected"].as_u64(),
            confirm: given["confirm"] == true,
            last_activity: ago("last_activity_age"),
            last_seen: ago("last_seen_age").map(|at| FilterDates { spent: at, issued: at }),
            fallback: match given["fallback"].as_str() {
                Some("never") => Fallback::Never,
                Some("always") => Fallback::Always,
                _ => Fallback::Unannounced,
            },
            ..PLAIN
        };
        let mut list = candidates(0..200);
        if let [from, to] = case["exchanged"].as_array().map_or(&[][..], Vec::as_slice) {
            let of = |number: &Value| number.as_u64().expect("a number") as usize;
            for (b, y) in &mut list[of(from)..of(to)] {
                std::mem::swap(b, y);
            }
        }
        if let [at, from] = case["message_of"].as_array().map_or(&[][..], Vec::as_slice) {
            let of = |number: &Value| number.as_u64().expect("a number") as usize;
            list[of(at)].0 = list[of(from)].0;
        }
        let result = client(&mint).restore(&keyset(), &list[..], &options);
        let expect = &case["expect"];
        let error = result.as_ref().err().map(|error| code(&error.cause));
        assert_eq!(error.as_deref(), expect["error"].as_str(), "{name}: {result:?}");
        let found = match &result {
            Ok(restored) => Some(restored.clone()),
            Err(error) => error.unfinished.as_ref().map(|known| known.so_far()),
        };
        if let Some(restored) = found {
            assert_expected(&name, expect, &restored);
            let shown = posts(&mint).iter().map(|post| asked(post).len()).sum::<usize>();
            let found = |word| counts(&restored).get(word).copied().unwrap_or(0);
            let is_by_filters = restored.as_of.is_some() && !case.to_string().contains("too_many");
            let is_by_filters = is_by_filters && case.get("message_of").is_none();
            assert!(
                !is_by_filters || shown == found("live") + found("unsigned"),
                "{name}: {shown}"
            );
        }
        let count =
            |part: &str| mint.requests().iter().filter(|one| one.contains(part)).count() as u64;
        let posts = count("POST /v1/");
        let is_unshown = error.is_some() && expect["unchecked"].is_null();
        let wanted = expect["posts"].as_u64().or(is_unshown.then_some(0));
        assert!(wanted.is_none_or(|wanted| wanted == posts), "{name}: {posts} posts");
        let filters = count("GET /v1/filter/");
        let wanted = expect["filters"].as_u64();
        assert!(wanted.is_none_or(|wanted| wanted == filters), "{name}: {filters} filters");
    }
}

fn assert_expected(name: &str, expect: &Value, restored: &Restored) {
    let found = counts(restored);
    let words = ["live", "spent", "unsigned", "pending", "expired", "unchecked"];
    for word in words.into_iter().chain(["refused", "unknown"]) {
        let found = found.get(word).copied().unwrap_or(0) as u64;
        assert_eq!(found, expect[word].as_u64().unwrap_or(0), "{name}: {word}");
    }
    let mut warnings: Vec<_> = restored.warnings.iter().map(code_of).collect();
    warnings.sort();
    let wanted = expect["warnings"].as_array().cloned().unwrap_or_default();
    assert_eq!(warnings, wanted, "{name}");
    if let Some(next) = expect["next_counter"].as_u64() {
        assert_eq!(u64::from(restored.next_counter()), next, "{name}");
    }
}
