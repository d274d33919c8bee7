"""The databases of a nutshell mint for the checks that follow it: a SQLite file, or a Postgres of our own.

Each says where the mint and the service find it, gives what the mint's tables hold, can be taken away from
the service and given back, and can be copied while the mint runs and put back while it is stopped.
"""

import contextlib
import glob
import os
import pathlib
import pwd
import secrets
import shutil
import sqlite3
import subprocess
import tempfile

from real_mint_common import Failure, environment, free_port, tail

SPENT = "SELECT y, id FROM proofs_used"
SIGNED = "SELECT b_, id FROM promises WHERE c_ IS NOT NULL"

# All that the service may read; `xmin` is what tells it new rows from old ones.
GRANTS = """
GRANT USAGE ON SCHEMA public TO filters;
GRANT SELECT (id, y, xmin) ON proofs_used TO filters;
GRANT SELECT (id, b_, c_, xmin) ON promises TO filters;
GRANT SELECT (id, unit, active, input_fee_ppk) ON keysets TO filters;
"""

# What it may not.
FORBIDDEN = ["SELECT secret FROM proofs_used", "SELECT seed FROM keysets", "SELECT * FROM mint_quotes",
             "DELETE FROM proofs_used", "CREATE TABLE mine (a int)"]

COMMAND_SECONDS = 60


def by_keyset(rows):
    """{keyset: set of points} of (point, keyset) rows."""
    grouped = {}
    for point, keyset in rows:
        grouped.setdefault(keyset, set()).add(point)
    return grouped


class Sqlite:
    """`mint.sqlite3` in a directory of the mint's."""

    name = "SQLite"
    restarts = False
    secrets = ()

    def __init__(self, work):
        self.directory = work / "mint"
        self.file = self.directory / "mint.sqlite3"
        self.away = work / "mint.away"
        self.copies = work / "copies"
        self.copies.mkdir(exist_ok=True)

    def __enter__(self):
        if self.file.exists():
            raise Failure(f"{self.directory} holds a mint already; give another directory")
        return self

    def __exit__(self, *_):
        pass

    def for_mint(self):
        """What MINT_DATABASE says to the mint."""
        return str(self.directory)

    def for_service(self):
        """The service's environment."""
        return {"MINT_DATABASE": self.file}

    def for_build(self):
        """The argument of `build --mint-database`."""
        return str(self.file)

    def grant(self):
        """Lets the service in: a file's permissions do."""

    def read(self):
        """(spent, signed), each {keyset: set of hex}."""
        with contextlib.closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)) as connection:
            return by_keyset(connection.execute(SPENT)), by_keyset(connection.execute(SIGNED))

    def hide(self):
        """Takes it away; the mint is stopped."""
        self.directory.rename(self.away)

    def show(self):
        """Gives it back."""
        self.away.rename(self.directory)

    def copy(self, name):
        """A copy while the mint runs, by SQLite's own means."""
        with contextlib.closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)) as source, \
                contextlib.closing(sqlite3.connect(self.copies / name)) as target:
            source.backup(target)

    def restore(self, name, in_place):
        """Puts a copy back, as another file or into the same; the mint is stopped."""
        for suffix in ("-wal", "-shm"):
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)
        if in_place:
            shutil.copyfile(self.copies / name, self.file)
        else:
            new = self.file.with_name("restored")
            shutil.copyfile(self.copies / name, new)
            new.rename(self.file)
        return "copied over the file" if in_place else "another file in its place"


