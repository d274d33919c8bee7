//! The cases of `tests/vectors/misbehaving-mints.json`, which the npm package runs as well.

use std::fmt::Debug;

use serde_json::{Value, json as value};

use crate::conversation::*;
use crate::*;
use nutfilter_wallet::{Confirmed, FetchContext, QueryError, Restored, UNKNOWN_KEYSET};

const KEYSET: &str = "009a1f293253e41e";

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
    policy.max_p = case["policy"]["max_p"]
        .as_u64()
        .map_or(policy.max_p, |p| p as u32);
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
            let name = variant(&reason);
            let is_unknown = FetchError::from(reason).is_unknown_keyset();
            assert_eq!(is_unknown, case["code"] == UNKNOWN_KEYSET);
            name
        })?;
    let number =
        |at: usize, otherwise| case["look_up"][at].as_u64().map_or(otherwise, |n| n as u32);
    let items: Vec<_> = (number(0, 0)..number(1, 1_000)).map(item).collect();
    let matches = filter.matches(&items, case["expected"].as_u64());
    let matches = matches.map_err(|error| variant(&error))?;
    let warnings = matches.warnings().iter().map(variant).collect();
    Ok((matches.items().len(), warnings))
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
fn respond(case: &Value, asked: &[String]) -> Vec<u8> {
    let states = honest_states(asked);
    let mut answer = match case["kind"] == "restore" {
        false => value!({ "states": states }),
        true => {
            let signed: Vec<_> = asked
                .iter()
                .zip(&states)
                .filter(|(_, state)| state["state"] == "SPENT")
                .collect();
            let output = |(b, _): &(&String, _)| value!({"amount": 0, "id": KEYSET, "B_": b});
            let sign = |(b, _): &(&String, _)| value!({"amount": 8, "id": KEYSET, "C_": format!("03{}", &b[2..]), "dleq": null});
            value!({
                "outputs": signed.iter().map(output).collect::<Value>(),
                "signatures": signed.iter().map(sign).collect::<Value>(),
            })
        }
    };
    for change in case["change"].as_array().into_iter().flatten() {
        apply(&mut answer, change);
    }
    let body = case["body"]
        .as_str()
        .map_or(answer.to_string(), str::to_owned);
    let status = format!("{} Said", case["status"].as_u64().unwrap_or(200));
    response(&status, &[("Content-Type", "application/json")], body)
}

/// The name of the error; checks that nothing was sent after the lie, and that the error shows no note.
pub(crate) fn name_of_lie(mint: &Loopback, error: &QueryError) -> String {
    let posts = posts(mint);
    assert_eq!(posts.len(), 1, "{error}");
    let text = format!("{error} {error:?}");
    assert!(
        asked(&posts[0])
            .iter()
            .all(|point| !text.contains(&point[2..])),
        "{text}"
    );
    match error {
        QueryError::Answer(fault) => variant(fault),
        QueryError::Fetch(FetchError::Refused(reason)) => variant(reason),
        other => variant(other),
    }
}

#[test]
fn lies_about_matches_have_the_errors_in_the_file() {
    for (kind, member) in [
        (NoteKind::Spent, "checkstate"),
        (NoteKind::Issued, "restore"),
    ] {
        for (name, mut case) in cases(member) {
            case["kind"] = member.into();
            let expected = case["error"].as_str().map(str::to_owned);
            let mint = mint(move |asked| respond(&case, &asked));
            let items = notes(0..if member == "restore" { 80 } else { 100 });
            let (client, matches) = matches_of(&mint, kind, Policy::default(), &items);
            let error = match kind {
                NoteKind::Spent => client
                    .confirm(&matches)
                    .map(|all| assert!(all.iter().all(|one| *one == Confirmed::Spent), "{name}")),
                NoteKind::Issued => client.restore(&keyset(), &matches).map(|all| {
                    for (item, one) in items.iter().zip(all) {
                        let Restored::Signed(signature) = one else {
                            panic!("{name}: {one:?}")
                        };
                        assert_eq!(signature.c[1..], item[1..], "{name}");
                    }
                }),
            };
            let error = error.err().map(|error| name_of_lie(&mint, &error));
            assert_eq!(error, expected, "{name}");
        }
    }
}
