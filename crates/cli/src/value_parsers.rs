//! Parsers for the values of options.

use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nutfilter_cashu::NoteKind;
use nutfilter_mint::MintType;

/// `spent` or `issued`.
pub(crate) fn kind() -> impl TypedValueParser<Value = NoteKind> {
    words(NoteKind::ALL.map(|kind| {
        let help = match kind {
            NoteKind::Spent => "Spent notes, by their Y",
            NoteKind::Issued => "Signed blinded messages, by their B_",
        };
        (kind.as_str(), help, kind)
    }))
}

/// The supported mint implementations.
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

/// Parses a whole number. For a number out of range the error says so, instead of "invalid digit".
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

/// Parses a count, such as 1000000, 1e6, 2.5M or 10k.
pub(crate) fn count<T: TryFrom<u128>>(text: &str) -> Result<T, &'static str> {
    const UNITS: [(char, f64); 4] = [('k', 1e3), ('m', 1e6), ('g', 1e9), ('t', 1e12)];
    /// Above it, not every number is a double.
    const MOST: f64 = (1_u64 << 53) as f64;
    let exact = || T::try_from(text.parse().ok()?).ok();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return exact().ok_or("is too large");
    }
    let lower = text.to_ascii_lowercase();
    let unit = UNITS
        .iter()
        .find_map(|&(unit, factor)| Some((lower.strip_suffix(unit)?.trim_end(), factor)));
    let (number, factor) = unit.unwrap_or((&lower, 1.0));
    let value = number.parse::<f64>().map(|number| number * factor);
    match value.map_err(|_| "is not a whole number")? {
        value if value < 0.0 => Err("is below zero"),
        value if value > MOST => Err("is too large"),
        value if value.fract() == 0.0 => T::try_from(value as u128).map_err(|_| "is too large"),
        _ => Err("is not a whole number"),
    }
}

/// Parses a false-positive rate: a number, a fraction or a percentage.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let number = |text: &str| -> Result<f64, String> {
        text.trim()
            .parse()
            .map_err(|_| format!("{text:?} is not a number"))
    };
    match text.split_once('/') {
        Some((above, below)) => Ok(number(above)? / number(below)?),
        None => match text.strip_suffix('%') {
            Some(percent) => Ok(number(percent)? / 100.0),
            None => number(text),
        },
    }
}

pub(crate) fn words<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.map(|(word, help, _)| PossibleValue::new(word).help(help))).map(
        move |given| {
            let found = words
                .into_iter()
                .find(|(word, ..)| word.eq_ignore_ascii_case(&given));
            found.expect("the parser accepts only these words").2
        },
    )
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    #[test]
    fn out_of_range_differs_from_not_a_number() {
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
    fn counts_accept_exponents_and_units_of_1000() {
        for (text, wanted) in [
            ("0", 0),
            ("1000000", 1_000_000),
            ("1e6", 1_000_000),
            ("1E6", 1_000_000),
            ("2.5e1", 25),
            ("1M", 1_000_000),
            ("10k", 10_000),
            ("1.5G", 1_500_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count(text), Ok(wanted), "{text}");
        }
        assert_eq!(count::<u32>("1e10"), Err("is too large"));
        assert_eq!(count::<u64>("1e99999"), Err("is too large"));
        assert_eq!(count::<u64>("-5"), Err("is below zero"));
        for text in [
            "", "M", "1.5", "1e", "1e-3", "0x10", "1M2", "1kk", "1,000", "many", "-", "nan",
        ] {
            assert_eq!(count::<u64>(text), Err("is not a whole number"), "{text:?}");
        }
    }

    #[test]
    fn rates_are_parsed_in_each_spelling() {
        assert_eq!(rate("0.25"), Ok(0.25));
        assert_eq!(rate("1e-6"), Ok(1e-6));
        assert_eq!(rate("1%"), Ok(0.01));
        assert_eq!(rate("1/784931"), Ok(1.0 / 784_931.0));
        assert!(rate("one in ten").is_err());
        assert!(rate("1/").is_err());
    }
}
