//! Postgres URLs: how to reach the server, and how to verify it.

use core::fmt;
use std::collections::HashMap;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::source::{Result, SourceError};

/// Options that the URL may overrule. A server that is gone is noticed within a minute.
const DEFAULTS: &str = "application_name=nutfilter&connect_timeout=10\
    &keepalives_idle=30&keepalives_interval=10&keepalives_retries=3";

/// libpq's default port.
const DEFAULT_PORT: u16 = 5432;

/// The checks of a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verification {
    /// Nothing, like libpq's `require` without roots.
    None,
    /// A root signed it.
    Chain,
    /// A root signed it for this host.
    ChainAndName,
}

/// A Postgres database.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::source) struct PostgresUrl {
    pub(super) config: Config,
    /// How the server's certificate is verified; `None` without TLS.
    pub(super) verification: Verification,
    /// The file with the roots; `None` for Mozilla's.
    pub(super) roots: Option<PathBuf>,
    /// The only schema to look for tables in, as in CDK's connection strings.
    pub(super) schema: Option<String>,
}

impl PostgresUrl {
    /// Parses the part after `postgres://`.
    pub(in crate::source) fn parse(rest: &str) -> Result<Self> {
        // The user and the password end with the first `@`, as in the parser of `tokio-postgres`.
        let behind_user = rest.find('@').map_or(0, |at| at + 1);
        let (place, query) = match rest[behind_user..].find('?') {
            Some(at) => (&rest[..behind_user + at], &rest[behind_user + at + 1..]),
            None => (rest, ""),
        };
        if place[behind_user..].contains('@') {
            // What follows would be taken for the host, and be shown.
            return Err(refused(
                "an @ in the user, password or name must be written as %40",
            ));
        }
        let (mut kept, mut own) = (DEFAULTS.to_owned(), HashMap::new());
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let pair = option.split_once('=');
            let (key, value) = pair.ok_or(refused("an option has no value"))?;
            if OWN.contains(&key) {
                let value = percent_decode_str(value).decode_utf8();
                let value = value.map_err(|_| refused("an option is not UTF-8"))?;
                own.insert(key, value.into_owned());
            } else {
                kept = kept + "&" + option;
            }
        }
        let mut config: Config = format!("postgres://{place}?{kept}")
            .parse()
            // The parser's own message may quote the URL.
            .map_err(|_| {
                refused(
                    "must have the form postgres://user:password@host:port/name?options, with the options of tokio-postgres \
                     and schema, sslmode, sslrootcert; percent-encode characters such as /, ? and @ in \
                     names and passwords",
                )
            })?;
        let roots = own.get("sslrootcert").map(String::as_str);
        let (mode, verification) = verification(own.get("sslmode").map(String::as_str), roots)?;
        let roots = roots.filter(|&roots| roots != SYSTEM).map(PathBuf::from);
        let hosts = config.get_hosts();
        if hosts.is_empty() && config.get_hostaddrs().is_empty() {
            return Err(refused(
                "has no host; for a socket write postgres:///name?host=/run/postgresql",
            ));
        }
        let is_socket = |host: &Host| !matches!(host, Host::Tcp(_));
        let (local, count) = (
            !hosts.is_empty() && hosts.iter().all(is_socket),
            hosts.len(),
        );
        config.ssl_mode(if local { SslMode::Disable } else { mode });
        if count > 1 {
            // Any other host may be a standby, which lags behind.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Self {
            config,
            verification,
            roots,
            schema: own.remove("schema"),
        })
    }
}

/// The options that are not those of `tokio-postgres`.
const OWN: [&str; 3] = ["schema", "sslmode", "sslrootcert"];

/// The name of the built-in roots: Mozilla's.
const SYSTEM: &str = "system";

/// What an `sslmode` asks for, with these roots. Like libpq: `require` verifies nothing without roots, and as much as
/// `verify-ca` with a file of roots. Public roots sign certificates for any host, so they always require the host name.
fn verification(mode: Option<&str>, roots: Option<&str>) -> Result<(SslMode, Verification)> {
    let is_file = roots.is_some_and(|roots| roots != SYSTEM);
    let verification = match mode {
        Some("disable") => return Ok((SslMode::Disable, Verification::None)),
        None | Some("prefer") => return Ok((SslMode::Prefer, Verification::None)),
        Some("require") if roots.is_none() => Verification::None,
        Some("require" | "verify-ca") if is_file => Verification::Chain,
        Some("require" | "verify-ca" | "verify-full") => Verification::ChainAndName,
        Some(_) => {
            return Err(refused(
                "invalid sslmode; accepted are disable, prefer, require, verify-ca, verify-full",
            ));
        }
    };
    Ok((SslMode::Require, verification))
}

fn refused(reason: &'static str) -> SourceError {
    SourceError::postgres_url(reason)
}

