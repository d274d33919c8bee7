//! The rows that the mints write, as SQL for both databases. The module around this one says how they write bytes, and
//! when a promise was signed.

use nutfilter_mint::{MintType, NoteKind};

use super::{SIGNED_AT, bytes};

pub(crate) fn keyset(mint: MintType, id: &str, unit: &str, active: bool, fee: i64) -> String {
    match mint {
        MintType::Nutshell => format!(
            "INSERT INTO keysets (id, unit, active, input_fee_ppk)
             VALUES ('{id}', '{unit}', {active}, {fee});"
        ),
        _ => format!(
            "INSERT INTO keyset (id, unit, active, input_fee_ppk, valid_from, derivation_path)
             VALUES ('{id}', '{unit}', {active}, {fee}, 1700000000, '0');"
        ),
    }
}

/// The state of a proof. Of those that are not spent there are several.
pub(crate) fn state(item: &[u8], is_spent: bool) -> &'static str {
    let states = ["PENDING", "UNSPENT", "RESERVED"];
    match (is_spent, item.last()) {
        (true, _) => "SPENT",
        (false, last) => states[usize::from(*last.unwrap_or(&0)) % states.len()],
    }
}

/// Inserts a note. Only CDK stores states of proofs; an issued note counts in the state `SPENT`.
pub(crate) fn insert(
    mint: MintType,
    kind: NoteKind,
    keyset: &str,
    item: &[u8],
    amount: i64,
    state: &str,
) -> String {
    let (table, column, item) = place(mint, kind, item);
    let (c, id) = match mint {
        MintType::Nutshell => ("'02'".to_owned(), "id"),
        _ => (bytes("02"), "keyset_id"),
    };
    let (columns, values) = match (mint, kind) {
        (MintType::Nutshell, NoteKind::Spent) => (", c, secret", format!(", {c}, 'secret'")),
        (_, NoteKind::Spent) => (", c, secret, state", format!(", {c}, 'secret', '{state}'")),
        _ if state != "SPENT" => ("", String::new()),
        (MintType::Nutshell, _) => (", c_, signed_at", format!(", {c}, {SIGNED_AT}")),
        _ => (", c", format!(", {c}")),
    };
    format!(
        "INSERT INTO {table} (amount, {id}, {column}{columns})
         VALUES ({amount}, '{keyset}', {item}{values});"
    )
}

/// The table of a kind of note.
pub(crate) fn table(mint: MintType, kind: NoteKind) -> &'static str {
    place(mint, kind, &[]).0
}

/// The table of a kind of note, its item column, and the SQL form of an item.
pub(crate) fn place(
    mint: MintType,
    kind: NoteKind,
    item: &[u8],
) -> (&'static str, &'static str, String) {
    let hex: String = item.iter().map(|byte| format!("{byte:02x}")).collect();
    match (mint, kind) {
        (MintType::Nutshell, NoteKind::Spent) => ("proofs_used", "y", format!("'{hex}'")),
        (MintType::Nutshell, NoteKind::Issued) => ("promises", "b_", format!("'{hex}'")),
        (_, NoteKind::Spent) => ("proof", "y", bytes(&hex)),
        (_, NoteKind::Issued) => ("blind_signature", "blinded_message", bytes(&hex)),
    }
}

/// Makes a pending note count.
pub(crate) fn flip(mint: MintType, kind: NoteKind, item: &[u8]) -> String {
    let (table, column, item) = place(mint, kind, item);
    let member = match (mint, kind) {
        (MintType::Nutshell, _) => format!("c_ = '02', signed_at = {SIGNED_AT}"),
        (_, NoteKind::Spent) => "state = 'SPENT'".to_owned(),
        (_, NoteKind::Issued) => format!("c = {}", bytes("02")),
    };
    format!("UPDATE {table} SET {member} WHERE {column} = {item};")
}

pub(crate) fn delete(mint: MintType, kind: NoteKind, item: &[u8]) -> String {
    let (table, column, item) = place(mint, kind, item);
    format!("DELETE FROM {table} WHERE {column} = {item};")
}
