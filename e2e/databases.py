"""A Postgres server of our own."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from e2e.service_under_test import free_port


def postgres_programs():
    """Where initdb and the others are (Debian keeps them apart from PATH); None if there is no server."""
    places = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places += [pathlib.Path(place) for place in os.environ.get("PATH", "").split(os.pathsep)]
    return next((place for place in places if all((place / name).is_file() for name in ("initdb", "psql"))), None)


class Cluster:
    """A temporary Postgres server on a socket in its own directory and on a port of 127.0.0.1."""

    def __init__(self):
        self.programs = postgres_programs()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="e2e-postgres-"))
        self.data, self.port = self.directory / "data", free_port()
        # The server refuses to run as root.
        self.user = "postgres" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(self.directory, self.user)
        options = (f"-k {self.directory} -p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off "
                   "-c max_connections=200 -c max_wal_size=512MB")
        self.run("initdb", "-A", "trust", "-U", "owner", "-N", "-D", self.data)
        self.run("pg_ctl", "start", "-w", "-D", self.data, "-l", self.directory / "log", "-o", options)

    def command(self, program, *arguments):
        command = [str(self.programs / program), *map(str, arguments)]
        return ["runuser", "-u", self.user, "--", *command] if self.user else command

    def run(self, program, *arguments):
        # The server would inherit our output and keep it open.
        subprocess.run(self.command(program, *arguments), check=True, cwd="/", stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)

    def sql(self, text, database="postgres"):
        psql = self.command("psql", "-qtAX", "-v", "ON_ERROR_STOP=1", "-U", "owner", "-h", self.directory, "-p", self.port, database)
        done = subprocess.run(psql, input=text, text=True, cwd="/", capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def remove(self):
        with contextlib.suppress(subprocess.SubprocessError):
            self.run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", self.data)
        shutil.rmtree(self.directory, ignore_errors=True)


class Postgres:
    """One database on a cluster."""

    def __init__(self, cluster, name="mint"):
        self.cluster, self.name = cluster, name
        cluster.sql(f"CREATE DATABASE {name}")

    @property
    def location(self):
        return f"postgres://owner@/{self.name}?host={self.cluster.directory}&port={self.cluster.port}"

    def sql(self, text):
        return self.cluster.sql(text, self.name)

    def rows(self, sql):
        return [line.split("|") for line in self.sql(sql).splitlines()]
