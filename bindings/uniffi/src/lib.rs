//! Filters, watch lists, and a wallet's rules towards a mint, for Swift and Kotlin.
//!
//! Nothing here uses the network: the app sends the requests with its own client, and hands the answers over. Items and
//! points are bytes, never hexadecimal text. An error never means "absent" or "unspent".

#![forbid(unsafe_code)]

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nutfilter::bip158::{self, Scratch};
use nutfilter::{Params, SipHash, SortedHashes};
use nutfilter_wallet::{self as wallet, Answer, FetchContext, KeysetId, NoteKind, Policy};

uniffi::setup_scaffolding!("nutfilter");

type Items = Vec<Vec<u8>>;

/// What failed; the message has the details.
#[derive(Debug, thiserror::Error, uniffi::Error)]
#[uniffi(flat_error)]
pub enum NutfilterError {
    /// An argument is outside its limits.
    #[error("{0}")]
    Argument(String),
    /// A filter or a response is invalid, or beyond a limit.
    #[error("{0}")]
    Rejected(String),
    /// The filter's answers must not be used: it is older than one seen before, matches too much, or has another hash.
    #[error("{0}")]
    Implausible(String),
    /// The mint's answers about matches are missing or inconsistent, or the matches may not be revealed.
    #[error("{0}")]
    Query(String),
}

type Result<T> = std::result::Result<T, NutfilterError>;

macro_rules! error_from {
    ($($error:ty => $kind:ident),* $(,)?) => {$(
        impl From<$error> for NutfilterError {
            fn from(error: $error) -> Self {
                Self::$kind(error.to_string())
            }
        }
    )*};
}

error_from!(
    nutfilter::ParamsError => Argument,
    nutfilter::BuildError => Argument,
    wallet::KeysetIdError => Argument,
    nutfilter::DecodeError => Rejected,
    wallet::RejectReason => Rejected,
    wallet::CheckError => Implausible,
    wallet::QueryError => Query,
);

/// A validated filter of the hash `nut25`.
#[derive(uniffi::Object)]
pub struct Filter(nutfilter::Filter);

#[uniffi::export]
impl Filter {
    /// Validates every bit of a filter of `n` items.
    #[uniffi::constructor(default(p = 19, m = 784931))]
    fn parse(content: Vec<u8>, n: u32, p: u32, m: u64) -> Result<Self> {
        let params = Params::new(p, m)?;
        Ok(Self(nutfilter::Filter::parse(
            content,
            u64::from(n),
            params,
        )?))
    }

    /// Builds a filter. Duplicate items are kept and counted.
    #[uniffi::constructor(default(p = 19, m = 784931))]
    fn build(items: Items, p: u32, m: u64) -> Result<Self> {
        let params = Params::new(p, m)?;
        Ok(Self(SortedHashes::from_items(&items).encode(params)?))
    }

    /// For each item, whether it may be in the set. `false` is certain.
    fn matches(&self, items: Items) -> Vec<bool> {
        self.0.matches(&items)
    }

    fn content(&self) -> Vec<u8> {
        self.0.bytes().to_vec()
    }

    fn n(&self) -> u32 {
        self.0.n()
    }
}

/// The scripts of a Bitcoin wallet, matched against BIP158 filters.
#[derive(uniffi::Object)]
pub struct Watchlist(Mutex<(bip158::Watchlist, Scratch)>);

#[uniffi::export]
impl Watchlist {
    #[uniffi::constructor]
    fn new(scripts: Items) -> Self {
        let mut list = bip158::Watchlist::new();
        for script in scripts {
            list.insert(script);
        }
        Self(Mutex::new((list, Scratch::new())))
    }

    /// Adds a script. Returns whether it is new.
    fn insert(&self, script: Vec<u8>) -> bool {
        locked(&self.0).0.insert(script)
    }

    /// Whether any script may be in the serialised filter of a block: then download the block. The hash has 32 bytes
    /// in internal order, the reverse of what explorers show.
    fn match_any(&self, block_hash: Vec<u8>, filter: Vec<u8>) -> Result<bool> {
        let key = key_of(&block_hash)?;
        let (list, scratch) = &mut *locked(&self.0);
        Ok(list.match_any(scratch, key, &filter)?)
    }

