//! Keysets as the rows of a mint's table give them.

use std::collections::BTreeMap;

use super::{KeysetInfo, Keysets};
use crate::KeysetId;

/// What was found so far.
#[derive(Default)]
pub(super) struct Listing {
    found: BTreeMap<KeysetId, KeysetInfo>,
    unservable: Vec<String>,
}

/// What a row says of a keyset beside its id.
pub(super) struct Description {
    pub(super) unit: Option<String>,
    pub(super) active: bool,
    /// In thousandths of the unit; one that is null or negative is none.
    pub(super) input_fee_ppk: u64,
}

impl Listing {
    /// Takes a row with this id. Where several spell the same id the first stands for all.
    pub(super) fn add(&mut self, id: &str, description: Description) {
        let Ok(id) = KeysetId::parse(id) else {
            return self.add_unservable(id);
        };
        let Description {
            unit,
            active,
            input_fee_ppk,
        } = description;
        self.found.entry(id.clone()).or_insert(KeysetInfo {
            id,
            unit,
            active,
            input_fee_ppk,
        });
    }

    /// Takes a row that has this in place of an id.
    pub(super) fn add_unservable(&mut self, id: &str) {
        if !self.unservable.iter().any(|known| known == id) {
            self.unservable.push(id.to_owned());
        }
    }

    pub(super) fn finish(self) -> Keysets {
        Keysets {
            keysets: self.found.into_values().collect(),
            unservable: self.unservable,
        }
    }
}
