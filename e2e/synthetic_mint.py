"""A mint that only writes its tables: those of CDK or of nutshell, on SQLite or on Postgres.

Tables, indexes and the width of rows are those of the real mints, and so is what a mint does when it adds notes: one
transaction, with CDK's totals in it. The notes are random bytes after a point's first byte; a filter does not look at
them.
"""

import itertools
import pathlib
import random
import threading
import time

from e2e import reference_filter

KEYSET = "00deadbeefc0ffee"
PAUSE = 0.1  # seconds between transactions of the writer
MOST_NOTES = 16  # of a kind in a transaction
ROWS_PER_STATEMENT = 500

SQL = pathlib.Path(__file__).parents[1] / "crates/sample/src"
INDEXES = {
    "cdk": """
        CREATE INDEX idx_proof_state_operation ON proof (state, operation_kind);
        CREATE INDEX keyset_id_index ON blind_signature (keyset_id);""",
    "nutshell": "",
}


def tables(mint_type, database_kind):
    """The statements that make the tables."""
    sql = (SQL / f"{mint_type}.sql").read_text()
    if database_kind != "postgres":
        sql = sql.replace("BYTEA", "BLOB").replace("BIGINT", "INTEGER")
    return sql + INDEXES[mint_type]


class Cdk:
    """The statements of CDK."""

    def __init__(self, postgres):
        self.postgres = postgres

    def point(self, note):
        return rf"'\x{note.hex()}'::bytea" if self.postgres else f"x'{note.hex()}'"

    def keyset(self, keyset):
        return [f"INSERT INTO keyset (id, unit, active, valid_from, derivation_path, input_fee_ppk) "
                f"VALUES ('{keyset}', 'sat', true, 1700000000, '{keyset}', 100)",
                f"INSERT INTO keyset_amounts (keyset_id) VALUES ('{keyset}')"]

    def total(self, column, keyset, count):
        return [f"UPDATE keyset_amounts SET {column} = {column} + {count} WHERE keyset_id = '{keyset}'"] if count else []

    def proofs(self, keyset, notes, state):
        now = int(time.time())
        for batch in batches(notes, ROWS_PER_STATEMENT):
            yield ("INSERT INTO proof (y, amount, keyset_id, secret, c, state, created_time) VALUES " + ",".join(
                f"({self.point(y)}, 1, '{keyset}', '{y[1:].hex()}', {self.point(y)}, '{state}', {now})"
                for y in batch))

    def spend(self, keyset, notes):
        return [*self.proofs(keyset, notes, "SPENT"), *self.total("total_redeemed", keyset, len(notes))]

    def sign(self, keyset, notes):
        now = int(time.time())
        rows = [f"({self.point(b)}, 1, '{keyset}', {self.point(b)}, '{b[1:].hex()}', '{b[1:].hex()}', {now}, {now})"
                for b in notes]
        return [*("INSERT INTO blind_signature (blinded_message, amount, keyset_id, c, dleq_e, dleq_s, created_time, "
                  "signed_time) VALUES " + ",".join(batch) for batch in batches(rows, ROWS_PER_STATEMENT)),
                *self.total("total_issued", keyset, len(notes))]

    held = ("SELECT 'spent', keyset_id, {hex}(y{as}) FROM proof WHERE state = 'SPENT' UNION ALL "
            "SELECT 'issued', keyset_id, {hex}(blinded_message{as}) FROM blind_signature WHERE c IS NOT NULL")


class Nutshell(Cdk):
    """The statements of nutshell: points are hex text, and there are no totals."""

    def point(self, note):
        return f"'{note.hex()}'"

    @property
    def now(self):
        return "clock_timestamp()::timestamp" if self.postgres else str(int(time.time()))

    def keyset(self, keyset):
        return [f"INSERT INTO keysets (id, derivation_path, unit, active, input_fee_ppk) "
                f"VALUES ('{keyset}', '{keyset}', 'sat', true, 100)"]

    def total(self, column, keyset, count):
        return []

    def spend(self, keyset, notes):
        return ["INSERT INTO proofs_used (y, amount, id, secret, c, created) VALUES " + ",".join(
            f"('{y.hex()}', 1, '{keyset}', '{y[1:].hex()}', '{y.hex()}', {self.now})" for y in batch)
            for batch in batches(notes, ROWS_PER_STATEMENT)]

    def sign(self, keyset, notes):
        return ["INSERT INTO promises (b_, amount, id, c_, created, signed_at) VALUES " + ",".join(
            f"('{b.hex()}', 1, '{keyset}', '{b.hex()}', {self.now}, {self.now})" for b in batch)
            for batch in batches(notes, ROWS_PER_STATEMENT)]

    held = ("SELECT 'spent', id, y FROM proofs_used UNION ALL "
            "SELECT 'issued', id, b_ FROM promises WHERE c_ IS NOT NULL")


