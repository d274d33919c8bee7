"""Mints' databases full of invented notes: on SQLite and on Postgres, of CDK and of nutshell.

The tables, the indexes and the width of the rows are those of real mints, and so is what a mint does when it adds
notes: one transaction, with CDK's totals in it. The notes are random bytes behind a point's first byte; a filter hashes
bytes, and does not ask.
"""

import contextlib
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import time

KEYSET = "00deadbeefc0ffee"
POINT_BYTES = 33
CHUNK = 100_000  # notes made at a time

SQLITE_TABLES = {
    "cdk": """
        CREATE TABLE keyset (
            id TEXT PRIMARY KEY, unit TEXT NOT NULL, active BOOL NOT NULL, valid_from INTEGER NOT NULL,
            valid_to INTEGER, derivation_path TEXT NOT NULL, input_fee_ppk INTEGER,
            derivation_path_index INTEGER, amounts TEXT, issuer_version TEXT);
        CREATE TABLE proof (
            y BLOB PRIMARY KEY, amount INTEGER NOT NULL, keyset_id TEXT NOT NULL, secret TEXT NOT NULL,
            c BLOB NOT NULL, witness TEXT,
            state TEXT CHECK (state IN ('SPENT', 'PENDING', 'UNSPENT', 'RESERVED', 'UNKNOWN')) NOT NULL,
            quote_id TEXT, created_time INTEGER NOT NULL DEFAULT 0, operation_kind TEXT, operation_id TEXT);
        CREATE TABLE blind_signature (
            blinded_message BLOB PRIMARY KEY, amount INTEGER NOT NULL, keyset_id TEXT NOT NULL, c BLOB,
            dleq_e TEXT, dleq_s TEXT, quote_id TEXT, created_time INTEGER NOT NULL DEFAULT 0,
            signed_time INTEGER, operation_kind TEXT, operation_id TEXT, order_index INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE keyset_amounts (
            keyset_id TEXT PRIMARY KEY, total_issued INTEGER NOT NULL DEFAULT 0,
            total_redeemed INTEGER NOT NULL DEFAULT 0, fee_collected INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE keyset_epoch (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL);
        CREATE INDEX idx_proof_state_operation ON proof (state, operation_kind);
        CREATE INDEX keyset_id_index ON blind_signature (keyset_id);""",
    "nutshell": """
        CREATE TABLE proofs_used (
            amount INTEGER NOT NULL, id TEXT, c TEXT NOT NULL, secret TEXT NOT NULL, y TEXT, witness TEXT,
            created TIMESTAMP, melt_quote TEXT, UNIQUE (y));
        CREATE TABLE promises (
            amount INTEGER NOT NULL, id TEXT, b_ TEXT NOT NULL, c_ TEXT, dleq_e TEXT, dleq_s TEXT,
            created TIMESTAMP, signed_at TIMESTAMP, mint_quote TEXT, melt_quote TEXT, swap_id TEXT,
            order_index INTEGER DEFAULT 0, UNIQUE (b_));
        CREATE TABLE keysets (
            id TEXT NOT NULL, derivation_path TEXT, seed TEXT, valid_from TIMESTAMP, valid_to TIMESTAMP,
            first_seen TIMESTAMP, active BOOL DEFAULT TRUE, version TEXT, unit TEXT, encrypted_seed TEXT,
            seed_encryption_method TEXT, input_fee_ppk INTEGER, amounts TEXT, balance INTEGER DEFAULT 0,
            fees_paid INTEGER DEFAULT 0, final_expiry INTEGER, UNIQUE (id));""",
}

KEYSET_ROW = {
    "cdk": "INSERT INTO keyset (id, unit, active, valid_from, derivation_path, input_fee_ppk) "
           f"VALUES ('{KEYSET}', 'sat', true, 1700000000, '0', 100); "
           f"INSERT INTO keyset_amounts (keyset_id) VALUES ('{KEYSET}'); "
           "INSERT INTO keyset_epoch (id, epoch) VALUES (0, 1);",
    "nutshell": "INSERT INTO keysets (id, derivation_path, unit, active, input_fee_ppk) "
                f"VALUES ('{KEYSET}', '0', 'sat', true, 100);",
}

SPENT_TABLE = {"cdk": ("proof", "y"), "nutshell": ("proofs_used", "y")}


