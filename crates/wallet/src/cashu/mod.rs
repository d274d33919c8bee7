//! From a seed to notes, on the crate `cashu` of the CDK.

mod notes;
mod points;
mod seed;
mod wallet;

pub use notes::{Note, NoteError, tokens};
pub use points::{DeriveError, SeedPoints};
pub use seed::{Seed, SeedError};
pub use wallet::{
    Problem, RestoredKeyset, RestoredWallet, WalletError, WalletOptions, restore_wallet,
};
