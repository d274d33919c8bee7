"""Real mints as processes on loopback: nutshell (from PyPI), and cdk-mintd if its path is given.

A wallet mints and spends. Triggers in the mint's database write each change of the two tables that matter to a log,
in the mint's own transaction; a thread reads that log into the journal. So it is known which states the database was
in, and when, without a change to the mint itself.
"""

import contextlib
import json
import pathlib
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from e2e import databases, reference_filter, synthetic_mint
from e2e.journal import RECORD, Journal
from e2e.service_under_test import Failure, clean_environment, expect, free_port, tail, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[1]
START_SECONDS = 60
WALLET_SECONDS = 180
POLL_SECONDS = 0.1
STATES_PER_REQUEST = 500  # mints accept at most 1,000 items in a request

# urllib would use proxies from the environment even for loopback.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url, body=None):
    """GET, or POST of a JSON body; returns the JSON of the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with opener.open(request, timeout=60) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise Failure(f"{url} answered {error.code}: {error.read(500).decode(errors='replace')}") from None
    except OSError as error:
        raise Failure(f"{url}: {error}") from None


class WalletProcess:
    """The wallet, which does as it is told."""

    def __init__(self, python, work, url):
        self.directory, self.log = work / "wallet", work / "wallet.log"
        self.directory.mkdir(exist_ok=True, parents=True)
        environment = clean_environment(HOME=work, CASHU_DIR=self.directory, MINT_URL=url, TOR="FALSE", PYTHONPATH=ROOT)
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(
                [python, "-m", "e2e.wallet", "--mint", url, "--directory", self.directory], env=environment, cwd=work,
                text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output)

    def tell(self, do, **options):
        """Sends a command and waits until it is done."""
        self.process.stdin.write(json.dumps({"do": do, **options}) + "\n")
        self.process.stdin.flush()
        watchdog = threading.Timer(WALLET_SECONDS, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        watchdog.cancel()
        answer = json.loads(line) if line else {"error": f"it ended, or took more than {WALLET_SECONDS} s"}
        if "error" in answer:
            raise Failure(f"the wallet: {do}: {answer['error']}; {self.log}:\n{tail(self.log)}")

    @property
    def notes(self):
        return json.loads((self.directory / "notes.json").read_text())

    def words(self):
        """Of its seed."""
        with contextlib.closing(sqlite3.connect(next(self.directory.glob("*.sqlite3")))) as database:
            return database.execute("SELECT mnemonic FROM seed").fetchone()[0]

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


# --- the log that triggers write

SQLITE_NOW = "(julianday('now') - 2440587.5) * 86400.0"


def log_triggers(kind, table, point, keyset, counts, column):
    """SQLite's statements that log when rows of `table` begin and cease to count; `counts` has {} for the row."""
    def log(op, row):
        return (f"INSERT INTO e2e_log (at, op, kind, keyset, point) "
                f"VALUES ({SQLITE_NOW}, '{op}', '{kind}', {row}.{keyset}, {point.format(row)})")
    new, old = counts.format("NEW"), counts.format("OLD")
    return f"""
        CREATE TRIGGER e2e_{kind}_insert AFTER INSERT ON {table} WHEN {new} BEGIN {log('+', 'NEW')}; END;
        CREATE TRIGGER e2e_{kind}_update AFTER UPDATE OF {column} ON {table} WHEN {new} AND NOT {old}
            BEGIN {log('+', 'NEW')}; END;
        CREATE TRIGGER e2e_{kind}_back AFTER UPDATE OF {column} ON {table} WHEN {old} AND NOT {new}
            BEGIN {log('-', 'OLD')}; END;
        CREATE TRIGGER e2e_{kind}_delete AFTER DELETE ON {table} WHEN {old} BEGIN {log('-', 'OLD')}; END;"""


LOG_TABLE = ("CREATE TABLE e2e_log (seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, op TEXT, kind TEXT, keyset TEXT, "
             "point TEXT);")
