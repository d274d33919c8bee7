//! Misbehaviour of a mint, and the resulting errors in the wallet. A wallet that waits forever hangs its test.

#![allow(clippy::disallowed_methods)]

macro_rules! assert_refused {
    ($fetched:expr, $refusal:pat $(if $guard:expr)?) => {
        match $fetched {
            Err(FetchError::Refused($refusal)) $(if $guard)? => {}
            other => panic!("expected {}, got {other:?}", stringify!($refusal $(if $guard)?)),
        }
    };
}

macro_rules! assert_failed {
    ($fetched:expr, $error:pat $(if $guard:expr)?) => {
        match $fetched {
            Err($error) $(if $guard)? => {}
            other => panic!("expected {}, got {other:?}", stringify!($error $(if $guard)?)),
        }
    };
}

/// The default policy, except for these fields.
macro_rules! policy {
    ($($field:ident $(: $value:expr)?),*) => {
        Policy { $($field $(: $value)?,)* ..Policy::default() }
    };
}

mod bls;
mod cases;
mod conversation;
mod eavesdrop;
mod honest;
mod lies;
mod limits;
mod proxy;
mod redirects;
mod restore;
mod search;
mod size;
mod time;
mod tls;
mod wrong_items;

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use eavesdrop::{saying, start};
use nutfilter::{Nut25, Params};
use nutfilter_cashu::FilterResponse;
use nutfilter_testing::loopback::{Loopback, head, response};
use nutfilter_testing::{filter_of, on_curve};
use nutfilter_wallet::{
    Answer, CheckError, FetchError, KeysetId, MintClient, MintFilter, NoteKind, Policy,
    RejectReason,
};

/// Enough that both halves of the hash matter (from 5,473 on).
const ITEMS: u32 = 6_000;

type Fetched = Result<MintFilter, FetchError>;

fn keyset() -> KeysetId {
    KeysetId::parse("009a1f293253e41e").expect("a keyset id")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

/// A point, different for each number.
fn item(number: u32) -> [u8; 33] {
    static ITEMS_ON_CURVE: OnceLock<Vec<[u8; 33]>> = OnceLock::new();
    ITEMS_ON_CURVE.get_or_init(|| on_curve(2).take(2 * ITEMS as usize + 1).collect())
        [number as usize]
}

fn honest(timestamp: u64) -> FilterResponse {
    filter_of((0..ITEMS).map(item), Params::CASHU, timestamp)
}

fn json(body: impl AsRef<[u8]>) -> Vec<u8> {
    response("200 OK", &[("Content-Type", "application/json")], body)
}

fn client_by(mint: &Loopback, policy: Policy) -> MintClient {
    MintClient::new(&mint.url, policy).expect("a good URL")
}

fn client(mint: &Loopback) -> MintClient {
    client_by(mint, Policy::default())
}

fn fetch_by(mint: &Loopback, policy: Policy) -> Fetched {
    client_by(mint, policy).fetch(&keyset(), NoteKind::Spent)
}

fn fetch(mint: &Loopback) -> Fetched {
    fetch_by(mint, Policy::default())
}

fn fetch_answer(answer: impl Into<Vec<u8>>) -> Fetched {
    fetch(&saying(answer))
}

/// The names of the headers in these lines, sorted.
fn header_names(headers: &str) -> Vec<String> {
    let lines = headers.lines().filter_map(|line| line.split_once(':'));
    let mut names: Vec<_> = lines.map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names
}
