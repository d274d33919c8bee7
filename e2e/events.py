"""What only a running service beside a live mint shows. The other faults are random histories: `crates/mint/tests/histories`.

An event takes a `Scenario`, breaks something, asserts what is promised meanwhile, repairs it, and waits until everything
is served exactly again. What it returns goes into the record. Its docstring is `fault | promise`.
"""

import contextlib
import errno
import gzip
import os
import re
import shutil
import subprocess
import time

from e2e.scenario import CATCH_UP, LOST, need
from e2e.service_under_test import expect, wait_until


def kill(s):
    """kill -9 at any moment | what was published is served soon, with its date; each file is whole; then exact"""
    with s.service_away():
        for _ in range(4):
            time.sleep(s.dice.random() * 1.2)
            s.service.kill()
            date, whole = published(s)
            s.service.start()
            first = s.service.wait_served(s.key)
            expect(first < 2 or not whole, f"served after {first} s")
            expect(s.service.filter(s.key)["timestamp"] >= date, "an older filter than the published one")
        return {"first_answer_s": first, "exact_s": s.exact()}


def published(s):
    """The date of the filter in the output directory, and whether both forms are the same; each form must be whole."""
    file = s.service.output / "v1" / "filter" / s.key[0] / s.key[1]
    plain, zipped = file.read_bytes(), gzip.decompress(file.with_name(f"{file.name}.gz").read_bytes())
    dates = [int(re.search(rb'"timestamp":(\d+)', form)[1]) for form in (plain, zipped) if form.endswith(b"}")]
    expect(len(dates) == 2, "a published file is not whole")
    return dates[0], plain == zipped


def clock_step(s):
    """clock set forward or back, by minutes or an hour | every filter is dated by its own reading; the schedule goes on"""
    before, offset = s.offset, s.dice.choice([each for each in (0, 0, 240, 3600, -240, -3600) if each != s.offset])
    with s.service_away():
        refreshes = s.service.metric("nutfilter_refreshes_total")
        s.step_clock(offset)
        # By the monotonic clock of the test: the schedule does not depend on the time of day.
        wait_until(lambda: s.service.metric("nutfilter_refreshes_total") >= refreshes + 3, CATCH_UP, "three refreshes")
        # Either no filter is dated ahead any more, or the service says that it should not be used.
        took = wait_until(lambda: not_ahead(s) or not s.service.ready(), CATCH_UP,
                          "filters are dated by the new clock, or the service is not ready")
        not_ready = not not_ahead(s)
        if not_ready:
            # It stays so until the clock has caught up; the test does not wait for that.
            s.step_clock(before)
            wait_until(s.service.ready, CATCH_UP, "ready once the clock is right again")
        s.exact()
    return {"offset": offset, "dated_right_s": took, "was_not_ready": not_ready}


def not_ahead(s):
    """Whether no filter is dated after the service's time."""
    answers = [s.service.filter(key) for key in s.promises]
    return all(answer and answer["timestamp"] <= time.time() + s.offset + 1 for answer in answers)


def backup_restored(s):
    """database restored to an older state | full rebuild, warning, kept until the loss is accepted, exact"""
    mint = s.mint
    backup, then = mint.backup(s.work), spent(s)
    wait_until(lambda: spent(s) > then + 20, CATCH_UP, "the mint goes on", 0.3)
    way = s.dice.choice(mint.RESTORES)
    with s.service_away(), mint.lock:
        s.exact()
        end = s.service.log_end()
        mint.restore(backup, way)
        s.service.hangup()
        wait_until(lambda: s.service.metric(LOST) > 0, CATCH_UP, "items counted as lost")
        expect(s.service.complaints(end, "no longer in the database"), "no warning")
        s.service.stop()
        end = s.service.log_end()
        s.service.start()
        wait_until(lambda: s.service.complaints(end, "keyset held"), CATCH_UP, "a keyset held")
        wait_until(s.service.ready, CATCH_UP, "ready while keysets are held")
        losses = [re.search(r"--accept-loss ([^\s\"]+)", line)[1] for line in s.service.complaints(end, "keyset held")]
        s.service.stop()
        s.service.command += [part for loss in losses for part in ("--accept-loss", loss)]
        s.service.start()
        return {"way": way, "accepted": len(losses), "first_answer_s": s.service.wait_served(s.key), "exact_s": s.exact()}


def spent(s):
    """Spent notes of all keysets: a live wallet moves on to a new keyset, and an old one stops growing."""
    return sum(len(points) for (kind, _), points in s.mint.held().items() if kind == "spent")