LOGGING = {
    "nutshell": LOG_TABLE + log_triggers("spent", "proofs_used", "{}.y", "id", "({}.y IS NOT NULL)", "y") +
    log_triggers("issued", "promises", "{}.b_", "id", "({}.c_ IS NOT NULL)", "c_"),
    "cdk": LOG_TABLE + log_triggers("spent", "proof", "lower(hex({}.y))", "keyset_id", "({}.state = 'SPENT')", "state") +
    log_triggers("issued", "blind_signature", "lower(hex({}.blinded_message))", "keyset_id", "({}.c IS NOT NULL)", "c"),
}
LOG = "SELECT seq, at, op, kind, keyset, point FROM e2e_log WHERE seq > {} ORDER BY seq"
KEYSETS = {"nutshell": "SELECT id FROM keysets", "cdk": "SELECT id FROM keyset"}
HELD = {  # (kind, keyset, point in hex)
    "nutshell": "SELECT 'spent', id, y FROM proofs_used UNION ALL "
                "SELECT 'issued', id, b_ FROM promises WHERE c_ IS NOT NULL",
    "cdk": "SELECT 'spent', keyset_id, lower(hex(y)) FROM proof WHERE state = 'SPENT' UNION ALL "
           "SELECT 'issued', keyset_id, lower(hex(blinded_message)) FROM blind_signature WHERE c IS NOT NULL",
}


