//! The cases of `tests/vectors/misbehaving-mints.json`, which the npm package runs as well.

use std::fmt::Debug;

use serde_json::Value;

use crate::conversation::*;
use crate::*;
use nutfilter_wallet::{FetchContext, Outcome, QueryError, RestoreOptions};

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

/// Matches and warnings of a response, or the name of its error.
fn look_up(file: &Value, case: &Value) -> Result<(usize, Vec<String>), String> {
    let mut body = file["honest"].clone();
    for (member, set) in case["set"].as_object().into_iter().flatten() {
        body[member] = set.clone();
    }
    let body = case["body"]
        .as_str()
        .map_or(body.to_string(), str::to_owned);
    let mut policy = Policy::default();
    policy.min_m = case["policy"]["min_m"].as_u64().unwrap_or(policy.min_m);
    let context = FetchContext {
        now: file["now"].as_u64().expect("a time"),
        last_seen: case["last_seen"].as_u64(),
    };
    let status = case["status"].as_u64().unwrap_or(200) as u16;
    let filter: MintFilter = policy
        .accept(status, body.clone().into_bytes(), context)
        .map_err(|reason| {
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
    // In the form of a point, but not on the curve: this filter knows no keyset.
    let item = |number: u32| [&[2; 29][..], &number.to_be_bytes()].concat();
    let items: Vec<_> = (number(0, 0)..number(1, 1_000)).map(item).collect();
    let matches = filter.matches(&items, case["expected"].as_u64());
    let matches = matches.map_err(|error| variant(&error))?;
    let warnings = matches.warnings.iter().map(variant).collect();
    let found = matches
        .answers
        .iter()
        .filter(|&&one| one == Answer::MaybePresent);
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
    let list = ["each", "upper", "reverse", "append"]
        .into_iter()
        .find_map(path);
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
        let (parent, name) = path("set")
            .or(path("remove"))
            .and_then(|path| path.rsplit_once('/'))
            .expect("a path");
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
    for change in case["change"].as_array().into_iter().flatten() {
        apply(&mut answer, change);
    }
    let body = case["body"]
        .as_str()
        .map_or(answer.to_string(), str::to_owned);
    let status = format!("{} Said", case["status"].as_u64().unwrap_or(200));
    response(&status, &[("Content-Type", "application/json")], body)
}

/// The name of the error; checks that nothing new was sent after the lie, and that the error shows no note.
pub(crate) fn name_of_lie(mint: &Loopback, error: &QueryError) -> String {
    let posts = posts(mint);
    let first = asked(&posts[0]);
    for post in &posts[1..] {
        assert!(asked(post).iter().all(|one| first.contains(one)), "{error}");
    }
    let text = format!("{error} {error:?}");
    assert!(first.iter().all(|one| !text.contains(&one[2..])), "{text}");
    match error {
        QueryError::Answer(fault) => variant(fault),
        QueryError::Fetch(FetchError::Refused(reason)) => variant(reason),
        other => variant(other),
    }
}

#[test]
fn lies_about_candidates_have_the_errors_in_the_file() {
    for (member, numbers) in [
        ("checkstate", 0..100),
        ("restore", LIVE.start..LIVE.start + 80),
    ] {
        for (name, case) in cases(member) {
            let expected = case["error"].as_str().map(str::to_owned);
            let mint = mint(move |request| respond(&case, request));
            let confirm = member == "checkstate";
            let options = RestoreOptions {
                confirm,
                ..RestoreOptions::default()
            };
            let error = match restore(&mint, numbers.clone(), &options) {
                Ok(restored) => {
                    for (number, outcome) in numbers.clone().zip(&restored.outcomes) {
                        match outcome {
                            Outcome::Spent => assert!(confirm, "{name}"),
                            Outcome::Live(one) => {
                                assert_eq!(one.c[1..], point(number)[1..], "{name}")
                            }
                            other => panic!("{name}: {other:?}"),
                        }
                    }
                    None
                }
                Err(error) => Some(name_of_lie(&mint, &error.cause)),
            };
            assert_eq!(error, expected, "{name}");
        }
    }
}
