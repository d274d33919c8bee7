//! Values that may hold a password, and how they are shown.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A text that no output may show: it is, or may hold, a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Shown instead of a secret.
pub(super) const HIDDEN: &str = "***";

/// A value as it may be printed: one that may hold a password is hidden as a whole.
pub(super) fn shown(text: &str) -> &str {
    match text.contains(['@', '?']) || text.contains("passw") {
        true => HIDDEN,
        false => text,
    }
}

/// The only line of a file that holds a secret.
pub(super) fn only_line(path: &Path) -> Result<String, String> {
    /// A larger file is not a secret, and is not read into memory.
    const LONGEST: u64 = 64 << 10;
    let length = std::fs::metadata(path)
        .map_err(|error| error.to_string())?
        .len();
    if length > LONGEST {
        return Err(format!("file is too large for a secret ({length} bytes)"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let line = text.trim();
    match (line.is_empty(), line.contains(['\n', '\r', '\0'])) {
        (true, _) => Err("file is empty".to_owned()),
        (_, true) => Err("file has more than one line".to_owned()),
        _ => Ok(line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_may_hold_a_password_are_hidden() {
        for text in ["/var/lib/mint", "https://mint.example/Bitcoin", "0.0.0.0:1"] {
            assert_eq!(shown(text), text);
        }
        for text in [
            "https://user:hunter2@mint.example/Bitcoin",
            "https://user:h@hunter2/x@mint.example",
            "https://mint.example?key=hunter2",
            "mint:hunter2@mint.example",
            "host=db password=hunter2",
        ] {
            assert_eq!(shown(text), HIDDEN);
            assert_eq!(format!("{:?}", Secret::new(text)), HIDDEN);
        }
    }
}
