-- The tables of nutshell on Postgres, with the relevant columns, types and keys. For SQLite two type names are replaced.
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
);
