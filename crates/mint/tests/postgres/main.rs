//! Both mints on Postgres: read whole and by what is new, through everything that can happen to the database.

#![forbid(unsafe_code)]
#![cfg(unix)]

mod rows;
mod support;
