//! From a seed to notes, on the crate `cashu` of the CDK.

mod note_tokens;
mod seed;
mod seed_points;
mod wallet;

pub use note_tokens::{Note, NoteError, tokens};
pub use seed::{Seed, SeedError};
pub use seed_points::{DeriveError, SeedPoints};
pub use wallet::{
    Problem, RestoredKeyset, RestoredWallet, WalletError, WalletOptions, restore_wallet,
};
