//! Reads the members of JSON objects that a mint sends.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;

use nutfilter_cashu::{KeysetId, integer_of};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::answer_fault::AnswerFault;
use crate::error::{MintKeyset, printable};

/// The members of an object in an answer. Of several of one name the last counts, as in JavaScript. No error quotes the
/// text, because it may hold a point.
pub(crate) struct JsonMembers<'a>(HashMap<JsonText, &'a RawValue>);

/// JSON may have half of a surrogate pair, and JavaScript keeps it. Here it is replaced: elsewhere than in a name or text
/// that counts it is harmless.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct JsonText(pub(crate) String);

impl Borrow<str> for JsonText {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As text it would be an error.
        deserializer.deserialize_bytes(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = JsonText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_bytes<E>(self, text: &[u8]) -> Result<JsonText, E> {
        Ok(JsonText(String::from_utf8_lossy(text).into_owned()))
    }
}

impl<'a> JsonMembers<'a> {
    pub(crate) fn parse(json: &'a [u8]) -> Result<Self, AnswerFault> {
        // All of it must be UTF-8, as in JavaScript.
        let json = str::from_utf8(json).map_err(|_| form("JSON"))?;
        serde_json::from_str(json).map(Self).map_err(|_| form("JSON"))
    }

    pub(crate) fn list(&self, name: &'static str) -> Result<Vec<&'a RawValue>, AnswerFault> {
        self.read(name)?.ok_or_else(|| form(name))
    }

    pub(crate) fn object(&self, name: &'static str) -> Result<Option<Self>, AnswerFault> {
        Ok(self.read(name)?.map(Self))
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<String, AnswerFault> {
        self.read(name)?.map(|JsonText(text)| text).ok_or_else(|| form(name))
    }

    pub(crate) fn integer(&self, name: &'static str) -> Result<u64, AnswerFault> {
        let value = self.0.get(name).and_then(|value| integer_of(value.get()));
        // JavaScript does not have larger ones exactly.
        value.filter(|&value| value < 1 << 53).ok_or_else(|| form(name))
    }

    /// An integer that may have all of 64 bits.
    pub(crate) fn amount(&self) -> Result<u64, AnswerFault> {
        let value = self.0.get("amount").and_then(|value| integer_of(value.get()));
        value.ok_or_else(|| form("amount"))
    }

    /// `None` for null, or without the member.
    pub(crate) fn read<T: Deserialize<'a>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, AnswerFault> {
        let Some(&value) = self.0.get(name) else {
            return Ok(None);
        };
        serde_json::from_str(value.get()).map_err(|_| form(name))
    }
}

fn form(member: &'static str) -> AnswerFault {
    AnswerFault::Form { member }
}

pub(crate) fn from_hex(text: &str, field: &'static str) -> Result<Vec<u8>, AnswerFault> {
    // The decoder would ignore a prefix.
    let has_prefix = text.starts_with("0x") || text.starts_with("0X");
    let digits = Some(text).filter(|_| !has_prefix);
    let decoded = digits.and_then(|digits| const_hex::decode(digits).ok());
    decoded.ok_or(AnswerFault::Hex { field })
}

impl MintKeyset {
    /// Those of a body of `/v1/keysets` that have a valid id; `None` if it has no list of keysets.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Vec<Self>> {
        let list = JsonMembers::parse(body).and_then(|list| list.list("keysets"));
        let keyset = |keyset: &RawValue| {
            let keyset = JsonMembers::parse(keyset.get().as_bytes()).ok()?;
            Some(Self {
                id: KeysetId::parse(&keyset.text("id").ok()?).ok()?,
                unit: printable(&keyset.text("unit").ok()?),
                active: keyset.read("active").is_ok_and(|active| active == Some(true)),
                final_expiry: keyset.integer("final_expiry").ok().filter(|&end| end > 0),
                input_fee_ppk: keyset.integer("input_fee_ppk").unwrap_or(0),
            })
        };
        Some(list.ok()?.into_iter().filter_map(keyset).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_no_prefix_and_whole_bytes() {
        assert_eq!(from_hex("00fF", "Y").ok(), Some(vec![0, 255]));
        for text in ["0x00ff", "0X00", "0", "0g", "00 "] {
            let refused = from_hex(text, "Y");
            assert!(matches!(refused, Err(AnswerFault::Hex { field: "Y" })), "{text}");
        }
    }
}
