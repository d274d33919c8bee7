//! The tables of both mints.

use nutfilter_mint::MintType;

/// SQL that creates them on Postgres. On SQLite, two of the types have other names.
pub(crate) fn tables(mint: MintType) -> &'static str {
    match mint {
        MintType::Nutshell => include_str!("../../../../sample/src/nutshell.sql"),
        _ => include_str!("../../../../sample/src/cdk.sql"),
    }
}
