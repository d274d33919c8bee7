//! [`AnyHash`]: the profile as a value.

use core::num::NonZeroUsize;

use super::{ItemHash, Nut23, Nut25, SipHash};
use crate::arch::SimdLevel;

/// A hash that is selected at run time, once per batch of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyHash {
    /// [`Nut25`].
    Nut25,
    /// [`Nut23`].
    Nut23,
    /// [`SipHash`] with its key.
    Sip(SipHash),
}

/// Calls a method of the selected hash.
macro_rules! selected {
    ($self:ident.$method:ident($($argument:ident),*)) => {
        match $self {
            AnyHash::Nut25 => Nut25.$method($($argument),*),
            AnyHash::Nut23 => Nut23.$method($($argument),*),
            AnyHash::Sip(hash) => hash.$method($($argument),*),
        }
    };
}

impl ItemHash for AnyHash {
    fn hash(&self, item: &[u8]) -> u64 {
        selected!(self.hash(item))
    }

    fn hash_in_halves(&self, item: &[u8], upper: impl FnOnce(u64)) -> u64 {
        selected!(self.hash_in_halves(item, upper))
    }

    at_best_level!();

    fn hash_items_at<I: AsRef<[u8]>>(&self, level: SimdLevel, items: &[I], out: &mut [u64]) {
        selected!(self.hash_items_at(level, items, out));
    }

    fn hash_records_at(
        &self,
        level: SimdLevel,
        records: &[u8],
        width: NonZeroUsize,
        out: &mut [u64],
    ) {
        selected!(self.hash_records_at(level, records, width, out));
    }
}