class RealMint:
    """A mint on SQLite as a process that is stopped and started, a wallet, and the journal of its database."""

    def __init__(self, mint_type, work, python=sys.executable, seed=1):
        self.mint_type, self.work, self.python = mint_type, pathlib.Path(work), python
        self.features = {"real", mint_type, "sqlite"}
        self.name = f"real {mint_type}"
        self.dice = random.Random(f"mint {seed}")
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = self.work / "mint.log"
        self.journal = Journal(watched=True)
        self.lock = threading.RLock()  # the wallet, and whether the mint is there
        self.looking = threading.Lock()  # the file of the database
        self.process = self.wallet = self.thread = self.error = None
        self.payments, self.keyset_number, self.keyset = "SETTLED", 0, None
        self.sequence, self.transactions = 0, 0
        self.ended, self.writing_ended = threading.Event(), threading.Event()
        self.poller = threading.Thread(target=self.poll, daemon=True)

    # --- the process

    @property
    def always_read_whole(self):
        """nutshell's connections delete the log of its SQLite file between requests."""
        return {"nutshell", "sqlite"} <= self.features

    def begin(self):
        """The first start, in which the mint makes its tables."""
        expect(not self.path.exists(), f"{self.work} holds a mint already")
        self.prepare()
        self.start_mint()
        self.install_log()
        self.look()
        self.poller.start()
        self.wallet = WalletProcess(self.python, self.work, self.url)

    def prepare(self):
        """What the mint needs before its first start."""

    def install_log(self):
        with self.connect() as connection:
            connection.executescript(LOGGING[self.mint_type])

    def start_mint(self, payments=None):
        self.payments = payments or self.payments
        known = set(self.journal.keysets)
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen([str(part) for part in self.command()], env=self.environment(),
                                            cwd=self.work, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

        def answers():
            expect(self.process.poll() is None, f"{self.name} ended: {tail(self.log)}")
            with contextlib.suppress(OSError), opener.open(f"{self.url}/v1/info", timeout=5) as response:
                return response.status == 200
        wait_until(answers, START_SECONDS, f"{self.name} answers; see {self.log}", 0.2)
        listed = [keyset["id"] for keyset in fetch(f"{self.url}/v1/keysets")["keysets"]]
        self.keyset = next((keyset for keyset in listed if keyset not in known), self.keyset)

    def stop_mint(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def restart_mint(self, payments=None):
        with self.lock:
            self.stop_mint()
            self.start_mint(payments)
            self.look()

    def new_keyset(self):
        """The mint is started with another keyset."""
        with self.lock:
            self.keyset_number += 1
            self.restart_mint()
            self.spend(notes=1)
            return self.keyset

    # --- the database

    @property
    def location(self):
        return str(self.path)

    @property
    def keysets(self):
        return list(self.journal.keysets)

    @contextlib.contextmanager
    def connect(self):
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None, timeout=30)) as connection:
            yield connection

    def poll(self):
        while not self.ended.wait(POLL_SECONDS):
            try:
                self.look()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    self.error = error
                    return
            except Exception as error:  # raised by stop_writing()
                self.error = error
                return

    def look(self):
        """Reads the log into the journal."""
        with self.looking:
            now = time.time()
            keysets, rows = self.read_log()
            seen = time.time()
            with self.journal.lock:
                for keyset in keysets:
                    self.journal.add_keyset(keyset, 0)
                for self.sequence, at, op, kind, keyset, point in rows:
                    history, note = self.journal.sets[kind, keyset], bytes.fromhex(point)
                    if op == "+":
                        history.add([note], at - 0.002)
                    else:
                        history.replace(without(history.records(history.last), note), at - 0.002)
                for history in self.journal.sets.values():
                    history.settle(seen)
                self.journal.known_until = now

    def read_log(self):
        """(all keysets, what the log has beyond `sequence`), of one moment."""
        with self.connect() as connection:
            connection.execute("BEGIN")
            keysets = [keyset for keyset, in connection.execute(KEYSETS[self.mint_type])]
            return keysets, connection.execute(LOG.format(self.sequence)).fetchall()

    def held(self, path=None):
        """What the tables hold: {(kind, keyset): points in hex}."""
        found = {}
        with contextlib.closing(sqlite3.connect(path or self.path, timeout=30)) as connection:
            for kind, keyset, point in connection.execute(HELD[self.mint_type]):
                found.setdefault((kind, keyset), []).append(point)
        return found

    def backup(self, directory):
        with self.lock, self.connect() as source:
            path = directory / "backup.sqlite"
            path.unlink(missing_ok=True)
            with contextlib.closing(sqlite3.connect(path)) as target:
                source.backup(target)
            return path, time.time()

    RESTORES = ("another file in its place", "written over")

    def restore(self, backup, way):
        """Puts a backup in the place of the stopped mint's database."""
        path, made = backup
        with self.lock:
            self.stop_mint()
            self.look()
            with self.looking:
                self.put_back(path, way)
                self.sequence = 0
                self.sequence = max((row[0] for row in self.read_log()[1]), default=0)
            self.start_mint()
            self.wallet.tell("again", since=made)

    def forget_gone(self):
        """The service accepts that notes are gone."""
        self.look()
        with self.looking:
            held = self.held()
            with self.journal.lock:
                known = list(self.journal.sets)
            contents = {key: b"".join(map(bytes.fromhex, held.get(key, []))) for key in known}
            self.journal.begin_replace(contents, time.time())
            self.journal.settle(time.time())

    def put_back(self, path, way):
        if way == "written over":
            with contextlib.closing(sqlite3.connect(path)) as source, self.connect() as target:
                source.backup(target)
        else:
            databases.replace_file(self.path, path)

    def vacuum(self):
        with self.lock:
            self.execute("VACUUM")

    def execute(self, statement):
        """A statement of ours in the mint's database."""
        with self.connect() as connection:
            connection.execute(statement)

    # --- the wallet

    def spend(self, notes=24, **more):
        with self.lock:
            self.wallet.tell("spend", keyset=self.keyset, notes=notes, **more)
            self.transactions += 1

    def collide(self, families=1):
        """Issued: the wallet has colliding points signed. Spent: rows of the table, as secrets cannot be chosen so."""
        with self.lock:
            for _ in range(families):
                self.wallet.tell("collide", keyset=self.keyset, pause=self.dice.choice([0, 1.5]))
                for point in reference_filter.colliding_points():
                    self.insert_spent(point)
                    time.sleep(self.dice.choice([0, 1.5]))

    def insert_spent(self, point):
        statements = {"cdk": synthetic_mint.Cdk, "nutshell": synthetic_mint.Nutshell}[self.mint_type]
        for statement in statements("postgres" in self.features).spend(self.keyset, [point]):
            self.execute(statement)

    def states(self):
        """What is known of every note, by the mint's own answers (NUT-07) and by the wallet."""
        notes = self.wallet.notes
        states = {"spent": {}, "unspent": {}, "pending": {}, "signed": notes["signed"], "unsigned": notes["unsigned"]}
        self.pairs = notes["pairs"]
        for keyset, points in notes["proofs"].items():
            for first in range(0, len(points), STATES_PER_REQUEST):
                body = {"Ys": points[first:first + STATES_PER_REQUEST]}
                for answer in fetch(f"{self.url}/v1/checkstate", body)["states"]:
                    states[answer["state"].lower()].setdefault(keyset, []).append(answer["Y"])
        return states

    def start_writing(self):
        self.writing_ended.clear()
        self.thread = threading.Thread(target=self.write, daemon=True)
        self.thread.start()

    def stop_writing(self):
        self.writing_ended.set()
        if self.thread:
            self.thread.join(WALLET_SECONDS)
        self.look()
        if self.error:
            raise self.error

    def write(self):
        try:
            while not self.writing_ended.wait(self.dice.uniform(0.2, 1)):
                self.spend(self.dice.choice([1, 24]), melts=self.dice.choice([0, 0, 0, 1]))
        except Exception as error:  # raised by stop_writing()
            self.error = error

    def close(self):
        self.writing_ended.set()
        self.ended.set()
        if self.thread:
            self.thread.join(WALLET_SECONDS)
        if self.wallet:
            self.wallet.close()
        self.stop_mint()


