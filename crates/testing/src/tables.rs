//! The SQL that fills CDK's tables.

use nutfilter_cashu::NoteKind;

/// Creates the tables on SQLite; the file is in the dialect of Postgres.
pub(super) fn create() -> String {
    let blobs = include_str!("cdk.sql").replace("BYTEA", "BLOB");
    blobs.replace("BIGINT", "INTEGER")
}

/// The indexes that SQLite uses for queries on a mint. They are created last, which is faster.
pub(super) const INDEX: &str = "
    CREATE INDEX idx_proof_state_operation ON proof (state, operation_kind);
    CREATE INDEX keyset_id_index ON blind_signature (keyset_id);";

pub(super) const INSERT_KEYSET: &str = "
    INSERT INTO keyset (id, unit, active, valid_from, derivation_path, input_fee_ppk,
        derivation_path_index, amounts)
    VALUES (?1, 'sat', 1, 1700000000, '0''/0''/0''', 100, 0, '[1,2,4,8,16,32,64,128]')";

/// Inserts a note: its point, amount, keyset and secret.
pub(super) fn insert_note(kind: NoteKind) -> &'static str {
    match kind {
        NoteKind::Spent => {
            "INSERT INTO proof (y, amount, keyset_id, secret, c, state, created_time)
             VALUES (?1, ?2, ?3, ?4, ?1, 'SPENT', unixepoch())"
        }
        NoteKind::Issued => {
            "INSERT INTO blind_signature (blinded_message, amount, keyset_id, dleq_e, c, dleq_s, created_time,
                signed_time)
             VALUES (?1, ?2, ?3, ?4, ?1, ?4, unixepoch(), unixepoch())"
        }
    }
}
