"""The wallet and the mint of a check that follows them, as processes that stay and are told what to do."""

import contextlib
import json
import subprocess
import threading

from real_mint_common import WALLET_SCRIPT, Failure, environment, keysets, tail

COMMAND_SECONDS = 120


class Wallet:
    """The wallet's process, which does what it is told."""

    def __init__(self, python, work, url):
        self.directory = work / "wallet"
        self.directory.mkdir(exist_ok=True)
        self.log = work / "wallet.log"
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(
                [python, WALLET_SCRIPT, "--mint", url, "--directory", self.directory, "--commands"],
                env=environment(work, CASHU_DIR=self.directory, MINT_URL=url, TOR="FALSE"), cwd=work, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output)

    def tell(self, do, **options):
        """Tells it and waits until it is done. Its notes are then in `notes`."""
        self.process.stdin.write(json.dumps({"do": do, **options}) + "\n")
        self.process.stdin.flush()
        watchdog = threading.Timer(COMMAND_SECONDS, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        watchdog.cancel()
        answer = json.loads(line) if line else {"error": f"it ended, or took more than {COMMAND_SECONDS} s"}
        if "error" in answer:
            raise Failure(f"the wallet: {do}: {answer['error']}; see {self.log}:\n{tail(self.log)}")

    @property
    def notes(self):
        return json.loads((self.directory / "notes.json").read_text())

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Mint:
    """The mint as a process that is stopped and started. `run(path, payments)` gives it as a context."""

    def __init__(self, run, url):
        self.url = url
        self._run = run
        self._running = contextlib.ExitStack()
        self.keyset_number = 0
        self.keyset = None  # the newest; the mint itself goes on with all of them
        self._known = []

    def start(self, payments="SETTLED"):
        self._running.enter_context(self._run(f"m/0'/0'/{self.keyset_number}'", payments))
        new = [keyset for keyset in keysets(self.url) if keyset not in self._known]
        if new:
            self.keyset = new[0]
            self._known += new

    def stop(self):
        self._running.close()

    def again(self, payments="SETTLED"):
        self.stop()
        self.start(payments)
