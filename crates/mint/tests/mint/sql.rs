//! The rows that the mints write, as SQL for both databases.

use nutfilter_mint::{MintType, NoteKind};

/// How a database writes bytes: what is before and after their hex digits.
#[derive(Clone, Copy)]
pub(crate) struct Dialect(pub(crate) &'static str, pub(crate) &'static str);

/// The tables of a mint, in the dialect of Postgres.
pub(crate) fn tables(mint: MintType) -> &'static str {
    match mint {
        MintType::Nutshell => include_str!("../../../testing/src/nutshell.sql"),
        _ => include_str!("../../../testing/src/cdk.sql"),
    }
}

/// The table of a kind of note, and the columns of the keyset and the item.
pub(crate) fn table(mint: MintType, kind: NoteKind) -> [&'static str; 3] {
    match (mint, kind) {
        (MintType::Nutshell, NoteKind::Spent) => ["proofs_used", "id", "y"],
        (MintType::Nutshell, NoteKind::Issued) => ["promises", "id", "b_"],
        (_, NoteKind::Spent) => ["proof", "keyset_id", "y"],
        (_, NoteKind::Issued) => ["blind_signature", "keyset_id", "blinded_message"],
    }
}

/// All four tables of notes.
pub(crate) fn tables_of_notes() -> impl Iterator<Item = (MintType, NoteKind)> {
    let mints = MintType::ALL.into_iter();
    mints.flat_map(|mint| NoteKind::ALL.map(|kind| (mint, kind)))
}

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

impl Dialect {
    fn bytes(self, hex: &str) -> String {
        format!("{}{hex}{}", self.0, self.1)
    }

    /// The SQL form of an item.
    pub(crate) fn item(self, mint: MintType, item: &[u8]) -> String {
        let hex: String = item.iter().map(|byte| format!("{byte:02x}")).collect();
        match mint {
            MintType::Nutshell => format!("'{hex}'"),
            _ => self.bytes(&hex),
        }
    }

    /// Inserts a note, whose item is an expression. Only CDK stores states of proofs; an issued note counts in the state
    /// `SPENT`.
    pub(crate) fn insert(
        self,
        mint: MintType,
        kind: NoteKind,
        id: &str,
        item: &str,
        state: &str,
    ) -> String {
        let [table, keyset, column] = table(mint, kind);
        let c = self.item(mint, &[2]);
        let (columns, values) = match (mint, kind) {
            (MintType::Nutshell, NoteKind::Spent) => (", c, secret", format!(", {c}, 'secret'")),
            (_, NoteKind::Spent) => (", c, secret, state", format!(", {c}, 'secret', '{state}'")),
            _ if state != "SPENT" => ("", String::new()),
            (MintType::Nutshell, _) => (", c_", format!(", {c}")),
            _ => (", c", format!(", {c}")),
        };
        format!(
            "INSERT INTO {table} (amount, {keyset}, {column}{columns})
             VALUES (1, '{id}', {item}{values});"
        )
    }

    /// Makes all pending notes count.
    pub(crate) fn flip(self, mint: MintType, kind: NoteKind) -> String {
        let c = self.item(mint, &[2]);
        match (mint, kind) {
            (MintType::Nutshell, _) => format!("UPDATE promises SET c_ = {c} WHERE c_ IS NULL;"),
            (_, NoteKind::Issued) => format!("UPDATE blind_signature SET c = {c} WHERE c IS NULL;"),
            _ => "UPDATE proof SET state = 'SPENT' WHERE state = 'PENDING';".to_owned(),
        }
    }
}
