"""What the rows of the fault table share: a mint that is being written, a service beside it, and the comparison."""

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "load"))

from databases import Cluster, PostgresMint, SqliteMint, points, postgres_programs  # noqa: E402
from running import (  # noqa: E402
    ISSUED, SPENT, Failure, Service, check_whole, expect, wait_until)

__all__ = ["ISSUED", "SPENT", "Bench", "Cluster", "Failure", "Service", "Skipped", "check_whole", "expect", "points",
           "wait_until"]

NOTES = 20_000  # a body of 70 KB: large enough to be written in pieces, small enough to be made in no time
RAW = {"Accept": "application/octet-stream"}


class Skipped(Exception):
    """Why a row cannot be tried here."""


class Bench:
    """The place of one row: a directory, a mint with notes, the notes that it has."""

    def __init__(self, binary, work, quick):
        self.binary, self.quick = pathlib.Path(binary), quick
        self.work = pathlib.Path(work)
        self.services = 0
        self.stack = contextlib.ExitStack()
        self.notes = []
        self.mint = self.cluster = None
        self.dice = random.Random(7)

    def __enter__(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        return self

    def __exit__(self, *_):
        self.stack.close()
        if self.mint:
            self.mint.close()
        if self.cluster:
            self.cluster.remove()
        shutil.rmtree(self.work, ignore_errors=True)

    # --- the mint

    def sqlite(self, mint="cdk", journal="wal", notes=NOTES):
        self.mint = SqliteMint(self.work / "mint.sqlite", mint, journal)
        self.notes = []
        self.add(notes)
        return self.mint

    def postgres(self, mint="cdk", notes=2000):
        if postgres_programs() is None:
            raise Skipped("there is no Postgres here")
        self.cluster = self.cluster or Cluster(self.work / "postgres")
        self.mint = PostgresMint(self.cluster, mint, f"mint_{mint}")
        self.notes = []
        self.add(notes)
        return self.mint

    def make(self, count):
        """New notes that are not in the mint yet."""
        return list(points(count, self.dice.random()))

    def add(self, count):
        notes = self.make(count)
        # Before they are there, so that nobody finds one that is not known here.
        self.notes += notes
        self.mint.add_spent(notes)

    def delete(self, count):
        gone, self.notes = self.notes[:count], self.notes[count:]
        self.mint.delete_spent(gone)

    @contextlib.contextmanager
    def being_written(self, pause=0.02, most=20):
        """The mint goes on adding notes while the block lasts."""
        ended, errors = threading.Event(), []

        def write():
            try:
                while not ended.wait(pause):
                    self.add(self.dice.randint(1, most))
            except Exception as error:  # raised where it is seen
                errors.append(error)
        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        if errors:
            raise errors[0]

    # --- the service

    def service(self, data=True, refresh=1, **options):
        """Ended with the row, if not before."""
        data_dir = data if isinstance(data, pathlib.Path) else self.work / "data" if data else None
        self.services += 1
        service = Service(self.binary, self.mint.location, self.work / f"log-{self.services}", data_dir, refresh,
                          **options)
        self.stack.callback(service.kill)
        return service

    def ready(self, **options):
        service = self.service(**options)
        service.wait_ready(60)
        return service

    # --- what is expected

    def filter_of(self, notes):
        """The filter of these notes by `nutfilter build`, which knows neither databases nor increments."""
        items, filter_file = self.work / "items.hex", self.work / "filter.gcs"
        items.write_text("".join(note.hex() + "\n" for note in notes))
        subprocess.run([self.binary, "--quiet", "build", items, "--format", "raw", "--output", filter_file],
                       check=True, stdin=subprocess.DEVNULL)
        return filter_file.read_bytes()

    def expect_exact_prefix(self, service):
        """What is served is exactly the notes up to some commit; returns how many."""
        answer = service.request(SPENT, headers=RAW)
        expect(answer.status == 200, f"status {answer.status}")
        check_whole(answer)
        n = int(answer.headers["nutfilter-n"])
        expect(answer.body == self.filter_of(self.notes[:n]), f"the filter is not that of the first {n} notes")
        return n

    def expect_exact(self, service, seconds=30):
        """All notes are served within that time, and nothing else is."""
        def caught_up():
            service.expect_alive()
            answer = service.try_request(SPENT, "HEAD", RAW)
            return answer and answer.status == 200 and int(answer.headers["nutfilter-n"]) == len(self.notes)
        took = wait_until(caught_up, seconds, f"{len(self.notes)} notes served")
        answer = service.request(SPENT, headers=RAW)
        check_whole(answer)
        expect(answer.body == self.filter_of(self.notes), "the filter is not that of the notes")
        return took

    def expect_exact_soon(self, service, seconds=30):
        """The same where the number of notes does not tell the old filter from the new."""
        expected = self.filter_of(self.notes)
        wait_until(lambda: service.request(SPENT, headers=RAW).body == expected, seconds, "the filter of the notes")

    def expect_last_good(self, service, before, seconds=1.0):
        """For some time, what was served before is served: the same body, with its own timestamp."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = service.whole()
            expect(answer.etag == before.etag, "another body is served")
            time.sleep(0.1)

    def expect_no_secret(self, service):
        """No note is in the log."""
        log = service.log_path.read_text(errors="replace")
        for note in self.notes[-50:] + self.notes[:50]:
            expect(note.hex() not in log and note[1:].hex() not in log, "a note is in the log")


@contextlib.contextmanager
def tmpfs(directory, mebibytes):
    """A disk of its own, and small."""
    directory.mkdir(parents=True)
    size = f"size={mebibytes}m,mode=700"
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", size, "nutfilter", directory],
                                          capture_output=True, check=False).returncode != 0:
        raise Skipped("a small tmpfs cannot be mounted here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


@contextlib.contextmanager
def system_calls(service, injection):
    """Lets system calls of a running service fail or wait, by strace."""
    if shutil.which("strace") is None:
        raise Skipped("there is no strace here")
    calls = injection.split(":", 1)[0]
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(service.pid), "-e", f"trace={calls}",
                               "-e", f"inject={injection}"], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    status = pathlib.Path(f"/proc/{service.pid}/status")
    try:
        def attached():
            expect(tracer.poll() is None, "strace ended: " + (tracer.stderr.read().decode() if tracer.poll() else ""))
            return "TracerPid:\t0\n" not in status.read_text()
        wait_until(attached, 10, "strace attached")
        time.sleep(0.2)  # the other threads follow
        yield
    finally:
        tracer.terminate()
        tracer.wait(10)