def points(count, seed):
    """`count` notes; those of one seed are the same each time."""
    dice = random.Random(seed)
    for start in range(0, count, CHUNK):
        here = min(CHUNK, count - start)
        octets = dice.randbytes(32 * here)
        for i in range(0, 32 * here, 32):
            yield b"\2" + octets[i:i + 32]


class SqliteMint:
    """A mint's database in one file. `bulk` gives up all safety while it is filled, as nobody reads it yet."""

    def __init__(self, path, mint, journal="wal"):
        self.path, self.mint, self.journal = pathlib.Path(path), mint, journal
        fresh = not self.path.exists()
        self.connection = self.connect()
        if fresh:
            self.connection.executescript(SQLITE_TABLES[mint] + KEYSET_ROW[mint])
            self.connection.execute(f"PRAGMA journal_mode = {journal}")

    @property
    def location(self):
        return str(self.path)

    def connect(self):
        """Another connection, as the mint has several."""
        return sqlite3.connect(self.path, isolation_level=None, timeout=30, check_same_thread=False)

    def add_spent(self, notes, connection=None, commit=True):
        """Adds spent notes, in one transaction; leaves that open if told not to commit."""
        connection = connection or self.connection
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")
        now = int(time.time())
        if self.mint == "cdk":
            added = 0
            def rows():
                nonlocal added
                for y in notes:
                    added += 1
                    yield y, KEYSET, y[1:].hex(), y, now
            connection.executemany(
                "INSERT INTO proof (y, amount, keyset_id, secret, c, state, created_time) "
                "VALUES (?, 1, ?, ?, ?, 'SPENT', ?)", rows())
            connection.execute("UPDATE keyset_amounts SET total_redeemed = total_redeemed + ?", (added,))
        else:
            connection.executemany(
                "INSERT INTO proofs_used (y, amount, id, secret, c, created) VALUES (?, 1, ?, ?, ?, ?)",
                ((text := y.hex(), KEYSET, text[2:], text, now) for y in notes))
        if commit:
            connection.execute("COMMIT")

    def add_issued(self, notes):
        """Adds signed promises, in one transaction."""
        now = int(time.time())
        self.connection.execute("BEGIN IMMEDIATE")
        if self.mint == "cdk":
            self.connection.executemany(
                "INSERT INTO blind_signature (blinded_message, amount, keyset_id, c, dleq_e, dleq_s, created_time, "
                "signed_time) VALUES (?, 1, ?, ?, ?, ?, ?, ?)",
                ((b, KEYSET, b, b[1:].hex(), b[1:].hex(), now, now) for b in notes))
        else:
            self.connection.executemany(
                "INSERT INTO promises (b_, amount, id, c_, created, signed_at) VALUES (?, 1, ?, ?, ?, ?)",
                ((text := b.hex(), KEYSET, text, now, now) for b in notes))
        self.connection.execute("COMMIT")

    def fill(self, count, seed):
        """Many notes at once, before anybody reads."""
        self.connection.executescript("PRAGMA journal_mode = off; PRAGMA synchronous = off; "
                                      "PRAGMA cache_size = -1500000;")
        self.add_spent(points(count, seed))
        self.connection.executescript(f"PRAGMA cache_size = -2000; PRAGMA journal_mode = {self.journal}; "
                                      "PRAGMA synchronous = full;")

    def delete_spent(self, notes):
        table, column = SPENT_TABLE[self.mint]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(f"DELETE FROM {table} WHERE {column} = ?",
                                    ((y if self.mint == "cdk" else y.hex(),) for y in notes))
        self.connection.execute("COMMIT")

    def count(self):
        return self.connection.execute(f"SELECT COUNT(*) FROM {SPENT_TABLE[self.mint][0]}").fetchone()[0]

    def time_of_count(self):
        start = time.monotonic()
        self.count()
        return time.monotonic() - start

    def close(self):
        self.connection.close()


# ---------------------------------------------------------------- Postgres


def postgres_programs():
    """Where Debian and others keep the server's programs; `None` if there is no server."""
    places = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places += [pathlib.Path(place) for place in os.environ.get("PATH", "").split(os.pathsep)]
    return next((place for place in places
                 if all((place / name).is_file() for name in ("initdb", "pg_ctl", "psql"))), None)


