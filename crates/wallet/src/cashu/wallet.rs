//! Restores all keysets of a unit.

use std::collections::{HashMap, HashSet};

use bitcoin::base64::Engine;
use bitcoin::base64::engine::general_purpose::STANDARD;
use bitcoin::hashes::{Hash, sha256};
use cashu::secret::Secret;
use cashu::{Id, Keys, PublicKey};
use nutfilter::Params;
use nutfilter_cashu::KeysetId;
use serde_json::value::RawValue;
use thiserror::Error;

use super::note_tokens::{Note, NoteError};
use super::seed::Seed;
use super::seed_points::{DeriveError, SeedPoints};
use crate::batches::MintInfo;
use crate::client::{End, MintClient};
use crate::error::{CheckError, FetchError, MintKeyset, listed};
use crate::json_members::JsonMembers;
use crate::match_limit::match_limit;
use crate::matches::{FilterDates, Warning};
use crate::policy::Policy;
use crate::query_error::QueryError;
use crate::restore_options::RestoreOptions;
use crate::restore_steps::{Restore, Restored};
use crate::search::SearchError;

/// How a wallet restores from its seed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WalletOptions {
    /// For each keyset; the time limit is for all, and the expected number of notes too. Its `last_seen` is that of every keyset
    /// that is not in [`last_seen`](Self::last_seen).
    pub restore: RestoreOptions,
    /// [`Restored::as_of`] of the last restore of each keyset: older filters are an error, and a keyset that the mint no longer
    /// lists is a problem.
    pub last_seen: HashMap<KeysetId, FilterDates>,
}

/// What a seed gave at a mint.
#[derive(Debug)]
pub struct RestoredWallet {
    /// Each keyset of the unit, inactive ones too.
    pub keysets: Vec<RestoredKeyset>,
    /// Keysets that could not be read.
    pub problems: Vec<Problem>,
    /// A reason to doubt the number of all notes; usually empty.
    pub warnings: Vec<Warning>,
}

/// What a seed gave for a keyset.
#[derive(Debug)]
pub struct RestoredKeyset {
    /// The keyset.
    pub keyset: MintKeyset,
    /// The notes that are not spent, in the order of their counters.
    pub notes: Vec<Note>,
    /// Notes that may be spent: the mint has no filters, and did not answer about their state. Ask it before they are used.
    pub unchecked: Vec<Note>,
    /// Every counter that was searched, the next counter, and the date; `None` if nothing is known.
    pub restored: Option<Restored>,
    /// Why more may be there. Without problems and [warnings](Restored::warnings), everything is known.
    pub problems: Vec<Problem>,
}

impl RestoredKeyset {
    /// Leaves out notes whose secrets another keyset has.
    fn leave_out(&mut self, secrets: &mut HashSet<Secret>) {
        for notes in [&mut self.notes, &mut self.unchecked] {
            notes.retain(|note| {
                let is_new = secrets.insert(note.secret.clone());
                if !is_new {
                    let counter = note.counter;
                    self.problems.push(Problem::SameSecret { counter });
                }
                is_new
            });
        }
    }
}

/// Why notes of a keyset may be missing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The seed gives no notes of this keyset.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// The mint lists a keyset of an unknown form, whose notes were not looked for.
    #[error("keyset {id:?}: unknown form of an id, or no unit; its notes were not looked for")]
    Keyset {
        /// Its id: at most 80 printable characters.
        id: String,
    },
    /// The mint does not list a keyset of [`WalletOptions::last_seen`], of any unit. Its notes were not looked for.
    #[error("the mint does not list keyset {keyset}; its notes were not looked for")]
    Unlisted {
        /// The keyset.
        keyset: KeysetId,
    },
    /// The restore ended before its end.
    #[error(transparent)]
    Restore(#[from] QueryError),
    /// The keys of a keyset are unknown, or not those of its id, so nothing of it is shown or unblinded.
    #[error("{}no keys of keyset {keyset}: {cause}", match .counter {
        Some(counter) => format!("counter {counter}: "),
        None => String::new(),
    })]
    Keys {
        /// The keyset.
        keyset: KeysetId,
        /// The counter whose signature names it, if that is a keyset of another counter.
        counter: Option<u32>,
        /// Why.
        cause: String,
    },
    /// The mint signed with a keyset of another unit, or one that it does not list.
    #[error(
        "counter {counter}: the mint signed with keyset {keyset}, which is not one of unit {unit:?}"
    )]
    OtherUnit {
        /// The keyset that the signature names.
        keyset: KeysetId,
        /// The counter.
        counter: u32,
        /// The unit of the restore.
        unit: String,
    },
    /// The note of another keyset has the same secret: a mint can choose ids of keysets for which a seed gives the same notes.
    #[error("counter {counter}: another keyset has a note with the same secret")]
    SameSecret {
        /// The counter.
        counter: u32,
    },
    /// A signature gives no note.
    #[error(transparent)]
    Note(#[from] NoteError),
}

