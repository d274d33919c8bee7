//! From a seed to notes, on the crate `cashu` of the CDK.

mod points;
mod seed;

pub use points::{DeriveError, SeedPoints};
pub use seed::{Seed, SeedError};
