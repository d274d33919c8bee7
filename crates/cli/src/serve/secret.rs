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

/// A path or URL without what may be a password. Passwords hold `@`, `/` and `?` although they should not: where
/// the parts cannot be told apart, only the scheme is shown.
pub(super) fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        let like_a_connection =
            text.contains('@') || (text.contains('=') && text.contains("passw"));
        return if like_a_connection { HIDDEN } else { text }.to_owned();
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    let shown = match place.rsplit_once('@') {
        _ if query.is_some_and(|query| query.contains('@')) => {
            return format!("{scheme}://{HIDDEN}");
        }
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => place.to_owned(),
    };
    match query {
        Some(_) => format!("{scheme}://{shown}?{HIDDEN}"),
        None => format!("{scheme}://{shown}"),
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
    fn passwords_are_hidden_wherever_they_stand() {
        for (text, shown) in [
            ("/var/lib/mint/mint.sqlite3", "/var/lib/mint/mint.sqlite3"),
            (
                "sqlite:/var/lib/mint.sqlite3",
                "sqlite:/var/lib/mint.sqlite3",
            ),
            ("postgres://db:5432/mint", "postgres://db:5432/mint"),
            ("postgres://mint:hunter2@db/mint", "postgres://***@db/mint"),
            (
                "postgres://mint:hunter2@db/mint?sslmode=require",
                "postgres://***@db/mint?***",
            ),
            (
                "postgres://mint:h@hunter2/x@db/mint",
                "postgres://***@db/mint",
            ),
            ("postgres://mint:h?hunter2@db/mint", "postgres://***"),
            (
                "postgres://db/mint?user=a&password=hunter2",
                "postgres://db/mint?***",
            ),
            ("postgres://db/mint?password=hunter2@x", "postgres://***"),
            ("mint:hunter2@db/mint", "***"),
            ("host=db password=hunter2", "***"),
            (
                "https://user:hunter2@mint.example/Bitcoin",
                "https://***@mint.example/Bitcoin",
            ),
        ] {
            assert_eq!(without_password(text), shown);
            assert_eq!(format!("{:?}", Secret::new(text)), "***");
        }
    }
}
