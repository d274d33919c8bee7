//! The mints' tables, as far as a sample needs them.

use rusqlite::{ToSql, params};

use crate::{MintType, NoteKind};

/// The SQL that creates one mint's database.
pub(super) struct Tables {
    /// In the dialect of Postgres, see [`Tables::create`].
    create: &'static str,
    /// The indexes that SQLite uses for queries on a mint. They are created last, which is faster.
    pub(super) index: &'static str,
    pub(super) insert_keyset: &'static str,
    insert_spent: &'static str,
    insert_issued: &'static str,
    /// Adds to a keyset's totals of spent and issued amounts, if the mint keeps such totals.
    pub(super) add_totals: Option<&'static str>,
    hex: bool,
}

impl Tables {
    pub(super) fn of(mint: MintType) -> &'static Self {
        match mint {
            MintType::Nutshell => &NUTSHELL,
            _ => &CDK,
        }
    }

    /// Creates the tables on SQLite.
    pub(super) fn create(&self) -> String {
        let blobs = self.create.replace("BYTEA", "BLOB");
        blobs.replace("BIGINT", "INTEGER")
    }

    pub(super) fn insert(&self, kind: NoteKind) -> &'static str {
        match kind {
            NoteKind::Spent => self.insert_spent,
            NoteKind::Issued => self.insert_issued,
        }
    }
}

/// The amount of a note: a power of two.
pub(super) fn amount(note: &[u8]) -> i64 {
    1 << (note[note.len() - 1] & 7)
}

/// Inserts one note with a statement of [`Tables::insert`].
pub(super) fn insert(
    statement: &mut rusqlite::Statement<'_>,
    tables: &Tables,
    keyset: &rusqlite::types::Value,
    note: &[u8],
) -> rusqlite::Result<()> {
    let secret = const_hex::encode(&note[1..]);
    let hex = tables.hex.then(|| const_hex::encode(note));
    let point: &dyn ToSql = match &hex {
        Some(hex) => hex,
        None => &note,
    };
    statement.execute(params![point, amount(note), keyset, secret])?;
    Ok(())
}

const CDK: Tables = Tables {
    create: include_str!("cdk.sql"),
    index: "
        CREATE INDEX idx_proof_state_operation ON proof (state, operation_kind);
        CREATE INDEX keyset_id_index ON blind_signature (keyset_id);",
    insert_keyset: "
        INSERT INTO keyset (id, unit, active, valid_from, derivation_path, input_fee_ppk,
            derivation_path_index, amounts)
        VALUES (?1, 'sat', 1, 1700000000, '0''/0''/0''', 100, 0, '[1,2,4,8,16,32,64,128]')",
    insert_spent: "
        INSERT INTO proof (y, amount, keyset_id, secret, c, state, created_time)
        VALUES (?1, ?2, ?3, ?4, ?1, 'SPENT', 1700000000)",
    insert_issued: "
        INSERT INTO blind_signature (blinded_message, amount, keyset_id, dleq_e, c, dleq_s, created_time,
            signed_time)
        VALUES (?1, ?2, ?3, ?4, ?1, ?4, 1700000000, 1700000000)",
    add_totals: Some(
        "INSERT INTO keyset_amounts (keyset_id, total_redeemed, total_issued) VALUES (?1, ?2, ?3)
         ON CONFLICT (keyset_id) DO UPDATE SET
            total_redeemed = total_redeemed + excluded.total_redeemed,
            total_issued = total_issued + excluded.total_issued",
    ),
    hex: false,
};

const NUTSHELL: Tables = Tables {
    create: include_str!("nutshell.sql"),
    index: "",
    insert_keyset: "
        INSERT INTO keysets (id, derivation_path, active, version, unit, input_fee_ppk, amounts)
        VALUES (?1, 'm/0''/0''/0''', 1, '0.18', 'sat', 100, '[1,2,4,8,16,32,64,128]')",
    insert_spent: "
        INSERT INTO proofs_used (amount, id, c, secret, y, created)
        VALUES (?2, ?3, ?1, ?4, ?1, 1700000000)",
    insert_issued: "
        INSERT INTO promises (amount, id, b_, c_, dleq_e, dleq_s, created, signed_at)
        VALUES (?2, ?3, ?1, ?1, ?4, ?4, 1700000000, 1700000000)",
    add_totals: None,
    hex: true,
};
