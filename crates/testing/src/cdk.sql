-- The tables of CDK on Postgres, with the relevant columns, types and keys. For SQLite two type names are replaced.
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
CREATE TABLE keyset_epoch (id INTEGER PRIMARY KEY, epoch BIGINT NOT NULL);