/// Why nothing was restored. The mint was shown nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WalletError {
    /// The mint's keysets could not be fetched.
    #[error("could not fetch the mint's keysets: {0}")]
    Fetch(#[from] FetchError),
    /// No keyset is of this unit.
    #[error("the mint has no keyset of unit {unit:?}{}", listed(.keysets))]
    NoKeyset {
        /// The unit.
        unit: String,
        /// The mint's keysets.
        keysets: Vec<MintKeyset>,
    },
}

impl RestoredWallet {
    /// The notes of all keysets that are not spent.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.keysets.iter().flat_map(|keyset| &keyset.notes)
    }

    /// The notes of all keysets that may be spent ([`RestoredKeyset::unchecked`]).
    pub fn unchecked(&self) -> impl Iterator<Item = &Note> {
        self.keysets.iter().flat_map(|keyset| &keyset.unchecked)
    }

    /// The sum of all notes that are not spent, in the unit.
    #[must_use]
    pub fn worth(&self) -> u64 {
        let amounts = self.notes().map(|note| note.amount);
        amounts.fold(0, u64::saturating_add)
    }
}

/// Restores a wallet from its seed: the spendable notes of all keysets of a unit, inactive ones too. Keeps what is known of a
/// keyset, whatever happens to another one.
///
/// ```no_run
/// use nutfilter_wallet::cashu::{Seed, WalletOptions, restore_wallet};
/// use nutfilter_wallet::{MintClient, Policy};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = MintClient::new("https://mint.example", Policy::default())?;
/// let seed: Seed = std::fs::read_to_string("words.txt")?.parse()?;
/// let wallet = restore_wallet(&client, &seed, "sat", &WalletOptions::default())?;
/// for keyset in &wallet.keysets {
///     for problem in &keyset.problems {
///         eprintln!("{problem}");
///     }
/// }
/// println!("{} notes worth {} sat", wallet.notes().count(), wallet.worth());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`WalletError`]. What is wrong with a keyset is one of its problems.
///
/// # Cost
///
/// Four requests per keyset with notes, two per other keyset. See [`SeedPoints`] for a counter's.
pub fn restore_wallet(
    client: &MintClient,
    seed: &Seed,
    unit: &str,
    options: &WalletOptions,
) -> Result<RestoredWallet, WalletError> {
    let end = End::of(options.restore.time_limit);
    let body = client.get_small("/v1/keysets", end)?.body;
    let keysets = MintKeyset::parse(&body).ok_or(FetchError::BadKeysets)?;
    let mut ours: Vec<MintKeyset> = Vec::new();
    for keyset in keysets.iter().filter(|keyset| is_same_unit(&keyset.unit, unit)) {
        if ours.iter().all(|one| one.id != keyset.id) {
            ours.push(keyset.clone());
        }
    }
    if ours.is_empty() {
        return Err(WalletError::NoKeyset { unit: unit.to_owned(), keysets });
    }
    let mut all: Vec<_> =
        ours.into_iter().map(|keyset| Searched::new(client, seed, keyset, options, end)).collect();

    // A valid filter announces those of the other keysets, so all are asked for before anything is shown.
    let is_sign = |one: &Searched| match &one.failed {
        Some(error) => error.has_filters,
        None => one.restore.is_some(),
    };
    let is_seen = !options.last_seen.is_empty() || options.restore.last_seen.is_some();
    let has_filters = is_seen || all.iter().any(is_sign);
    let mut info = None;
    let mut announces_none = || {
        let asked = info.get_or_insert_with(|| client.info_until(end).ok());
        asked.is_some_and(|info| !info.has_filters)
    };
    for one in &mut all {
        let Some(mut error) = one.failed.take() else {
            continue;
        };
        error.has_filters = has_filters;
        match error.allows(&options.restore, &mut announces_none) {
            true => {
                let id = &one.keyset.id;
                let restore = Restore::without_filters(id, &options.restore, client.policy());
                one.restore = Some(restore);
            }
            false => one.problems.push(error.cause.into()),
        }
    }
    let warning = match options.restore.expected {
        Some(expected) => limit(&mut all, expected, client.policy()),
        None => None,
    };
    let info = match all.iter().any(|one| one.restore.as_ref().is_some_and(Restore::wants_info)) {
        true => client.info_until(end).unwrap_or_default(),
        false => MintInfo::default(),
    };
    let (mut keys, mut secrets) = (HashMap::new(), HashSet::new());
    let finish = |one: Searched| {
        let mut restored = one.finish(client, &info, &keysets, &mut keys, end);
        restored.leave_out(&mut secrets);
        restored
    };
    let is_listed = |id: &KeysetId| keysets.iter().any(|one| one.id == *id);
    let unlisted = options.last_seen.keys().filter(|&id| !is_listed(id)).cloned();
    let unlisted = unlisted.map(|keyset| Problem::Unlisted { keyset });
    Ok(RestoredWallet {
        keysets: all.into_iter().map(finish).collect(),
        problems: unread(&body, unit).into_iter().chain(unlisted).collect(),
        warnings: warning.into_iter().collect(),
    })
}

