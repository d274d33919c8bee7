//! [`FilterHash`] and [`FilterHeader`]: what filter headers are made of.

/// A type of 32 bytes; with the feature `bitcoin` it converts from and to that crate's type of the same name.
macro_rules! digest {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// The bytes in internal order, the reverse of the order in which they are printed.
            #[must_use]
            pub fn to_byte_array(self) -> [u8; 32] {
                self.0
            }
        }

        impl From<[u8; 32]> for $name {
            fn from(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }
        }

        #[cfg(feature = "bitcoin")]
        impl From<bitcoin::bip158::$name> for $name {
            fn from(hash: bitcoin::bip158::$name) -> Self {
                Self(bitcoin::hashes::Hash::to_byte_array(hash))
            }
        }

        #[cfg(feature = "bitcoin")]
        impl From<$name> for bitcoin::bip158::$name {
            fn from(hash: $name) -> Self {
                bitcoin::hashes::Hash::from_byte_array(hash.0)
            }
        }
    };
}

digest! {
    /// The double SHA-256 of a serialised filter.
    FilterHash
}

digest! {
    /// The double SHA-256 of a filter hash and the previous filter header. Zeros come before the genesis block's.
    FilterHeader
}

#[cfg(feature = "verify")]
impl FilterHash {
    /// The header that commits to this filter and all earlier ones.
    #[must_use]
    pub fn filter_header(self, previous: impl Into<FilterHeader>) -> FilterHeader {
        FilterHeader(double([self.0, previous.into().0].as_flattened()))
    }
}

/// The hash of a serialised filter.
#[cfg(feature = "verify")]
#[must_use]
pub fn filter_hash(serialized: &[u8]) -> FilterHash {
    FilterHash(double(serialized))
}

#[cfg(feature = "verify")]
fn double(bytes: &[u8]) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(Sha256::digest(bytes)).into()
}
