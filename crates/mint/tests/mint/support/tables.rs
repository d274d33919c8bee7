//! The tables of both mints, with the relevant columns, types and keys.

use nutfilter_mint::MintType;

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
        seed_encryption_method TEXT, input_fee_ppk INTEGER, amounts TEXT, balance BIGINT DEFAULT 0,
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
    );
    CREATE TABLE keyset_amounts (
        keyset_id TEXT PRIMARY KEY, total_issued BIGINT NOT NULL DEFAULT 0,
        total_redeemed BIGINT NOT NULL DEFAULT 0, fee_collected BIGINT NOT NULL DEFAULT 0
    );
    CREATE TABLE keyset_epoch (id INTEGER PRIMARY KEY, epoch BIGINT NOT NULL);";

/// SQL that creates them on Postgres. On SQLite, two of the types have other names.
pub(crate) fn tables(mint: MintType) -> &'static str {
    match mint {
        MintType::Nutshell => NUTSHELL,
        _ => CDK,
    }
}
