//! Why something could not be published.

use core::error::Error;

use nutfilter_mint::NotSuccessor;

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
    #[error("{path}: other publishers replaced it {attempts} times in the meantime")]
    Contended {
        /// The object.
        path: String,
        /// Number of attempts.
        attempts: u32,
    },
}

impl PublishError {
    pub(crate) fn at(path: &str, source: StoreError) -> Self {
        let path = Some(path.to_owned());
        Self::Store { path, source }
    }
}

impl DestinationError {
    pub(crate) fn url(reason: impl ToString) -> Self {
        let reason = reason.to_string();
        Self::Url { reason }
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
    #[error("invalid destination: {reason}")]
    Url {
        /// The fault.
        reason: String,
    },
    /// The scheme is not supported.
    #[error("unsupported destination {scheme}://; use a directory, file://, s3://, gs:// or az://")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// This build has no object stores.
    #[error(
        "{scheme}:// needs a build with --features object-store; this one writes to directories only"
    )]
    NotBuiltIn {
        /// The scheme.
        scheme: String,
    },
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