class Postgres:
    """A cluster on loopback that lives as long as the block, with a role for the mint and one for the service."""

    name = "Postgres"
    restarts = True

    def __init__(self, work):
        self.work = work
        self.log = work / "postgres.log"
        self.port = free_port()
        self.password = secrets.token_urlsafe(24)
        self.secrets = (self.password,)
        self.url_file = work / "service-database"
        self.directory = None
        self.bin = binaries()
        # Postgres does not run as root.
        self.user = None
        if os.geteuid() == 0:
            self.user = next((name for name in ("postgres", "nobody") if has_user(name)), None)

    def __enter__(self):
        # Not in the working directory, which another user may not be able to reach.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="real-mint-pg-"))
        if self.user:
            shutil.chown(self.directory, self.user)
        self.data = self.directory / "data"
        try:
            self.run("initdb", "-D", self.data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
            (self.data / "pg_hba.conf").write_text(
                "local all owner trust\nlocal replication owner trust\nhost all owner 127.0.0.1/32 trust\n"
                "host mint filters 127.0.0.1/32 scram-sha-256\n")
            self.start()
            self.sql(f"CREATE ROLE filters LOGIN PASSWORD '{self.password}' CONNECTION LIMIT 5", database="postgres")
            self.sql("ALTER ROLE filters SET default_transaction_read_only = on", database="postgres")
            self.sql("CREATE DATABASE mint", database="postgres")
        except BaseException:
            self.__exit__()
            raise
        self.url_file.touch(mode=0o600)
        self.url_file.write_text(self.service_url() + "\n")
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Failure):
            self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, program, *arguments, text=None):
        """One of Postgres' programs, as the user that may run them; gives its output."""
        done = subprocess.run([self.bin / program, *map(str, arguments)], user=self.user, cwd=self.directory,
                              env=environment(self.directory), input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=COMMAND_SECONDS, check=False)
        if done.returncode != 0:
            server = self.directory / "log"
            raise Failure(f"{program}: exit code {done.returncode}: {done.stderr.strip()}"
                          + (f"\n{tail(server)}" if server.exists() else ""))
        return done.stdout

    def start(self):
        """Starts the server and waits for it. (pg_ctl's own output must not keep our pipes open.)"""
        options = (f"-p {self.port} -k {self.directory} -c listen_addresses=127.0.0.1 -c fsync=off "
                   "-c max_connections=200")
        self.run("pg_ctl", "-D", self.data, "-w", "-l", self.directory / "log", "-o", options, "start")

    def stop(self, mode="fast"):
        """Stops it; `immediate` is as if it had crashed."""
        self.run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def sql(self, text, database="mint"):
        """Statements of the owner's; gives the rows, columns parted by `|`."""
        return self.run("psql", "-h", self.directory, "-p", self.port, "-U", "owner", "-d", database, "-X", "-q", "-A",
                        "-t", "-v", "ON_ERROR_STOP=1", text=text).splitlines()

    def for_mint(self):
        return f"postgres://owner@127.0.0.1:{self.port}/mint"

    def service_url(self):
        return f"postgres://filters:{self.password}@127.0.0.1:{self.port}/mint"

    def for_service(self):
        return {"MINT_DATABASE_FILE": self.url_file}

    def for_build(self):
        return self.service_url()

    def grant(self):
        """The rights that the service needs, and a look whether it has no others."""
        self.sql(GRANTS)
        for statement in FORBIDDEN:
            done = subprocess.run([self.bin / "psql", "-X", "-q", self.service_url(), "-c", statement],
                                  env=environment(self.work), capture_output=True, text=True,
                                  timeout=COMMAND_SECONDS, check=False)
            if "permission denied" not in done.stderr and "read-only transaction" not in done.stderr:
                raise Failure(f"the service's role may do this: {statement}: {done.stdout}{done.stderr}")

    def read(self):
        rows = [[line.split("|") for line in self.sql(query)] for query in (SPENT, SIGNED)]
        return by_keyset(rows[0]), by_keyset(rows[1])

    def hide(self):
        """Nobody lets the service in any more. (Stopping the server would be another case.)"""
        self.sql("ALTER ROLE filters NOLOGIN")
        self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'filters'")

    def show(self):
        self.sql("ALTER ROLE filters LOGIN")

    def copy(self, name):
        """A dump of the database, and a copy of the whole cluster."""
        where = ("-h", self.directory, "-p", self.port, "-U", "owner")
        self.run("pg_dump", *where, "-Fc", "-f", self.directory / f"{name}.dump", "mint")
        cluster = self.directory / f"{name}.cluster"
        shutil.rmtree(cluster, ignore_errors=True)
        self.run("pg_basebackup", *where, "-c", "fast", "-X", "stream", "-D", cluster)

    def restore(self, name, in_place):
        """Puts the dump back into a new database of the same name, or the whole cluster in place of this one."""
        if in_place:
            where = ("-h", self.directory, "-p", self.port, "-U", "owner")
            self.sql("DROP DATABASE mint WITH (FORCE)", database="postgres")
            self.sql("CREATE DATABASE mint", database="postgres")
            self.run("pg_restore", *where, "-d", "mint", "-j", "2", self.directory / f"{name}.dump")
            return "dumped and restored into a new database"
        self.stop()
        shutil.rmtree(self.data)
        (self.directory / f"{name}.cluster").rename(self.data)
        self.start()
        return "a base backup in place of the cluster"


def binaries():
    """Where initdb and the others are. Debian keeps them apart from PATH."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: float(path.split("/")[4]))
    initdb = found[-1] if found else shutil.which("initdb")
    if initdb is None:
        raise Failure("there is no Postgres here; on Debian: apt-get install postgresql")
    return pathlib.Path(initdb).resolve().parent


def has_user(name):
    """Whether the system knows this user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