class Cluster:
    """A temporary Postgres server that listens at a socket in its own directory and nowhere else."""

    def __init__(self, directory, settings=""):
        self.programs = postgres_programs()
        if self.programs is None:
            raise FileNotFoundError("no Postgres server is installed (Debian's package is `postgresql`)")
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        # The server refuses to be root's.
        self.user = "postgres" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(self.directory, self.user)
        self.options = (f"-k {self.directory} -c listen_addresses= -c fsync=off -c max_wal_size=512MB "
                        f"-c shared_buffers=256MB {settings}")
        self.run("initdb", "-A", "trust", "-U", "owner", "-N", "-D", self.data)
        self.start()

    @property
    def data(self):
        return self.directory / "data"

    def command(self, program, *arguments):
        command = [str(self.programs / program), *map(str, arguments)]
        return ["runuser", "-u", self.user, "--", *command] if self.user else command

    def run(self, program, *arguments):
        # The server would hold on to our output, and whoever reads it would wait for the server.
        subprocess.run(self.command(program, *arguments), check=True, cwd="/", stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self):
        self.run("pg_ctl", "start", "-w", "-s", "-D", self.data, "-l", self.directory / "log", "-o", self.options)

    def stop(self, mode="fast"):
        self.run("pg_ctl", "stop", "-w", "-s", "-m", mode, "-D", self.data)

    def remove(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)


class PostgresMint:
    """A mint's database on a server."""

    def __init__(self, cluster, mint, name="mint"):
        self.cluster, self.mint, self.name = cluster, mint, name
        self.psql("CREATE DATABASE " + name, database="postgres")
        tables = SQLITE_TABLES[mint].replace("BLOB", "BYTEA").replace("amount INTEGER", "amount BIGINT")
        self.psql(tables.replace("_time INTEGER", "_time BIGINT") + KEYSET_ROW[mint])

    @property
    def location(self):
        return f"postgres://owner@/{self.name}?host={self.cluster.directory}"

    def psql(self, sql, database=None):
        command = self.cluster.command("psql", "-qtAX", "-v", "ON_ERROR_STOP=1", "-U", "owner",
                                       "-h", self.cluster.directory, database or self.name)
        done = subprocess.run(command, input=sql, text=True, cwd="/", capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def session(self):
        """A session that stays, for transactions that take long."""
        return PostgresSession(self)

    def _add(self, values):
        if self.mint == "cdk":
            return (f"WITH added AS (INSERT INTO proof (y, amount, keyset_id, secret, c, state, created_time) "
                    f"SELECT y, 1, '{KEYSET}', encode(substr(y, 2), 'hex'), y, 'SPENT', "
                    f"extract(epoch FROM clock_timestamp())::bigint FROM ({values}) AS notes(y) RETURNING 1) "
                    f"UPDATE keyset_amounts SET total_redeemed = total_redeemed + (SELECT COUNT(*) FROM added);")
        return (f"INSERT INTO proofs_used (y, amount, id, secret, c, created) "
                f"SELECT encode(y, 'hex'), 1, '{KEYSET}', encode(substr(y, 2), 'hex'), encode(y, 'hex'), "
                f"clock_timestamp()::timestamp FROM ({values}) AS notes(y);")

    def adding(self, notes):
        """The statement that adds these notes."""
        return self._add("VALUES " + ",".join(rf"('\x{y.hex()}'::bytea)" for y in notes))

    def add_spent(self, notes):
        self.psql("BEGIN;" + self.adding(notes) + "COMMIT;")

    def fill(self, count, seed):
        self.psql(self._add(rf"SELECT '\x02'::bytea || sha256(('{seed} ' || i)::bytea) "
                            f"FROM generate_series(1, {count}) AS i") + "VACUUM ANALYZE;")

    def delete_spent(self, notes):
        table, column = SPENT_TABLE[self.mint]
        values = ",".join(rf"'\x{y.hex()}'" if self.mint == "cdk" else f"'{y.hex()}'" for y in notes)
        self.psql(f"DELETE FROM {table} WHERE {column} IN ({values});")

    def count(self):
        return int(self.psql(f"SELECT COUNT(*) FROM {SPENT_TABLE[self.mint][0]}"))

    def time_of_count(self):
        start = time.monotonic()
        self.count()
        return time.monotonic() - start

    def close(self):
        pass


class PostgresSession:
    """psql, held open."""

    def __init__(self, mint):
        command = mint.cluster.command("psql", "-qtAX", "-v", "ON_ERROR_STOP=1", "-U", "owner",
                                       "-h", mint.cluster.directory, mint.name)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
                                        stderr=subprocess.STDOUT)

    def do(self, sql):
        """Runs statements to their end."""
        self.process.stdin.write(sql + "\n\\echo done\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.strip() == "done":
                return
        raise RuntimeError("the session has ended")

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
