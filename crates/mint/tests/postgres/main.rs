//! Both mints on Postgres: read whole and by what is new, through everything that can happen to the database.

#![forbid(unsafe_code)]
#![cfg(unix)]

#[path = "../mint/support/colliding.rs"]
mod colliding;
mod collisions;
mod faults;
mod histories;
#[path = "../mint/support/history.rs"]
mod history;
mod measure;
mod rows;
mod support;
mod tls;
