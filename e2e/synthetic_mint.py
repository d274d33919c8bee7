"""A mint that only writes its tables: those of CDK or of nutshell, on SQLite or on Postgres.

Tables, indexes and the width of rows are those of the real mints, and so is what a mint does when it adds notes: one
transaction, with CDK's totals in it. The notes are random bytes after a point's first byte; a filter does not look at
them. Every transaction is announced to the journal first.
"""

import contextlib
import pathlib
import random
import threading
import time

from e2e import reference_filter
from e2e.journal import RECORD, Journal, batches

KEYSET = "00deadbeefc0ffee"
PAUSE = 0.1  # seconds between transactions of the writer
MOST_NOTES = 16  # of a kind in a transaction
MOST_KEYSETS = 8
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

    spent_table, spent_column = "proof", "y"
    issued_table, issued_column = "blind_signature", "blinded_message"

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

    def pend(self, keyset, notes):
        return list(self.proofs(keyset, notes, "PENDING"))

    def spend_pending(self, keyset, notes):
        return [f"UPDATE proof SET state = 'SPENT' WHERE y IN ({self.list(notes)})",
                *self.total("total_redeemed", keyset, len(notes))]

    def promise(self, keyset, notes):
        return ["INSERT INTO blind_signature (blinded_message, amount, keyset_id, created_time) VALUES " + ",".join(
            f"({self.point(b)}, 1, '{keyset}', {int(time.time())})" for b in notes)]

    def sign_promised(self, keyset, notes):
        return [f"UPDATE blind_signature SET c = blinded_message, signed_time = {int(time.time())} "
                f"WHERE blinded_message IN ({self.list(notes)})", *self.total("total_issued", keyset, len(notes))]

    def list(self, notes):
        return ",".join(map(self.point, notes))

    def delete(self, kind, notes):
        table, column = ((self.spent_table, self.spent_column) if kind == "spent" else
                         (self.issued_table, self.issued_column))
        return [f"DELETE FROM {table} WHERE {column} IN ({self.list(batch)})"
                for batch in batches(notes, ROWS_PER_STATEMENT)]


class Nutshell(Cdk):
    """The statements of nutshell: points are hex text, and there are no totals."""

    spent_table, spent_column = "proofs_used", "y"
    issued_table, issued_column = "promises", "b_"

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

    def promise(self, keyset, notes):
        return ["INSERT INTO promises (b_, amount, id, created) VALUES " + ",".join(
            f"('{b.hex()}', 1, '{keyset}', {self.now})" for b in notes)]

    def sign_promised(self, keyset, notes):
        return [f"UPDATE promises SET c_ = b_, signed_at = {self.now} WHERE b_ IN ({self.list(notes)})"]


class SyntheticMint:
    """The writer. One thread writes; an event that touches the database holds `lock` meanwhile."""

    def __init__(self, mint_type, database, seed=1):
        self.mint_type, self.database = mint_type, database
        self.name = f"{mint_type} on {database.kind}"
        self.features = {"synthetic", mint_type, database.kind}
        self.statements = {"cdk": Cdk, "nutshell": Nutshell}[mint_type](database.kind == "postgres")
        self.dice = random.Random(f"mint {seed}")
        self.journal = Journal()
        self.lock = threading.RLock()
        self.keysets = []
        self.pending, self.promised = [], []  # (keyset, note): in the database, and not to be counted yet
        self.ended, self.error = threading.Event(), None
        self.thread = None
        self.transactions = 0
        database.create(tables(mint_type, database.kind))
        self.new_keyset(KEYSET)

    # Its connection stays open, and so does the log of its SQLite file.
    always_read_whole = False

    @property
    def location(self):
        return self.database.location

    def make(self, count):
        """Notes that are not in the database yet."""
        octets = self.dice.randbytes(32 * count)
        return [b"\2" + octets[i:i + 32] for i in range(0, 32 * count, 32)]

    # --- transactions

    def commit(self, changes, statements):
        """One transaction that adds these notes to these sets."""
        with self.lock:
            self.journal.begin_add({key: notes for key, notes in changes.items() if notes}, time.time())
            self.settle(self.database.run(statements))

    def forget_gone(self):
        """The service accepts that notes are gone."""
        self.journal.begin_replace(self.actual, time.time())
        self.settle(True)

    def settle(self, committed):
        self.transactions += 1
        if committed:
            self.journal.settle(time.time())
        else:
            self.journal.withdraw()

    def add(self, spent=(), issued=(), keyset=KEYSET):
        spent, issued = list(spent), list(issued)
        self.commit({("spent", keyset): spent, ("issued", keyset): issued},
                    [*self.statements.spend(keyset, spent), *self.statements.sign(keyset, issued)])

    def fill(self, spent, issued=0):
        for kind, count in (("spent", spent), ("issued", issued)):
            for start in range(0, count, 20_000):
                self.add(**{kind: self.make(min(20_000, count - start))})

    def new_keyset(self, keyset=None):
        """A keyset appears; it has no notes yet."""
        with self.lock:
            if len(self.keysets) >= MOST_KEYSETS:
                return None
            keyset = keyset or "00" + self.dice.randbytes(7).hex()
            self.journal.keyset(keyset, time.time())
            self.database.run(self.statements.keyset(keyset))
            self.keysets.append(keyset)
            return keyset

    def delete_oldest(self, count, add=0):
        """Spent notes are removed; in the same transaction as many may be added. Filters keep them until `forget_gone`."""
        with self.lock:
            key = ("spent", KEYSET)
            records, new = self.journal.records(key), self.make(add)
            gone = [records[i:i + RECORD] for i in range(0, count * RECORD, RECORD)]
            statements = [*self.statements.delete("spent", gone), *self.statements.spend(KEYSET, new)]
            self.commit({key: new}, statements)
            self.actual = {key: records[count * RECORD:] + b"".join(new)}

    def collide(self, families=3):
        """Different notes with the same 64-bit hash, in both kinds, some of them a reading apart."""
        for _ in range(families):
            for kind in ("spent", "issued"):
                first, second = reference_filter.colliding_points(self.dice.randbytes)
                self.add(**{kind: [first]})
                time.sleep(self.dice.choice([0, 0, 1.5]))
                self.add(**{kind: [second]})

    def commit_late(self, seconds, count=20):
        """A transaction that is open for some readings, in which others come and commit where they can."""
        notes, keyset = self.make(count), KEYSET
        inserts = self.statements.spend(keyset, notes)
        # The row of CDK's totals would make all others wait.
        totals = self.statements.total("total_redeemed", keyset, len(notes))
        inserts = inserts[:len(inserts) - len(totals)]
        with contextlib.ExitStack() as held:
            if self.database.kind == "sqlite":
                held.enter_context(self.lock)
            with self.database.late_transaction(inserts):
                time.sleep(seconds)
                held.enter_context(self.lock)
                self.journal.begin_add({("spent", keyset): notes}, time.time())
            self.settle(True)
            if totals:
                self.database.run(totals)

    def backup(self, directory):
        with self.lock:
            return self.database.backup(directory), (self.journal.contents(), list(self.pending), list(self.promised))

    def restore(self, backup, way):
        copy, (self.actual, self.pending, self.promised) = backup
        with self.lock:
            self.database.restore(copy, way)

    def vacuum(self):
        with self.lock:
            self.database.vacuum()

    # --- the writer

    def start_writing(self):
        self.ended.clear()
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
                with self.lock:
                    self.step()
        except Exception as error:  # raised by stop_writing()
            self.error = error

    def step(self):
        keyset = KEYSET if self.dice.random() < 0.75 else self.dice.choice(self.keysets)
        kind, some = self.dice.random(), self.make(self.dice.randint(1, MOST_NOTES))
        statements = self.statements
        if kind < 0.80:
            self.add(some, self.make(self.dice.randint(1, MOST_NOTES)), keyset)
        elif kind < 0.86 and self.mint_type == "cdk":
            self.commit({}, statements.pend(keyset, some))
            self.pending += [(keyset, note) for note in some]
        elif kind < 0.90:
            self.commit({}, statements.promise(keyset, some))
            self.promised += [(keyset, note) for note in some]
        elif kind < 0.95 and self.pending:
            self.pending = self.flip("spent", self.pending, statements.spend_pending)
        elif self.promised:
            self.promised = self.flip("issued", self.promised, statements.sign_promised)

    def flip(self, kind, waiting, confirm):
        """Half of what is waiting counts from now on, except for two that are deleted; returns what still waits."""
        half = len(waiting) // 2 + 1
        now, rest = waiting[:half], waiting[half:]
        counted, gone = now[:max(1, half - 2)], now[max(1, half - 2):]
        changes, statements = {}, []
        for keyset in {keyset for keyset, _ in counted}:
            changes[kind, keyset] = [note for owner, note in counted if owner == keyset]
            statements += confirm(keyset, changes[kind, keyset])
        self.commit(changes, statements + self.statements.delete(kind, [note for _, note in gone]))
        return rest

    def close(self):
        self.ended.set()
        if self.thread:
            self.thread.join(60)
        self.database.close()