class SyntheticMint:
    """The writer. One thread writes; who must not be disturbed holds `lock` meanwhile."""

    def __init__(self, mint_type, database, seed=1):
        self.mint_type, self.database = mint_type, database
        self.name = f"{mint_type} on {database.kind}"
        self.features = {"synthetic", mint_type, database.kind}
        self.statements = STATEMENTS[mint_type](database.kind == "postgres")
        self.dice = random.Random(f"mint {seed}")
        self.lock, self.keysets = threading.RLock(), []
        self.ended, self.error, self.thread = threading.Event(), None, None
        database.create(tables(mint_type, database.kind))
        self.new_keyset(KEYSET)

    @property
    def location(self):
        return self.database.location

    def make(self, count):
        """Notes that are not in the database yet."""
        octets = self.dice.randbytes(32 * count)
        return [b"\2" + octets[i:i + 32] for i in range(0, 32 * count, 32)]

    def add(self, spent=(), issued=(), keyset=KEYSET):
        with self.lock:
            self.database.run([*self.statements.spend(keyset, list(spent)), *self.statements.sign(keyset, list(issued))])

    def fill(self, spent, issued=0):
        for kind, count in (("spent", spent), ("issued", issued)):
            for start in range(0, count, 20_000):
                self.add(**{kind: self.make(min(20_000, count - start))})

    def new_keyset(self, keyset=None):
        """A keyset appears; it has no notes yet."""
        with self.lock:
            keyset = keyset or "00" + self.dice.randbytes(7).hex()
            self.database.run(self.statements.keyset(keyset))
            self.keysets.append(keyset)
            return keyset

    def held(self):
        return held(self.mint_type, self.database.kind == "postgres", self.database.rows)

    def collide(self, families=3):
        """Different notes with the same 64-bit hash, in both kinds, some of them a reading apart."""
        for _ in range(families):
            for kind in ("spent", "issued"):
                for point in reference_filter.colliding_points(self.dice.randbytes):
                    self.add(**{kind: [point]})
                    time.sleep(self.dice.choice([0, 0, 1.5]))

    def backup(self, directory):
        with self.lock:
            return self.database.backup(directory)

    def restore(self, copy, way):
        self.database.restore(copy, way)

    def vacuum(self):
        with self.lock:
            self.database.vacuum()

    # --- the writer

    def start_writing(self):
        self.thread = threading.Thread(target=self.write, daemon=True)
        self.thread.start()

    def stop_writing(self):
        self.ended.set()
        if self.thread:
            self.thread.join(60)
        if self.error:
            raise self.error

    def write(self):
        try:
            while not self.ended.wait(PAUSE * self.dice.uniform(0.5, 1.5)):
                keyset = KEYSET if self.dice.random() < 0.75 else self.dice.choice(self.keysets)
                self.add(*(self.make(self.dice.randint(1, MOST_NOTES)) for _ in range(2)), keyset)
        except Exception as error:  # raised by stop_writing()
            self.error = error

    def close(self):
        self.ended.set()
        if self.thread:
            self.thread.join(60)
        self.database.close()


STATEMENTS = {"cdk": Cdk, "nutshell": Nutshell}


def held(mint_type, postgres, rows):
    """What the tables hold: {(kind, keyset): points in hex}."""
    found = {}
    words = {"hex": "encode", "as": ", 'hex'"} if postgres else {"hex": "hex", "as": ""}
    for kind, keyset, point in rows(STATEMENTS[mint_type].held.format(**words)):
        found.setdefault((kind, keyset), []).append(point.lower())
    return found


def batches(items, size):
    """Consecutive lists of at most `size` items."""
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch
