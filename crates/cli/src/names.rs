//! Words and numbers of the command line.

use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nutfilter::Kind;
use nutfilter_mint::MintType;

/// `spent` or `issued`.
pub(crate) fn kind() -> impl TypedValueParser<Value = Kind> {
    words(Kind::ALL.map(|kind| {
        let help = match kind {
            Kind::Spent => "Spent notes, by their Y",
            Kind::Issued => "Signed blinded messages, by their B_",
        };
        (kind.as_str(), help, kind)
    }))
}

/// The mints whose databases can be read.
pub(crate) fn mint_type() -> impl TypedValueParser<Value = MintType> {
    words(MintType::ALL.map(|mint| {
        let help = match mint {
            MintType::Cdk => "Cashu Development Kit (Rust)",
            MintType::Nutshell => "nutshell (Python)",
            _ => "",
        };
        (mint.as_str(), help, mint)
    }))
}

/// A whole number, with a better word than "invalid digit" for one that is out of range.
pub(crate) fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            "is not a whole number"
        } else if digits.bytes().all(|byte| byte == b'0') {
            "must not be zero"
        } else if text.starts_with('-') {
            "is below zero"
        } else {
            "is too large"
        }
    })
}

/// Bytes: a whole number, with K, M, G or T for powers of 1,024 behind it.
pub(crate) fn bytes(text: &str) -> Result<usize, &'static str> {
    const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let short = text.strip_suffix("iB").unwrap_or(text);
    let unit = UNITS
        .iter()
        .find(|(unit, _)| short.ends_with(|last: char| last.eq_ignore_ascii_case(unit)));
    match unit {
        None => whole(text).map_err(|error| match error {
            "is not a whole number" => "is not a number of bytes, as 512M or 2G would be",
            other => other,
        }),
        Some(&(_, shift)) => {
            let number: usize = whole(&short[..short.len() - 1])?;
            number.checked_mul(1 << shift).ok_or("is too large")
        }
    }
}

fn words<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.map(|(word, help, _)| PossibleValue::new(word).help(help))).map(
        move |given| {
            let found = words
                .into_iter()
                .find(|(word, ..)| word.eq_ignore_ascii_case(&given));
            found.expect("only these words are let in").2
        },
    )
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_told_from_what_is_no_number() {
        assert_eq!(whole::<u64>("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(whole::<u64>("18446744073709551616"), Err("is too large"));
        assert_eq!(whole::<u32>("4294967296"), Err("is too large"));
        assert_eq!(whole::<u32>("-1"), Err("is below zero"));
        assert_eq!(whole::<NonZeroUsize>("0"), Err("must not be zero"));
        for text in ["", "-", "1.5", "1e6", "0x10", " 1"] {
            assert_eq!(whole::<u64>(text), Err("is not a whole number"), "{text:?}");
        }
    }

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, wanted) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("64K", 64 << 10),
            ("512M", 512 << 20),
            ("2g", 2 << 30),
            ("2GiB", 2 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(bytes(text), Ok(wanted), "{text}");
        }
        for text in [
            "",
            "M",
            "1.5G",
            "-1M",
            "12X",
            "1 G",
            "1MB",
            "GiB",
            "99999999999T",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
