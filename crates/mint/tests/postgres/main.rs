//! Both mints on Postgres: which rows are read, and what servers are refused. Random histories are in
//! `postgres_histories`.

#![forbid(unsafe_code)]
#![cfg(unix)]

#[path = "../postgres_histories/cluster.rs"]
#[allow(dead_code)]
mod cluster;
mod faults;
mod router;
mod rows;
#[path = "../mint/sql.rs"]
mod sql;
mod support;
mod tls;
