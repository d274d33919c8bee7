//! Postgres URLs: how to reach the server, and how to verify it.

use core::fmt;
use std::collections::HashMap;
use std::path::PathBuf;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
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
    /// One for each host; there is at least one.
    pub(super) servers: Vec<Config>,
    /// How the server's certificate is verified; `None` without TLS.
    pub(super) verification: Verification,
    /// The file with the roots; `None` for Mozilla's.
    pub(super) roots: Option<PathBuf>,
    /// The only schema to look for tables in, as in CDK's connection strings.
    pub(super) schema: Option<String>,
}

impl PostgresUrl {
    /// Parses the part after `postgres://`. The schema may follow behind a space, as in CDK's strings.
    pub(in crate::source) fn parse(rest: &str) -> Result<Self> {
        let (rest, schema) = match rest.rsplit_once(char::is_whitespace) {
            Some((rest, schema)) if schema.starts_with("schema=") => (rest.trim_end(), schema),
            _ => (rest, ""),
        };
        // The user and the password end with the first `@`, as in the parser of `tokio-postgres`.
        let behind_user = rest.find('@').map_or(0, |at| at + 1);
        let (place, query) = match rest[behind_user..].find('?') {
            Some(at) => (&rest[..behind_user + at], &rest[behind_user + at + 1..]),
            None => (rest, ""),
        };
        if place[behind_user..].contains('@') {
            // What follows would be taken for the host, and be shown.
            return Err(refused("an @ in the user, password or name must be written as %40"));
        }
        let query = query.to_owned() + &from_keywords(schema)?;
        let (mut hosts, mut kept, mut own) = (String::new(), DEFAULTS.to_owned(), HashMap::new());
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let pair = option.split_once('=');
            let (key, value) = pair.ok_or(refused("an option has no value"))?;
            if OWN.contains(&key) {
                let value = percent_decode_str(value).decode_utf8();
                let value = value.map_err(|_| refused("an option is not UTF-8"))?;
                own.insert(key, value.into_owned());
                continue;
            }
            // The parser's own message may quote the URL.
            let parsed = format!("postgres:///?{option}").parse::<Config>();
            // The name of an option is shown, unless it may be a part of a password with an & in it.
            let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'-';
            if parsed.is_err() && key.bytes().all(is_name) {
                return Err(refused(&format!(
                    "option {key} is not supported, or its value is invalid; {FORM}"
                )));
            }
            match key {
                "host" | "hostaddr" | "port" => hosts = hosts + "&" + option,
                _ => kept = kept + "&" + option,
            }
        }
        let config = |place: &str, hosts: &str| {
            let config = format!("postgres://{place}?{kept}{hosts}").parse::<Config>();
            config.map_err(|_| refused(FORM))
        };
        let all = config(place, &hosts)?;
        let name = place[behind_user..].find('/').map_or("", |at| &place[behind_user + at..]);
        let one = config(&(place[..behind_user].to_owned() + name), "")?;
        let roots = own.get("sslrootcert").map(String::as_str);
        let (mode, verification) = verification(own.get("sslmode").map(String::as_str), roots)?;
        let roots = roots.filter(|&roots| roots != SYSTEM).map(PathBuf::from);
        let servers = servers(&all, &one, mode)?;
        Ok(Self { servers, verification, roots, schema: own.remove("schema") })
    }

    /// Parses libpq's keyword form, `host=... user=...`.
    pub(in crate::source) fn parse_keywords(text: &str) -> Result<Self> {
        Self::parse(&("/?".to_owned() + &from_keywords(text)?))
    }
}

const FORM: &str = "must have the form postgres://user:password@host:port/name?options, with the options of tokio-postgres \
    and schema, sslmode, sslrootcert; percent-encode characters such as /, ? and @ in names and passwords";

/// The options of libpq's keyword form, as those of a URL.
fn from_keywords(text: &str) -> Result<String> {
    let (mut options, mut rest) = (String::new(), text.trim_start());
    while !rest.is_empty() {
        let pair = rest.split_once('=');
        let (key, value) = pair.ok_or(refused("a keyword has no value"))?;
        let value = value.trim_start();
        let is_quoted = value.starts_with('\'');
        let mut characters = value[usize::from(is_quoted)..].chars();
        let mut unquoted = String::new();
        loop {
            match characters.next() {
                Some('\\') => unquoted.extend(characters.next()),
                Some('\'') if is_quoted => break,
                Some(space) if !is_quoted && space.is_whitespace() => break,
                Some(other) => unquoted.push(other),
                None if is_quoted => return Err(refused("a quote is not closed")),
                None => break,
            }
        }
        rest = characters.as_str().trim_start();
        let values: Vec<&str> = match key.trim_end() {
            "host" => unquoted.split(',').collect(),
            _ => vec![&unquoted],
        };
        for value in values {
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            options += &format!("&{}={value}", key.trim_end());
        }
    }
    Ok(options)
}

/// The configuration of each host: `all` has all of them, and `one` is the same without any.
fn servers(all: &Config, one: &Config, mode: SslMode) -> Result<Vec<Config>> {
    let (hosts, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let count = hosts.len().max(addresses.len());
    if count == 0 {
        return Err(refused(
            "has no host; for a socket write postgres:///name?host=/run/postgresql",
        ));
    }
    let differs = |length: usize, least| length > least && length != count;
    if differs(hosts.len(), 0) || differs(addresses.len(), 0) || differs(ports.len(), 1) {
        return Err(refused("the numbers of hosts, addresses and ports differ"));
    }
    let server = |at| {
        let mut server = one.clone();
        server.ssl_mode(mode);
        match hosts.get(at) {
            #[cfg(unix)]
            Some(Host::Unix(path)) => server.host_path(path).ssl_mode(SslMode::Disable),
            Some(Host::Tcp(name)) => server.host(name),
            None => &mut server,
        };
        if let Some(&address) = addresses.get(at) {
            server.hostaddr(address);
        }
        if let Some(&port) = ports.get(at).or(ports.first()) {
            server.port(port);
        }
        if count > 1 {
            // Any other host may be a standby, which lags behind.
            server.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        server
    };
    Ok((0..count).map(server).collect())
}

/// The host of a server, for messages.
pub(super) fn name(server: &Config) -> String {
    match (server.get_hosts(), server.get_ports()) {
        ([Host::Tcp(name), ..], [] | [DEFAULT_PORT]) => name.clone(),
        ([Host::Tcp(name), ..], [port, ..]) => format!("{name}:{port}"),
        #[cfg(unix)]
        ([Host::Unix(path), ..], _) => path.display().to_string(),
        _ => server.get_hostaddrs()[0].to_string(),
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

fn refused(reason: &str) -> SourceError {
    SourceError::postgres_url(reason)
}

/// Omits the password and all options except the socket.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        let server = &self.servers[0];
        if let Some(user) = server.get_user() {
            write!(f, "{user}@")?;
        }
        let is_socket = |server: &&Config| name(server).starts_with('/');
        let (sockets, hosts): (Vec<_>, Vec<_>) = self.servers.iter().partition(is_socket);
        let names = |of: Vec<_>| Vec::from_iter(of.into_iter().map(name)).join(",");
        f.write_str(&names(hosts))?;
        if let Some(name) = server.get_dbname() {
            write!(f, "/{name}")?;
        }
        match sockets.is_empty() {
            false => write!(f, "?host={}", names(sockets)),
            true => Ok(()),
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
        use SslMode::{Disable, Prefer, Require};
        use Verification::{Chain, ChainAndName, None};
        // Without roots, with a file of them, and with Mozilla's.
        for (mode, ssl_mode, verifications) in [
            ("", Prefer, [None; 3]),
            ("sslmode=disable", Disable, [None; 3]),
            ("sslmode=prefer", Prefer, [None; 3]),
            ("sslmode=require", Require, [None, Chain, ChainAndName]),
            ("sslmode=verify-ca", Require, [ChainAndName, Chain, ChainAndName]),
            ("sslmode=verify-full", Require, [ChainAndName; 3]),
        ] {
            let roots = ["", "&sslrootcert=/a.pem", "&sslrootcert=system"];
            for (roots, verification) in roots.into_iter().zip(verifications) {
                let url = parse(&format!("db/mint?{mode}{roots}"));
                let found = (url.servers[0].get_ssl_mode(), url.verification);
                assert_eq!(found, (ssl_mode, verification), "{mode}{roots}");
            }
        }
        assert!(PostgresUrl::parse("db/mint?sslmode=allow").is_err());
    }

    #[test]
    fn keyword_form_is_read_like_a_url() {
        let keywords = |text| PostgresUrl::parse_keywords(text).unwrap();
        let url =
            keywords("host=db user=m password='a b\\'&%' dbname=mint port=5433 schema=my_mint");
        assert_eq!(url.to_string(), "postgres://m@db:5433/mint");
        assert_eq!(url.servers[0].get_password(), Some(&b"a b'&%"[..]));
        assert_eq!(url.schema.as_deref(), Some("my_mint"));
        let url = keywords("host = /run/pg,b  port=1,2 target_session_attrs=read-write");
        assert_eq!(url.servers.iter().map(name).collect::<Vec<_>>(), ["/run/pg", "b:2"]);
        let url = parse("m@db/mint schema=other");
        assert_eq!(
            (url.to_string().as_str(), url.schema.as_deref()),
            ("postgres://m@db/mint", Some("other"))
        );
        for text in
            ["host=a,b port=1,2,3", "host=a hostaddr=127.0.0.1,127.0.0.2", "host='a", "host"]
        {
            assert!(PostgresUrl::parse_keywords(text).is_err(), "{text}");
        }
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
        assert_eq!(url.servers[0].get_ssl_mode(), SslMode::Disable);
        for (url, password) in [("m:p%2Fw@db,other:6000/mint", "p/w"), ("m:a?b=c@db/mint", "a?b=c")]
        {
            assert_eq!(parse(url).servers[0].get_password(), Some(password.as_bytes()));
        }
        let url = parse("m@db,other:6000/mint?connect_timeout=3");
        assert_eq!(url.servers[0].get_ssl_mode(), SslMode::Prefer);
        let seconds = Duration::from_secs;
        assert_eq!(url.servers[0].get_connect_timeout(), Some(&seconds(3)));
        assert_eq!(parse("db").servers[0].get_connect_timeout(), Some(&seconds(10)));
        assert_eq!(url.servers[0].get_keepalives_idle(), seconds(30));
        assert_eq!(url.servers[0].get_application_name(), Some("nutfilter"));
    }

    #[test]
    fn several_hosts_need_one_that_writes_and_schema_is_taken() {
        use TargetSessionAttrs::{Any, ReadWrite};
        for (rest, target, schema) in
            [("a,b/mint?schema=my%20mint", ReadWrite, Some("my mint")), ("a/mint", Any, None)]
        {
            let url = parse(rest);
            assert_eq!(url.servers[0].get_target_session_attrs(), target);
            assert_eq!(url.schema.as_deref(), schema);
        }
    }
}
