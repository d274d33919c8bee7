//! Restores from a seed at the mint of the tutorial.

#![allow(clippy::disallowed_methods)]

use nutfilter_testing::loopback::{Loopback, Request};
use nutfilter_testing::seeded_mint::{BROKEN, DRAFT, KEYSETS, Mint, SIGNED, SPENT, TWIN};
use nutfilter_wallet::cashu::{
    DeriveError, Problem, RestoredWallet, Seed, WalletError, WalletOptions, restore_wallet, tokens,
};
use nutfilter_wallet::{
    CheckError, Fallback, FilterDates, KeysetId, MintClient, Outcome, Policy, QueryError,
    RestoreOptions, Warning,
};

/// What a mint was asked, and a client for it.
struct World {
    mint: Loopback,
    client: MintClient,
}

impl World {
    fn new(change: impl FnOnce(&mut Mint)) -> Self {
        let mint = Mint::start(&seed(), 0, change).expect("a mint");
        let client = MintClient::new(&mint.url, Policy::default()).expect("a URL");
        Self { mint, client }
    }

    fn restore(&self, fallback: Fallback, expected: Option<u64>) -> RestoredWallet {
        self.restore_with(RestoreOptions { fallback, expected, ..USUAL })
    }

    fn restore_with(&self, restore: RestoreOptions) -> RestoredWallet {
        let options = WalletOptions { restore, ..WalletOptions::default() };
        restore_wallet(&self.client, &seed(), "sat", &options).expect("keysets")
    }

    /// By a client with this policy.
    fn by(mut self, policy: Policy) -> Self {
        self.client = MintClient::new(&self.mint.url, policy).expect("a URL");
        self
    }

    /// The points that the mint was shown.
    fn shown(&self, path: &str, list: &str) -> usize {
        let seen = self.mint.seen();
        let asked = seen.iter().filter(|seen| seen.path() == path);
        let number = |asked: &Request| asked.body[list].as_array().map_or(0, Vec::len);
        asked.map(number).sum()
    }
}

const USUAL: RestoreOptions = RestoreOptions::DEFAULT;

fn seed() -> Seed {
    Seed::from([7; 64])
}

#[test]
fn all_keysets_give_their_notes_and_only_live_ones_are_shown() {
    let world = World::new(|_| {});
    let wallet = world.restore(Fallback::default(), Some(12));
    assert_eq!((wallet.warnings.len(), wallet.problems.len()), (0, 0));
    for (keyset, id) in wallet.keysets.iter().zip(KEYSETS) {
        assert_eq!(keyset.keyset.id.as_str(), id);
        let counters = keyset.notes.iter().map(|note| note.counter);
        assert!(counters.eq(SIGNED[SPENT..].iter().copied()), "{id}");
        assert!(keyset.notes.iter().all(|note| note.dleq.is_some()), "{id}");
        let restored = keyset.restored.as_ref().expect("results");
        assert_eq!((restored.next_counter(), restored.gap), (166, 40), "{id}");
        assert!(restored.as_of.is_some() && restored.warnings.is_empty(), "{id}");
        let spent = restored.outcomes.iter().filter(|&one| *one == Outcome::Spent);
        assert_eq!(spent.count(), SPENT, "{id}");
        assert!(keyset.problems.is_empty(), "{id}: {:?}", keyset.problems);
    }
    let [.., broken, draft] = &wallet.keysets[..] else {
        panic!("five keysets");
    };
    assert_eq!([&broken.keyset.id, &draft.keyset.id].map(|id| id.as_str()), [BROKEN, DRAFT]);
    assert!(matches!(broken.problems[..], [Problem::Restore(QueryError::Fetch(_))]));
    let is_named = |error: &DeriveError| error.to_string().contains(DRAFT);
    assert!(matches!(&draft.problems[..], [Problem::Derive(error)] if is_named(error)));
    assert_eq!(world.shown("/v1/restore", "outputs"), 12);
    assert_eq!(world.shown("/v1/checkstate", "Ys"), 0);
    assert_eq!(wallet.worth(), 3 * (128 + 1 + 2 + 4));

    let tokens = tokens(world.client.base_url(), "sat", wallet.notes()).expect("tokens");
    let [new, old] = &tokens[..] else {
        panic!("one token for ids in hex, one for base64");
    };
    let new: cashu::nuts::nut00::Token = new.parse().expect("a token");
    assert_eq!(u64::from(new.value().expect("a sum")), 270);
    assert_eq!(new.mint_url().expect("a URL").to_string(), world.client.base_url());
    assert!(old.starts_with("cashuA"));
    // An international name, as a mint client knows it.
    let url = "https://xn--mnze-0ra.example/Bitcoin";
    let tokens = nutfilter_wallet::cashu::tokens(url, "sat", wallet.notes()).expect("tokens");
    let token: cashu::nuts::nut00::Token = tokens[0].parse().expect("a token");
    assert_eq!(token.mint_url().expect("a URL").to_string(), url);
}