/// Omits the password and all options except the socket.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        let (mut socket, mut hosts) = (None, vec![]);
        let ports = self.config.get_ports();
        for (i, host) in self.config.get_hosts().iter().enumerate() {
            match (host, ports.get(i).or(ports.first())) {
                (Host::Tcp(name), None | Some(&DEFAULT_PORT)) => hosts.push(name.clone()),
                (Host::Tcp(name), Some(port)) => hosts.push(format!("{name}:{port}")),
                #[cfg(unix)]
                (Host::Unix(path), _) => socket = Some(path),
            }
        }
        if self.config.get_hosts().is_empty() {
            hosts = Vec::from_iter(self.config.get_hostaddrs().iter().map(ToString::to_string));
        }
        f.write_str(&hosts.join(","))?;
        if let Some(name) = self.config.get_dbname() {
            write!(f, "/{name}")?;
        }
        match socket {
            Some(path) => write!(f, "?host={}", path.display()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn parse(rest: &str) -> PostgresUrl {
        PostgresUrl::parse(rest).unwrap()
    }

    #[test]
    fn sslmode_and_roots_decide_what_is_verified() {
        const FILE: &str = "&sslrootcert=/a.pem";
        const SYSTEM: &str = "&sslrootcert=system";
        use Verification::{Chain, ChainAndName, None};
        for (option, mode, [without, file, system]) in [
            ("", SslMode::Prefer, [None; 3]),
            ("sslmode=disable", SslMode::Disable, [None; 3]),
            ("sslmode=prefer", SslMode::Prefer, [None; 3]),
            (
                "sslmode=require",
                SslMode::Require,
                [None, Chain, ChainAndName],
            ),
            (
                "sslmode=verify-ca",
                SslMode::Require,
                [ChainAndName, Chain, ChainAndName],
            ),
            ("sslmode=verify-full", SslMode::Require, [ChainAndName; 3]),
        ] {
            for (roots, verification) in [("", without), (FILE, file), (SYSTEM, system)] {
                let url = parse(&format!("db/mint?connect_timeout=3&{option}{roots}"));
                assert_eq!(url.config.get_ssl_mode(), mode, "{option}{roots}");
                assert_eq!(url.verification, verification, "{option}{roots}");
                assert_eq!(
                    url.config.get_connect_timeout(),
                    Some(&Duration::from_secs(3))
                );
            }
        }
        assert!(PostgresUrl::parse("db/mint?sslmode=allow").is_err());
    }

    #[test]
    fn unknown_option_is_refused_without_its_value() {
        let error = PostgresUrl::parse("db/mint?sslpassword=hunter2").unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("sslrootcert") && !said.contains("hunter2"),
            "{said}"
        );
    }

    #[test]
    fn root_file_may_be_percent_encoded() {
        let roots = |rest| parse(rest).roots;
        assert_eq!(roots("db/mint"), None);
        assert_eq!(roots("db/mint?sslrootcert=system"), None);
        assert_eq!(roots("db?sslrootcert=/a/b.pem"), Some("/a/b.pem".into()));
        assert_eq!(roots("db?sslrootcert=%2Fa%20b"), Some("/a b".into()));
        assert!(PostgresUrl::parse("db?sslrootcert=%ff").is_err());
    }

    #[test]
    fn socket_has_no_tls_and_all_waits_are_limited() {
        let url = parse("/mint?host=/run/postgresql&sslmode=require");
        assert_eq!(url.config.get_ssl_mode(), SslMode::Disable);
        let url = parse("m:p%2Fw@db,other:6000/mint");
        assert_eq!(url.config.get_password(), Some(&b"p/w"[..]));
        assert_eq!(url.config.get_ssl_mode(), SslMode::Prefer);
        let seconds = Duration::from_secs;
        assert_eq!(url.config.get_connect_timeout(), Some(&seconds(10)));
        assert_eq!(url.config.get_keepalives_idle(), seconds(30));
        assert_eq!(url.config.get_application_name(), Some("nutfilter"));
    }

    #[test]
    fn several_hosts_need_one_that_writes_and_schema_is_taken() {
        let url = parse("a,b/mint?schema=my%20mint");
        assert_eq!(
            url.config.get_target_session_attrs(),
            TargetSessionAttrs::ReadWrite
        );
        assert_eq!(url.schema.as_deref(), Some("my mint"));
        let url = parse("a/mint");
        assert_eq!(
            url.config.get_target_session_attrs(),
            TargetSessionAttrs::Any
        );
        assert_eq!(url.schema, None);
    }

    #[test]
    fn question_mark_in_password_starts_no_options() {
        let url = parse("m:a?b=c@db/mint");
        assert_eq!(url.config.get_password(), Some(&b"a?b=c"[..]));
        assert_eq!(url.to_string(), "postgres://m@db/mint");
    }
}