def without(records, note):
    """The records without one note."""
    for i in range(0, len(records), RECORD):
        if records[i:i + RECORD] == note:
            return records[:i] + records[i + RECORD:]
    raise Failure(f"the log removes a note that was not there: {note.hex()}")


class Nutshell(RealMint):
    """nutshell with its fake Lightning wallet, under a Python that has `cashu`."""

    def __init__(self, work, **options):
        super().__init__("nutshell", work, **options)
        self.path = self.work / "mint" / "mint.sqlite3"
        self.private_key = secrets.token_hex(32)

    def command(self):
        return [self.python, "-c", "from cashu.mint.main import main; main()", "--host", "127.0.0.1",
                "--port", self.url.rsplit(":", 1)[1]]

    def environment(self):
        # `payments`: what becomes of melts, SETTLED or PENDING; FAILED is for those that are pending at the start.
        return clean_environment(
            HOME=self.work, CASHU_DIR=self.work / "cashu", TOR="FALSE", MINT_PRIVATE_KEY=self.private_key,
            MINT_DERIVATION_PATH=f"m/0'/0'/{self.keyset_number}'", MINT_DATABASE=self.database_for_mint(),
            MINT_AUTH_DATABASE=self.work / "auth", MINT_BACKEND_BOLT11_SAT="FakeWallet", MINT_RATE_LIMIT="FALSE",
            FAKEWALLET_DELAY_OUTGOING_PAYMENT="0", FAKEWALLET_DELAY_INCOMING_PAYMENT="0",
            FAKEWALLET_PAY_INVOICE_STATE="SETTLED" if self.payments == "FAILED" else self.payments,
            FAKEWALLET_PAYMENT_STATE=self.payments)

    def database_for_mint(self):
        return self.path.parent

    def pending_melts(self, count=2):
        """Melts that stay pending until the mint is started again with another outcome."""
        with self.lock:
            self.restart_mint("PENDING")
            self.spend(notes=0, pending_melts=count)

    def settle_melts(self, outcome):
        with self.lock:
            self.restart_mint(outcome)
            self.wallet.tell("settle")
            self.restart_mint("SETTLED")


POSTGRES_TRIGGER = """
    CREATE FUNCTION e2e_{kind}() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE counts boolean := TG_OP <> 'DELETE' AND {new}; counted boolean := TG_OP <> 'INSERT' AND {old};
    BEGIN
        IF counts IS DISTINCT FROM counted THEN
            -- Transactions that change the log wait for each other: its order is that of their commits.
            PERFORM pg_advisory_xact_lock(25);
            INSERT INTO e2e_log (at, op, kind, keyset, point) VALUES (extract(epoch FROM clock_timestamp()),
                CASE WHEN counts THEN '+' ELSE '-' END, '{kind}', (COALESCE(NEW, OLD)).id, (COALESCE(NEW, OLD)).{point});
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER e2e AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION e2e_{kind}();"""


