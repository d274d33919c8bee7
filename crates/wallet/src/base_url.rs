//! The base URL of a mint.

use ureq::http::Uri;

use crate::error::FetchError;

/// A mint's base URL: absolute, http or https, without credentials, query or fragment.
#[derive(Clone, Debug)]
pub(crate) struct BaseUrl {
    /// Without trailing slashes.
    text: String,
}

impl BaseUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, FetchError> {
        let refuse = |why| FetchError::bad_url(url, why);
        if !url.is_ascii() {
            return Err(refuse(
                "host and path must be ASCII: xn--... for the host, %XX in the path",
            ));
        }
        let uri: Uri = url.parse().map_err(|_| refuse("not a URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(refuse("must begin with http:// or https://"));
        }
        let authority = uri.authority().ok_or_else(|| refuse("no host"))?;
        if authority.host().is_empty() {
            return Err(refuse("no host"));
        }
        if authority.as_str().contains('@') {
            return Err(refuse("must not contain a user name or password"));
        }
        if uri.query().is_some() || url.contains('#') {
            return Err(refuse("must not contain a query or a fragment"));
        }
        Ok(Self { text: url.trim_end_matches('/').to_owned() })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn join(&self, path: &str) -> Result<Uri, FetchError> {
        let url = format!("{}{path}", self.text);
        url.parse().map_err(|_| FetchError::bad_url(&url, "not a URL"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_keeps_its_path_and_loses_trailing_slashes() {
        for base in ["https://mint.example/Bitcoin", "https://mint.example/Bitcoin/"] {
            let base = BaseUrl::parse(base).expect("a good base");
            let full = base.join("/v1/info").expect("a good URL");
            assert_eq!(full, "https://mint.example/Bitcoin/v1/info");
        }
        let bare = BaseUrl::parse("http://[::1]:3338").expect("a good base");
        assert_eq!(bare.join("/v1").expect("a good URL"), "http://[::1]:3338/v1");
    }

    #[test]
    fn invalid_mint_urls_are_rejected() {
        for bad in [
            "",
            "mint.example",
            "ftp://mint.example",
            "file:///etc/passwd",
            "https://",
            "https://user:word@mint.example",
            "https://mint.example?x=1",
            "https://mint.example/#x",
            "https://mint example/",
            "https://münze.example",
        ] {
            assert!(
                matches!(BaseUrl::parse(bad), Err(FetchError::BadUrl { .. })),
                "{bad:?} was taken"
            );
        }
    }

    #[test]
    fn rejected_url_is_quoted_without_credentials() {
        for (bad, shown) in [
            ("https://user:hunter2@mint.example", "https://…@mint.example"),
            // An invalid URL that contains a password.
            ("https://user:w/o@r d@mint.example/x", "https://…@mint.example/x"),
            ("user:hunter2@mint.example", "…@mint.example"),
            ("ftp://hunter2@mint.example", "ftp://…@mint.example"),
            ("https://mint.example?x=1", "https://mint.example?x=1"),
        ] {
            let error = BaseUrl::parse(bad).expect_err(bad);
            let text = format!("{error} {error:?}");
            assert!(!text.contains("hunter2") && !text.contains("w/o"), "{text}");
            assert!(matches!(&error, FetchError::BadUrl { url, .. } if url == shown), "{error}");
        }
    }
}
