//! The crate beside both mints' databases: read, built, served on loopback, fetched by an HTTP client,
//! and held against filters that the reference crate builds of the same notes.

#![forbid(unsafe_code)]

mod feed;
mod filters;
mod http;
mod increment;
mod live;
// Stopgap until the sources in it read by the new trait: mod refresh;
mod rows;
mod schema;
mod support;
