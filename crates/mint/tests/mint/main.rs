//! The crate beside both mints' databases: read, built, served on loopback, fetched by an HTTP client,
//! and held against filters that the reference crate builds of the same notes.

#![forbid(unsafe_code)]

mod bodies;
mod clock;
mod collisions;
mod counted;
mod feed;
mod filters;
mod forms;
mod h2c;
mod http;
mod increment;
mod info;
mod live;
mod paths;
mod refresh;
mod refused;
mod rereads;
mod rows;
mod schema;
#[cfg(unix)]
mod sockets;
mod support;
mod transport;
mod verify;
