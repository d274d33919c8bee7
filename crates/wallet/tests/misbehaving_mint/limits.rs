//! Defaults and limits as in `tests/vectors/wallet_limits.json`, which the npm package tests too.

use serde_json::Value;

use crate::conversation::*;
use crate::restore::offline;
use crate::*;
use nutfilter_wallet::{Chance, MintInfo, Outcome, Restore, RestoreOptions, Restored, match_limit};

fn file() -> Value {
    let text = include_str!("../../../../tests/vectors/wallet_limits.json");
    serde_json::from_str(text).expect("JSON")
}

fn rows(member: &str) -> Vec<Value> {
    file()[member].as_array().expect("a list").clone()
}

pub(crate) fn default(name: &str) -> u64 {
    number(&file()["defaults"][name])
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn defaults_are_those_of_the_file() {
    let policy = Policy::default();
    let options = RestoreOptions::default();
    for (name, ours) in [
        ("max_bytes", policy.max_bytes),
        ("deadline_seconds", policy.deadline.as_secs()),
        ("min_m", policy.min_m),
        ("min_p", policy.min_p.into()),
        ("max_future_seconds", policy.max_future.as_secs()),
        ("max_match_factor", policy.max_match_factor.into()),
        ("max_answer_bytes", policy.max_answer_bytes),
        ("max_items", policy.max_items.into()),
        ("time_limit_seconds", options.time_limit.as_secs()),
        ("search", options.search.into()),
        ("gap", options.gap.into()),
    ] {
        assert_eq!(ours, default(name), "{name}");
    }
    assert_eq!((options.expected, options.confirm), (None, false));
}

#[test]
fn match_limits_and_chances_are_those_of_the_file() {
    for row in rows("match_limit") {
        let [lookups, expected, m, factor, limit] =
            ["lookups", "expected", "m", "factor", "limit"].map(|name| number(&row[name]));
        assert_eq!(match_limit(lookups, expected, m, factor as u32), limit, "{row}");
    }
    for row in rows("chance") {
        let chance = Chance::of(number(&row["live"]), number(&row["m"]));
        assert_eq!(chance.map(|chance| chance.one_in), row["one_in"].as_u64(), "{row}");
        let text = chance.map(|chance| chance.to_string());
        assert_eq!(text.as_deref(), row["text"].as_str(), "{row}");
    }
}

#[test]
fn next_counters_are_those_of_the_file() {
    let signature = || {
        let restored = restore(&honest_mint(), LIVE, &PLAIN);
        restored.expect("an honest mint").outcomes.swap_remove(0)
    };
    let outcome = |word: &Value| match word.as_str().expect("a word") {
        "unused" => Outcome::Unused,
        "unsigned" => Outcome::Unsigned,
        "spent" => Outcome::Spent,
        "pending" => Outcome::Pending,
        "refused" => Outcome::Refused(Default::default()),
        "open" => Outcome::Open,
        "expired" => Outcome::Expired,
        "unknown" => Outcome::Unknown,
        "live" => signature(),
        other => panic!("{other}"),
    };
    for row in rows("next_counter") {
        let words = row["outcomes"].as_array().expect("a list");
        let restored = Restored {
            outcomes: words.iter().map(outcome).collect(),
            gap: 40,
            as_of: None,
            warnings: vec![],
            chance: None,
        };
        assert_eq!(u64::from(restored.next_counter()), number(&row["next_counter"]), "{row}");
    }
}

fn points(restore: &Restore) -> usize {
    let (path, body) = restore.request().expect("a request");
    asked(&format!("POST {path}\r\n\r\n{body}")).len()
}

#[test]
fn batches_are_those_of_the_file() {
    assert_eq!(points(&offline()) as u64, default("batch"));
    for row in rows("batch") {
        let mut restore = offline();
        let info = MintInfo::parse(row["info"].as_str().expect("text").as_bytes());
        restore.set_info(&info.unwrap_or_default());
        let batch = number(&row["batch"]).min(LIVE.len() as u64);
        assert_eq!(points(&restore) as u64, batch, "{row}");
    }
}

#[test]
fn waits_are_those_of_the_file() {
    let mut restore = offline();
    let mut wait = |header: Option<&str>, now: u64| {
        let wait = restore.answer(429, header, b"", now).expect("a wait");
        wait.expect("a wait").as_secs()
    };
    let silence = default("silence_seconds");
    for _ in 0..9 {
        assert_eq!(wait(None, 0), silence);
    }
    for row in rows("retry_after") {
        let seconds = row["seconds"].as_u64().unwrap_or(silence);
        assert_eq!(wait(row["value"].as_str(), number(&row["now"])), seconds, "{row}");
    }
}
