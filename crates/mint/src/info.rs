//! The mint's own `/v1/info` (NUT-06), with the filters announced in it.
//!
//! If a reverse proxy routes `/v1/info` here, wallets learn of the filters at the place that they query first. Each answer
//! is what the mint says at that moment, with one entry more in `nuts`; all other values are passed on unparsed. If the
//! mint is down, so is its info. If the mint has an entry of that name itself, it is kept.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;
use ureq::Agent;
use ureq::http::Uri;

/// Longest info that is read, in bytes. Real ones take a few thousand bytes, or tens of thousands with an embedded
/// picture.
const MAX_BYTES: u64 = 1 << 20;

/// Time limit of one fetch, from the name lookup to the last byte.
const DEADLINE: Duration = Duration::from_secs(10);

/// The entry that announces filters, unless another name is chosen. The number of the draft, 25, is that of BOLT12 today.
pub const DEFAULT_INFO_KEY: &str = "filters";

/// Fetches the mint's info and announces the filters in it.
#[derive(Debug)]
pub struct MintInfo {
    agent: Agent,
    url: Uri,
    key: String,
}

impl MintInfo {
    /// The info of the mint at `mint`, such as `http://127.0.0.1:3338` or `https://mint.example/Bitcoin`, with the entry
    /// `key` in `nuts`.
    ///
    /// # Errors
    ///
    /// If the URL is invalid.
    pub fn new(mint: &str, key: &str) -> Result<Self, InfoError> {
        if !mint.starts_with("http://") && !mint.starts_with("https://") {
            return Err(InfoError::Url("must begin with http:// or https://"));
        }
        let url: Uri = format!("{}/v1/info", mint.trim_end_matches('/'))
            .parse()
            .map_err(|_| InfoError::Url("not a URL"))?;
        if url
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(InfoError::Url("must not contain a user name or password"));
        }
        if url.query().is_some() || mint.contains('#') {
            return Err(InfoError::Url("must not contain a query or a fragment"));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // The mint is on the local side. A proxy for outside traffic must not be used for it.
            .proxy(None)
            .user_agent(concat!("nutfilter/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .accept_encoding("identity")
            .timeout_global(Some(DEADLINE))
            .build()
            .new_agent();
        Ok(Self {
            agent,
            url,
            key: key.to_owned(),
        })
    }

    /// The mint's info of this moment, as JSON. Blocks for at most 10 s.
    ///
    /// # Errors
    ///
    /// If the mint does not answer with an info.
    pub fn fetch(&self) -> Result<Vec<u8>, InfoError> {
        let mut response = self.agent.get(&self.url).call().map_err(Box::new)?;
        if response.status() != 200 {
            return Err(InfoError::Status(response.status().as_u16()));
        }
        let body = response.body_mut().with_config().limit(MAX_BYTES);
        announce(&body.read_to_vec().map_err(Box::new)?, &self.key)
    }
}

/// Why there is no info. No message contains a URL, because a URL may be confidential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InfoError {
    /// The URL of the mint is invalid.
    #[error("invalid mint URL: {0}")]
    Url(&'static str),
    /// The mint cannot be reached, or breaks off.
    #[error("could not reach the mint: {0}{hint}", hint = not_tls(.0))]
    Transport(#[from] Box<ureq::Error>),
    /// The mint answers with another status than 200; redirects are not followed.
    #[error("the mint returned {0}")]
    Status(u16),
    /// The answer is not an info.
    #[error("invalid mint info (NUT-06): {0}")]
    Malformed(String),
}

/// What rustls says of an answer that is not TLS helps nobody.
fn not_tls(error: &ureq::Error) -> &'static str {
    match error.to_string().contains("InvalidContentType") {
        true => "; it does not speak TLS there: give its http:// address",
        false => "",
    }
}

/// Adds the entry `key` to `nuts`, unless the mint has one. Every other value stays as it is.
fn announce(info: &[u8], key: &str) -> Result<Vec<u8>, InfoError> {
    let malformed = |error: serde_json::Error| InfoError::Malformed(error.to_string());
    let mut members: Members = serde_json::from_slice(info).map_err(malformed)?;
    let mut nuts = match members.get("nuts") {
        Some(nuts) => serde_json::from_str(nuts.get()).map_err(malformed)?,
        None => Members::new(),
    };
    if !nuts.contains_key(key) {
        let entry = RawValue::from_string(r#"{"supported":true}"#.to_owned()).map_err(malformed)?;
        nuts.insert(key.to_owned(), entry);
    }
    let nuts = serde_json::value::to_raw_value(&nuts).map_err(malformed)?;
    members.insert("nuts".to_owned(), nuts);
    serde_json::to_vec(&members).map_err(malformed)
}

/// The members of an object, with unparsed values. If a name occurs twice, the last one counts, as for most parsers.
type Members = BTreeMap<String, Box<RawValue>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_values_are_unchanged() {
        for (info, expected) in [
            (
                r#"{ "name" : "x\u00e9", "big":1.10e30, "nuts": { "4":{ "methods":[] } , "7": {}} , "z":[1, 2] }"#,
                r#"{"big":1.10e30,"name":"x\u00e9","nuts":{"25":{"supported":true},"4":{ "methods":[] },"7":{}},"z":[1, 2]}"#,
            ),
            ("{}", r#"{"nuts":{"25":{"supported":true}}}"#),
            // A `nuts` in another object does not count.
            (
                r#"{"x":{"nuts":{}},"n\u0075ts":{}}"#,
                r#"{"nuts":{"25":{"supported":true}},"x":{"nuts":{}}}"#,
            ),
            // The mint's own entry stays.
            (r#"{"nuts":{"25":[]}}"#, r#"{"nuts":{"25":[]}}"#),
        ] {
            let made = announce(info.as_bytes(), "25").expect("an info");
            assert_eq!(String::from_utf8(made).expect("text"), expected);
        }
    }

    #[test]
    fn invalid_info_is_refused() {
        for info in [
            "",
            "[]",
            "null",
            "{",
            "{}x",
            "\"{}\"",
            r#"{"nuts":[]}"#,
            r#"{"nuts":null}"#,
            "{\"a\":}",
        ] {
            let error = announce(info.as_bytes(), "25").expect_err(info);
            assert!(error.to_string().starts_with("invalid mint info"));
        }
        assert!(announce(b"{\"a\":\"\xff\"}", "25").is_err());
        // Deep nesting must not overflow the stack.
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let _ = announce(deep.as_bytes(), "25");
    }

    #[test]
    fn invalid_urls_are_refused_and_not_quoted() {
        for url in [
            "mint.example",
            "ftp://mint.example",
            "http://",
            "http://user:secret@mint.example",
            "http://mint.example/?a=secret",
            "http://mint.example/#secret",
            "http://a b/",
        ] {
            let error = MintInfo::new(url, "filters").expect_err(url).to_string();
            assert!(
                !error.contains("secret") && !error.contains("mint.example"),
                "{error}"
            );
        }
    }
}
