//! The location of a mint's database, as operators write it into `MINT_DATABASE`.

use core::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(feature = "sqlite")]
use super::{IsLocked, SqliteSource};
use super::{MintSource, MintType, Result, SourceError};
#[cfg(feature = "postgres")]
use super::{PostgresSource, postgres::PostgresUrl};

/// Names that the mints give to their SQLite files.
const KNOWN_NAMES: [&str; 2] = ["mint.sqlite3", "cdk-mintd.sqlite"];

/// A database, given by path or by URL. Its display form contains no password: what is not a URL is shown as far as
/// it exists in the file system.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseLocation(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    Sqlite(PathBuf),
    Postgres(Box<PostgresUrl>),
}

/// Opens the database at a location as a [`SqliteSource`] or [`PostgresSource`]. It can be called on any thread. An
/// async thread is blocked for a moment.
///
/// # Errors
///
/// Those of [`SqliteSource::open`] and [`PostgresSource::open`].
pub fn open(location: &DatabaseLocation, mint: Option<MintType>) -> Result<Box<dyn MintSource>> {
    match &location.0 {
        #[cfg(feature = "sqlite")]
        Place::Sqlite(_) => Ok(Box::new(SqliteSource::open(location, mint)?)),
        #[cfg(feature = "postgres")]
        Place::Postgres(_) => Ok(Box::new(PostgresSource::open(location, mint)?)),
        #[cfg(not(feature = "sqlite"))]
        Place::Sqlite(_) => Err(SourceError::Location(format!(
            "{location}: this program was built without support for SQLite; enable the feature `sqlite` of nutfilter-mint"
        ))),
        #[cfg(not(feature = "postgres"))]
        Place::Postgres(url) => match **url {},
    }
}

/// Opens a database like [`open`], in a process without other connections to it. A SQLite database that `is_locked`, but whose log is
/// not here, is then refused, and one that nobody has locked is true as of its last change.
///
/// # Errors
///
/// Those of [`open`].
#[cfg(feature = "sqlite")]
pub fn open_alone(
    location: &DatabaseLocation,
    mint: Option<MintType>,
    is_locked: IsLocked,
) -> Result<Box<dyn MintSource>> {
    match location.0 {
        Place::Sqlite(_) => {
            let source = SqliteSource::open_alone(location, mint, Some(is_locked))?;
            Ok(Box::new(source))
        }
        Place::Postgres(_) => open(location, mint),
    }
}

/// Without the feature there is no URL.
#[cfg(not(feature = "postgres"))]
type PostgresUrl = core::convert::Infallible;

/// Parses what follows `postgres://`, or libpq's keyword form.
fn parse_postgres(text: &str, is_keywords: bool) -> Result<DatabaseLocation> {
    #[cfg(feature = "postgres")]
    let parsed = match is_keywords {
        true => PostgresUrl::parse_keywords(text),
        false => PostgresUrl::parse(text),
    };
    #[cfg(not(feature = "postgres"))]
    let parsed = {
        let _ = (text, is_keywords);
        let refused = "this program was built without support for Postgres; enable the feature `postgres` of nutfilter-mint";
        Err::<PostgresUrl, _>(SourceError::Location(refused.to_owned()))
    };
    parsed.map(|url| DatabaseLocation(Place::Postgres(Box::new(url))))
}

