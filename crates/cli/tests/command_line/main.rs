//! The command line as a script uses it: arguments, standard streams, files, exit codes.

mod asking_mint;
mod both_curves;
mod build;
mod build_formats;
mod build_within;
mod check;
mod check_cache;
mod check_confirm;
mod check_dialect;
mod check_mint;
mod follow;
mod inspect;
mod misc;
mod nutfilter;
mod restore;
mod robustness;
#[expect(dead_code, reason = "the tests of `serve` use the rest")]
#[path = "../serve/support.rs"]
mod service;
mod shards;
mod state_filters;
mod threads;
