//! A proxy between a wallet and its mint: HTTP (`CONNECT`) or SOCKS5.

use std::fmt;

use ureq::http::Uri;

use crate::error::{FetchError, without_userinfo};

/// A proxy for every connection to the mint. There is no direct fallback: when the proxy fails, the request fails.
///
/// | URL | who resolves the mint's name |
/// |---|---|
/// | `http://host:port` | the proxy, which must allow `CONNECT` to the mint's port |
/// | `socks5h://host:port` | the proxy: use this for Tor |
/// | `socks5://host:port` | this machine, so its name server learns the mint's name |
///
/// User name and password precede the host, percent-encoded: `socks5h://user:password@host:port`. They are never
/// printed.
///
/// ```
/// use nutfilter_wallet::{MintClient, Policy, Proxy};
///
/// let tor = Proxy::parse("socks5h://127.0.0.1:9050")?;
/// let client = MintClient::new("https://mint.example", Policy::default())?.with_proxy(tor);
/// # Ok::<(), nutfilter_wallet::FetchError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    inner: ureq::Proxy,
    /// The URL without user name and password.
    shown: String,
}

impl Proxy {
    /// Parses a proxy's URL. The default scheme is `http://`.
    ///
    /// # Errors
    ///
    /// [`FetchError::BadProxy`].
    pub fn parse(url: &str) -> Result<Self, FetchError> {
        let refuse = |why| FetchError::bad_proxy(url, why);
        let full = match url.contains("://") {
            true => url.to_owned(),
            false => format!("http://{url}"),
        };
        let uri: Uri = full.parse().map_err(|_| refuse("not a URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "socks5" | "socks5h")) {
            return Err(refuse("must begin with http://, socks5:// or socks5h://"));
        }
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(refuse("no host"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || url.contains('#') {
            return Err(refuse("must not contain a path, a query or a fragment"));
        }
        let inner = ureq::Proxy::new(&full).map_err(|_| refuse("unsupported"))?;
        let shown = format!(
            "{}://{host}:{}",
            uri.scheme_str().unwrap_or_default(),
            inner.port()
        );
        Ok(Self { inner, shown })
    }

    /// Reads the proxy for the mint at `base` from the environment. The variables are `https_proxy` for https and
    /// `http_proxy` for http, then `all_proxy`; each is also read in capitals. An empty variable counts as unset.
    ///
    /// `no_proxy` is a comma-separated list of hosts for direct connections: `*` means all hosts, `example.org`
    /// means that host and its subdomains.
    ///
    /// [`MintClient`](crate::MintClient) does not call this by itself.
    ///
    /// # Errors
    ///
    /// [`FetchError::BadProxy`] for a variable with an invalid value, [`FetchError::BadUrl`] for an invalid mint
    /// URL.
    pub fn from_environment(base: &str) -> Result<Option<Self>, FetchError> {
        Self::from_variables(base, |name| std::env::var(name).ok())
    }

    fn from_variables(
        base: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, FetchError> {
        let uri: Uri = base
            .parse()
            .map_err(|_| FetchError::bad_url(base, "not a URL"))?;
        let variable = |name: &str| {
            [name.to_owned(), name.to_uppercase()]
                .iter()
                .filter_map(|name| variable(name))
                .find(|value| !value.is_empty())
        };
        let own = match uri.scheme_str() {
            Some("https") => "https_proxy",
            _ => "http_proxy",
        };
        let Some(proxy) = variable(own).or_else(|| variable("all_proxy")) else {
            return Ok(None);
        };
        let direct = variable("no_proxy").unwrap_or_default();
        if is_listed(uri.host().unwrap_or_default(), &direct) {
            return Ok(None);
        }
        Self::parse(&proxy).map(Some)
    }

    /// Whether this machine resolves the mint's name (`socks5://`), which reveals the name to its name server.
    #[must_use]
    pub fn resolves_locally(&self) -> bool {
        self.inner.resolve_target()
    }

    pub(crate) fn inner(&self) -> &ureq::Proxy {
        &self.inner
    }
}

/// Whether a host is in a `no_proxy` list.
fn is_listed(host: &str, list: &str) -> bool {
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    list.split(',').map(str::trim).any(|entry| {
        let entry = entry.trim_matches(['[', ']']).to_ascii_lowercase();
        let name = entry.trim_start_matches("*.").trim_start_matches('.');
        entry == "*"
            || !name.is_empty()
                && (host == name
                    || host
                        .strip_suffix(name)
                        .is_some_and(|below| below.ends_with('.')))
    })
}

/// Without user name and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Without user name and password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({})", self.shown)
    }
}

impl FetchError {
    fn bad_proxy(url: &str, why: &'static str) -> Self {
        FetchError::BadProxy {
            url: crate::error::printable(&without_userinfo(url)),
            why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_shown_without_its_password() {
        for (url, shown) in [
            ("socks5h://127.0.0.1:9050", "socks5h://127.0.0.1:9050"),
            ("socks5://user:hunter2@[::1]", "socks5://[::1]:1080"),
            (
                "http://user:hunter2@proxy.example:3128/",
                "http://proxy.example:3128",
            ),
            ("proxy.example:3128", "http://proxy.example:3128"),
        ] {
            let proxy = Proxy::parse(url).expect(url);
            assert_eq!(proxy.to_string(), shown);
            assert!(!format!("{proxy:?}").contains("hunter2"), "{proxy:?}");
        }
        assert!(
            Proxy::parse("socks5://h")
                .expect("a URL")
                .resolves_locally()
        );
        assert!(
            !Proxy::parse("socks5h://h")
                .expect("a URL")
                .resolves_locally()
        );
        assert!(!Proxy::parse("http://h").expect("a URL").resolves_locally());
    }

    #[test]
    fn invalid_proxies_are_rejected_without_their_password() {
        for url in [
            "",
            "socks4://proxy.example",
            "socks://proxy.example",
            "https://proxy.example",
            "http://",
            "http://user:hunter2@proxy.example/path",
            "ftp://user:hunter2@proxy.example",
            "http://proxy.example?x",
            "socks5h://proxy example",
        ] {
            let error = Proxy::parse(url).expect_err(url);
            let text = format!("{error} {error:?}");
            assert!(
                text.contains("proxy URL") && !text.contains("hunter2"),
                "{text}"
            );
        }
    }

    #[test]
    fn environment_names_a_proxy_by_the_mints_scheme() {
        let found = |base: &str, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            Proxy::from_variables(base, variable)
                .map(|proxy| proxy.map(|proxy| proxy.to_string()))
                .map_err(|error| error.to_string())
        };
        let all = [
            ("http_proxy", "a:1"),
            ("HTTPS_PROXY", "b:2"),
            ("ALL_PROXY", "socks5h://c:3"),
        ];
        let is = |shown: &str| Ok(Some(shown.to_owned()));
        assert_eq!(found("http://mint.example", &all), is("http://a:1"));
        assert_eq!(found("https://mint.example", &all), is("http://b:2"));
        assert_eq!(
            found("https://mint.example", &all[2..]),
            is("socks5h://c:3")
        );
        assert_eq!(found("https://mint.example", &all[..1]), Ok(None));
        assert_eq!(
            found("https://mint.example", &[("https_proxy", "")]),
            Ok(None)
        );
        for (list, direct) in [
            ("mint.example", true),
            ("localhost, .Example", true),
            ("*.example", true),
            ("*", true),
            ("int.example", false),
            ("mint.example.org", false),
            (",", false),
        ] {
            let variables = [("ALL_PROXY", "socks5h://c:3"), ("no_proxy", list)];
            let proxy = found("https://mint.example/Bitcoin", &variables);
            assert_eq!(proxy == Ok(None), direct, "{list}");
        }
        // An invalid variable must not be ignored.
        let error = found(
            "https://mint.example",
            &[("all_proxy", "socks4://u:hunter2@c")],
        );
        assert!(error.is_err_and(|error| !error.contains("hunter2")));
    }
}
