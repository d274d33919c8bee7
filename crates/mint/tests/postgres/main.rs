//! Both mints on Postgres: which rows are read, and what servers are refused. Random histories are in
//! `histories`.

#![forbid(unsafe_code)]
#![cfg(unix)]

#[allow(dead_code)]
mod cluster;
mod faults;
#[allow(dead_code)]
#[path = "../mint/found.rs"]
mod found;
mod router;
mod rows;
#[path = "../mint/sql.rs"]
mod sql;
mod support;
mod tls;
