//! Serves objects over HTTP: an axum router, and a server for it. It knows paths and bytes; what they mean is known to the
//! [`Site`].
//!
//! | path | answer |
//! |---|---|
//! | the path of an object | the object: plain or in gzip, or 304 |
//! | what [`Site::is_live`] names | JSON that is made for each request |
//! | `/health` | the status; always 200 |
//! | `/ready` | 200 if requests should be sent here, otherwise 503 with the reason |
//! | `/metrics` | metrics, if the site has them |
//!
//! Errors have the form of every Cashu mint: a status and `{"detail": text, "code": number}`.
//!
//! ```no_run
//! use nutfilter_objects::Table;
//! use nutfilter_serve::{Limits, Listener, Site};
//!
//! struct Hello(Table);
//!
//! impl Site for Hello {
//!     fn table(&self) -> &Table {
//!         &self.0
//!     }
//!     fn ready(&self) -> Result<(), String> {
//!         Ok(())
//!     }
//!     fn health(&self) -> String {
//!         "{}".to_owned()
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let table = Table::in_memory();
//! table.put("hello", "text/plain", 1_767_225_600, b"hello".to_vec())?;
//! let listener = Listener::tcp("127.0.0.1:3339").await?;
//! let stop = core::future::pending();
//! nutfilter_serve::serve(vec![listener], nutfilter_serve::router(Hello(table)), Limits::default(), stop).await;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod answer;
mod metrics;
mod router;
mod server;
mod site;

pub use router::{BasePathError, base_path, object_router, router, under};
pub use server::{Limits, Listener, serve};
pub use site::{Refusal, Site};
