//! Collects keysets from the rows of a mint's table.

use std::collections::BTreeMap;

use super::{KeysetInfo, Keysets};
use crate::KeysetId;

/// The keysets found so far.
#[derive(Default)]
pub(super) struct Listing {
    found: BTreeMap<KeysetId, KeysetInfo>,
    unservable: Vec<String>,
}

/// The columns of a keyset's row, except the id.
pub(super) struct Description {
    pub(super) unit: Option<String>,
    pub(super) active: bool,
    /// In thousandths of the unit; 0 if the column is null or negative.
    pub(super) input_fee_ppk: u64,
}

impl Listing {
    /// Adds a row with this id. If several rows spell the same id, the first one is used.
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

    /// Adds a row with an invalid id.
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
