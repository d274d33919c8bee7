//! [`Level`]: which instruction set the batch functions use, decided once per batch.
//!
//! A `Level` can only be had by detection, so whoever holds one has proved that this CPU runs it. Kernels
//! for an instruction set live below this module and are the only code that may be `unsafe`; the level
//! that every CPU runs is plain Rust and lives with its subject (`decode::scan`, `hash`, `encode`).

/// An instruction set that this CPU was seen to have.
///
/// Sets and filters use [`Level::detect`] unless told otherwise (`with_level`); tests force each of
/// [`Level::available`] in turn. The level never changes an answer.
///
/// ```
/// use nutfilter::Level;
///
/// assert!(Level::available().any(|level| level == Level::detect()));
/// println!("running at level {}", Level::detect());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Level(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Portable,
}

impl Level {
    /// Plain Rust for the baseline of the target: runs everywhere.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The best level of this CPU.
    #[must_use]
    pub fn detect() -> Self {
        Self::PORTABLE
    }

    /// All levels of this CPU, the plainest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::PORTABLE].into_iter()
    }

    /// What a batch function matches on to choose its kernel.
    pub(crate) fn kind(self) -> Kind {
        self.0
    }

    /// The level's name, as it stands in benchmark names and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
        }
    }
}

impl core::fmt::Display for Level {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
