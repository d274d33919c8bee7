//! What Cashu says on the wire about [`nutfilter`]'s filters: the JSON of a response, the path of an endpoint,
//! keyset IDs, and the points of both curves.
//!
//! ```
//! use nutfilter_cashu::{FilterResponse, KeysetId, NoteKind, endpoint_path};
//!
//! let keyset: KeysetId = "009a1f293253e41e".parse()?;
//! assert_eq!(endpoint_path(&keyset, NoteKind::Spent), "/v1/filter/spent/009a1f293253e41e");
//!
//! let answer = br#"{"n": 0, "p": 19, "m": 784931, "content": "", "timestamp": 1767225600}"#;
//! let filter = FilterResponse::from_json(answer)?.into_filter()?;
//! assert!(!filter.contains("a note"));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod dialect;
mod endpoint;
mod points;
mod response;

#[doc(hidden)]
pub use dialect::Nut25EmptyTail;
pub use endpoint::{KeysetId, KeysetIdError, NoteKind, endpoint_path};
pub use points::PointKind;
#[doc(hidden)]
pub use response::integer_of;
pub use response::{FilterResponse, ResponseError, ResponseErrorKind};

/// Compiles the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