#[test]
fn mint_without_filters_gives_the_same_notes() {
    let world = World::new(|_| {});
    let with: Vec<_> = world.restore_with(USUAL).notes().cloned().collect();
    let world = World::new(|mint| mint.has_filters = false);
    let wallet = world.restore(Fallback::Never, None);
    assert!(wallet.notes().next().is_none());
    assert_eq!(world.shown("/v1/restore", "outputs"), 0);
    assert!(wallet.keysets.iter().all(|keyset| keyset.problems.len() == 1));
    let wallet = world.restore_with(USUAL);
    assert!(wallet.notes().eq(&with));
    for keyset in &wallet.keysets[..3] {
        let restored = keyset.restored.as_ref().expect("results");
        assert_eq!((restored.next_counter(), restored.as_of), (166, None));
        assert!(restored.warnings.contains(&Warning::WithoutFilters));
    }
}

#[test]
fn confirmed_notes_in_a_payment_are_pending() {
    let world = World::new(|mint| mint.pending = 1);
    assert_eq!(world.restore_with(USUAL).notes().count(), 12);
    let confirm = RestoreOptions { confirm: true, ..USUAL };
    let wallet = world.restore_with(confirm.clone());
    assert_eq!((wallet.notes().count(), wallet.unchecked().count()), (9, 0));
    for keyset in &wallet.keysets[..3] {
        let restored = keyset.restored.as_ref().expect("results");
        assert_eq!(restored.warnings, [Warning::Pending { counters: vec![SIGNED[SPENT]] }]);
        assert!(keyset.problems.is_empty(), "{:?}", keyset.problems);
    }
    assert_eq!(world.shown("/v1/checkstate", "Ys"), 3 * SIGNED.len());
    // Without an answer they are live by the filters.
    let world = World::new(|mint| (mint.pending, mint.has_states) = (1, false));
    let wallet = world.restore_with(confirm);
    assert_eq!((wallet.notes().count(), wallet.unchecked().count()), (12, 0));
    assert!(wallet.keysets.iter().all(|keyset| keyset.problems.len() == 1));
}

#[test]
fn notes_that_may_be_spent_are_kept_apart() {
    let world = World::new(|mint| {
        mint.has_filters = false;
        mint.has_states = false;
    });
    let wallet = world.restore_with(USUAL);
    let signed = SIGNED.len() * 3;
    let found = [wallet.notes().count(), wallet.unchecked().count()];
    assert_eq!((found, wallet.worth()), ([0, signed], 0));
    for keyset in &wallet.keysets[..3] {
        let restored = keyset.restored.as_ref().expect("results");
        let counters = SIGNED.to_vec();
        assert!(restored.warnings.contains(&Warning::Unchecked { counters }));
        assert_eq!((keyset.problems.len(), restored.next_counter()), (1, 166));
    }
}

#[test]
fn notes_signed_before_an_error_are_checked() {
    let world = World::new(|mint| {
        mint.has_filters = false;
        mint.restores = 2.into();
    });
    let wallet = world.restore_with(USUAL);
    let found = [&wallet.keysets[0].notes, &wallet.keysets[0].unchecked].map(Vec::len);
    assert_eq!(found, [4, 0]);
    let problems = &wallet.keysets[0].problems[..];
    assert!(matches!(problems, [Problem::Restore(QueryError::Fetch(_))]));
    assert!(wallet.keysets[0].restored.as_ref().unwrap().next_counter() > 200);
}

#[test]
fn far_more_notes_than_expected_show_the_mint_nothing() {
    let world = World::new(|_| {});
    let wallet = world.restore(Fallback::default(), Some(1));
    for keyset in &wallet.keysets[..3] {
        let error = &keyset.problems[..];
        let is_it = |error: &CheckError| matches!(error, CheckError::TooManyMatches { .. });
        assert!(matches!(error, [Problem::Restore(QueryError::Check(error))] if is_it(error)));
    }
    assert_eq!(world.shown("/v1/restore", "outputs"), 0);
    let wallet = world.restore(Fallback::default(), Some(100));
    assert!(matches!(wallet.warnings[..], [Warning::FewMatches { matches: 12, .. }]));
    assert_eq!(wallet.notes().count(), 12);
}

