//! The SQLite databases of both mints, read and compared with filters that the reference crate builds from the same
//! notes. Random histories are in `histories`.

#![forbid(unsafe_code)]

mod filters;
mod found;
mod live;
mod refresh;
mod rows;
mod schema;
mod sql;
mod support;
