//! Where a mint's database is: what operators write into `MINT_DATABASE`.

use std::fs::{self, Metadata};
use std::io;
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
    /// Reads what an operator wrote: the path of a SQLite file, with or without `sqlite:` or `sqlite://`
    /// in front, or of the directory that a mint keeps it in under its usual name. A file whose name
    /// looks like a URL is meant by `./` in front.
    ///
    /// # Errors
    ///
    /// For a URL of any other database, and for one with a user in it. No error repeats the URL, as it
    /// may hold a password.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Ok(Self { path: text.into() });
        };
        let (scheme, authority) = (scheme.to_ascii_lowercase(), rest.strip_prefix("//"));
        match scheme.as_str() {
            "postgres" | "postgresql" => Err(SourceError::PostgresUnsupported),
            "sqlite" => {
                let path = authority.unwrap_or(rest);
                // Of a path only the first segment could be a user and a host.
                let first = path.split('/').next().unwrap_or_default();
                if first.contains('@') {
                    return Err(SourceError::UserInUrl);
                }
                Ok(Self { path: path.into() })
            }
            _ if authority.is_some() && is_scheme(&scheme) => {
                Err(SourceError::UnsupportedScheme { scheme })
            }
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
        match metadata(&self.path)? {
            None => {
                return Err(SourceError::NotFound {
                    path: self.path.clone(),
                });
            }
            Some(metadata) if !metadata.is_dir() => return Ok(self.path.clone()),
            Some(_) => {}
        }
        let mut found: Vec<PathBuf> = vec![];
        for name in KNOWN_NAMES {
            let file = self.path.join(name);
            if metadata(&file)?.is_some_and(|metadata| metadata.is_file()) {
                found.push(file);
            }
        }
        match (found.pop(), found.len()) {
            (Some(file), 0) => Ok(file),
            (last, others) => Err(SourceError::NoSingleDatabase {
                directory: self.path.clone(),
                found: others + usize::from(last.is_some()),
            }),
        }
    }
}

/// What is at a path; `None` if nothing is. That it may not be looked at is an error: a database behind
/// a closed door is not a missing one.
fn metadata(path: &Path) -> Result<Option<Metadata>, SourceError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SourceError::Io {
            path: path.into(),
            source,
        }),
    }
}

/// Whether this could be the scheme of a URL, in lower case.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
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
        for (text, path) in [
            ("SQLITE://a", "a"),
            ("sqlite:a/b@c", "a/b@c"),
            ("sqlite:/a/b", "/a/b"),
            ("sqlite:///a@b", "/a@b"),
            ("mint:5.db", "mint:5.db"),
            ("./postgres:x", "./postgres:x"),
            ("/a://b", "/a://b"),
        ] {
            assert_eq!(
                DatabaseLocation::parse(text).unwrap().path(),
                Path::new(path)
            );
        }
    }

    #[test]
    fn no_message_about_a_url_repeats_its_password() {
        for (url, said) in [
            ("mysql://mint:hunter2@db/mint", "mysql: is no database"),
            ("https://mint:hunter2@db", "https: is no database"),
            (
                "Postgres+TLS://mint:hunter2@db",
                "postgres+tls: is no database",
            ),
            ("sqlite://mint:hunter2@db/mint", "no user or password"),
            ("sqlite:mint:hunter2@db", "no user or password"),
            ("postgres:mint:hunter2@db", "not yet supported"),
        ] {
            let error = DatabaseLocation::parse(url).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(text.contains(said), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
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
