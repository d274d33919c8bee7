//! A proxy between a wallet and its mint, as the HTTP library knows it.

use std::fmt;

use ureq::http::Uri;

use crate::error::{FetchError, printable, without_userinfo};

/// A proxy for every connection to the mint. There is no direct fallback: when the proxy fails, the request fails.
///
/// | URL | who resolves the mint's name |
/// |---|---|
/// | `http://host:port`, `https://host:port` | the proxy, which must allow `CONNECT` to the mint's port |
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
pub struct Proxy(ureq::Proxy);

/// The variables that [`ureq::Proxy::try_from_env`] reads, in its order.
const VARIABLES: [&str; 3] = ["all_proxy", "https_proxy", "http_proxy"];

impl Proxy {
    /// Parses a proxy's URL. The default scheme is `http://`.
    ///
    /// # Errors
    ///
    /// [`FetchError::BadProxy`].
    pub fn parse(url: &str) -> Result<Self, FetchError> {
        let proxy = ureq::Proxy::new(url).map(Self);
        proxy.map_err(|_| FetchError::BadProxy { url: printable(&without_userinfo(url)) })
    }

    /// Reads the proxy for the mint at `base` from the environment: the first of `ALL_PROXY`, `HTTPS_PROXY` and
    /// `HTTP_PROXY`, each also in lower case. `NO_PROXY` is a comma-separated list of hosts for direct connections:
    /// `*` means all hosts, `.example.org` all subdomains.
    ///
    /// [`MintClient`](crate::MintClient) does not call this by itself.
    ///
    /// # Errors
    ///
    /// [`FetchError::BadProxy`] for a variable with an invalid value, [`FetchError::BadUrl`] for an invalid mint
    /// URL.
    pub fn from_environment(base: &str) -> Result<Option<Self>, FetchError> {
        let mint: Uri = base.parse().map_err(|_| FetchError::bad_url(base, "not a URL"))?;
        // The library ignores an invalid variable, and would connect directly.
        for name in VARIABLES.map(|name| [name.to_owned(), name.to_uppercase()]) {
            for value in name.iter().filter_map(|name| std::env::var(name).ok()) {
                if !value.is_empty() {
                    Self::parse(&value)?;
                }
            }
        }
        let proxy = ureq::Proxy::try_from_env().filter(|proxy| !proxy.is_no_proxy(&mint));
        Ok(proxy.map(Self))
    }

    /// Whether this machine resolves the mint's name (`socks5://`), which reveals the name to its name server.
    #[must_use]
    pub fn resolves_locally(&self) -> bool {
        self.0.resolve_target()
    }

    pub(crate) fn inner(&self) -> &ureq::Proxy {
        &self.0
    }
}

/// Without user name and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.uri().scheme_str().unwrap_or_default();
        write!(f, "{scheme}://{}:{}", self.0.host(), self.0.port())
    }
}

/// Without user name and password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_shown_without_its_password() {
        for (url, shown, is_local) in [
            ("socks5h://127.0.0.1:9050", "socks5h://127.0.0.1:9050", false),
            ("socks5://user:hunter2@[::1]", "socks5://[::1]:1080", true),
            ("http://user:hunter2@proxy.example:3128/", "http://proxy.example:3128", false),
            ("proxy.example:3128", "http://proxy.example:3128", false),
        ] {
            let proxy = Proxy::parse(url).expect(url);
            assert_eq!(proxy.to_string(), shown);
            assert!(!format!("{proxy:?}").contains("hunter2"), "{proxy:?}");
            assert_eq!(proxy.resolves_locally(), is_local, "{url}");
        }
        for url in ["", "http://", "ftp://user:hunter2@proxy.example", "socks5h://proxy example"] {
            let error = Proxy::parse(url).expect_err(url);
            let text = format!("{error} {error:?}");
            assert!(text.contains("proxy URL") && !text.contains("hunter2"), "{text}");
        }
    }
}
