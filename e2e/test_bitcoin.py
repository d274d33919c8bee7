"""Block filters next to other libraries, and a light client on a real node's network protocol.

They need `npm ci --ignore-scripts` in e2e/bitcoin, the example light-client (its path in LIGHT_CLIENT) and chiabip158.
"""

import contextlib
import hashlib
import json
import os
import queue
import random
import subprocess
import threading

import pytest

from e2e.conftest import ROOT
from e2e.scenario import need
from e2e.service_under_test import free_port, wait_until

pytestmark = pytest.mark.bitcoin
FOLDER = ROOT / "e2e/bitcoin"
ENVIRONMENT = {**os.environ, "NODE_BACKEND": "js", "NODE_PATH": str(FOLDER / "node_modules")}
GOLOMB = """
const Golomb = require('golomb');
const { key, items, filter } = JSON.parse(require('fs').readFileSync(0));
const bytes = (hex) => Buffer.from(hex, 'hex');
const made = Golomb.fromItems(19, bytes(key), items.map(bytes));
const found = items.every((item) => Golomb.fromNBytes(19, bytes(filter)).match(bytes(key), bytes(item)));
console.log(JSON.stringify([made.toNBytes().toString('hex'), found]));
"""


def build(binary, work, items, *options):
    path = work / "items.hex"
    path.write_text("".join(item.hex() + "\n" for item in items))
    command = [binary, "--quiet", "build", path, "--profile", "bip158", "--format", "raw", "--output", "-", *options]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.parametrize("count", [1, 2, 250, 253, 3000])
def test_filters_equal_those_of_other_libraries(binary, work, count):
    chiabip158 = pytest.importorskip("chiabip158")
    source = random.Random(count)
    items = [source.randbytes(source.randrange(1, 80)) for _ in range(count)]
    # The decoder of Bitcoin Core, with Chia's parameters and a key of zeros.
    filter_of_chia = chiabip158.PyBIP158([bytearray(item) for item in items])
    ours = build(binary, work, items, "--block-hash", "00" * 16, "--p", "20", "--m", str(1 << 20))
    assert bytes(filter_of_chia.GetEncoded()) == ours
    read = chiabip158.PyBIP158(bytearray(ours))
    assert all(read.Match(bytearray(item)) for item in items[:100])
    # The package of bcoin.
    need("node")
    key = source.randbytes(16).hex()
    ours = build(binary, work, items, "--block-hash", key).hex()
    given = json.dumps({"key": key, "items": [item.hex() for item in items], "filter": ours})
    done = subprocess.run(["node", "-e", GOLOMB], input=given, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert json.loads(done.stdout) == [ours, True]


class Process:
    """A program whose lines of output are read by a thread."""

    def __init__(self, *command, log):
        self.log = open(log, "w", encoding="utf-8")
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, env=ENVIRONMENT)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.log.write(line)
            self.log.flush()
            self.lines.put(line.strip())

    def until(self, accept, seconds=60):
        """The lines up to the first one that is accepted."""
        seen = []
        while not seen or not accept(seen[-1]):
            seen.append(self.lines.get(timeout=seconds))
        return seen

    def tell(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.until(lambda line: "height" in line or "error" in line)[-1])
        assert "error" not in answer, answer
        return answer["height"]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def script(number):
    return "0014" + hashlib.sha256(number.to_bytes(4, "big")).digest()[:20].hex()


@pytest.fixture
def start(work):
    with contextlib.ExitStack() as stack:
        def start(name, *command):
            process = Process(*command, log=work / f"{name}.log")
            stack.callback(process.close)
            return process
        yield start


@pytest.fixture
def client(work):
    need("node")
    return os.environ.get("LIGHT_CLIENT") or pytest.skip("LIGHT_CLIENT is not set"), work / "state"


def test_light_client_that_is_killed_at_each_step_misses_nothing(start, client):
    port = free_port()
    node = start("node", "node", FOLDER / "node.cjs", port)
    node.until(lambda line: "height" in line)
    node.tell(mine=110)
    node.tell(pay=script(9), value=900)
    node.tell(pay=script(8), value=100_000)
    node.tell(pay=script(4), value=400)
    node.tell(spend=script(8))
    lives = []

    def live(balance):
        """Lives of one step each, until one has nothing left to do."""
        while not lives or not lives[-1].startswith(f"balance {balance} at"):
            assert len(lives) < 60, lives
            wallet = start(f"wallet-{len(lives)}", *client, f"127.0.0.1:{port}")
            lives.append(wallet.until(lambda line: line == "kept" or line.startswith("balance"))[-1])
            wallet.close()

    live(1300)
    assert len(lives) > 5
    # While nothing runs, the payment to 4 and the spending disappear; then the wallet is killed in the middle again.
    node.tell(reorganise=2)
    node.tell(pay=script(0), value=7)
    live(100_907)
    node.tell(pay=script(14), value=40)
    live(100_947)


def test_light_client_finds_payments_through_reorganisations_and_wrong_filters(start, client):
    ports = [free_port(), free_port()]
    honest = start("honest", "node", FOLDER / "node.cjs", ports[0])
    assert json.loads(honest.until(lambda line: "height" in line)[-1])["height"] == 0
    honest.tell(mine=110)
    # Addresses 8 and 9 are only looked for once the payment to 4 was found, in blocks that were scanned before. 8 is spent after
    # that payment, so this spending is found before the payment that it spends.
    honest.tell(pay=script(9), value=900)
    honest.tell(pay=script(8), value=100_000)
    honest.tell(pay=script(4), value=400)
    assert honest.tell(spend=script(8)) == 114

    other = start("other", "node", FOLDER / "node.cjs", ports[1], ports[0])
    other.until(lambda line: "height" in line)
    # The second node downloads the chain from the first.
    wait_until(lambda: other.tell(lie=114) == 114, 30, "the second node has the chain")
    # bip157 begins with the last peer.
    wallet = start("wallet", *client, *[f"127.0.0.1:{port}" for port in ports])

    def settled(balance, height):
        return wallet.until(lambda line: line.startswith(f"balance {balance} at {height},"))

    seen = settled(1300, 114)
    assert [line for line in seen if line.startswith("payment")] == [
        "payment of 900 to address 9 at height 111", "payment of 100000 to address 8 at height 112",
        "payment of 400 to address 4 at height 113"]
    assert "lied" in other.until(lambda line: "lied" in line)[-1]
    # 114 filters forward; 113 of them again for the addresses that the payment to 4 revealed, and more for those after 9.
    assert int(seen[-1].split(", ")[1].split()[0]) <= 3 * 114

    honest.tell(pay=script(0), value=7)
    settled(1307, 115)
    # The payments and the spending of the last three blocks disappear with their blocks.
    assert honest.tell(reorganise=3) == 116
    assert any(line == "reorganised from height 113" for line in settled(100_900, 116))
    honest.tell(pay=script(4), value=40)
    settled(100_940, 117)
