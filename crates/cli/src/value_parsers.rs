//! Parsers for the values of options.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use nutfilter_cashu::NoteKind;
use nutfilter_mint::MintType;
use nutfilter_wallet::Fallback;

/// `spent` or `issued`.
pub(crate) fn kind() -> impl TypedValueParser<Value = NoteKind> {
    words(NoteKind::ALL, NoteKind::as_str)
}

/// The supported mint implementations.
pub(crate) fn mint_type() -> impl TypedValueParser<Value = MintType> {
    words(MintType::ALL, MintType::as_str)
}

/// When a restore may show the mint every message.
pub(crate) fn fallback() -> impl TypedValueParser<Value = Fallback> {
    let all = [Fallback::Never, Fallback::Unannounced, Fallback::Always];
    words(all, |when| match when {
        Fallback::Never => "never",
        Fallback::Unannounced => "unannounced",
        Fallback::Always => "always",
    })
}

fn words<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: impl Fn(T) -> &'static str + Copy + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name)).map(move |given| {
        let found = all.into_iter().find(|&one| name(one).eq_ignore_ascii_case(&given));
        found.expect("the parser accepts only these words")
    })
}
