//! Texts of the configuration, whatever they came from, as values. What is wrong with one is said in words
//! that follow its name; the source of it, and the text where it is no secret, is added by the caller.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use nutfilter_mint::{FilterService, ServiceOptions, http};

use super::config::{Listen, Secret};
use crate::value_parsers;

/// What becomes of a text: a value, or words for what is wrong with it.
pub(super) type Value<T> = Result<T, String>;

/// A whole number within these limits.
pub(super) fn number<T>(text: &str, limits: RangeInclusive<T>) -> Value<T>
where
    T: FromStr + PartialOrd + Display,
{
    match value_parsers::whole(text) {
        Ok(number) if limits.contains(&number) => Ok(number),
        Err(error @ "is not a whole number") => Err(error.to_owned()),
        _ => Err(format!(
            "must be from {} to {}",
            limits.start(),
            limits.end()
        )),
    }
}

/// Whole seconds within these limits.
pub(super) fn seconds(text: &str, limits: RangeInclusive<u64>) -> Value<Duration> {
    number(text, limits)
        .map(Duration::from_secs)
        .map_err(|error| match error.strip_prefix("must be ") {
            Some(limits) => format!("must be {limits} seconds"),
            None => "is not a whole number of seconds".to_owned(),
        })
}

/// The words for yes and no.
pub(super) const SWITCH: [&str; 8] = ["on", "off", "true", "false", "yes", "no", "1", "0"];

/// Yes or no.
pub(super) fn switch(text: &str) -> Value<bool> {
    match SWITCH
        .iter()
        .position(|word| word.eq_ignore_ascii_case(text))
    {
        Some(place) => Ok(place.is_multiple_of(2)),
        None => Err("is neither `on` nor `off`".to_owned()),
    }
}

/// The place of a word among others, in any case.
pub(super) fn word(text: &str, words: &[&str]) -> Value<usize> {
    words
        .iter()
        .position(|word| word.eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("is none of {}", words.join(", ")))
}

/// The path of a file or directory.
pub(super) fn path(text: &str) -> Value<Option<PathBuf>> {
    match text.contains('\0') {
        true => Err("holds a NUL, which no path does".to_owned()),
        false => Ok(Some(text.into())),
    }
}

/// `HOST:PORT`, or `unix:` and the path of a socket.
pub(super) fn listen(text: &str) -> Value<Listen> {
    if let Some(path) = text.strip_prefix("unix:") {
        // `unix:///run/x.sock` is as common.
        let path = path.strip_prefix("//").unwrap_or(path);
        return match path.starts_with('/') {
            true => Ok(Listen::Unix(path.into())),
            false => Err("needs the whole path of the socket, from / on".to_owned()),
        };
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err("is neither HOST:PORT nor unix:/PATH".to_owned());
    };
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || bare_ipv6 || host.contains(char::is_whitespace) {
        return Err(
            "has no host in front of the port; an address of IPv6 stands in brackets".to_owned(),
        );
    }
    number::<u16>(port, 0..=u16::MAX).map_err(|error| format!("has a port that {error}"))?;
    Ok(Listen::Tcp(text.to_owned()))
}

/// A host name or address.
pub(super) fn host(text: &str) -> Value<String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '/';
    match text.contains(odd) {
        true => Err("is no host name or address".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A path that the router can be put under.
pub(super) fn base_path(text: &str) -> Value<String> {
    let router = http::router(FilterService::new(ServiceOptions::default()));
    match http::under(text, router) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(
            "is no base path: segments of letters, digits and -._~, with / between them".to_owned(),
        ),
    }
}

/// The permissions of a file, in octal digits.
pub(super) fn mode(text: &str) -> Value<u32> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(mode),
        _ => Err("must be three octal digits, as 660".to_owned()),
    }
}

/// A URL that can be fetched.
pub(super) fn url(text: &str) -> Value<Option<Secret>> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    match rest {
        None => Err("is no URL: one begins with http:// or https://".to_owned()),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            Err("is a URL without a host".to_owned())
        }
        // It would be sent to nobody: the mint's info is public.
        Some(rest) if rest.contains('@') => {
            Err("holds a user name or password, and the mint asks for none".to_owned())
        }
        Some(rest) if rest.contains(|c: char| c.is_whitespace() || c.is_control()) => {
            Err("is no URL: there is white space in it".to_owned())
        }
        Some(_) => Ok(Some(Secret(text.trim_end_matches('/').to_owned()))),
    }
}

/// The shortest token that is let in: whoever guesses it can keep the database busy.
const SHORTEST_TOKEN: usize = 16;

/// The longest, so that it fits into a header.
const LONGEST_TOKEN: usize = 512;

/// A token for the `Authorization` header.
pub(super) fn token(text: &str) -> Value<Option<Secret>> {
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("may hold printable ASCII characters alone, and no space".to_owned());
    }
    if !(SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&text.len()) {
        return Err(format!(
            "must have from {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters"
        ));
    }
    Ok(Some(Secret(text.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_held_within_their_limits() {
        assert_eq!(number("5", 1..=5), Ok(5_u32));
        for text in ["0", "6", "-1", "99999999999"] {
            assert_eq!(
                number::<u32>(text, 1..=5),
                Err("must be from 1 to 5".to_owned())
            );
        }
        assert_eq!(
            number::<u32>("x", 1..=5),
            Err("is not a whole number".to_owned())
        );
        assert_eq!(
            seconds("0", 1..=9),
            Err("must be from 1 to 9 seconds".to_owned())
        );
        assert_eq!(
            seconds("1m", 1..=9),
            Err("is not a whole number of seconds".to_owned())
        );
    }

    #[test]
    fn places_to_listen_are_hosts_with_a_port_or_sockets() {
        let tcp = |text: &str| Ok(Listen::Tcp(text.to_owned()));
        for text in ["127.0.0.1:0", "localhost:65535", "[::1]:80", "0.0.0.0:3339"] {
            assert_eq!(listen(text), tcp(text));
        }
        for text in ["unix:/run/a.sock", "unix:///run/a.sock"] {
            assert_eq!(listen(text), Ok(Listen::Unix("/run/a.sock".into())));
        }
        for text in [
            "",
            "80",
            ":80",
            "::1:80",
            "host:",
            "host:65536",
            "host:-1",
            "a b:1",
            "unix:",
            "unix:a.sock",
        ] {
            assert!(listen(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_for_yes_and_no_are_told_apart() {
        for (text, wanted) in [("on", true), ("OFF", false), ("True", true), ("0", false)] {
            assert_eq!(switch(text), Ok(wanted));
        }
        assert!(switch("maybe").is_err());
    }

    #[test]
    fn a_mode_is_octal() {
        assert_eq!(mode("660"), Ok(0o660));
        assert_eq!(mode("0600"), Ok(0o600));
        for text in ["", "668", "1777", "rw", "+60"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_that_can_be_guessed_or_not_be_sent_is_refused() {
        assert!(token("0123456789abcdef").is_ok());
        for text in [
            "0123456789abcde",
            "0123456789 abcdef",
            "0123456789abcde\u{e9}",
        ] {
            assert!(token(text).is_err(), "{text}");
        }
        assert!(token(&"x".repeat(513)).is_err());
    }

    #[test]
    fn a_url_has_a_host() {
        assert_eq!(
            url("https://mint.example/").unwrap().unwrap().reveal(),
            "https://mint.example"
        );
        for text in [
            "https://user:hunter2@mint.example",
            "mint.example",
            "ftp://mint",
            "https://",
            "http:///x",
            "https://a b",
        ] {
            assert!(url(text).is_err(), "{text}");
        }
    }
}