    /// The scripts that may be in the filter.
    fn matches(&self, block_hash: Vec<u8>, filter: Vec<u8>) -> Result<Items> {
        let key = key_of(&block_hash)?;
        let (list, scratch) = &mut *locked(&self.0);
        let found = list.matches(scratch, key, &filter)?;
        Ok(found.into_iter().map(<[u8]>::to_vec).collect())
    }
}

fn key_of(block_hash: &[u8]) -> Result<SipHash> {
    let hash: [u8; 32] = block_hash.try_into().map_err(|_| {
        let bytes = block_hash.len();
        NutfilterError::Argument(format!("block hash has {bytes} bytes instead of 32"))
    })?;
    Ok(hash.into())
}

/// The limits on a mint that is not trusted.
#[derive(Clone, uniffi::Record)]
pub struct Limits {
    /// Largest body of a filter, in bytes.
    #[uniffi(default = 67108864)]
    pub max_bytes: u64,
    /// Smallest accepted `M`: one look-up in `min_m` matches by chance.
    #[uniffi(default = 784931)]
    pub min_m: u64,
    /// Points in each request about matches. Many mints reject more than 1,000.
    #[uniffi(default = 64)]
    pub batch: u32,
    /// Most matches revealed to the mint in one conversation.
    #[uniffi(default = 1000)]
    pub max_revealed: u64,
}

impl Limits {
    fn policy(&self) -> Result<Policy> {
        let batch = NonZeroUsize::new(self.batch as usize);
        Ok(Policy {
            max_bytes: self.max_bytes,
            min_m: self.min_m,
            batch: batch.ok_or_else(|| NutfilterError::Argument("batch is 0".to_owned()))?,
            max_revealed: self.max_revealed,
            ..Policy::default()
        })
    }
}

/// The path of a keyset's filter, relative to the mint's URL.
#[uniffi::export]
fn filter_path(keyset: String, issued: bool) -> Result<String> {
    let kind = if issued {
        NoteKind::Issued
    } else {
        NoteKind::Spent
    };
    Ok(wallet::endpoint_path(&keyset.parse()?, kind))
}

/// Checks a response's head, before its body is read: stop reading `max_bytes` later, too.
#[uniffi::export]
fn admit_head(
    limits: Limits,
    status: u16,
    content_length: Option<u64>,
    content_encodings: Vec<String>,
) -> Result<()> {
    let encodings = content_encodings.iter().map(String::as_str);
    Ok(limits
        .policy()?
        .admit_head(status, content_length, encodings)?)
}

/// A filter from a mint, validated.
#[derive(uniffi::Object)]
pub struct MintFilter {
    filter: wallet::MintFilter,
    policy: Policy,
}

/// The answers of a look-up.
#[derive(uniffi::Record)]
pub struct Checked {
    /// For each item, whether it may be in the set.
    pub maybe: Vec<bool>,
    /// Reasons to doubt them, for the user; usually empty.
    pub warnings: Vec<String>,
}

#[uniffi::export]
impl MintFilter {
    /// Validates a mint's response. `last_seen` is the newest [`as_of`](Self::as_of) of this mint, keyset and kind: of
    /// an older filter, look-ups fail.
    #[uniffi::constructor]
    fn accept(limits: Limits, status: u16, body: Vec<u8>, last_seen: Option<u64>) -> Result<Self> {
        let policy = limits.policy()?;
        let filter = policy.accept(status, body, FetchContext::now(last_seen))?;
        Ok(Self { filter, policy })
    }

    /// The filter's time in Unix seconds. Store it.
    fn as_of(&self) -> u64 {
        self.filter.as_of()
    }

    fn n(&self) -> u32 {
        self.filter.n()
    }

    /// Looks up items without the network. `expected` of them are in the set by the wallet's records, if known.
    fn check(&self, items: Items, expected: Option<u64>) -> Result<Checked> {
        let matches = self.filter.matches(&items, expected)?;
        let maybe = matches
            .answers()
            .map(|answer| answer == Answer::MaybePresent);
        Ok(Checked {
            maybe: maybe.collect(),
            warnings: matches.warnings().iter().map(ToString::to_string).collect(),
        })
    }

