"""Two mints that are being written: CDK on SQLite, nutshell on Postgres. Each step is told to the journal first.

One thread writes; whoever else touches a database holds the lock meanwhile.
"""

import contextlib
import copy
import pathlib
import random
import shutil
import sqlite3
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "load"))

from databases import KEYSET, PostgresMint, SqliteMint  # noqa: E402
from journal import RECORD, Journal  # noqa: E402

PAUSE = 0.1  # seconds between transactions
MOST = 16  # notes of a kind in a transaction
MOST_KEYSETS = 8
BIG = 0.75  # of the transactions are of the first keyset


class SoakMint:
    """What both have in common: the journal, what is pending, the thread that writes."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.journal = Journal()
        self.lock = threading.RLock()
        self.keysets = [KEYSET]
        self.pending, self.unsigned = [], []  # (keyset, note), in the database and not counted
        self.ended, self.error = threading.Event(), None
        self.transactions = self.in_doubt = 0
        self.journal.keyset(KEYSET, time.time())
        self.thread = threading.Thread(target=self.write, daemon=True)

    def make(self, count):
        octets = self.dice.randbytes(32 * count)
        return [b"\2" + octets[i:i + 32] for i in range(0, 32 * count, 32)]

    def commit(self, changes, statements):
        """One transaction that adds these notes to these sets."""
        self.journal.begin_add({key: notes for key, notes in changes.items() if notes}, time.time())
        self.settle(self.run(statements))

    def replace(self, contents, do):
        """Something after which sets hold other notes."""
        self.journal.begin_replace(contents, time.time())
        try:
            do()
        except Exception:
            self.settle(False)
            raise
        self.settle(True)

    def settle(self, committed):
        self.transactions += 1
        if committed:
            self.journal.settle(time.time())
        else:
            self.journal.withdraw()

    def fill(self, spent, issued):
        """What is there before the service starts."""
        for count, kind in ((spent, "spent"), (issued, "issued")):
            while count:
                here = min(count, 20_000)
                self.add(KEYSET, **{kind: self.make(here)})
                count -= here

    # --- the writer

    def start(self):
        self.thread.start()

    def stop(self):
        self.ended.set()
        self.thread.join(60)
        if self.error:
            raise self.error

    def write(self):
        try:
            while not self.ended.wait(PAUSE * self.dice.uniform(0.5, 1.5)):
                with self.lock:
                    self.step()
        except Exception as error:  # raised where it is seen
            self.error = error

    def step(self):
        keyset = KEYSET if self.dice.random() < BIG else self.dice.choice(self.keysets)
        kind = self.dice.random()
        if kind < 0.80:
            # A swap: notes are spent and others signed.
            self.add(keyset, self.make(self.dice.randint(1, MOST)), self.make(self.dice.randint(1, MOST)))
        elif kind < 0.86:
            self.add_pending([(keyset, note) for note in self.make(self.dice.randint(1, MOST))])
        elif kind < 0.90:
            self.add_unsigned([(keyset, note) for note in self.make(self.dice.randint(1, MOST))])
        elif kind < 0.95 and self.pending:
            half = len(self.pending) // 2 + 1
            now, self.pending = self.pending[:half], self.pending[half:]
            counts = max(1, half - 2)
            self.flip_pending(now[:counts], now[counts:])
        elif self.unsigned:
            half = len(self.unsigned) // 2 + 1
            now, self.unsigned = self.unsigned[:half], self.unsigned[half:]
            counts = max(1, half - 2)
            self.flip_unsigned(now[:counts], now[counts:])

    def new_keyset(self):
        """A keyset appears; it has no notes yet."""
        with self.lock:
            if len(self.keysets) >= MOST_KEYSETS:
                return None
            keyset = "00" + self.dice.randbytes(7).hex()
            self.journal.keyset(keyset, time.time())
            self.insert_keyset(keyset)
            self.keysets.append(keyset)
            return keyset

    def delete_oldest(self, count):
        """The mint forgets notes, as of an expired keyset."""
        with self.lock:
            key = ("spent", KEYSET)
            records = self.journal.records(key)
            gone = [records[i:i + RECORD] for i in range(0, count * RECORD, RECORD)]
            self.replace({key: records[count * RECORD:]}, lambda: self.delete(gone))

    def mark(self):
        """What goes with a backup."""
        return self.journal.contents(), copy.copy(self.pending), copy.copy(self.unsigned)

    def back_to(self, mark, do):
        contents, pending, unsigned = mark
        self.replace(contents, do)
        self.pending, self.unsigned = pending, unsigned


def by_set(kind, pairs):
    changes = {}
    for keyset, note in pairs:
        changes.setdefault((kind, keyset), []).append(note)
    return changes


class CdkSqlite(SoakMint):
    """Statements are (SQL, rows)."""

    name = "cdk, sqlite"

    def __init__(self, work, seed):
        super().__init__(seed)
        self.database = SqliteMint(work / "mint.sqlite", "cdk", "wal")
        self.database.connection.execute("PRAGMA synchronous = normal")

    @property
    def location(self):
        return self.database.location

    def run(self, statements):
        connection = self.database.connection
        connection.execute("BEGIN IMMEDIATE")
        for sql, rows in statements:
            connection.executemany(sql, rows)
        connection.execute("COMMIT")
        return True

    def redeemed(self, changes):
        return ("UPDATE keyset_amounts SET total_redeemed = total_redeemed + ? WHERE keyset_id = ?",
                [(len(notes), keyset) for (kind, keyset), notes in changes.items() if kind == "spent"])

    def signed(self, changes):
        return ("UPDATE keyset_amounts SET total_issued = total_issued + ? WHERE keyset_id = ?",
                [(len(notes), keyset) for (kind, keyset), notes in changes.items() if kind == "issued"])

    def add(self, keyset, spent=(), issued=()):
        now = int(time.time())
        changes = {("spent", keyset): list(spent), ("issued", keyset): list(issued)}
        self.commit(changes, [
            ("INSERT INTO proof (y, amount, keyset_id, secret, c, state, created_time) "
             "VALUES (?, 1, ?, ?, ?, 'SPENT', ?)",
             [(y, keyset, y[1:].hex(), y, now) for y in spent]),
            ("INSERT INTO blind_signature (blinded_message, amount, keyset_id, c, dleq_e, dleq_s, created_time, "
             "signed_time) VALUES (?, 1, ?, ?, ?, ?, ?, ?)",
             [(b, keyset, b, b[1:].hex(), b[1:].hex(), now, now) for b in issued]),
            self.redeemed(changes), self.signed(changes)])

    def add_pending(self, pairs):
        self.commit({}, [("INSERT INTO proof (y, amount, keyset_id, secret, c, state, created_time) "
                          "VALUES (?, 1, ?, ?, ?, 'PENDING', ?)",
                          [(y, keyset, y[1:].hex(), y, int(time.time())) for keyset, y in pairs])])
        self.pending += pairs

    def add_unsigned(self, pairs):
        self.commit({}, [("INSERT INTO blind_signature (blinded_message, amount, keyset_id, created_time) "
                          "VALUES (?, 1, ?, ?)", [(b, keyset, int(time.time())) for keyset, b in pairs])])
        self.unsigned += pairs

    def flip_pending(self, spent, gone):
        changes = by_set("spent", spent)
        self.commit(changes, [("UPDATE proof SET state = 'SPENT' WHERE y = ?", [(y,) for _, y in spent]),
                              ("DELETE FROM proof WHERE y = ?", [(y,) for _, y in gone]), self.redeemed(changes)])

    def flip_unsigned(self, signed, gone):
        changes, now = by_set("issued", signed), int(time.time())
        self.commit(changes, [("UPDATE blind_signature SET c = ?, signed_time = ? WHERE blinded_message = ?",
                               [(b, now, b) for _, b in signed]),
                              ("DELETE FROM blind_signature WHERE blinded_message = ?", [(b,) for _, b in gone]),
                              self.signed(changes)])

    def insert_keyset(self, keyset):
        self.run([("INSERT INTO keyset (id, unit, active, valid_from, derivation_path, input_fee_ppk) "
                   "VALUES (?, 'sat', true, 1700000000, ?, 100)", [(keyset, keyset)]),
                  ("INSERT INTO keyset_amounts (keyset_id) VALUES (?)", [(keyset,)])])

    def delete(self, gone):
        return self.run([("DELETE FROM proof WHERE y = ?", [(y,) for y in gone])])

    def vacuum(self):
        with self.lock:
            self.database.connection.execute("VACUUM")

    def backup(self, path):
        path.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(path)) as target:
            self.database.connection.backup(target)

    def write_over(self, path):
        with contextlib.closing(sqlite3.connect(path)) as source:
            source.backup(self.database.connection)

    def put_in_place(self, path):
        """The file is replaced, as an operator does with a stopped mint; its log is empty then."""
        mint = self.database
        for _ in range(500):
            busy, _, _ = mint.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                break
            time.sleep(0.02)
        else:
            raise RuntimeError("the log could not be emptied in 10 s: somebody reads without end")
        mint.close()
        for suffix in ("-wal", "-shm"):
            pathlib.Path(f"{mint.path}{suffix}").unlink(missing_ok=True)
        shutil.copy(path, mint.path.with_suffix(".new"))
        mint.path.with_suffix(".new").rename(mint.path)
        # Who opened the old file a moment ago must not find the new file's log beside it.
        time.sleep(0.3)
        mint.connection = mint.connect()
        mint.connection.executescript("PRAGMA journal_mode = wal; PRAGMA synchronous = normal;")

    @contextlib.contextmanager
    def locked(self):
        """Nobody can read, as while a mint rewrites its file: a connection that has the WAL to itself."""
        with self.lock:
            self.database.close()
            other = sqlite3.connect(self.database.path, isolation_level=None, timeout=20)
            try:
                other.execute("PRAGMA locking_mode = exclusive")
                other.execute("BEGIN EXCLUSIVE")
                yield
                other.execute("COMMIT")
            finally:
                other.close()
                self.database.connection = self.database.connect()
                self.database.connection.execute("PRAGMA synchronous = normal")

    def close(self):
        self.database.close()


class NutshellPostgres(SoakMint):
    """Statements are SQL."""

    name = "nutshell, postgres"

    def __init__(self, cluster, seed):
        super().__init__(seed)
        self.cluster = cluster
        self.database = PostgresMint(cluster, "nutshell", "soak")
        self.session = None

    @property
    def location(self):
        return self.database.location

    def run(self, statements):
        """True if it was committed; the server may go away at any moment, and then it is asked what became of it."""
        # The last row of a transaction stands for all of it.
        mark = self.dice.getrandbits(62)
        text = "BEGIN;" + ";".join(statements) + f";INSERT INTO soak_done VALUES ({mark});COMMIT;"
        while True:
            try:
                self.session = self.session or self.database.session()
                self.session.do(text)
                return True
            except (OSError, RuntimeError, ValueError):
                self.in_doubt += 1
                self.forget_session()
            if self.when_there(f"SELECT count(*) FROM soak_done WHERE mark = {mark}") == "1":
                return True

    def forget_session(self):
        if self.session:
            with contextlib.suppress(OSError):
                self.session.close()
            self.session = None

    def when_there(self, sql, seconds=180):
        end = time.monotonic() + seconds
        while True:
            try:
                return self.database.psql(sql)
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def fill(self, spent, issued):
        self.database.psql("CREATE TABLE soak_done (mark BIGINT PRIMARY KEY)")
        super().fill(spent, issued)
        self.database.psql("VACUUM ANALYZE")

    def add(self, keyset, spent=(), issued=()):
        statements = []
        if spent:
            statements.append("INSERT INTO proofs_used (y, amount, id, secret, c, created) VALUES " + ",".join(
                f"('{y.hex()}', 1, '{keyset}', '{y[1:].hex()}', '{y.hex()}', now())" for y in spent))
        if issued:
            statements.append("INSERT INTO promises (b_, amount, id, c_, created, signed_at) VALUES " + ",".join(
                f"('{b.hex()}', 1, '{keyset}', '{b.hex()}', now(), now())" for b in issued))
        self.commit({("spent", keyset): list(spent), ("issued", keyset): list(issued)}, statements)

    def add_pending(self, pairs):
        """nutshell's pending notes are in a table of their own; here they are as good as added at once."""
        for keyset, note in pairs:
            self.add(keyset, [note])

    def add_unsigned(self, pairs):
        self.commit({}, ["INSERT INTO promises (b_, amount, id, created) VALUES " + ",".join(
            f"('{b.hex()}', 1, '{keyset}', now())" for keyset, b in pairs)])
        self.unsigned += pairs

    def flip_pending(self, spent, gone):
        raise AssertionError("nothing is pending")

    def flip_unsigned(self, signed, gone):
        statements = [f"UPDATE promises SET c_ = b_, signed_at = now() WHERE b_ IN ({quoted(signed)})"]
        if gone:
            statements.append(f"DELETE FROM promises WHERE b_ IN ({quoted(gone)})")
        self.commit(by_set("issued", signed), statements)

    def insert_keyset(self, keyset):
        self.run([f"INSERT INTO keysets (id, derivation_path, unit, active, input_fee_ppk) "
                  f"VALUES ('{keyset}', '{keyset}', 'sat', true, 100)"])

    def delete(self, gone):
        return self.run(["DELETE FROM proofs_used WHERE y IN (" + ",".join(f"'{y.hex()}'" for y in gone) + ")"])

    def vacuum(self):
        with self.lock:
            self.database.psql("VACUUM FULL proofs_used")

    def commit_late(self, seconds):
        """A transaction that takes its number now and commits after others that came later."""
        notes, session = self.make(20), self.database.session()
        rows = ",".join(f"('{y.hex()}', 1, '{KEYSET}', '{y[1:].hex()}', '{y.hex()}', now())" for y in notes)
        session.do(f"BEGIN;INSERT INTO proofs_used (y, amount, id, secret, c, created) VALUES {rows};")
        time.sleep(seconds)
        with self.lock:
            self.journal.begin_add({("spent", KEYSET): notes}, time.time())
            session.do("COMMIT;")
            self.settle(True)
        session.close()

    def copy_database(self, source, target):
        """A template may have no sessions: whoever has one is asked to go."""
        self.forget_session()
        self.database.psql(f"DROP DATABASE IF EXISTS {target} WITH (FORCE)", database="postgres")
        for attempt in range(100):
            try:
                self.database.psql(f"ALTER DATABASE {source} ALLOW_CONNECTIONS false", database="postgres")
                self.database.psql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{source}'",
                                   database="postgres")
                self.database.psql(f"CREATE DATABASE {target} TEMPLATE {source}", database="postgres")
                break
            except RuntimeError:
                if attempt == 99:
                    raise
                time.sleep(0.1)
            finally:
                self.database.psql(f"ALTER DATABASE {source} ALLOW_CONNECTIONS true", database="postgres")

    def backup(self, _path):
        self.copy_database("soak", "older")

    def put_in_place(self, _path):
        self.forget_session()
        self.database.psql("DROP DATABASE soak WITH (FORCE)", database="postgres")
        self.database.psql("ALTER DATABASE older RENAME TO soak", database="postgres")

    def close(self):
        self.forget_session()


def quoted(pairs):
    return ",".join(f"'{note.hex()}'" for _, note in pairs)
