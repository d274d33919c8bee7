//! Parsers for the values of options.

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
    use super::*;

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