    /// Looks up items in a filter of spent notes, and prepares the requests about those that match, among decoys.
    fn confirmation(&self, items: Items, expected: Option<u64>) -> Result<Arc<Confirmation>> {
        let matches = self.filter.matches(&items, expected)?;
        let made = wallet::Confirmation::new(&matches, &self.policy)?;
        Ok(Arc::new(Confirmation(Mutex::new(Some(made)))))
    }

    /// Looks up blinded messages in a filter of issued notes, and prepares the requests for the signatures on those
    /// that match.
    fn restoration(&self, items: Items, keyset: String) -> Result<Arc<Restoration>> {
        let keyset: KeysetId = keyset.parse()?;
        let matches = self.filter.matches(&items, None)?;
        let made = wallet::Restoration::new(&matches, &keyset, &self.policy)?;
        Ok(Arc::new(Restoration(Mutex::new(Some(made)))))
    }
}

/// A conversation about spent notes (NUT-07): POST each `request` to `path`, hand over its answer, then `finish`.
#[derive(uniffi::Object)]
pub struct Confirmation(Mutex<Option<wallet::Confirmation>>);

/// The state of a note by the filter and by the mint.
#[derive(uniffi::Enum, PartialEq, Eq)]
pub enum NoteState {
    /// By the filter; the mint was not asked.
    Absent,
    Unspent,
    Pending,
    Spent,
}

#[uniffi::export]
impl Confirmation {
    /// Relative to the mint's URL.
    fn path(&self) -> String {
        wallet::Confirmation::PATH.to_owned()
    }

    /// The next body; the same until it is answered. `null` at the end, and after a rejected answer.
    fn request(&self) -> Option<String> {
        locked(&self.0).as_ref()?.request()
    }

    fn answer(&self, status: u16, body: Vec<u8>) -> Result<()> {
        Ok(running(locked(&self.0).as_mut())?.answer(status, &body)?)
    }

    /// The state of each item, in order. Ends the conversation.
    fn finish(&self) -> Result<Vec<NoteState>> {
        let states = running(locked(&self.0).take())?.finish()?;
        let state = |state| match state {
            wallet::Confirmed::Absent { .. } => NoteState::Absent,
            wallet::Confirmed::Unspent => NoteState::Unspent,
            wallet::Confirmed::Pending => NoteState::Pending,
            wallet::Confirmed::Spent => NoteState::Spent,
        };
        Ok(states.into_iter().map(state).collect())
    }
}

/// A conversation about signatures (NUT-09), used as [`Confirmation`].
#[derive(uniffi::Object)]
pub struct Restoration(Mutex<Option<wallet::Restoration>>);

/// A mint's signature on a blinded message; verify it after unblinding.
#[derive(uniffi::Record)]
pub struct Signature {
    pub amount: u64,
    pub keyset: String,
    /// `C_`, a compressed point.
    pub c: Vec<u8>,
    /// The NUT-12 proof, `e` and `s`, if there is one.
    pub dleq: Option<Vec<Vec<u8>>>,
}

#[uniffi::export]
impl Restoration {
    /// Relative to the mint's URL.
    fn path(&self) -> String {
        wallet::Restoration::PATH.to_owned()
    }

    /// The next body; the same until it is answered. `null` at the end, and after a rejected answer.
    fn request(&self) -> Option<String> {
        locked(&self.0).as_ref()?.request()
    }

    fn answer(&self, status: u16, body: Vec<u8>) -> Result<()> {
        Ok(running(locked(&self.0).as_mut())?.answer(status, &body)?)
    }

    /// For each message, the signature, or `null` if the mint never signed it. Ends the conversation.
    fn finish(&self) -> Result<Vec<Option<Signature>>> {
        let restored = running(locked(&self.0).take())?.finish()?;
        let signature = |restored| match restored {
            wallet::Restored::Signed(found) => Some(Signature {
                amount: found.amount,
                keyset: found.keyset.to_string(),
                c: found.c,
                dleq: found
                    .dleq
                    .map(|dleq| vec![dleq.e.to_vec(), dleq.s.to_vec()]),
            }),
            wallet::Restored::Absent { .. } | wallet::Restored::Unsigned => None,
        };
        Ok(restored.into_iter().map(signature).collect())
    }
}

fn running<T>(conversation: Option<T>) -> Result<T> {
    conversation.ok_or_else(|| NutfilterError::Query("the conversation has ended".to_owned()))
}

/// A panic cannot leave the value half changed, so poison is ignored.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