impl DatabaseLocation {
    /// Parses the location of a database. A SQLite database is given by the path of its file, with or without
    /// `sqlite:` or `sqlite://` in front. The path of the directory is enough if the file has the mint's usual
    /// name. Put `./` in front of a file name that looks like a URL.
    ///
    /// A Postgres database is given by its URL, `postgres://user:password@host:port/name?options`. The options are
    /// those of `tokio-postgres` (such as `host=/run/postgresql`, for a socket), `schema=NAME`, and two of libpq's. libpq's
    /// keyword form is read, too: `host=... user=... password=... dbname=... schema=...`. Of several hosts, `host=a,b`, the
    /// mint's primary is read.
    ///
    /// | `sslmode` | the connection |
    /// |---|---|
    /// | `disable` | plain text |
    /// | `prefer`, and without the option | TLS if the server offers it; the certificate is not verified |
    /// | `require` | TLS; the certificate is only verified if `sslrootcert` is given |
    /// | `verify-ca` | TLS; the certificate must be signed by a root |
    /// | `verify-full` | TLS; the certificate must be signed by a root and name the host |
    ///
    /// The roots are the certificates of the PEM file that `sslrootcert` names. With a file, `require` is the same
    /// as `verify-ca`. Without the option, or with `sslrootcert=system`, the roots are Mozilla's, and every
    /// verification includes the host name. Without verification, an attacker in between can read and change
    /// everything. A local socket never uses TLS, whatever the mode.
    ///
    /// Space, quotes and a byte order mark around the location are ignored.
    ///
    /// # Errors
    ///
    /// For a URL of any other database, a URL that does not parse, and a `sqlite:` URL with a user name. No error repeats the location, because it may contain a password.
    pub fn parse(text: &str) -> Result<Self> {
        let text = unquoted(text);
        if text.is_empty() {
            return Err(SourceError::postgres_url("the location is empty"));
        }
        if is_keywords(text) {
            return parse_postgres(text, true);
        }
        let Some((scheme, rest)) = text.split_once(':') else {
            return Ok(Self::from(Path::new(text)));
        };
        let (scheme, authority) = (scheme.to_ascii_lowercase(), rest.strip_prefix("//"));
        match scheme.as_str() {
            "postgres" | "postgresql" => {
                let refused = || SourceError::postgres_url("must begin with postgres://");
                parse_postgres(authority.ok_or_else(refused)?, false)
            }
            "sqlite" => {
                let path = authority.unwrap_or(rest);
                // Only the first segment of a path could be a user and a host.
                let first = path.split('/').next().unwrap_or_default();
                if first.contains('@') {
                    return Err(SourceError::Location(
                        "invalid sqlite: URL: it is a file path and has no user or password; remove the part before \
                         the `@`"
                            .to_owned(),
                    ));
                }
                Ok(Self::from(Path::new(path)))
            }
            _ if authority.is_some() && is_scheme(&scheme) => Err(SourceError::Location(format!(
                "unsupported database scheme '{scheme}'; give a postgres:// URL, or the path of a SQLite file"
            ))),
            _ => Ok(Self::from(Path::new(text))),
        }
    }

    /// The path as given; `None` if the database is not a file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Place::Sqlite(path) => Some(path),
            Place::Postgres(_) => None,
        }
    }

    /// The URL of a Postgres database.
    #[cfg(feature = "postgres")]
    pub(super) fn postgres(&self) -> Result<&PostgresUrl> {
        let refused = "must begin with postgres:// or postgresql://";
        match &self.0 {
            Place::Sqlite(_) => Err(SourceError::postgres_url(refused)),
            Place::Postgres(url) => Ok(url),
        }
    }

    /// The file itself: the path, or the only known database in the directory at the path.
    ///
    /// # Errors
    ///
    /// If nothing is there, if the directory holds no database of a known name or several, and if the location is
    /// not a path.
    pub fn file(&self) -> Result<PathBuf> {
        let path = self.path();
        let path = path.ok_or_else(|| SourceError::Location(format!("{self}: not a file path")))?;
        let metadata = fs::metadata(path).map_err(|source| SourceError::io(path, source))?;
        if !metadata.is_dir() {
            return Ok(path.into());
        }
        let mut found: Vec<PathBuf> = vec![];
        for file in KNOWN_NAMES.map(|name| path.join(name)) {
            match fs::metadata(&file) {
                Ok(metadata) if metadata.is_file() => found.push(file),
                // A database that may not be accessed is not a missing one.
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(SourceError::io(&file, source));
                }
                _ => {}
            }
        }
        match &*found {
            [file] => Ok(file.clone()),
            _ => Err(SourceError::Location(format!(
                "{}: directory contains {} databases with a known name; give the path of the file",
                path.display(),
                found.len()
            ))),
        }
    }
}

/// A path as it may be shown. Whatever is not a URL is a path, so one with the characters of a password's place may be a
/// URL with a mistake in it.
pub(super) fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let lower = text.to_ascii_lowercase();
    let suspicious = ["@", "://", "%3a", "%40", "password"];
    match path.exists() || !suspicious.iter().any(|part| lower.contains(part)) {
        true => text,
        false => "(not shown, because it may hold a password)".to_owned(),
    }
}

/// Without the space, the quotes and the byte order mark that files and environments add.
fn unquoted(text: &str) -> &str {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let inside = ['"', '\''].iter().find_map(|&quote| {
        let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inside.trim())
    });
    inside.unwrap_or(text)
}

/// Whether a text is in libpq's form `host=... user=...`, as CDK's connection strings are.
fn is_keywords(text: &str) -> bool {
    let first = text.split_once('=').map(|(first, _)| first.trim_end());
    let keywords = "host hostaddr port user password dbname schema sslmode options application_name connect_timeout \
        target_session_attrs";
    first.is_some_and(|first| keywords.split(' ').any(|keyword| keyword == first))
}

/// Whether lower-case text could be the scheme of a URL.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

impl From<&Path> for DatabaseLocation {
    fn from(path: &Path) -> Self {
        Self(Place::Sqlite(path.into()))
    }
}

