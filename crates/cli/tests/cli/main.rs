//! The command as scripts and operators use it: arguments, standard streams, files, exit codes, start and stop.

mod asking_mint;
mod build;
mod build_formats;
mod check;
mod check_dialect;
mod check_mint;
mod configuration;
mod demo;
mod examples;
mod inspect;
mod misc;
mod network;
mod nutfilter;
mod operating;
#[cfg(unix)]
mod permissions;
mod publishing;
mod restore;
mod restore_seed;
mod running;
mod support;
mod upgrade;