/// Mints write units in several ways.
fn is_same_unit(one: &str, other: &str) -> bool {
    one.trim().eq_ignore_ascii_case(other.trim())
}

/// The keysets of the unit, or of none, that have no id of a known form.
fn unread(body: &[u8], unit: &str) -> Vec<Problem> {
    let list = JsonMembers::parse(body).and_then(|list| list.list("keysets"));
    let mut problems = Vec::new();
    for one in list.unwrap_or_default() {
        let one = JsonMembers::parse(one.get().as_bytes()).ok();
        let text = |name| one.as_ref().and_then(|one| one.text(name).ok());
        let (id, of) = (text("id").unwrap_or_default(), text("unit"));
        let is_read = of.is_some() && KeysetId::parse(&id).is_ok();
        if !is_read && of.is_none_or(|of| is_same_unit(&of, unit)) {
            let printable = id.chars().filter(char::is_ascii_graphic).take(80);
            problems.push(Problem::Keyset { id: printable.collect() });
        }
    }
    problems
}

/// Shows nothing if far more notes are live than expected; warns of far fewer.
fn limit(all: &mut [Searched], expected: u64, policy: &Policy) -> Option<Warning> {
    let restores = all.iter().filter_map(|one| one.restore.as_ref());
    let found: Vec<_> = restores.map(Restore::matches).collect();
    let [matches, lookups] = [0, 1].map(|at| found.iter().map(|one| one[at]).sum());
    // Without filters there is no M, and everything is shown.
    let m = found.iter().map(|one| one[2]).filter(|&m| m > 0).min();
    let m = m.unwrap_or(Params::CASHU.m());
    let limit = match_limit(lookups, expected, m, policy.max_match_factor);
    if matches > limit {
        for one in all.iter_mut().filter(|one| one.restore.is_some()) {
            let error = CheckError::TooManyMatches { matches, lookups, expected, limit };
            (one.restore, one.problems) = (None, vec![QueryError::from(error).into()]);
        }
    }
    let is_few = matches < expected.min(lookups).div_ceil(2);
    is_few.then_some(Warning::FewMatches { matches, lookups, expected })
}

/// A keyset between the look-ups and the questions.
struct Searched {
    keyset: MintKeyset,
    points: Option<SeedPoints>,
    restore: Option<Restore>,
    /// Why there is no restore.
    failed: Option<SearchError>,
    problems: Vec<Problem>,
}

impl Searched {
    /// Fetches the filters, and looks all counters up.
    fn new(
        client: &MintClient,
        seed: &Seed,
        keyset: MintKeyset,
        options: &WalletOptions,
        end: End,
    ) -> Self {
        let mut searched =
            Self { keyset, points: None, restore: None, failed: None, problems: Vec::new() };
        let id = &searched.keyset.id;
        let mut points = match SeedPoints::new(seed, id) {
            Ok(points) => points,
            Err(error) => {
                searched.problems.push(error.into());
                return searched;
            }
        };
        let options = RestoreOptions {
            last_seen: options.last_seen.get(id).copied().or(options.restore.last_seen),
            // Of all keysets together.
            expected: None,
            ..options.restore.clone()
        };
        match client.search(id, &mut points, &options, end) {
            Ok(restore) => searched.restore = Some(restore),
            Err(error) => searched.failed = Some(error),
        }
        searched.points = Some(points);
        searched
    }

