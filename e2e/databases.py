"""A Postgres server of our own, and SQLite files that are replaced."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from e2e.service_under_test import free_port


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

    def sql(self, text, database="postgres"):
        psql = self.command("psql", "-qtAX", "-v", "ON_ERROR_STOP=1", "-U", "owner", "-h", self.directory, "-p", self.port, database)
        done = subprocess.run(psql, input=text, text=True, cwd="/", capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def remove(self):
        with contextlib.suppress(subprocess.SubprocessError):
            self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)


class Postgres:
    """One database on a cluster."""

    RESTORES = ("a copy of the database in its place",)

    def __init__(self, cluster, name="mint"):
        self.cluster, self.name = cluster, name
        cluster.sql(f"CREATE DATABASE {name}")

    @property
    def location(self):
        return f"postgres://owner@/{self.name}?host={self.cluster.directory}&port={self.cluster.port}"

    def sql(self, text):
        return self.cluster.sql(text, self.name)

    def backup(self, _directory):
        """A template may have no sessions: they are all ended."""
        self.cluster.sql("DROP DATABASE IF EXISTS older WITH (FORCE)")
        for attempt in range(100):
            try:
                self.cluster.sql(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false")
                self.cluster.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}'")
                self.cluster.sql(f"CREATE DATABASE older TEMPLATE {self.name}")
                break
            except RuntimeError:
                if attempt == 99:
                    raise
                time.sleep(0.1)
            finally:
                self.cluster.sql(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS true")
        return "older"

    def restore(self, copy, _way):
        self.cluster.sql(f"DROP DATABASE {self.name} WITH (FORCE)")
        self.cluster.sql(f"ALTER DATABASE {copy} RENAME TO {self.name}")

    def rows(self, sql):
        return [line.split("|") for line in self.sql(sql).splitlines()]
