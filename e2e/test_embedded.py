"""A mint of CDK that publishes its filters itself (examples/cdk-mint): how soon a note is in them, and nothing missed by a kill."""

import contextlib
import json
import os
import random
import sqlite3
import statistics
import subprocess
import time

import pytest

from e2e import reference_filter
from e2e.conftest import ROOT
from e2e.scenario import Skipped
from e2e.service_under_test import clean_environment, free_port, tail, wait_until

PROGRAM = ROOT / "examples/cdk-mint/target/debug/cdk-mint"
CLIENT = ROOT / "e2e/cashu-ts/embedded.mjs"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
ROWS = {"spent": "SELECT lower(hex(y)) FROM proof WHERE state = 'SPENT'",
        "issued": "SELECT lower(hex(blinded_message)) FROM blind_signature WHERE c IS NOT NULL"}

pytestmark = pytest.mark.embedded


class Mint:
    """The example as a process, with its database in a directory of its own."""

    def __init__(self, work, *arguments):
        work.mkdir(exist_ok=True)
        if not PROGRAM.exists():
            raise Skipped(f"no {PROGRAM}: cargo build --manifest-path examples/cdk-mint/Cargo.toml")
        self.database, self.log, self.port = work / "mint.sqlite", work / "mint.log", free_port()
        self.url, self.arguments, self.process = f"http://127.0.0.1:{self.port}", arguments, None

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            command = [PROGRAM, self.database, f"127.0.0.1:{self.port}", *self.arguments]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=clean_environment())
        wait_until(lambda: self.get("/v1/info") is not None, 60, f"the mint answers\n{tail(self.log)}")

    def get(self, path):
        done = subprocess.run(["curl", "-s", "-f", self.url + path], capture_output=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def keyset(self):
        return next(keyset["id"] for keyset in self.get("/v1/keysets")["keysets"] if keyset["unit"] == "sat")

    def rows(self, kind):
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30)) as database:
            return {row for row, in database.execute(ROWS[kind])}

    def missed(self, kind):
        """The notes of the database that the filter lacks, or None without a filter."""
        rows = self.rows(kind)
        answer = self.get(f"/v1/filter/{kind}/{self.keyset()}")
        return None if answer is None else rows - reference_filter.matches(answer, rows)

    def check(self):
        """Whether the database is intact, and the log tells of no conflict."""
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        log = self.log.read_text(errors="replace").lower()
        assert "database is locked" not in log and "busy" not in log and "panicked" not in log, tail(self.log)


@pytest.fixture
def start(work):
    mints = []

    def start(*arguments, work=work):
        mints.append(Mint(work, *arguments))
        mints[-1].start()
        return mints[-1]
    yield start
    for mint in mints:
        mint.kill()


@pytest.mark.parametrize("directory, least, median, largest",
                         [("filters", 1000, 1500, 4000), ("-", 100, 250, 2000)])
def test_note_is_in_the_filters_soon(binary, start, work, record, directory, least, median, largest):
    mint = start(directory if directory == "-" else work / directory, str(least))
    assert mint.get("/v1/info")["filters"] == {"supported": True}
    command = ["node", CLIENT, mint.url, "40", WORDS, start("-", work=work / "other").url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr + tail(mint.log)
    said = json.loads(done.stdout)
    delays = sorted(said["delays"])
    result = {"least_ms": least, "delays": len(delays), "median_ms": round(statistics.median(delays)),
              "largest_ms": round(delays[-1])}
    print(json.dumps(result))
    record(test="embedded", **result)
    for kind in ROWS:
        assert mint.missed(kind) == set() and set(said[kind]) == mint.rows(kind)
    file = work / "words"
    file.write_text(WORDS)
    file.chmod(0o600)
    command = [binary, "restore", "--mint", mint.url, "--proxy", "none", "--seed-file", file]
    restored = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    assert restored.returncode == 0 and f"{said['left']} sat" in restored.stderr, restored.stderr
    mint.kill()
    mint.check()
    assert result["median_ms"] <= median and result["largest_ms"] <= largest


def test_killed_mint_misses_nothing(start, work, request):
    """Killed in the middle of swaps; what is served at once is dated before what it lacks, and soon it lacks nothing."""
    mint, chance = start(work / "filters", "1000"), random.Random(request.config.getoption("--seed"))
    kills, end = 0, time.monotonic() + 60 * request.config.getoption("--minutes")
    dates = dict.fromkeys(ROWS, 0)
    while kills < 5 or time.monotonic() < end:
        words = os.urandom(16).hex()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        client = subprocess.Popen(["node", CLIENT, mint.url, "0", words], **quiet)
        before = len(mint.rows("spent"))
        wait_until(lambda: len(mint.rows("spent")) > before, 60, "a swap")
        time.sleep(chance.uniform(0, 1.5))
        mint.kill()
        kills += 1
        client.wait(timeout=60)
        mint.start()
        for kind in ROWS:
            wait_until(lambda kind=kind: mint.missed(kind) == set(), 30, f"all {kind} notes after kill {kills}")
            date = mint.get(f"/v1/filter/{kind}/{mint.keyset()}")["timestamp"]
            assert dates[kind] <= date <= time.time(), kind
            dates[kind] = date
    mint.kill()
    mint.check()
    spent, issued = (len(mint.rows(kind)) for kind in ROWS)
    print(f"{kills} kills, {spent} spent and {issued} issued notes, none missed")