impl fmt::Display for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Sqlite(path) => f.write_str(&shown(path)),
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
    fn postgres_url_is_shown_without_password_and_options() {
        for (url, shown) in [
            ("postgres://mint:hunter2@db/mint", "postgres://mint@db/mint"),
            ("postgres://m:a?b=c@db/mint", "postgres://m@db/mint"),
            (
                "POSTGRES://mint:hunter2@db:5433/mint?sslmode=require",
                "postgres://mint@db:5433/mint",
            ),
            ("postgresql://db/mint?password=hunter2&user=m", "postgres://m@db/mint"),
            ("postgres:///mint?host=/run/x&password=hunter2", "postgres:///mint?host=/run/x"),
            ("postgres://mint:hunter%402@a,b:6000/x", "postgres://mint@a,b:6000/x"),
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
        for (text, path) in [
            ("/a/b?c", "/a/b?c"),
            ("sqlite:///a/b", "/a/b"),
            ("SQLITE://a", "a"),
            ("sqlite:a/b@c", "a/b@c"),
            ("sqlite:/a/b", "/a/b"),
            ("sqlite:///a@b", "/a@b"),
            ("mint:5.db", "mint:5.db"),
            ("./postgres:x", "./postgres:x"),
            ("/a://b", "/a://b"),
        ] {
            let location = DatabaseLocation::parse(text).unwrap();
            assert_eq!(location.path(), Some(Path::new(path)));
        }
    }

    #[test]
    fn error_messages_do_not_contain_the_password() {
        for (url, said) in [
            ("mysql://mint:hunter2@db/mint", "unsupported"),
            ("https://mint:hunter2@db", "database scheme 'https'"),
            ("Postgres+TLS://mint:hunter2@db", "'postgres+tls'"),
            ("sqlite://mint:hunter2@db/mint", "no user or password"),
            ("sqlite:mint:hunter2@db", "no user or password"),
            ("postgres:mint:hunter2@db", "must begin with postgres://"),
            ("postgres://mint:hunter2@db:hunter2/x", "must have the form"),
            ("postgres://mint:h@hunter2/x?hunter2=1", "with the options"),
            ("postgres://mint:hunter2@/mint", "has no host"),
            ("postgres://mint:h@db/x?hunter2", "no value"),
            ("postgres://h@db/x?sslmode=hunter2", "sslmode"),
            ("postgres://mint:p@hunter2@db/mint", "%40"),
            ("postgres://mint:p@x/hunter2@db/mint", "%40"),
            ("host=h user=f pool_size=hunter2", "option pool_size is"),
            ("password = hunter2", "has no host"),
            ("user='mint' password = 'hunter2'", "has no host"),
            ("postgres://db/x?passwd=hunter2", "option passwd is"),
            ("host=h password='hunter2", "quote"),
            (" \u{feff}", "is empty"),
        ] {
            let error = DatabaseLocation::parse(url).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(text.contains(said), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn space_quotes_and_mark_around_a_location_are_ignored() {
        for (before, after) in
            [("\"", "\""), ("'", "'"), (" ", "\n"), ("\u{feff}", ""), ("\u{feff} \"", "\" ")]
        {
            let location = |inside: &str| {
                DatabaseLocation::parse(&format!("{before}{inside}{after}")).unwrap()
            };
            let url = location("postgres://mint:hunter2@db/mint");
            assert_eq!(url.to_string(), "postgres://mint@db/mint");
            assert_eq!(location("/a b").path(), Some(Path::new("/a b")));
        }
    }

    #[test]
    fn missing_path_is_shown_unless_it_may_hold_a_password() {
        for path in ["/var/lib/mint/mint.sqlite3", "mint:5.db"] {
            let location = DatabaseLocation::parse(path).unwrap();
            assert_eq!(location.to_string(), path);
            assert!(location.file().unwrap_err().to_string().contains(path));
        }
        for text in [
            "postgres//mint:hunter2@db/mint",
            "postgres;//mint:hunter2@db/mint",
            "mint:hunter2@db",
            "\"postgres://mint:hunter2@db",
            "postgres%3A//mint:hunter2%40db/mint",
            "mint%3ahunter2",
            "a/password=hunter2",
            "//mint:hunter2@db/mint",
            "MINT_DATABASE=postgres://mint:hunter2@db/mint",
        ] {
            let location = DatabaseLocation::parse(text).unwrap();
            let error = location.file().unwrap_err();
            let said = format!("{location} {location:?} {error} {error:?}");
            assert!(!said.contains("hunter2"), "{said}");
            assert!(said.contains("not shown"), "{said}");
        }
    }

    #[test]
    fn directory_resolves_to_its_only_database() {
        let directory = tempfile::tempdir().unwrap();
        let location = DatabaseLocation::from(directory.path());
        let refused = |said| {
            let error = location.file().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        };
        refused("contains 0 databases");
        let file = directory.path().join("mint.sqlite3");
        std::fs::write(&file, "").unwrap();
        assert_eq!(location.file().unwrap(), file);
        std::fs::write(directory.path().join("cdk-mintd.sqlite"), "").unwrap();
        refused("contains 2 databases");
    }
}
