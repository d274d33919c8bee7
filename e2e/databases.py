"""Where a mint keeps its tables: a SQLite file, or a database on a Postgres server of our own."""

import contextlib
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

from e2e.service_under_test import Failure, free_port


class Sqlite:
    """One file, with connections as a mint has them."""

    kind = "sqlite"

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.open()

    def open(self):
        self.connection = self.connect()
        self.connection.executescript("PRAGMA journal_mode = wal; PRAGMA synchronous = normal")

    @property
    def location(self):
        return str(self.path)

    def connect(self):
        return sqlite3.connect(self.path, isolation_level=None, timeout=30, check_same_thread=False)

    def create(self, sql):
        self.connection.executescript(sql)

    def run(self, statements):
        """One transaction."""
        self.connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            self.connection.execute(statement)
        self.connection.execute("COMMIT")

    def vacuum(self):
        self.connection.execute("VACUUM")

    def backup(self, directory):
        path = directory / "backup.sqlite"
        path.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(path)) as target, contextlib.closing(self.connect()) as source:
            source.backup(target)
        return path

    def restore(self, path, way):
        if way == "written over":
            with contextlib.closing(sqlite3.connect(path)) as source:
                source.backup(self.connection)
            return
        # As an operator does with a stopped mint: the last connection empties the log.
        self.empty_log()
        self.connection.close()
        replace_file(self.path, path)
        self.open()

    def empty_log(self):
        for _ in range(500):
            busy, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return
            time.sleep(0.02)
        raise Failure("the write-ahead log could not be emptied in 10 s: a reader holds it")

    RESTORES = ("another file in its place", "written over")

    @contextlib.contextmanager
    def locked(self):
        """Nobody can read while the block lasts."""
        self.connection.close()
        other = self.connect()
        try:
            other.execute("PRAGMA locking_mode = exclusive")
            other.execute("BEGIN EXCLUSIVE")
            yield
            other.execute("COMMIT")
        finally:
            other.close()
            self.connection = self.connect()

    def rows(self, sql):
        return self.connection.execute(sql).fetchall()

    def close(self):
        self.connection.close()


def replace_file(path, new):
    """Puts a copy of `new` in the place of a SQLite file that nobody writes."""
    for suffix in ("-wal", "-shm"):
        pathlib.Path(f"{path}{suffix}").unlink(missing_ok=True)
    shutil.copyfile(new, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)
    # A reader that opened the old file a moment ago must not find the new file's log next to it.
    time.sleep(0.3)


def postgres_programs():
    """Where initdb and the others are (Debian keeps them apart from PATH); None if there is no server."""
    places = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places += [pathlib.Path(place) for place in os.environ.get("PATH", "").split(os.pathsep)]
    return next((place for place in places if all((place / name).is_file() for name in ("initdb", "psql"))), None)


class Cluster:
    """A temporary Postgres server on a socket in its own directory and on a port of 127.0.0.1."""

    def __init__(self, settings=""):
        self.programs = postgres_programs()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="e2e-postgres-"))
        self.data, self.port = self.directory / "data", free_port()
        # The server refuses to run as root.
        self.user = "postgres" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(self.directory, self.user)
        self.options = (f"-k {self.directory} -p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off "
                        f"-c max_connections=200 -c max_wal_size=512MB {settings}")
        self.run("initdb", "-A", "trust", "-U", "owner", "-N", "-D", self.data)
        self.start()

    def command(self, program, *arguments):
        command = [str(self.programs / program), *map(str, arguments)]
        return ["runuser", "-u", self.user, "--", *command] if self.user else command

    def run(self, program, *arguments):
        # The server would inherit our output and keep it open.
        subprocess.run(self.command(program, *arguments), check=True, cwd="/", stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)

    def start(self):
        self.run("pg_ctl", "start", "-w", "-D", self.data, "-l", self.directory / "log", "-o", self.options)

    def stop(self, mode="fast"):
        """`immediate` is like a crash."""
        self.run("pg_ctl", "stop", "-w", "-m", mode, "-D", self.data)

    @contextlib.contextmanager
    def suspended(self):
        """All processes of the server stand still while the block lasts."""
        first = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=False)
        processes = [first, *map(int, told.stdout.split())]
        try:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def psql(self, database):
        return self.command("psql", "-qtAX", "-v", "ON_ERROR_STOP=1", "-U", "owner", "-h", self.directory,
                            "-p", self.port, database)

    def sql(self, text, database="postgres"):
        done = subprocess.run(self.psql(database), input=text, text=True, cwd="/", capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def remove(self):
        with contextlib.suppress(subprocess.SubprocessError):
            self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)


class Session:
    """psql, held open."""

    def __init__(self, cluster, database):
        self.process = subprocess.Popen(cluster.psql(database), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, cwd="/", stderr=subprocess.STDOUT)

    def do(self, sql):
        """Runs statements to their end; gives the lines that they print."""
        self.process.stdin.write(sql + "\n\\echo done\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.strip() == "done":
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError(f"the session has ended: {lines[-3:]}")

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)


class Postgres:
    """One database on a cluster."""

    kind = "postgres"
    RESTORES = ("a copy of the database in its place",)

    def __init__(self, cluster, name="mint"):
        self.cluster, self.name = cluster, name
        self.session = None
        cluster.sql(f"CREATE DATABASE {name}")

    @property
    def location(self):
        return f"postgres://owner@/{self.name}?host={self.cluster.directory}&port={self.cluster.port}"

    def create(self, sql):
        self.sql(sql)

    def sql(self, text):
        return self.cluster.sql(text, self.name)

    def run(self, statements):
        """One transaction. A session that ended with the server is replaced: nobody stops the server within one."""
        text = "BEGIN;" + ";".join(statements) + ";COMMIT;"
        try:
            self.session = self.session or Session(self.cluster, self.name)
            self.session.do(text)
        except (OSError, RuntimeError, ValueError):
            self.session = Session(self.cluster, self.name)
            self.session.do(text)

    def forget_session(self):
        if self.session:
            self.session.close()
        self.session = None

    def vacuum(self):
        self.sql("VACUUM FULL")

    def backup(self, _directory):
        self.copy(self.name, "older")
        return "older"

    def restore(self, copy, _way):
        self.forget_session()
        self.cluster.sql(f"DROP DATABASE {self.name} WITH (FORCE)")
        self.cluster.sql(f"ALTER DATABASE {copy} RENAME TO {self.name}")

    def copy(self, source, target):
        """A template may have no sessions: they are all ended."""
        self.forget_session()
        self.cluster.sql(f"DROP DATABASE IF EXISTS {target} WITH (FORCE)")
        for attempt in range(100):
            try:
                self.cluster.sql(f"ALTER DATABASE {source} ALLOW_CONNECTIONS false")
                self.cluster.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{source}'")
                self.cluster.sql(f"CREATE DATABASE {target} TEMPLATE {source}")
                break
            except RuntimeError:
                if attempt == 99:
                    raise
                time.sleep(0.1)
            finally:
                self.cluster.sql(f"ALTER DATABASE {source} ALLOW_CONNECTIONS true")

    def rows(self, sql):
        return [line.split("|") for line in self.sql(sql).splitlines()]

    def close(self):
        self.forget_session()