#[test]
fn filters_of_one_keyset_announce_those_of_the_others() {
    let world = World::new(|mint| mint.announces = false);
    let wallet = world.restore_with(USUAL);
    assert_eq!(wallet.notes().count(), 12);
    let shown = world.mint.seen();
    assert!(shown.iter().all(|asked| !asked.body.to_string().contains(BROKEN)));
}

#[test]
fn the_largest_m_gives_the_same_notes() {
    let params = nutfilter::Params::with_best_p(u32::MAX.into()).expect("an M");
    let world = World::new(|mint| mint.params = params);
    let wallet = world.restore(Fallback::Never, None);
    assert_eq!(wallet.notes().count(), 12);
    assert_eq!(world.shown("/v1/restore", "outputs"), 12);
}

#[test]
fn filters_above_a_limit_of_the_wallet_show_the_mint_nothing() {
    type Change = fn(&mut Policy);
    let changes: [Change; 2] = [|of| of.max_items = 6, |of| of.min_m = u32::MAX.into()];
    for (change, announces) in changes.into_iter().zip([false, true]) {
        let mut policy = Policy::default();
        change(&mut policy);
        let world = World::new(|mint| mint.announces = announces).by(policy);
        let wallet = world.restore_with(USUAL);
        for keyset in &wallet.keysets[..3] {
            let problems = &keyset.problems[..];
            assert!(matches!(problems, [Problem::Restore(QueryError::Fetch(_))]));
        }
        assert_eq!(world.shown("/v1/restore", "outputs"), 0);
    }
}

#[test]
fn signatures_that_give_no_note_are_problems_of_their_own() {
    let world = World::new(|mint| {
        mint.change = |signature| match signature["amount"].as_u64() {
            Some(1) => signature["amount"] = 3.into(),
            Some(2) => signature["dleq"]["e"] = signature["dleq"]["s"].clone(),
            Some(4) => drop(signature.as_object_mut().expect("an object").remove("dleq")),
            _ => {}
        }
    });
    let wallet = world.restore_with(USUAL);
    for keyset in &wallet.keysets[..3] {
        let notes = keyset.notes.iter().map(|note| (note.counter, note.dleq.is_some()));
        assert!(notes.eq([(122, true), (125, false)]));
        let problems: Vec<_> = keyset.problems.iter().map(ToString::to_string).collect();
        let id = &keyset.keyset.id;
        assert_eq!(
            problems,
            [
                format!("counter 123: keyset {id} has no key for 3"),
                "counter 124: the signature of 2 has an invalid DLEQ proof".to_owned(),
            ]
        );
    }
}

#[test]
fn keys_that_do_not_match_their_id_hold_their_keyset() {
    for has_filters in [true, false] {
        for (at, id) in KEYSETS.into_iter().enumerate() {
            let world = World::new(|mint| (mint.forged, mint.has_filters) = (id, has_filters));
            let wallet = world.restore_with(USUAL);
            assert_eq!(wallet.notes().count() + wallet.unchecked().count(), 8, "{id}");
            let keyset = &wallet.keysets[at];
            assert!(matches!(keyset.problems[..], [Problem::Keys { counter: None, .. }]));
            assert!(keyset.problems[0].to_string().contains("do not match its id"));
            let seen = world.mint.seen();
            let shown = seen.iter().filter(|asked| asked.path() == "/v1/restore");
            assert!(
                shown.clone().count() > 0
                    && shown.into_iter().all(|asked| asked.body["outputs"][0]["id"] != id)
            );
        }
    }
    // Notes of another keyset, whose signatures name the one with the forged keys.
    let world = World::new(|mint| {
        mint.forged = KEYSETS[1];
        mint.change = |signature| signature["id"] = KEYSETS[1].into();
    });
    let wallet = world.restore_with(USUAL);
    assert_eq!(wallet.notes().count(), 0);
    let counters = wallet.keysets[0].problems.iter().map(|problem| match problem {
        Problem::Keys { counter, .. } => *counter,
        _ => None,
    });
    assert!(counters.eq((122..126).map(Some)));
}

#[test]
fn signatures_of_another_unit_are_problems() {
    let world = World::new(|mint| {
        mint.others.clear();
        mint.usd = KEYSETS[1];
        mint.change = |signature| {
            if signature["amount"] == 1 {
                signature["id"] = KEYSETS[1].into();
            }
        };
    });
    let wallet = world.restore_with(USUAL);
    assert_eq!((wallet.keysets.len(), wallet.notes().count()), (2, 6));
    for keyset in &wallet.keysets {
        let problems = &keyset.problems[..];
        assert!(matches!(problems, [Problem::OtherUnit { counter: 123, .. }]));
    }
}

