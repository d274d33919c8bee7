//! The mints' tables, as far as a sample needs them.

use data_encoding::HEXLOWER;
use rusqlite::types::ToSqlOutput;
use rusqlite::{ToSql, params};

use super::POINT_BYTES;
use crate::{MintType, NoteKind};

/// The SQL that creates one mint's database.
pub(super) struct Tables {
    pub(super) create: &'static str,
    /// The indexes that SQLite uses for queries on a mint. They are created last, which is faster.
    pub(super) index: &'static str,
    pub(super) insert_keyset: &'static str,
    insert_spent: &'static str,
    insert_issued: &'static str,
    /// Adds to a keyset's totals of spent and issued amounts, if the mint keeps such totals.
    pub(super) add_totals: Option<&'static str>,
    pub(super) hex: bool,
}

impl Tables {
    pub(super) fn of(mint: MintType) -> &'static Self {
        match mint {
            MintType::Cdk => &CDK,
            MintType::Nutshell => &NUTSHELL,
        }
    }

    pub(super) fn insert(&self, kind: NoteKind) -> &'static str {
        match kind {
            NoteKind::Spent => self.insert_spent,
            NoteKind::Issued => self.insert_issued,
        }
    }

    /// A point as the mint stores it.
    pub(super) fn point(&self, note: [u8; POINT_BYTES]) -> Point {
        match self.hex {
            true => Point::Hex(HEXLOWER.encode(&note)),
            false => Point::Bytes(note),
        }
    }
}

pub(super) enum Point {
    Bytes([u8; POINT_BYTES]),
    Hex(String),
}

impl ToSql for Point {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Point::Bytes(bytes) => bytes.to_sql(),
            Point::Hex(text) => text.to_sql(),
        }
    }
}

/// The amount of a note: a power of two.
pub(super) fn amount(note: &[u8; POINT_BYTES]) -> i64 {
    1 << (note[POINT_BYTES - 1] & 7)
}

/// Inserts one note with a statement of [`Tables::insert`].
pub(super) fn insert(
    statement: &mut rusqlite::Statement<'_>,
    tables: &Tables,
    keyset: &rusqlite::types::Value,
    note: [u8; POINT_BYTES],
) -> rusqlite::Result<()> {
    let secret = HEXLOWER.encode(&note[1..]);
    let point = tables.point(note);
    statement.execute(params![point, amount(&note), keyset, secret])?;
    Ok(())
}

const CDK: Tables = Tables {
    create: "
        CREATE TABLE keyset (
            id TEXT PRIMARY KEY, unit TEXT NOT NULL, active BOOL NOT NULL, valid_from INTEGER NOT NULL,
            valid_to INTEGER, derivation_path TEXT NOT NULL, input_fee_ppk INTEGER,
            derivation_path_index INTEGER, amounts TEXT, issuer_version TEXT
        );
        CREATE TABLE keyset_amounts (
            keyset_id TEXT PRIMARY KEY, total_issued INTEGER NOT NULL DEFAULT 0,
            total_redeemed INTEGER NOT NULL DEFAULT 0, fee_collected INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE proof (
            y BLOB PRIMARY KEY, amount INTEGER NOT NULL, keyset_id TEXT NOT NULL, secret TEXT NOT NULL,
            c BLOB NOT NULL, witness TEXT,
            state TEXT CHECK (state IN ('SPENT', 'PENDING', 'UNSPENT', 'RESERVED', 'UNKNOWN')) NOT NULL,
            quote_id TEXT, created_time INTEGER NOT NULL DEFAULT 0, operation_kind TEXT, operation_id TEXT
        );
        CREATE TABLE blind_signature (
            blinded_message BLOB PRIMARY KEY, amount INTEGER NOT NULL, keyset_id TEXT NOT NULL, c BLOB,
            dleq_e TEXT, dleq_s TEXT, quote_id TEXT, created_time INTEGER NOT NULL DEFAULT 0,
            signed_time INTEGER, operation_kind TEXT, operation_id TEXT,
            order_index INTEGER NOT NULL DEFAULT 0
        );",
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
    create: "
        CREATE TABLE keysets (
            id TEXT NOT NULL, derivation_path TEXT, seed TEXT, valid_from TIMESTAMP, valid_to TIMESTAMP,
            first_seen TIMESTAMP, active BOOL DEFAULT TRUE, version TEXT, unit TEXT, encrypted_seed TEXT,
            seed_encryption_method TEXT, input_fee_ppk INTEGER, amounts TEXT, balance INTEGER DEFAULT 0,
            fees_paid INTEGER DEFAULT 0, final_expiry INTEGER, UNIQUE (id)
        );
        CREATE TABLE proofs_used (
            amount INTEGER NOT NULL, id TEXT, c TEXT NOT NULL, secret TEXT NOT NULL, y TEXT, witness TEXT,
            created TIMESTAMP, melt_quote TEXT, UNIQUE (y)
        );
        CREATE TABLE promises (
            amount INTEGER NOT NULL, id TEXT, b_ TEXT NOT NULL, c_ TEXT, dleq_e TEXT, dleq_s TEXT,
            created TIMESTAMP, signed_at TIMESTAMP, mint_quote TEXT, melt_quote TEXT, swap_id TEXT,
            order_index INTEGER DEFAULT 0, UNIQUE (b_)
        );",
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
