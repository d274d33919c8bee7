"""A mint's tables with generated notes, on SQLite or on Postgres. Points are random bytes: a filter does not look at them."""

import pathlib
import sqlite3

SQL = pathlib.Path(__file__).parents[1] / "crates/testing/src"
KEYSET = "00deadbeefc0ffee"
# What is added, where {point} and {text} are random, and {now} is the time.
ROWS = {
    "cdk": {
        "keyset": "keyset (id, unit, active, valid_from, derivation_path, input_fee_ppk) "
                  "VALUES ('{keyset}', 'sat', true, 1700000000, '{keyset}', 100)",
        "spent": "proof (y, amount, keyset_id, secret, c, state, created_time) "
                 "SELECT {point}, 1, '{keyset}', {text}, {point}, 'SPENT', {now} FROM n",
        "issued": "blind_signature (blinded_message, amount, keyset_id, c, dleq_e, dleq_s, created_time, signed_time) "
                  "SELECT {point}, 1, '{keyset}', {point}, {text}, {text}, {now}, {now} FROM n",
        "indexes": "CREATE INDEX idx_proof_state_operation ON proof (state, operation_kind);"
                   "CREATE INDEX keyset_id_index ON blind_signature (keyset_id);"},
    "nutshell": {
        "keyset": "keysets (id, derivation_path, unit, active, input_fee_ppk) VALUES ('{keyset}', '{keyset}', 'sat', true, 100)",
        "spent": "proofs_used (y, amount, id, secret, c, created) SELECT {text}, 1, '{keyset}', {text}, {text}, {now} FROM n",
        "issued": "promises (b_, amount, id, c_, created, signed_at) SELECT {text}, 1, '{keyset}', {text}, {now}, {now} FROM n",
        "indexes": ""},
}
POSTGRES_POINT = "decode('02' || md5(random()::text) || md5(random()::text), 'hex')"


class SeededMint:
    def __init__(self, mint_type, work, database=None):
        self.mint_type, self.database, self.keysets = mint_type, database, []
        self.name = f"{mint_type} on {'postgres' if database else 'sqlite'}"
        self.location = database.location if database else str(work / "mint.sqlite")
        self.rows, tables = ROWS[mint_type], (SQL / f"{mint_type}.sql").read_text()
        self.words = {"point": "randomblob(33)", "text": "lower(hex(randomblob(33)))", "now": "unixepoch()"}
        if database:
            now = "now()" if mint_type == "nutshell" else "extract(epoch FROM now())::bigint"
            self.words = {"point": POSTGRES_POINT, "text": f"encode({POSTGRES_POINT}, 'hex')", "now": now}
        else:
            # It stays open, as that of a mint that runs.
            self.connection = sqlite3.connect(self.location, timeout=30, check_same_thread=False)
            tables = ("PRAGMA journal_mode = wal; PRAGMA synchronous = off; PRAGMA cache_size = -500000;" +
                      tables.replace("BYTEA", "BLOB").replace("BIGINT", "INTEGER"))
        self.run(tables + self.rows["indexes"])
        self.new_keyset(KEYSET)

    def run(self, sql):
        if self.database:
            self.database.sql(sql)
        else:
            self.connection.executescript(sql)

    def add(self, what, **words):
        self.run(f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {words.get('count', 1)}) "
                 f"INSERT INTO {self.rows[what].format(**self.words, **words)};")

    def new_keyset(self, keyset):
        self.add("keyset", keyset=keyset)
        self.keysets.append(keyset)

    def fill(self, spent, issued=0):
        for what, count in (("spent", spent), ("issued", issued)):
            if count:
                self.add(what, keyset=KEYSET, count=count)
