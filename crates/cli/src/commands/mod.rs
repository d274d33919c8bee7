//! One room for each subcommand.

pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod inspect;
pub(crate) mod restore;
pub(crate) mod serve;
