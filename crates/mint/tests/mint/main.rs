//! The crate with both mints' databases: read, built, served on loopback, fetched by an HTTP client, and compared
//! with filters that the reference crate builds from the same notes.

#![forbid(unsafe_code)]

mod bodies;
mod clock;
mod collisions;
mod filters;
mod http;
mod increment;
mod info;
mod live;
mod paths;
mod refresh;
mod rereads;
mod rows;
mod schema;
mod support;
mod verify;