class NutshellOnPostgres(Nutshell):
    """The same with a database on a server of ours."""

    RESTORES = databases.Postgres.RESTORES

    def __init__(self, work, cluster, **options):
        super().__init__(work, **options)
        self.features = {"real", "nutshell", "postgres"}
        self.name += " on Postgres"
        self.database = databases.Postgres(cluster)
        self.session = None

    @property
    def location(self):
        return self.database.location

    def database_for_mint(self):
        return f"postgres://owner@127.0.0.1:{self.database.cluster.port}/{self.database.name}"

    def install_log(self):
        self.execute(LOG_TABLE.replace("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGSERIAL PRIMARY KEY").replace(
            "at REAL", "at DOUBLE PRECISION"))
        for kind, table, point, counts in (("spent", "proofs_used", "y", "TRUE"),
                                           ("issued", "promises", "b_", "{}.c_ IS NOT NULL")):
            self.execute(POSTGRES_TRIGGER.format(kind=kind, table=table, point=point, new=counts.format("NEW"),
                                                 old=counts.format("OLD")))

    def execute(self, statement):
        self.database.sql(statement)

    def read_log(self):
        self.session = self.session or databases.Session(self.database.cluster, self.database.name)
        lines = self.session.do("BEGIN ISOLATION LEVEL REPEATABLE READ;" + KEYSETS["nutshell"] + ";\\echo rows\n" +
                                LOG.format(self.sequence) + ";COMMIT;")
        split = lines.index("rows")
        rows = [line.split("|") for line in lines[split + 1:]]
        return lines[:split], [(int(seq), float(at), *rest) for seq, at, *rest in rows]

    def held(self, copy=None):
        found = {}
        for line in self.database.cluster.sql(HELD["nutshell"], copy or self.database.name).splitlines():
            kind, keyset, point = line.split("|")
            found.setdefault((kind, keyset), []).append(point)
        return found

    def forget_session(self):
        if self.session:
            self.session.close()
        self.session = None

    def backup(self, directory):
        with self.lock:
            # A template may have no sessions.
            self.stop_mint()
            with self.looking:
                self.forget_session()
                copy = self.database.backup(directory)
            self.start_mint()
            return copy, time.time()

    def put_back(self, copy, way):
        self.forget_session()
        self.database.restore(copy, way)

    def close(self):
        super().close()
        self.forget_session()


class CdkMintd(RealMint):
    """cdk-mintd with its fake Lightning wallet."""

    # The first test vector of BIP39.
    MNEMONIC = "abandon " * 11 + "about"
    # Its fake wallet obeys the description of an invoice.
    STAY_PENDING = json.dumps({"pay_invoice_state": "PENDING", "check_payment_state": "PENDING",
                               "pay_err": False, "check_err": False})

    def __init__(self, mintd, work, **options):
        super().__init__("cdk", work, **options)
        self.mintd = shutil.which(mintd) or mintd
        self.path = self.work / "mint" / "cdk-mintd.sqlite"

    def command(self):
        return [self.mintd, "-w", self.path.parent, "--enable-logging"]

    def environment(self):
        return clean_environment(HOME=self.work, CDK_MINTD_MNEMONIC=self.MNEMONIC)

    def prepare(self):
        self.path.parent.mkdir()
        self.configure("init", "--new-mint")

    def new_keyset(self):
        """It rotates to a keyset of version 2 when that setting changes."""
        with self.lock:
            self.keyset_number += 1
            self.stop_mint()
            self.configure("apply")
            self.start_mint()
            self.look()
            self.spend(notes=1)
            return self.keyset

    def pending_melts(self, count=1):
        self.spend(notes=0, pending_melts=count, pending_description=self.STAY_PENDING)

    def configure(self, *command):
        file = self.work / "mintd.toml"
        file.write_text(f"""
[info]
url = "{self.url}/"
listen_host = "127.0.0.1"
listen_port = {self.url.rsplit(":", 1)[1]}
mnemonic = "env:CDK_MINTD_MNEMONIC"
input_fee_ppk = 100
use_keyset_v2 = {str(self.keyset_number % 2 == 1).lower()}
[info.logging]
output = "stderr"
[info.http_cache]
backend = "memory"
ttl = 60
tti = 60
[mint_info]
name = "a real mint"
[database]
engine = "sqlite"
[payment_backend]
backend = "fakewallet"
[fake_wallet]
fee_percent = 0.01
reserve_fee_min = 2
custom_payment_methods = []
min_delay_time = 0
max_delay_time = 0
""")
        with open(self.log, "ab") as output:
            done = subprocess.run([self.mintd, "-w", self.path.parent, "config", *command, "--file", file],
                                  env=self.environment(), stdout=output, stderr=output, timeout=60, check=False)
        expect(done.returncode == 0, f"cdk-mintd config {command[0]}: {tail(self.log)}")
