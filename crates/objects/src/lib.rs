//! Immutable objects by path: what a mint publishes and a server answers with.
//!
//! An [`Object`] has a path, a media type, bytes (also compressed by gzip), a date and a tag. The [`Table`] holds the newest
//! object of each path, in memory or in a directory. In a directory each object is a file, with its compressed form in
//! another file beside it (`PATH.gz`), so that nginx, Caddy or a CDN can serve the same objects.
//!
//! Guarantees:
//!
//! - An object is replaced as a whole, by a rename. A reader that has opened the old one reads the old one.
//! - What was published is the state: a table in a directory begins with the files that are there, if they are undamaged.
//! - A directory has one table at a time, of all processes.

#![forbid(unsafe_code)]

mod directory;
mod gzip;
mod object;
mod table;

pub use directory::{OpenError, Refused};
pub use object::{Object, Opened, tag_of};
pub use table::{Made, Table};

/// Compiles the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