#[test]
fn note_that_two_keysets_derive_is_given_once() {
    let world = World::new(|mint| mint.others = vec![TWIN]);
    let wallet = world.restore_with(USUAL);
    assert_eq!((wallet.keysets.len(), wallet.notes().count()), (4, 12));
    let problems = &wallet.keysets[3].problems[..];
    let is_same = |one: &Problem| matches!(one, Problem::SameSecret { .. });
    assert!(problems.len() == 4 && problems.iter().all(is_same));
}

#[test]
fn filter_that_did_not_come_holds_all_keysets() {
    let world = World::new(|mint| {
        (mint.has_filters, mint.silent) = (false, "filter/spent/01fc");
        mint.others.clear();
    });
    let deadline = std::time::Duration::from_millis(500);
    let world = world.by(Policy { deadline, ..Policy::default() });
    assert_eq!(world.restore_with(USUAL).notes().count(), 0);
    assert_eq!(world.shown("/v1/restore", "outputs"), 0);
}

#[test]
fn time_limit_holds_for_an_info_that_does_not_come() {
    let world = World::new(|mint| (mint.has_filters, mint.silent) = (false, "info"));
    let restore = RestoreOptions { time_limit: std::time::Duration::from_secs(1), ..USUAL };
    let begin = std::time::Instant::now();
    assert_eq!(world.restore_with(restore.clone()).notes().count(), 0);
    let keyset = KEYSETS[0].parse().expect("an id");
    let pairs = [([2_u8; 33], [2_u8; 33]); 0];
    let restored = world.client.restore(&keyset, &pairs[..], &restore);
    assert!(restored.is_err() && begin.elapsed().as_secs() < 10);
}

#[test]
fn keysets_of_unknown_form_are_problems() {
    let id = format!("03{}", "cd".repeat(32));
    let world = World::new(|mint| mint.others = vec![id.clone().leak()]);
    let wallet = world.restore_with(USUAL);
    assert_eq!((wallet.keysets.len(), wallet.notes().count()), (3, 12));
    assert!(matches!(&wallet.problems[..], [Problem::Keyset { id: named }] if *named == id));
}

#[test]
fn keysets_that_the_mint_no_longer_lists_are_problems() {
    let world = World::new(|mint| mint.usd = DRAFT);
    let upper = KEYSETS[0].to_uppercase();
    let seen = [&upper, DRAFT, "00deadbeefdeadbe"].map(|id| id.parse().expect("an id"));
    let last_seen = seen.into_iter().map(|id| (id, FilterDates { spent: 1, issued: 1 })).collect();
    let options = WalletOptions { last_seen, ..WalletOptions::default() };
    let wallet = restore_wallet(&world.client, &seed(), "sat", &options).expect("keysets");
    assert_eq!(wallet.notes().count(), 12);
    let named = |keyset: &KeysetId| keyset.as_str() == "00deadbeefdeadbe";
    assert!(matches!(&wallet.problems[..], [Problem::Unlisted { keyset }] if named(keyset)));
}

#[test]
fn unit_that_no_keyset_has_is_an_error_with_those_that_are() {
    let world = World::new(|_| {});
    let found = restore_wallet(&world.client, &seed(), " SAT", &WalletOptions::default());
    assert_eq!(found.expect("the same unit").notes().count(), 12);
    let error = restore_wallet(&world.client, &seed(), "usd", &WalletOptions::default());
    let error = error.expect_err("no such unit");
    assert!(matches!(error, WalletError::NoKeyset { .. }));
    assert!(
        error.to_string().contains("no keyset of unit \"usd\"; it has 0049c41fb72a472f (sat)"),
        "{error}"
    );
}

#[test]
fn list_of_keysets_that_is_unreadable_is_an_error() {
    for body in ["<html>", "[]", r#"{"keysets":7}"#, r#"{"detail":"no"}"#, ""] {
        let mint = Loopback::answering(0, move |_| ("200 OK", body)).expect("a free port");
        let client = MintClient::new(&mint.url, Policy::default()).expect("a URL");
        let error = restore_wallet(&client, &seed(), "sat", &WalletOptions::default());
        assert_eq!(
            error.expect_err(body).to_string(),
            "could not fetch the mint's keysets: the mint's /v1/keysets is not a list of keysets"
        );
        assert!(client.keysets().is_err());
    }
}
