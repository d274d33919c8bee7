//! The interface of a place for objects.

use std::fs::File;

use bytes::Bytes;
use nutfilter_mint::Object;

use crate::StoreError;

/// A place for objects. Each method is one operation, so that a test can fail between any two.
pub trait Store: Send {
    /// Keeps other publishers away until the file is dropped, where replacing an object cannot be made conditional.
    ///
    /// # Errors
    ///
    /// If the lock cannot be had.
    fn lock(&mut self) -> Result<Option<File>, StoreError> {
        Ok(None)
    }

    /// The bytes at a path, and which version they are; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// If the store cannot tell.
    fn read(&mut self, path: &str) -> Result<Option<(Vec<u8>, Version)>, StoreError>;

    /// What is at the path of an object.
    ///
    /// # Errors
    ///
    /// If the store cannot tell.
    fn find(&mut self, object: &Object) -> Result<Option<Found>, StoreError>;

    /// Writes an object with these bytes and this `Cache-Control`: in place of `over`, or where there is nothing.
    ///
    /// # Errors
    ///
    /// If the store refuses or fails. The object may have been written nevertheless.
    fn put(
        &mut self,
        object: &Object,
        bytes: Bytes,
        cache: &str,
        over: Option<&Version>,
    ) -> Result<Put, StoreError>;
}

/// What is at the path of an object.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which version it is.
    pub version: Version,
    /// Its date, in Unix seconds; 0 if it has none.
    pub date: u64,
    /// Whether it has the same bytes.
    pub is_same: bool,
}

/// Identifies one version of an object, in the terms of its store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The entity tag.
    pub e_tag: Option<String>,
    /// The version, in stores that have them.
    pub version: Option<String>,
}

/// Result of [`Store::put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It was written.
    Written,
    /// Another publisher has written in the meantime.
    Conflict,
}
