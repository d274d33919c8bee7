//! Mints for demonstrations and tests: the database of a mint, a mint with real signatures, and a server that sends
//! exactly what a test specifies.

pub mod loopback;
mod mint_answers;
mod sample;
mod tables;

pub use mint_answers::{signatures, states};
pub use sample::Sample;

#[cfg(feature = "mint")]
pub mod seeded_mint;
#[cfg(feature = "mint")]
mod test_items;

#[cfg(feature = "mint")]
pub use test_items::{filter_of, on_curve};
