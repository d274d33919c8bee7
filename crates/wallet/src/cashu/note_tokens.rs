//! From a mint's signature to a note, and from notes to tokens.

use std::collections::BTreeMap;
use std::str::FromStr;

use bitcoin::base64::Engine;
use bitcoin::base64::engine::general_purpose::URL_SAFE;
use cashu::dhke::unblind_message;
use cashu::nuts::nut00::token::{TokenV4, TokenV4Token};
use cashu::secret::Secret;
use cashu::{
    BlindSignatureDleq, CurrencyUnit, Id, Keys, MintUrl, Proof, ProofDleq, PublicKey, SecretKey,
};
use nutfilter_cashu::KeysetId;
use serde_json::json;
use thiserror::Error;

use super::seed_points::{DeriveError, SeedPoints};
use crate::signature::BlindSignature;

/// Notes in one token. Mints take at most 1,000 at a time, and wallets' text fields and QR codes far fewer.
const NOTES_PER_TOKEN: usize = 100;

/// A note that the wallet can spend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The value, in the keyset's unit.
    pub amount: u64,
    /// The keyset of the signature, in the mint's spelling. nutshell gave keysets in base64 another id, so it may not be
    /// the one that the secret was derived for.
    pub keyset: KeysetId,
    /// The counter of the secret.
    pub counter: u32,
    /// The secret.
    pub secret: Secret,
    /// The unblinded signature.
    pub c: PublicKey,
    /// The proof that the mint signed with its published key, which was verified. Older signatures have none: only a swap
    /// shows whether those are valid.
    pub dleq: Option<ProofDleq>,
}

/// Why a signature gives no note.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NoteError {
    /// The seed gives no secret.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// The keyset has no key for the amount.
    #[error("counter {counter}: keyset {keyset} has no key for {amount}")]
    NoKey {
        /// The counter.
        counter: u32,
        /// The keyset that the signature names.
        keyset: KeysetId,
        /// The amount that it names.
        amount: u64,
    },
    /// The mint did not sign with its published key.
    #[error("counter {counter}: the signature of {amount} has an invalid DLEQ proof")]
    Dleq {
        /// The counter.
        counter: u32,
        /// The amount that the signature names.
        amount: u64,
    },
}

impl Note {
    /// Unblinds and verifies the signature on the message of a counter.
    ///
    /// # Errors
    ///
    /// [`NoteError`].
    pub fn unblind(
        points: &SeedPoints,
        counter: u32,
        signature: &BlindSignature,
        keys: &Keys,
    ) -> Result<Self, NoteError> {
        let amount = signature.amount;
        let key = keys.amount_key(amount.into()).ok_or_else(|| NoteError::NoKey {
            counter,
            keyset: signature.keyset.clone(),
            amount,
        })?;
        let invalid = NoteError::Dleq { counter, amount };
        let (secret, r) = points.note(counter)?;
        let Ok(c_) = PublicKey::from_slice(&signature.c) else {
            return Err(invalid);
        };
        let Ok(c) = unblind_message(&c_, &r, &key) else {
            return Err(invalid);
        };
        let dleq = match signature.dleq {
            None => None,
            Some(given) => {
                let numbers = [given.e, given.s].map(|number| SecretKey::from_slice(&number));
                let [Ok(e), Ok(s)] = numbers else {
                    return Err(invalid);
                };
                let signed = cashu::BlindSignature {
                    amount: amount.into(),
                    keyset_id: anything(),
                    c: c_,
                    dleq: Some(BlindSignatureDleq { e: e.clone(), s: s.clone() }),
                };
                let is_valid = signed.verify_dleq(key, points.message(counter)?);
                is_valid.map_err(|_| invalid)?;
                Some(ProofDleq::new(e, s, r))
            }
        };
        Ok(Self { amount, keyset: signature.keyset.clone(), counter, secret, c, dleq })
    }

    /// The note as the crate `cashu` has it; `None` if its keyset's id is in base64, which that crate does not have.
    #[must_use]
    pub fn proof(&self) -> Option<Proof> {
        let id = self.keyset.as_str().parse().ok()?;
        let proof = Proof::new(self.amount.into(), id, self.secret.clone(), self.c);
        let dleq = self.dleq.clone();
        Some(Proof { dleq, ..proof })
    }
}

/// The id that a check of a DLEQ proof does not read.
fn anything() -> Id {
    Id::from_bytes(&[0; 8]).expect("version 00 and 7 bytes")
}

/// Notes as text that every wallet reads: one token per 100 notes, with numbers as amounts. They are `cashuB`; notes of
/// keysets whose id is in base64 are `cashuA`, because `cashuB` has no form for them.
///
/// # Errors
///
/// `mint` is not a URL.
///
/// ```no_run
/// # use nutfilter_wallet::cashu::{RestoredWallet, tokens};
/// # fn print(restored: &RestoredWallet) -> Result<(), cashu::mint_url::Error> {
/// for token in tokens("https://mint.example", "sat", restored.notes())? {
///     println!("{token}");
/// }
/// # Ok(())
/// # }
/// ```
pub fn tokens<'a>(
    mint: &str,
    unit: &str,
    notes: impl IntoIterator<Item = &'a Note>,
) -> Result<Vec<String>, cashu::mint_url::Error> {
    let mint = MintUrl::from_str(mint)?;
    let unit: CurrencyUnit = unit.parse().unwrap_or_else(|_| CurrencyUnit::custom(unit));
    let (mut proofs, mut legacy) = (Vec::new(), Vec::new());
    for note in notes {
        match note.proof() {
            Some(proof) => proofs.push(proof),
            None => legacy.push(note),
        }
    }
    let new = proofs.chunks(NOTES_PER_TOKEN).map(|proofs| {
        let mut groups = BTreeMap::<_, Vec<_>>::new();
        for proof in proofs {
            let group = groups.entry(proof.keyset_id).or_default();
            group.push(proof.clone());
        }
        let groups = groups.into_iter();
        TokenV4 {
            mint_url: mint.clone(),
            unit: unit.clone(),
            memo: None,
            token: groups.map(|(id, proofs)| TokenV4Token::new(id, proofs)).collect(),
        }
        .to_string()
    });
    let old = legacy.chunks(NOTES_PER_TOKEN).map(|notes| {
        let proofs: Vec<_> = notes.iter().map(as_json).collect();
        let token = json!({ "token": [{ "mint": mint, "proofs": proofs }], "unit": unit });
        format!("cashuA{}", URL_SAFE.encode(token.to_string()))
    });
    Ok(new.chain(old).collect())
}

/// A note in a `cashuA` token.
fn as_json(note: &&Note) -> serde_json::Value {
    let mut proof = json!({
        "id": note.keyset.as_str(),
        "amount": note.amount,
        "secret": note.secret,
        "C": note.c,
    });
    if let Some(dleq) = &note.dleq {
        proof["dleq"] = json!(dleq);
    }
    proof
}
