//! [`Profile`]: the hash functions that Python can name.

use std::num::NonZeroUsize;

use nutfilter::{AnyHash, ItemHash, SipHash};
use pyo3::prelude::*;

use crate::errors;

/// A hash function with its name, chosen at run time.
///
/// The library's types have the hash function as a type parameter. The bindings hash by themselves and use these
/// types for hashes and values only, always as those of [`Nut25`](nutfilter::Nut25).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    hash: AnyHash,
    key: Option<[u8; 16]>,
}

impl Profile {
    pub(crate) fn parse(name: &str, key: Option<&[u8]>) -> PyResult<Self> {
        match (name, key) {
            ("nut25", None) => Ok(Self { hash: AnyHash::Nut25, key: None }),
            ("nut23", None) => Ok(Self { hash: AnyHash::Nut23, key: None }),
            ("siphash", Some(key)) => {
                let key = key.try_into().map_err(|_| {
                    let len = key.len();
                    errors::invalid_params(format!("key has {len} bytes; SipHash needs 16"))
                })?;
                Ok(Self { hash: AnyHash::Sip(SipHash::from_key(key)), key: Some(key) })
            }
            ("siphash", None) => {
                Err(errors::invalid_params("profile 'siphash' needs a key of 16 bytes".into()))
            }
            ("nut25" | "nut23", Some(_)) => Err(errors::invalid_params(format!(
                "profile '{name}' has no key; only 'siphash' has one"
            ))),
            _ => Err(errors::invalid_params(format!(
                "unknown profile '{name}'; use 'nut25', 'nut23' or 'siphash'"
            ))),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self.hash {
            AnyHash::Nut25 => "nut25",
            AnyHash::Nut23 => "nut23",
            _ => "siphash",
        }
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.key.as_ref().map(|key| &key[..])
    }

    /// The hash of one item.
    pub(crate) fn hash(self, item: &[u8]) -> u64 {
        self.hash.hash(item)
    }

    /// Appends the hashes of `items`.
    pub(crate) fn hash_items(self, items: &[&[u8]], hashes: &mut Vec<u64>) -> PyResult<()> {
        self.hash.hash_items(items, room(hashes, items.len())?);
        Ok(())
    }

    /// Appends the hashes of the records of `width` bytes that lie one after another in `records`.
    pub(crate) fn hash_records(
        self,
        records: &[u8],
        width: NonZeroUsize,
        hashes: &mut Vec<u64>,
    ) -> PyResult<()> {
        let out = room(hashes, records.len() / width)?;
        self.hash.hash_records(records, width, out);
        Ok(())
    }
}

/// Room for `more` hashes at the end.
fn room(hashes: &mut Vec<u64>, more: usize) -> PyResult<&mut [u64]> {
    let len = hashes.len();
    hashes.try_reserve(more).map_err(|_| errors::memory(len + more))?;
    hashes.resize(len + more, 0);
    Ok(&mut hashes[len..])
}