def keyset_appears(s):
    """a new keyset | served soon"""
    keyset = s.mint.new_keyset()
    return {"served_s": wait_until(lambda: s.service.filter(("spent", keyset)), CATCH_UP, f"keyset {keyset} served")}


def melts_pend_and_end(s):
    """melts stay pending, and are paid or fail later | their notes and promises count when they are final"""
    outcome = s.dice.choice(["SETTLED", "FAILED"])
    with s.mint.lock:
        s.mint.pending_melts()
        s.exact()
        s.mint.settle_melts(outcome)
    return {"outcome": outcome, "exact_s": s.exact()}


def disk_full(s):
    """disk full | the last good filter stays, log and metric say so, recovers unaided"""
    ballast = s.service.output / ".ballast"
    failed, end = s.service.failed_refreshes(), s.service.log_end()
    try:
        fill(ballast, 0)
        s.wait_failing(failed)
        s.last_good()
        expect(s.service.complaints(end, "No space left on device"), "the log does not say why")
        for free in (4096, 16_384):
            # Some room, and not enough: it may fail at any later write.
            fill(ballast, free)
            s.service.hangup()
            time.sleep(0.5)
    finally:
        ballast.unlink(missing_ok=True)
    return s.recovered()


def fill(ballast, free):
    """Leaves that many bytes of room."""
    ballast.unlink(missing_ok=True)
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 14))
        except OSError as error:
            expect(error.errno == errno.ENOSPC, str(error))
        with contextlib.suppress(OSError):
            file.truncate(max(file.tell() - free, 0))


def disk_full_at_the_start(s):
    """disk full at the first build | not ready, says so, and builds once there is room"""
    ballast = s.service.output / ".ballast"
    with s.service_away():
        s.service.kill()
        for path in s.service.output.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        end = s.service.log_end()
        fill(ballast, 4096)
        s.service.start()
        wait_until(lambda: s.service.complaints(end, "No space left on device"), 30, "the log says why")
        expect(s.service.get(f"/v1/filter/spent/{s.key[1]}").status == 503, "something is served")
        expect(not s.service.ready(), "ready without a filter")
        ballast.unlink()
        return s.recovered()


def writes_fail(s):
    """writing, renaming and opening fail (EIO, EMFILE) | an answer is whole, or 503; recovers unaided"""
    hit = []
    # A body is a file: without descriptors, or with one form of two, the answer is 503.
    with s.service_away():
        for injection in ("rename,renameat,renameat2:error=EIO", "fchmod:error=EIO",
                          "openat:error=EMFILE:when=3+2", "rename,renameat,renameat2:error=ENOSPC:when=2+2"):
            failed = s.service.failed_refreshes()
            with system_calls(s, injection):
                time.sleep(2)
            if s.service.failed_refreshes() > failed:
                hit.append(injection.split(":", 1)[0])
            s.recovered()
    return {"failed_refreshes": hit}


def slow_database(s):
    """SQLite's disk slow | last good filter meanwhile, answers as fast as ever; then exact"""
    slowest, count = 0.0, 0
    with system_calls(s, "pread64:delay_enter=3000"):
        s.service.hangup()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            start = time.monotonic()
            expect(s.service.filter(s.key), "not served")
            slowest, count = max(slowest, time.monotonic() - start), count + 1
            time.sleep(0.02)
    return {"answers": count, "slowest_ms": round(slowest * 1000), **s.recovered()}


@contextlib.contextmanager
def system_calls(s, injection):
    """System calls of the running service fail or wait, by strace."""
    need("strace")
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(s.service.process.pid), "-e",
                               f"trace={injection.split(':', 1)[0]}", "-e", f"inject={injection}"],
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    tasks = f"/proc/{s.service.process.pid}/task"

    def attached():
        expect(tracer.poll() is None, f"strace ended: {tracer.stderr.read().decode() if tracer.poll() else ''}")
        with contextlib.suppress(OSError):
            return all("TracerPid:\t0\n" not in open(f"{tasks}/{task}/status", encoding="ascii").read()
                       for task in os.listdir(tasks))
    try:
        wait_until(attached, 10, "strace attached")
        yield
    finally:
        tracer.terminate()
        tracer.wait(10)


def live(s, events, seconds, pause):
    """Events at random, each once before any comes again."""
    begun, bag = time.monotonic(), []
    while (left := begun + seconds - time.monotonic()) > 0:
        time.sleep(min(left, pause * s.dice.uniform(0.6, 1.4)))
        bag = bag or s.dice.sample(events, len(events))
        s.perform(bag.pop())
