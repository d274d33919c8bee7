//! A mint's signature on a blinded message, as `/v1/restore` returns it (NUT-09).

use std::collections::HashSet;

use nutfilter_cashu::{KeysetId, PointKind};
use serde::Serialize;

use crate::answer_fault::AnswerFault;
use crate::batches::{AskedPoint, Said};
use crate::json_members::{JsonMembers, from_hex};

/// A mint's signature on a blinded message, as sent by the mint. The curve has been checked. The signature itself is not
/// verified: the wallet verifies it after unblinding, or with its DLEQ proof.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlindSignature {
    /// The value of the note, in the keyset's unit. 0 for blank outputs that got nothing: skip them.
    pub amount: u64,
    /// The keyset, in the mint's spelling. It may be another one than the wallet asked for: use its keys and its unit.
    pub keyset: KeysetId,
    /// `C_`, a compressed point.
    pub c: Vec<u8>,
    /// The NUT-12 proof that the mint used its published key. Older signatures have none, and those of `02` keysets need
    /// none: the wallet verifies the unblinded signature by a pairing.
    pub dleq: Option<Dleq>,
}

/// The two numbers of a NUT-12 proof, big-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dleq {
    /// The challenge.
    pub e: [u8; 32],
    /// The response.
    pub s: [u8; 32],
}

/// The request about these messages.
pub(crate) fn body(asked: &[AskedPoint], keyset: &KeysetId) -> String {
    #[derive(Serialize)]
    struct Output<'a> {
        // A wallet that has lost everything does not know the amount; mints ignore it.
        amount: u64,
        id: &'a str,
        #[serde(rename = "B_")]
        blinded: String,
    }
    let output = |asked: &AskedPoint| Output {
        amount: 0,
        id: keyset.as_str(),
        blinded: const_hex::encode(&asked.point),
    };
    let outputs: Vec<_> = asked.iter().map(output).collect();
    serde_json::json!({ "outputs": outputs }).to_string()
}

/// The signature on each message of the request; `None` for those that a faultless answer leaves out: the mint never signed
/// them.
pub(crate) fn read(
    asked: &[AskedPoint],
    curve: PointKind,
    body: &[u8],
) -> Result<Said<Option<BlindSignature>>, AnswerFault> {
    let answer = JsonMembers::parse(body)?;
    let (outputs, signatures) = (answer.list("outputs")?, answer.list("signatures")?);
    if outputs.len() != signatures.len() {
        let (outputs, signatures) = (outputs.len(), signatures.len());
        return Err(AnswerFault::Unpaired { outputs, signatures });
    }
    let pairs = outputs.iter().zip(&signatures);
    let pairs = pairs.map(|(output, signature)| {
        // Some mints repeat amount and keyset in the output; those of the signature count.
        let output = JsonMembers::parse(output.get().as_bytes())?;
        let blinded = from_hex(&output.text("B_")?, "B_")?;
        let signature = checked(&JsonMembers::parse(signature.get().as_bytes())?, curve)?;
        Ok((blinded, Some(signature), true))
    });
    let mut said = Said::of(asked, pairs);
    let mut different = HashSet::new();
    let mut all = said.found.iter().filter_map(|(_, signature, _)| signature.as_ref());
    let equal = !all.all(|signature| different.insert(signature.c.clone()));
    if said.fault.is_none() {
        said.found.extend(said.left_out.drain(..).map(|place| (place, None, false)));
    }
    if equal {
        said.fault.get_or_insert(AnswerFault::EqualSignatures);
    }
    Ok(said)
}

fn checked(signature: &JsonMembers<'_>, curve: PointKind) -> Result<BlindSignature, AnswerFault> {
    let (amount, id) = (signature.amount()?, signature.text("id")?);
    let (c, dleq) = (signature.text("C_")?, signature.object("dleq")?);
    let numbers = dleq.map(|dleq| Ok((dleq.text("e")?, dleq.text("s")?)));
    let numbers = numbers.transpose()?;
    let keyset = KeysetId::parse(&id).ok();
    let keyset = keyset.filter(|keyset| keyset.point_kind() == curve);
    let keyset = keyset.ok_or(AnswerFault::OtherKeyset)?;
    let c = from_hex(&c, "C_")?;
    if PointKind::on_curve(&c) != Some(curve) {
        return Err(AnswerFault::Hex { field: "C_" });
    }
    let number = |text: &str| {
        let number = from_hex(text, "dleq")?.try_into();
        number.map_err(|_| AnswerFault::Hex { field: "dleq" })
    };
    // Where signatures have no proof, what a mint sends in its place means nothing.
    let dleq = match numbers.filter(|_| curve.has_dleq()) {
        Some((e, s)) => Some(Dleq { e: number(&e)?, s: number(&s)? }),
        None => None,
    };
    Ok(BlindSignature { amount, keyset, c, dleq })
}
