"""Real mints as processes on loopback: nutshell (from PyPI), and cdk-mintd if its path is given.

A wallet mints and spends. What the mint's database holds is read while the wallet rests.
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
import urllib.error
import urllib.request

from e2e import databases
from e2e.service_under_test import Failure, clean_environment, expect, free_port, tail, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[1]
START_SECONDS = 60
WALLET_SECONDS = 180
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


KEYSETS = {"nutshell": "SELECT id FROM keysets", "cdk": "SELECT id FROM keyset"}
HELD = {"nutshell": "SELECT 'spent', id, y FROM proofs_used UNION ALL SELECT 'issued', id, b_ FROM promises WHERE c_ IS NOT NULL",
        "cdk": "SELECT 'spent', keyset_id, hex(y) FROM proof WHERE state = 'SPENT' UNION ALL "
               "SELECT 'issued', keyset_id, hex(blinded_message) FROM blind_signature WHERE c IS NOT NULL"}


class RealMint:
    """A mint on SQLite as a process that is stopped and started, and a wallet."""

    def __init__(self, mint_type, work, python=sys.executable, seed=1, host="127.0.0.1"):
        self.mint_type, self.work, self.python = mint_type, pathlib.Path(work), python
        self.name = f"real {mint_type}"
        self.dice = random.Random(f"mint {seed}")
        self.host, self.port = host, free_port()
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
        self.log = self.work / "mint.log"
        self.lock = threading.RLock()  # the wallet, and whether the mint is there
        self.process = self.wallet = self.thread = self.error = None
        self.payments, self.keyset_number, self.keyset = "SETTLED", 0, None
        self.writing_ended = threading.Event()

    # --- the process

    def begin(self):
        """The first start, in which the mint makes its tables."""
        expect(not self.path.exists(), f"{self.work} holds a mint already")
        self.prepare()
        self.start_mint()
        self.wallet = WalletProcess(self.python, self.work, self.url)

    def prepare(self):
        """What the mint needs before its first start."""

    def start_mint(self, payments=None):
        self.payments = payments or self.payments
        known = self.keysets if self.path_exists() else []
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

    def path_exists(self):
        return self.path.exists()

    @property
    def keysets(self):
        return [keyset for keyset, in self.rows(KEYSETS[self.mint_type])]

    def rows(self, sql):
        with self.connect() as connection:
            return connection.execute(sql).fetchall()

    @contextlib.contextmanager
    def connect(self):
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None, timeout=30)) as connection:
            yield connection

    def held(self):
        """What the tables hold: {(kind, keyset): points in hex}."""
        found = {}
        for kind, keyset, point in self.rows(HELD[self.mint_type]):
            found.setdefault((kind, keyset), []).append(point.lower())
        return found

    # --- the wallet

    def spend(self, notes=24, **more):
        with self.lock:
            self.wallet.tell("spend", keyset=self.keyset, notes=notes, **more)

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
        if self.thread:
            self.thread.join(WALLET_SECONDS)
        if self.wallet:
            self.wallet.close()
        self.stop_mint()


class Nutshell(RealMint):
    """nutshell with its fake Lightning wallet, under a Python that has `cashu`."""

    def __init__(self, work, **options):
        super().__init__("nutshell", work, **options)
        self.path = self.work / "mint" / "mint.sqlite3"
        self.private_key = secrets.token_hex(32)
        self.payment_seconds, self.is_limited = 0, False

    def command(self):
        return [self.python, "-c", "from cashu.mint.main import main; main()", "--host", self.host, "--port", self.port]

    def environment(self):
        # `payments`: what becomes of melts, SETTLED or PENDING; FAILED is for those that are pending at the start.
        return clean_environment(
            HOME=self.work, CASHU_DIR=self.work / "cashu", TOR="FALSE", MINT_PRIVATE_KEY=self.private_key,
            MINT_DERIVATION_PATH=f"m/0'/0'/{self.keyset_number}'", MINT_DATABASE=self.database_for_mint(),
            MINT_AUTH_DATABASE=self.work / "auth", MINT_BACKEND_BOLT11_SAT="FakeWallet", MINT_RATE_LIMIT=str(self.is_limited).upper(),
            FAKEWALLET_DELAY_OUTGOING_PAYMENT=str(self.payment_seconds), FAKEWALLET_DELAY_INCOMING_PAYMENT="0",
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


class NutshellOnPostgres(Nutshell):
    """The same with a database on a server of ours."""

    def __init__(self, work, cluster, **options):
        super().__init__(work, **options)
        self.name += " on Postgres"
        self.database = databases.Postgres(cluster)

    @property
    def location(self):
        return self.database.location

    def database_for_mint(self):
        return f"postgres://owner@127.0.0.1:{self.database.cluster.port}/{self.database.name}"

    def path_exists(self):
        return self.database.sql("SELECT to_regclass('keysets')") != ""

    def rows(self, sql):
        return self.database.rows(sql)


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
listen_port = {self.port}
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
