"""A mint of CDK that publishes its filters itself (examples/cdk-mint): how soon a note is in them, what they cost, and nothing missed
by a kill."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import pytest
from cashu.core.crypto.b_dhke import hash_to_curve
from coincurve import PrivateKey, PublicKey

from e2e import reference_filter
from e2e.conftest import ROOT
from e2e.real_mints import RealMint, WalletProcess, fetch
from e2e.scenario import Skipped
from e2e.service_under_test import Failure, clean_environment, tail, wait_until

PROGRAM = ROOT / "examples/cdk-mint/target/release/cdk-mint"
CLIENT = ROOT / "e2e/cashu-ts/embedded.mjs"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
KINDS = "spent", "issued"
PENDING = "SELECT 1 FROM proof WHERE state = 'PENDING'"
PAYMENT_SECONDS = "2"

pytestmark = pytest.mark.embedded


class Mint(RealMint):
    """The example as a process, with its database in a directory of its own."""

    def __init__(self, work, *arguments):
        super().__init__("cdk", work)
        work.mkdir(exist_ok=True)
        if not PROGRAM.exists():
            raise Skipped(f"no {PROGRAM}: cargo build --release --manifest-path examples/cdk-mint/Cargo.toml")
        self.path, self.arguments = work / "mint.sqlite", arguments

    def command(self):
        return [PROGRAM, self.path, f"127.0.0.1:{self.port}", *self.arguments]

    def environment(self):
        return clean_environment()

    def points(self, kind):
        return set(self.held().get((kind, self.keyset), []))

    def filter(self, kind):
        try:
            return fetch(f"{self.url}/v1/filter/{kind}/{self.keyset}")
        except Failure:
            return None

    def missed(self, kind):
        """The notes of the database that the filter lacks, or None without a filter."""
        points, answer = self.points(kind), self.filter(kind)
        return answer and points - reference_filter.matches(answer, points)

    def published(self):
        """How many milliseconds it takes until both filters have every note of the database."""
        start, counts = time.monotonic(), {kind: len(self.points(kind)) for kind in KINDS}
        for kind in KINDS:
            wait_until(lambda kind=kind: (self.filter(kind) or {}).get("n") == counts[kind], 30, f"{kind} notes", 0.002)
        return 1000 * (time.monotonic() - start)

    def cpu(self):
        """CPU seconds so far: of the process, and of the thread that refreshes."""
        process = pathlib.Path(f"/proc/{self.process.pid}")
        stats = [(process / "stat").read_text(), *(path.read_text() for path in process.glob("task/*/stat"))]
        times = [sum(map(int, stat.rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK") for stat in stats]
        return times[0], sum(time for stat, time in zip(stats, times, strict=True) if "(nutfilter-refre" in stat)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def check(self):
        """Whether the database is intact, and the log tells of no conflict."""
        assert self.rows("PRAGMA integrity_check") == [("ok",)]
        log = self.log.read_text(errors="replace").lower()
        assert "database is locked" not in log and "busy" not in log and "panicked" not in log, tail(self.log)


@pytest.fixture
def start(work):
    mints = []

    def start(*arguments, work=work):
        mints.append(Mint(work, *arguments))
        mints[-1].start_mint()
        return mints[-1]
    yield start
    for mint in mints:
        mint.close()


def by_nutshell(mint, work, _):
    """The delays after each answer to nutshell's wallet: swaps, melts, and melts that are pending at first."""
    mint.wallet, delays = WalletProcess(sys.executable, work, mint.url), []
    for _ in range(6):
        mint.spend(24, melts=1)
        delays.append(mint.published())
        mint.spend(0, pending_melts=1)
        assert mint.rows(PENDING)
        delays.append(mint.published())
        while mint.rows(PENDING):
            mint.wallet.tell("settle")
        delays.append(mint.published())
    notes = mint.wallet.notes
    return delays, set(notes["signed"][mint.keyset]), notes["balance"], mint.wallet.words()


