//! Both mints on Postgres: full and incremental readings, through every kind of change to the database.

#![forbid(unsafe_code)]
#![cfg(unix)]

#[path = "../mint/support/colliding.rs"]
mod colliding;
mod collisions;
mod faults;
mod histories;
#[path = "../mint/support/history.rs"]
mod history;
mod rows;
mod support;
mod tls;
