//! The rows that the mints write on Postgres.

use nutfilter_mint::{MintType, NoteKind};

pub(crate) fn insert_keyset(mint: MintType, id: &str) -> String {
    match mint {
        MintType::Nutshell => format!(
            "INSERT INTO keysets (id, unit, active, input_fee_ppk) VALUES ('{id}', 'sat', true, 100);"
        ),
        _ => format!(
            "INSERT INTO keyset (id, unit, active, input_fee_ppk, valid_from, derivation_path)
             VALUES ('{id}', 'sat', true, 100, 1700000000, '0');"
        ),
    }
}

/// Inserts a note that counts, or, if `member` is false, one that does not count yet. nutshell's spent notes always
/// count.
pub(crate) fn insert_member(
    mint: MintType,
    kind: NoteKind,
    keyset: &str,
    item: &[u8],
    member: bool,
) -> String {
    let item = hex(item);
    match (mint, kind) {
        (MintType::Nutshell, NoteKind::Spent) => format!(
            "INSERT INTO proofs_used (amount, id, c, secret, y)
             VALUES (1, '{keyset}', '02', 'secret', '{item}');"
        ),
        (MintType::Nutshell, NoteKind::Issued) => {
            let signature = if member { "'02'" } else { "NULL" };
            format!(
                "INSERT INTO promises (amount, id, b_, c_) VALUES (1, '{keyset}', '{item}', {signature});"
            )
        }
        (_, NoteKind::Spent) => {
            let state = if member { "SPENT" } else { "PENDING" };
            format!(
                "INSERT INTO proof (y, amount, keyset_id, secret, c, state)
                 VALUES (decode('{item}', 'hex'), 1, '{keyset}', 'secret', '\\x02', '{state}');"
            )
        }
        (_, NoteKind::Issued) => {
            let signature = if member { "'\\x02'" } else { "NULL" };
            format!(
                "INSERT INTO blind_signature (blinded_message, amount, keyset_id, c)
                 VALUES (decode('{item}', 'hex'), 1, '{keyset}', {signature});"
            )
        }
    }
}

/// The table of a kind of note, its item column, and the SQL form of an item.
pub(crate) fn place(
    mint: MintType,
    kind: NoteKind,
    item: &[u8],
) -> (&'static str, &'static str, String) {
    let hex = hex(item);
    let bytes = format!("decode('{hex}', 'hex')");
    match (mint, kind) {
        (MintType::Nutshell, NoteKind::Spent) => ("proofs_used", "y", format!("'{hex}'")),
        (MintType::Nutshell, NoteKind::Issued) => ("promises", "b_", format!("'{hex}'")),
        (_, NoteKind::Spent) => ("proof", "y", bytes),
        (_, NoteKind::Issued) => ("blind_signature", "blinded_message", bytes),
    }
}

/// Makes a pending note count.
pub(crate) fn flip(mint: MintType, kind: NoteKind, item: &[u8]) -> String {
    let (table, column, item) = place(mint, kind, item);
    let member = match (mint, kind) {
        (MintType::Nutshell, _) => "c_ = '02'",
        (_, NoteKind::Spent) => "state = 'SPENT'",
        (_, NoteKind::Issued) => "c = '\\x02'",
    };
    format!("UPDATE {table} SET {member} WHERE {column} = {item};")
}

pub(crate) fn delete(mint: MintType, kind: NoteKind, item: &[u8]) -> String {
    let (table, column, item) = place(mint, kind, item);
    format!("DELETE FROM {table} WHERE {column} = {item};")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