def by_cashu_ts(mint, work, other):
    command = ["node", CLIENT, mint.url, "40", WORDS, other.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr + tail(mint.log)
    said = json.loads(done.stdout)
    assert set(said["spent"]) == mint.points("spent")
    return said["delays"], set(said["issued"]), said["left"], WORDS


@pytest.mark.parametrize("directory, least, median, largest", [("filters", 1000, 1500, 4000), ("-", 100, 250, 2000)])
@pytest.mark.parametrize("use", [by_cashu_ts, by_nutshell])
def test_note_is_in_the_filters_soon(binary, start, work, record, use, directory, least, median, largest):
    mint = start(directory if directory == "-" else work / directory, str(least), PAYMENT_SECONDS)
    assert fetch(f"{mint.url}/v1/info")["filters"] == {"supported": True}
    delays, issued, left, words = use(mint, work, start("-", work=work / "other"))
    result = {"wallet": use.__name__, "least_ms": least, "delays": len(delays),
              "median_ms": round(statistics.median(delays)), "largest_ms": round(max(delays))}
    print(json.dumps(result))
    record(test="embedded", **result)
    assert issued == mint.points("issued")
    for kind in KINDS:
        assert mint.missed(kind) == set()
    file = work / "words"
    file.write_text(words)
    file.chmod(0o600)
    command = [binary, "restore", "--mint", mint.url, "--proxy", "none", "--seed-file", file]
    restored = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    assert restored.returncode == 0 and f"{left} sat" in restored.stderr, restored.stderr
    mint.kill()
    mint.check()
    assert result["median_ms"] <= median and result["largest_ms"] <= largest


class Swapper:
    """Swaps pairs of notes for pairs as fast as a mint answers: nothing is computed meanwhile."""

    THREADS, BLINDING = 8, PrivateKey()

    def __init__(self, mint, swaps):
        self.mint, (keys,) = mint, fetch(f"{mint.url}/v1/keys")["keysets"]
        self.factor = PublicKey(bytes.fromhex(keys["keys"]["1"])).multiply((-int.from_bytes(self.BLINDING.secret) % ORDER).to_bytes(32))
        self.notes = []
        for _ in range(0, 2 * swaps, 500):
            secrets, outputs = self.outputs(500)
            quote = fetch(f"{mint.url}/v1/mint/quote/bolt11", {"amount": 500, "unit": "sat"})["quote"]
            wait_until(lambda: fetch(f"{mint.url}/v1/mint/quote/bolt11/{quote}")["state"] == "PAID", 30, "the payment")
            signed = fetch(f"{mint.url}/v1/mint/bolt11", {"quote": quote, "outputs": outputs})["signatures"]
            self.notes += self.unblinded(secrets, signed)

    def outputs(self, count):
        secrets = [os.urandom(32).hex() for _ in range(count)]
        points = (PublicKey(hash_to_curve(secret.encode()).format()) for secret in secrets)
        blinded = [PublicKey.combine_keys([point, self.BLINDING.public_key]).format().hex() for point in points]
        return secrets, [{"amount": 1, "id": self.mint.keyset, "B_": point} for point in blinded]

    def unblinded(self, secrets, signed):
        for secret, signature in zip(secrets, signed, strict=True):
            point = PublicKey.combine_keys([PublicKey(bytes.fromhex(signature["C_"])), self.factor])
            yield {"amount": 1, "id": self.mint.keyset, "secret": secret, "C": point.format().hex()}

    def run(self):
        """Swaps a second, and CPU seconds for a swap: of the mint, and of the thread that refreshes."""
        secrets, outputs = self.outputs(len(self.notes))
        bodies = [json.dumps({"inputs": self.notes[at:at + 2], "outputs": outputs[at:at + 2]}) for at in range(0, len(outputs), 2)]

        def swap(bodies):
            client = http.client.HTTPConnection("127.0.0.1", self.mint.port, timeout=60)
            return [self.swap(client, body) for body in bodies]
        parts = [bodies[at::self.THREADS] for at in range(self.THREADS)]
        with concurrent.futures.ThreadPoolExecutor(self.THREADS) as pool:
            start, cpu = time.monotonic(), self.mint.cpu()
            answers = list(pool.map(swap, parts))
            took = time.monotonic() - start
            cpu = [(now - before) / len(bodies) for before, now in zip(cpu, self.mint.cpu(), strict=True)]
        signed = [None] * len(bodies)
        for at, part in enumerate(answers):
            signed[at::self.THREADS] = part
        signed = [signature for answer in signed for signature in json.loads(answer)["signatures"]]
        self.notes = list(self.unblinded(secrets, signed))
        return len(bodies) / took, *cpu

    @staticmethod
    def swap(client, body):
        client.request("POST", "/v1/swap", body, {"Content-Type": "application/json"})
        return client.getresponse().read()


ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141


def test_filters_cost_few_swaps(start, work, record, request):
    """With and without filters in turns, for --minutes."""
    swappers = [Swapper(start(directory, work=work / directory), 1000) for directory in ("none", "filters")]
    runs, end = [], time.monotonic() + 60 * request.config.getoption("--minutes")
    while len(runs) < 4 or time.monotonic() < end:
        turn = -1 if len(runs) % 2 else 1
        runs.append([swapper.run() for swapper in swappers[::turn]][::turn])
    (without, plain, _), (with_filters, whole, refresh) = (map(statistics.median, zip(*run)) for run in zip(*runs))
    result = {"runs": len(runs), "swaps_per_second": [round(without), round(with_filters)],
              "ratios": [round(one[1][0] / one[0][0], 2) for one in runs], "ratio": round(with_filters / without, 3),
              "cpu_us_per_swap": [round(1e6 * one) for one in (plain, whole, refresh)]}
    print(json.dumps(result))
    record(test="embedded swaps", **result)
    assert result["ratio"] > 0.8 and refresh < 0.05 * whole


def test_killed_mint_misses_nothing(start, work, request):
    """Killed in the middle of swaps; what is served at once is dated before what it lacks, and soon it lacks nothing."""
    mint, chance = start(work / "filters", "1000"), random.Random(request.config.getoption("--seed"))
    kills, end = 0, time.monotonic() + 60 * request.config.getoption("--minutes")
    dates = dict.fromkeys(KINDS, 0)
    while kills < 5 or time.monotonic() < end:
        words = os.urandom(16).hex()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        client = subprocess.Popen(["node", CLIENT, mint.url, "0", words], **quiet)
        before = len(mint.points("spent"))
        wait_until(lambda: len(mint.points("spent")) > before, 60, "a swap")
        time.sleep(chance.uniform(0, 1.5))
        mint.kill()
        kills += 1
        client.wait(timeout=60)
        mint.start_mint()
        for kind in KINDS:
            wait_until(lambda kind=kind: mint.missed(kind) == set(), 30, f"all {kind} notes after kill {kills}")
            date = mint.filter(kind)["timestamp"]
            assert dates[kind] <= date <= time.time(), kind
            dates[kind] = date
    mint.kill()
    mint.check()
    spent, issued = (len(mint.points(kind)) for kind in KINDS)
    print(f"{kills} kills, {spent} spent and {issued} issued notes, none missed")
