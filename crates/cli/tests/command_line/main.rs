//! The command line as a script sees it: arguments, standard streams, files, exit codes.

mod build;
mod build_within;
mod check;
mod check_mint;
mod inspect;
mod misc;
mod nutfilter;
mod threads;
