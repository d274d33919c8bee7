//! Where a mint's database is: what operators write into `MINT_DATABASE`.

use std::path::{Path, PathBuf};

use super::SourceError;

/// The names that the mints give to their SQLite files.
const KNOWN_NAMES: [&str; 2] = ["mint.sqlite3", "cdk-mintd.sqlite"];

/// A database by path or by URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseLocation {
    path: PathBuf,
}

impl DatabaseLocation {
    /// Reads what an operator wrote: the path of a SQLite file, with or without `sqlite://` in front, or
    /// of the directory that a mint keeps it in under its usual name.
    ///
    /// # Errors
    ///
    /// For a Postgres URL, which this version does not read.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let scheme = text
            .split_once("://")
            .map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("postgres" | "postgresql") => Err(SourceError::PostgresUnsupported),
            Some("sqlite") => Ok(Self {
                path: text["sqlite://".len()..].into(),
            }),
            _ => Ok(Self { path: text.into() }),
        }
    }

    /// The path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file itself: the path, or the one known database in the directory at the path.
    ///
    /// # Errors
    ///
    /// If nothing is there, or a directory with no or more than one database of a known name.
    pub fn file(&self) -> Result<PathBuf, SourceError> {
        if !self.path.is_dir() {
            return match self.path.try_exists() {
                Ok(true) => Ok(self.path.clone()),
                Ok(false) => Err(SourceError::NotFound {
                    path: self.path.clone(),
                }),
                Err(source) => Err(SourceError::Io {
                    path: self.path.clone(),
                    source,
                }),
            };
        }
        let mut found: Vec<PathBuf> = KNOWN_NAMES
            .iter()
            .map(|name| self.path.join(name))
            .filter(|file| file.is_file())
            .collect();
        match (found.pop(), found.len()) {
            (Some(file), 0) => Ok(file),
            (last, others) => Err(SourceError::NoSingleDatabase {
                directory: self.path.clone(),
                found: others + usize::from(last.is_some()),
            }),
        }
    }
}

impl From<&Path> for DatabaseLocation {
    fn from(path: &Path) -> Self {
        Self { path: path.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postgres_url_is_refused_and_its_password_not_repeated() {
        for url in [
            "postgres://mint:hunter2@db/mint",
            "postgresql://mint:hunter2@db",
            "POSTGRES://hunter2",
        ] {
            let error = DatabaseLocation::parse(url).unwrap_err();
            assert!(matches!(error, SourceError::PostgresUnsupported));
            assert!(error.to_string().contains("not yet supported"));
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
    }

    #[test]
    fn paths_and_sqlite_urls_are_paths() {
        assert_eq!(
            DatabaseLocation::parse("/a/b?c").unwrap().path(),
            Path::new("/a/b?c")
        );
        assert_eq!(
            DatabaseLocation::parse("sqlite:///a/b").unwrap().path(),
            Path::new("/a/b")
        );
        assert_eq!(
            DatabaseLocation::parse("SQLITE://a").unwrap().path(),
            Path::new("a")
        );
    }

    #[test]
    fn a_directory_stands_for_the_one_database_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let location = DatabaseLocation::from(directory.path());
        assert!(
            location
                .file()
                .unwrap_err()
                .to_string()
                .contains("with 0 databases")
        );
        std::fs::write(directory.path().join("mint.sqlite3"), "").unwrap();
        assert_eq!(
            location.file().unwrap(),
            directory.path().join("mint.sqlite3")
        );
        std::fs::write(directory.path().join("cdk-mintd.sqlite"), "").unwrap();
        assert!(
            location
                .file()
                .unwrap_err()
                .to_string()
                .contains("with 2 databases")
        );
    }
}
