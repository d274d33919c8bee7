"""Versions that were served, held against the journal: each by `nutfilter build`, a sample by the Python one too.

`nutfilter build` knows neither databases nor increments nor kept sets. The implementation in Python shares nothing
with it.
"""

import hashlib
import pathlib
import queue
import subprocess
import tempfile
import threading
import time

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "vectors" / "make_vectors.py"
P, M = 19, 784931
SAMPLE_SECONDS = 40  # from one look of the Python implementation to the next, which takes it seconds


def built(binary, records):
    """The SHA-256 of the filter of these notes."""
    if not records:
        return hashlib.sha256(b"").hexdigest()
    done = subprocess.run([binary, "--quiet", "--threads", "1", "build", "-", "--record-bytes", "33",
                           "--format", "raw"], input=records, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"nutfilter build: {done.stderr.decode(errors='replace')}")
    return hashlib.sha256(done.stdout).hexdigest()


def built_by_python(python, records):
    """The same by the Python implementation, which needs mmh3 and bitarray."""
    with tempfile.TemporaryDirectory() as work:
        items, output = pathlib.Path(work) / "items.hex", pathlib.Path(work) / "filter.gcs"
        items.write_text("".join(records[i:i + 33].hex() + "\n" for i in range(0, len(records), 33)))
        subprocess.run([python, VECTORS, "build", items, "--profile", "nut25", "--p", str(P), "--m", str(M),
                        "--output", output], check=True, capture_output=True)
        return hashlib.sha256(output.read_bytes()).hexdigest()


def python_can(python):
    return subprocess.run([python, "-c", "import mmh3, bitarray"], capture_output=True, check=False).returncode == 0


class Verifier:
    """Takes versions as they are first seen, and says what is wrong with them."""

    def __init__(self, journal, build, second=None, findings=None):
        """`build` and `second` make the SHA-256 of the filter of records; `findings` takes a text each."""
        self.journal, self.build, self.second = journal, build, second
        self.findings = findings if findings is not None else [].append
        self.queue = queue.Queue()
        self.verified = self.sampled = self.notes = 0
        self.slowest = 0.0
        self.sampled_at = -1e9
        self.to_sample = queue.Queue(1)
        self.threads = [threading.Thread(target=self.guard, args=(work,), daemon=True)
                        for work in (self.work, self.work_second)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def put(self, version):
        """A dict of key, n, timestamp, sha and seen."""
        self.queue.put(version)

    def finish(self):
        """Waits until everything is verified."""
        self.queue.put(None)
        self.threads[0].join()
        self.to_sample.put(None)
        self.threads[1].join()

    def guard(self, work):
        try:
            work()
        except Exception as error:  # a check that does not run is as bad as one that fails
            self.findings(f"the verifier ended: {error!r}")

    def work(self):
        while (version := self.queue.get()) is not None:
            start = time.monotonic()
            wrong = self.check(version)
            if wrong:
                self.findings(wrong)
            self.verified += 1
            self.notes += version["n"]
            self.slowest = max(self.slowest, time.monotonic() - start)

    def check(self, version):
        """What is wrong with a version, or nothing."""
        key = tuple(version["key"])
        found, why = self.journal.candidates(key, version["n"], version["timestamp"], version["seen"])
        name = f"{key[0]} {key[1]}, {version['n']} notes, dated {version['timestamp']}, content {version['sha'][:16]}"
        if not found:
            return f"one wrong body ({name}): {why}"
        for records, _ in found:
            if records is None:
                return f"not verified ({name}): the journal has forgotten that state"
            if self.build(records) == version["sha"]:
                self.offer(version, records)
                return None
        return f"one wrong body ({name}): it is not the filter of any of the {len(found)} states that it may be of"

    def offer(self, version, records):
        if self.second and records and time.monotonic() - self.sampled_at > SAMPLE_SECONDS and self.to_sample.empty():
            self.sampled_at = time.monotonic()
            self.to_sample.put((version, records))

    def work_second(self):
        while (sample := self.to_sample.get()) is not None:
            version, records = sample
            if self.second(records) != version["sha"]:
                self.findings(f"one wrong body: {version} is not what the Python implementation makes of its notes")
            self.sampled += 1
