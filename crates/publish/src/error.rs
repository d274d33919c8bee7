//! Why something could not be published.

use core::error::Error;

use nutfilter_mint::NotSuccessor;

use crate::destination::ATTEMPTS;

/// An operation of a store failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} failed: {source}")]
pub struct StoreError {
    doing: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl StoreError {
    /// An error while `doing` something, such as `writing`.
    pub fn new(doing: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let source = source.into();
        Self { doing, source }
    }
}

/// Why a publication ended early. All objects before this one are published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The store failed.
    #[error("{}{source}", place(path))]
    Store {
        /// The object; `None` if no object was concerned yet.
        path: Option<String>,
        /// The store's error.
        source: StoreError,
    },
    /// The list of a sequence may not replace the published one.
    #[error("{path}: {source}")]
    Succession {
        /// The list.
        path: String,
        /// The reason.
        source: NotSuccessor,
    },
    /// A file of the sequence cannot be read, or is damaged.
    #[error(transparent)]
    File(nutfilter_sequence::Error),
    /// Other publishers replaced the object each time before it could be written.
    #[error("{0}: other publishers replaced it {ATTEMPTS} times in the meantime")]
    Contended(String),
}

impl PublishError {
    pub(crate) fn at(path: &str, source: StoreError) -> Self {
        let path = Some(path.to_owned());
        Self::Store { path, source }
    }
}

impl DestinationError {
    pub(crate) fn url(reason: impl ToString) -> Self {
        Self::Url(reason.to_string())
    }
}

fn place(path: &Option<String>) -> String {
    path.as_ref()
        .map_or_else(String::new, |path| format!("{path}: "))
}

/// Why a destination cannot be used. No message contains credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DestinationError {
    /// The URL is malformed.
    #[error("invalid destination: {0}")]
    Url(String),
    /// The scheme is not supported.
    #[error("unsupported destination {0}://; use a directory, file://, s3://, gs:// or az://")]
    Scheme(String),
    /// This build has no object stores, to which this scheme belongs.
    #[error(
        "{0}:// needs a build with --features object-store; this one writes to directories only"
    )]
    NotBuiltIn(String),
    /// The directory cannot be created or opened.
    #[error("{path}: {source}")]
    Directory {
        /// The directory.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The object store's configuration is incomplete or invalid.
    #[error("{url}: {source}")]
    Configuration {
        /// The destination.
        url: String,
        /// The error.
        source: Box<dyn Error + Send + Sync>,
    },
}