    /// Asks the mint for the signatures, and unblinds them.
    fn finish(
        self,
        client: &MintClient,
        info: &MintInfo,
        keysets: &[MintKeyset],
        keys: &mut HashMap<KeysetId, Result<Keys, String>>,
        end: End,
    ) -> RestoredKeyset {
        let mut keys_of = |keyset: &MintKeyset| {
            let fetch = || fetch_keys(client, keyset, end);
            keys.entry(keyset.id.clone()).or_insert_with(fetch).clone()
        };
        let mut restored = RestoredKeyset {
            keyset: self.keyset,
            notes: Vec::new(),
            unchecked: Vec::new(),
            restored: None,
            problems: self.problems,
        };
        let (Some(mut restore), Some(mut points)) = (self.restore, self.points) else {
            return restored;
        };
        if restore.wants_info() {
            restore.set_info(info);
            restore.set_keysets(std::slice::from_ref(&restored.keyset));
            if !restore.is_expired
                && let Err(cause) = keys_of(&restored.keyset)
            {
                let keyset = restored.keyset.id.clone();
                restored.problems.push(Problem::Keys { keyset, counter: None, cause });
                restored.restored = restore.source().is_some().then(|| restore.so_far());
                return restored;
            }
        }
        let has_filters = restore.source().is_some();
        let result = client.converse(&mut restore, &mut points, end);
        let is_whole = result.map_err(|cause| restored.problems.push(cause.into())).is_ok();
        if (has_filters || !is_whole)
            && restore.cut()
            && let Err(cause) = client.converse(&mut restore, &mut points, end)
            && is_whole
        {
            restored.problems.push(cause.into());
        }
        // What is not answered stays unchecked, with a warning, unless a filter says that it is not spent.
        let mut found = restore.so_far();
        if has_filters {
            found.trust();
        }
        for (counter, signature, is_live) in found.signed().filter(|(_, of, _)| of.amount > 0) {
            let (keyset, unit) = (signature.keyset.clone(), restored.keyset.unit.clone());
            let Some(named) =
                keysets.iter().find(|one| one.id == keyset && is_same_unit(&one.unit, &unit))
            else {
                restored.problems.push(Problem::OtherUnit { keyset, counter, unit });
                continue;
            };
            match keys_of(named) {
                Ok(keys) => match Note::unblind(&points, counter, signature, &keys) {
                    Ok(note) if is_live => restored.notes.push(note),
                    Ok(note) => restored.unchecked.push(note),
                    Err(error) => restored.problems.push(error.into()),
                },
                Err(cause) => {
                    let counter = Some(counter);
                    restored.problems.push(Problem::Keys { keyset, counter, cause });
                }
            }
        }
        restored.restored = Some(found);
        restored
    }
}

/// The public keys of a keyset (NUT-01), if its id is theirs (NUT-02): a mint could give each wallet other keys, and know it by
/// its notes.
fn fetch_keys(client: &MintClient, keyset: &MintKeyset, end: End) -> Result<Keys, String> {
    let id = keyset.id.as_str();
    // nutshell takes ids in base64 in their URL-safe form only.
    let path = format!("/v1/keys/{}", id.replace('+', "-").replace('/', "_"));
    let reply = client.get_small(&path, end).map_err(|error| error.to_string())?;
    let all = JsonMembers::parse(&reply.body).and_then(|answer| answer.list("keysets"));
    let keys_of = |one: &RawValue| {
        let one = JsonMembers::parse(one.get().as_bytes()).ok()?;
        let is_ours = KeysetId::parse(&one.text("id").ok()?).is_ok_and(|id| id == keyset.id);
        one.read::<Keys>("keys").ok()?.filter(|_| is_ours)
    };
    let keys = all.unwrap_or_default().into_iter().find_map(keys_of);
    let keys = keys.ok_or("the mint gives none that are valid")?;
    let computed = match id.len() {
        12 => {
            let all: String = keys.values().map(PublicKey::to_hex).collect();
            STANDARD.encode(sha256::Hash::hash(all.as_bytes()))[..12].to_owned()
        }
        16 => Id::v1_from_keys(&keys).to_string(),
        _ => {
            let unit = keyset.unit.parse().map_err(|_| "the unit is invalid")?;
            Id::v2_from_data(&keys, &unit, keyset.input_fee_ppk, keyset.final_expiry).to_string()
        }
    };
    match computed.parse() == Ok(keyset.id.clone()) {
        true => Ok(keys),
        false => Err(format!("those that the mint gives do not match its id, but {computed}")),
    }
}
