//! The mints' tables on Postgres, as far as columns, types and keys go.

use nutfilter_mint::{Kind, MintType};

const NUTSHELL: &str = "
    CREATE TABLE proofs_used (
        amount BIGINT NOT NULL, id TEXT, c TEXT NOT NULL, secret TEXT NOT NULL, y TEXT, witness TEXT,
        created TIMESTAMP, melt_quote TEXT, UNIQUE (y)
    );
    CREATE TABLE promises (
        amount BIGINT NOT NULL, id TEXT, b_ TEXT NOT NULL, c_ TEXT, dleq_e TEXT, dleq_s TEXT,
        created TIMESTAMP, signed_at TIMESTAMP, mint_quote TEXT, melt_quote TEXT, swap_id TEXT,
        order_index INTEGER DEFAULT 0, UNIQUE (b_)
    );
    CREATE TABLE keysets (
        id TEXT NOT NULL, derivation_path TEXT, seed TEXT, valid_from TIMESTAMP, valid_to TIMESTAMP,
        first_seen TIMESTAMP, active BOOL DEFAULT TRUE, version TEXT, unit TEXT, encrypted_seed TEXT,
        seed_encryption_method TEXT, input_fee_ppk INT, amounts TEXT, balance BIGINT DEFAULT 0,
        fees_paid BIGINT DEFAULT 0, final_expiry BIGINT, UNIQUE (id)
    );";

const CDK: &str = "
    CREATE TABLE proof (
        y BYTEA PRIMARY KEY, amount BIGINT NOT NULL, keyset_id TEXT NOT NULL, secret TEXT NOT NULL,
        c BYTEA NOT NULL, witness TEXT,
        state TEXT CHECK (state IN ('SPENT', 'PENDING', 'UNSPENT', 'RESERVED', 'UNKNOWN')) NOT NULL,
        quote_id TEXT, created_time BIGINT NOT NULL DEFAULT 0, operation_kind TEXT, operation_id TEXT
    );
    CREATE TABLE blind_signature (
        blinded_message BYTEA PRIMARY KEY, amount BIGINT NOT NULL, keyset_id TEXT NOT NULL, c BYTEA,
        dleq_e TEXT, dleq_s TEXT, quote_id TEXT, created_time BIGINT NOT NULL DEFAULT 0,
        signed_time BIGINT, operation_kind TEXT, operation_id TEXT,
        order_index INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE keyset (
        id TEXT PRIMARY KEY, unit TEXT NOT NULL, active BOOL NOT NULL, valid_from BIGINT NOT NULL,
        valid_to BIGINT, derivation_path TEXT NOT NULL, input_fee_ppk BIGINT,
        derivation_path_index BIGINT, amounts TEXT, issuer_version TEXT
    );";

pub(crate) fn tables(mint: MintType) -> &'static str {
    match mint {
        MintType::Nutshell => NUTSHELL,
        _ => CDK,
    }
}

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

/// Inserts a note that counts, or, with `member` false, one that does not count yet. (nutshell's spent notes always
/// count.)
pub(crate) fn insert_member(
    mint: MintType,
    kind: Kind,
    keyset: &str,
    item: &[u8],
    member: bool,
) -> String {
    let item = hex(item);
    match (mint, kind) {
        (MintType::Nutshell, Kind::Spent) => format!(
            "INSERT INTO proofs_used (amount, id, c, secret, y)
             VALUES (1, '{keyset}', '02', 'secret', '{item}');"
        ),
        (MintType::Nutshell, Kind::Issued) => {
            let signature = if member { "'02'" } else { "NULL" };
            format!(
                "INSERT INTO promises (amount, id, b_, c_) VALUES (1, '{keyset}', '{item}', {signature});"
            )
        }
        (_, Kind::Spent) => {
            let state = if member { "SPENT" } else { "PENDING" };
            format!(
                "INSERT INTO proof (y, amount, keyset_id, secret, c, state)
                 VALUES (decode('{item}', 'hex'), 1, '{keyset}', 'secret', '\\x02', '{state}');"
            )
        }
        (_, Kind::Issued) => {
            let signature = if member { "'\\x02'" } else { "NULL" };
            format!(
                "INSERT INTO blind_signature (blinded_message, amount, keyset_id, c)
                 VALUES (decode('{item}', 'hex'), 1, '{keyset}', {signature});"
            )
        }
    }
}

/// The table of a kind of note, its column with the item, and an item as it is written there.
pub(crate) fn place(
    mint: MintType,
    kind: Kind,
    item: &[u8],
) -> (&'static str, &'static str, String) {
    let hex = hex(item);
    let bytes = format!("decode('{hex}', 'hex')");
    match (mint, kind) {
        (MintType::Nutshell, Kind::Spent) => ("proofs_used", "y", format!("'{hex}'")),
        (MintType::Nutshell, Kind::Issued) => ("promises", "b_", format!("'{hex}'")),
        (_, Kind::Spent) => ("proof", "y", bytes),
        (_, Kind::Issued) => ("blind_signature", "blinded_message", bytes),
    }
}

/// Makes a note count that did not yet.
pub(crate) fn flip(mint: MintType, kind: Kind, item: &[u8]) -> String {
    let (table, column, item) = place(mint, kind, item);
    let member = match (mint, kind) {
        (MintType::Nutshell, _) => "c_ = '02'",
        (_, Kind::Spent) => "state = 'SPENT'",
        (_, Kind::Issued) => "c = '\\x02'",
    };
    format!("UPDATE {table} SET {member} WHERE {column} = {item};")
}

pub(crate) fn delete(mint: MintType, kind: Kind, item: &[u8]) -> String {
    let (table, column, item) = place(mint, kind, item);
    format!("DELETE FROM {table} WHERE {column} = {item};")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
