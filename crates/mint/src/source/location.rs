//! Where a mint's database is: what operators write into `MINT_DATABASE`.

use core::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::postgres::PostgresUrl;
use super::{MintSource, MintType, PostgresSource, SourceError, SqliteSource};

/// The names that the mints give to their SQLite files.
const KNOWN_NAMES: [&str; 2] = ["mint.sqlite3", "cdk-mintd.sqlite"];

/// A database by path or by URL. What it displays has no password in it.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseLocation(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    Sqlite(PathBuf),
    Postgres(Box<PostgresUrl>),
}

/// Opens the database at a location, whichever it is: [`SqliteSource`] or [`PostgresSource`]. May be called on
/// any thread, also on an async one, which it blocks for a moment.
///
/// # Errors
///
/// Those of the two.
pub fn open(
    location: &DatabaseLocation,
    mint: Option<MintType>,
) -> Result<Box<dyn MintSource>, SourceError> {
    Ok(match location.0 {
        Place::Sqlite(_) => Box::new(SqliteSource::open(location, mint)?),
        Place::Postgres(_) => Box::new(PostgresSource::open(location, mint)?),
    })
}

impl DatabaseLocation {
    /// Reads what an operator wrote: the path of a SQLite file, with or without `sqlite:` or `sqlite://`
    /// in front, or of the directory that a mint keeps it in under its usual name. A file whose name
    /// looks like a URL is meant by `./` in front.
    ///
    /// Or the URL of a Postgres database, `postgres://user:password@host:port/name?options`. The options are
    /// those that `tokio-postgres` knows (`host=/run/postgresql`, for a socket), and two of libpq's:
    ///
    /// | `sslmode` | the connection |
    /// |---|---|
    /// | `disable` | in plain text |
    /// | `prefer`, and without the option | in TLS if the server offers it, with whatever certificate: no protection against somebody in between, who could as well say that the server has no TLS |
    /// | `verify-ca` | in TLS; the certificate is signed by a root |
    /// | `require`, `verify-full` | in TLS; the certificate is signed by a root and names the host |
    ///
    /// `require` verifies, other than libpq's: encryption without knowing for whom protects from nobody who
    /// can be in between. Roots are the certificates of the PEM file that `sslrootcert` names, or Mozilla's
    /// (`sslrootcert=system`, and without the option). A socket of this machine has no TLS, whatever the mode.
    ///
    /// # Errors
    ///
    /// For a URL of any other database, one that does not parse, and a `sqlite:` URL with a user in it. No error
    /// repeats the URL, as it may hold a password.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Ok(Self::from(Path::new(text)));
        };
        let (scheme, authority) = (scheme.to_ascii_lowercase(), rest.strip_prefix("//"));
        match scheme.as_str() {
            "postgres" | "postgresql" => {
                let rest = authority.ok_or(SourceError::PostgresUrl {
                    reason: "it begins with postgres: and not with postgres://",
                })?;
                let url = PostgresUrl::parse(rest)?;
                Ok(Self(Place::Postgres(Box::new(url))))
            }
            "sqlite" => {
                let path = authority.unwrap_or(rest);
                // Of a path only the first segment could be a user and a host.
                let first = path.split('/').next().unwrap_or_default();
                if first.contains('@') {
                    return Err(SourceError::UserInUrl);
                }
                Ok(Self::from(Path::new(path)))
            }
            _ if authority.is_some() && is_scheme(&scheme) => {
                Err(SourceError::UnsupportedScheme { scheme })
            }
            _ => Ok(Self::from(Path::new(text))),
        }
    }

    /// The path as it was given; `None` for what is no file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Place::Sqlite(path) => Some(path),
            Place::Postgres(_) => None,
        }
    }

    /// The URL of a Postgres database.
    pub(super) fn postgres(&self) -> Option<&PostgresUrl> {
        match &self.0 {
            Place::Sqlite(_) => None,
            Place::Postgres(url) => Some(url),
        }
    }

    /// The file itself: the path, or the one known database in the directory at the path.
    ///
    /// # Errors
    ///
    /// If nothing is there, or a directory with no or more than one database of a known name; and for a
    /// location that is none of a file.
    pub fn file(&self) -> Result<PathBuf, SourceError> {
        let path = self.path().ok_or_else(|| SourceError::NotAFile {
            database: self.to_string(),
        })?;
        match metadata(path)? {
            None => return Err(SourceError::NotFound { path: path.into() }),
            Some(metadata) if !metadata.is_dir() => return Ok(path.into()),
            Some(_) => {}
        }
        let mut found: Vec<PathBuf> = vec![];
        for name in KNOWN_NAMES {
            let file = path.join(name);
            if metadata(&file)?.is_some_and(|metadata| metadata.is_file()) {
                found.push(file);
            }
        }
        match (found.pop(), found.len()) {
            (Some(file), 0) => Ok(file),
            (last, others) => Err(SourceError::NoSingleDatabase {
                directory: path.into(),
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
        Self(Place::Sqlite(path.into()))
    }
}

impl fmt::Display for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Sqlite(path) => path.display().fmt(f),
            Place::Postgres(url) => url.fmt(f),
        }
    }
}

impl fmt::Debug for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseLocation({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postgres_url_is_shown_without_its_password_and_options() {
        for (url, shown) in [
            ("postgres://mint:hunter2@db/mint", "postgres://mint@db/mint"),
            (
                "POSTGRES://mint:hunter2@db:5433/mint?sslmode=require",
                "postgres://mint@db:5433/mint",
            ),
            (
                "postgresql://db/mint?password=hunter2&user=m",
                "postgres://m@db/mint",
            ),
            (
                "postgres:///mint?host=/run/x&password=hunter2",
                "postgres:///mint?host=/run/x",
            ),
            (
                "postgres://mint:hunter%402@a,b:6000/x",
                "postgres://mint@a,b:6000/x",
            ),
        ] {
            let location = DatabaseLocation::parse(url).unwrap();
            assert_eq!(location.to_string(), shown);
            assert!(!format!("{location:?}").contains("hunter"));
            assert_eq!(location.path(), None);
            let error = location.file().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter"));
        }
    }

    #[test]
    fn paths_and_sqlite_urls_are_paths() {
        assert_eq!(
            DatabaseLocation::parse("/a/b?c").unwrap().path(),
            Some(Path::new("/a/b?c"))
        );
        assert_eq!(
            DatabaseLocation::parse("sqlite:///a/b").unwrap().path(),
            Some(Path::new("/a/b"))
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
                Some(Path::new(path))
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
            ("postgres:mint:hunter2@db", "not with postgres://"),
            ("postgres://mint:hunter2@db:hunter2/x", "does not parse"),
            ("postgres://mint:h@hunter2/x?hunter2=1", "unknown option"),
            ("postgres://mint:h@db/x?hunter2", "no value"),
            ("postgres://h@db/x?sslmode=hunter2", "sslmode"),
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
