"""One service next to one mint, and somebody who watches all that is served.

`exact` compares every filter with the rows of the database at a moment when nobody writes. From then on a filter that is dated
after that moment has to have these notes. What happens to databases and to the service is tried by the random histories of
`crates/mint/tests/histories`, which can drive the same program.
"""

import base64
import gzip
import json
import pathlib
import shutil
import subprocess
import threading
import time

from e2e import reference_filter
from e2e.service_under_test import Service, clean_environment, expect, wait_until

CATCH_UP = 60  # seconds within which everything is served exactly after an event; usually two
AHEAD_SECONDS = 1.5  # how far ahead of the service's clock a filter may be dated
REFERENCE_NOTES = 3_000  # a larger filter takes the reference too long
FORMS = ({"Accept-Encoding": "identity"}, {"Accept-Encoding": "gzip"})


class Skipped(Exception):
    """Why something cannot be tried here."""


class Scenario:
    """A context: leaves nothing running. `findings` has everything that is wrong."""

    def __init__(self, binary, mint, work):
        self.binary, self.mint, self.work = binary, mint, pathlib.Path(work)
        self.findings = []
        self.service = Service(binary, mint.location, work, extra=["--max-age", 20])
        self.promises = {}  # by key: (time, hashes) of the last comparison
        self.dates, self.seen = {}, 0
        self.lock, self.ended = threading.RLock(), threading.Event()
        self.watcher = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.service.kill()
        self.mint.close()

    def find(self, what):
        self.findings.append(what)
        print(f"FOUND ({self.mint.name}): {what}", flush=True)

    # --- what is served

    def start(self, watched=True):
        self.service.start()
        self.exact()
        if watched:
            self.watcher.start()

    def watch(self):
        turn = 0
        while not self.ended.wait(0.05):
            for key in list(self.promises):
                turn += 1
                with self.lock:
                    try:
                        self.look(key, FORMS[turn % 2])
                    except Exception as error:  # whatever it is that was not answered
                        self.find(f"{'/'.join(key)}: {error!r}")

    def look(self, key, form):
        """One answer: whole, not ahead of the clock, no older than the last one, and with all that was promised."""
        answer = self.service.get(f"/v1/filter/{key[0]}/{key[1]}", form)
        expect(answer.status == 200, f"status {answer.status}")
        body = gzip.decompress(answer.body) if answer.headers.get("content-encoding") == "gzip" else answer.body
        said = json.loads(body)
        content = base64.b64decode(said["content"], validate=True)
        date, (since, hashes) = said["timestamp"], self.promises[key]
        expect(date <= time.time() + AHEAD_SECONDS, f"dated {date}, ahead of the clock")
        expect(date >= self.dates.get(key, 0), f"dated {date}, after {self.dates.get(key)}")
        expect((said["p"], said["m"]) == (reference_filter.P, reference_filter.M), f"P = {said['p']}, M = {said['m']}")
        self.dates[key] = date
        values, f = reference_filter.values(content, said["n"]), said["n"] * said["m"]
        expect(len(values) == said["n"] or len(hashes) > said["n"], f"{len(values)} values, n = {said['n']}")
        if date > since:
            gone = sum(hash64 * f >> 64 not in values for hash64 in hashes)
            expect(gone == 0, f"dated {date}, lacks {gone} of {len(hashes)} notes that were there at {since:.1f}")
        self.seen += 1

    def exact(self, seconds=CATCH_UP):
        """Waits until each filter is exactly that of the database; returns how long that took."""
        start = time.monotonic()
        with self.mint.lock:
            held = {(kind, keyset): [] for kind in ("spent", "issued") for keyset in self.mint.keysets}
            held.update(self.mint.held())
            for key, points in held.items():
                records = sorted(map(bytes.fromhex, points))
                built = self.build(records)
                wait_until(lambda key=key, built=built: self.serves(key, built), seconds, f"{'/'.join(key)} exact")
                with self.lock:
                    self.promises[key] = time.time(), {reference_filter.hash64(record) for record in records}
        return round(time.monotonic() - start, 2)

    def serves(self, key, content):
        self.service.expect_alive()
        answer = self.service.filter(key)
        return answer and base64.b64decode(answer["content"]) == content

    def build(self, records):
        """By the command, which knows neither databases nor increments, and by the reference; equal hashes count once."""
        distinct = {reference_filter.hash64(record): record for record in records}
        octets = b"".join(distinct.values())
        done = subprocess.run([self.binary, "--quiet", "build", "-", "--record-bytes", "33", "--format", "raw",
                               "--allow-empty"], input=octets, capture_output=True, check=False, env=clean_environment())
        expect(done.returncode == 0, f"nutfilter build: {done.stderr.decode(errors='replace')}")
        if len(distinct) <= REFERENCE_NOTES:
            expect(reference_filter.build(octets) == done.stdout, "the reference filter is another one")
        return done.stdout

    def finish(self):
        """Everything stops; returns the findings."""
        try:
            self.mint.stop_writing()
            self.exact()
            self.ended.set()
            if self.watcher.is_alive():
                self.watcher.join()
            self.service.stop()
        except Exception as error:
            self.find(f"at the end: {error}")
        notes = [note for keyset in self.mint.held().values() for note in keyset[:3]]
        for level, line in self.service.records():
            if level == "NONE" or "panic" in line or any(note[2:] in line for note in notes):
                self.find(f"the log: {line[:400]}")
        return self.findings


def need(program):
    if shutil.which(program) is None:
        raise Skipped(f"{program} is not installed")
