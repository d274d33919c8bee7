//! Words of the command line that stand for values of the libraries.

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

fn words<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.map(|(word, help, _)| PossibleValue::new(word).help(help))).map(
        move |given| {
            let found = words.into_iter().find(|(word, ..)| *word == given);
            found.expect("only these words are let in").2
        },
    )
}
