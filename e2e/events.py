"""What is done to a service and its mint. Each event is written once; the fault table, the soak and the real mints use it.

An event takes a `Scenario`, breaks something, asserts what is promised meanwhile, repairs it, and waits until everything
is served exactly again. What it returns goes into the record. Its docstring is `fault | promise`.
"""

import contextlib
import errno
import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
import time

from e2e.scenario import CATCH_UP, LOST, WHOLE, need
from e2e.service_under_test import expect, wait_until

EVENTS = {}


def event(*needs):
    """Registers an event with the features that it needs."""
    def register(function):
        function.needs = set(needs)
        EVENTS[function.__name__] = function
        return function
    return register


def possible(scenario):
    """The events that this scenario has everything for."""
    return [function for function in EVENTS.values() if function.needs <= scenario.features]


# --- the service ends and comes back


@event()
def kill(s):
    """kill -9 at any moment | restarts, and serves what was published, exact"""
    with s.service_away():
        time.sleep(s.dice.random() * 0.5)
        s.service.kill()
        return s.back()


@event()
def kill_before_ready(s):
    """kill -9 again and again, before it is ready | as above"""
    with s.service_away():
        for _ in range(4):
            s.service.kill()
            s.begin_life()
            time.sleep(s.dice.random() * 0.3)
        s.service.kill()
        return s.back()


@event()
def terminate(s):
    """SIGTERM under load | ends in order, exit code 0, and the next life is exact"""
    with s.service_away():
        start = time.monotonic()
        s.service.stop()
        took = round(time.monotonic() - start, 2)
        return {"ended_s": took, **s.back()}


@event("output")
def kill_often(s):
    """kill -9, 20 times | what was published is served within a second, with its date; each file is whole"""
    first = []
    with s.service_away():
        for _ in range(20):
            time.sleep(s.dice.random() * 1.2)
            s.service.kill()
            published, whole = published_files(s)
            s.begin_life()
            first.append(s.service.wait_served(s.key))
            expect(first[-1] < 1 or not whole, f"served after {first[-1]} s")
            answer = s.service.filter(s.key)
            expect(answer["timestamp"] >= published["timestamp"], "an older filter than the published one")
        return {"first_answer_s": max(first), "caught_up_s": s.caught_up()}


def published_files(s):
    """The filter in the output directory, and whether both forms are the same; each form must be whole."""
    file = s.service.output / "v1" / "filter" / s.key[0] / s.key[1]
    plain, zipped = file.read_bytes(), gzip.decompress(file.with_name(f"{file.name}.gz").read_bytes())
    json.loads(zipped)
    return json.loads(plain), plain == zipped


@event("output")
def output_removed(s):
    """output directory removed while the service runs | 503 until the next refresh makes it again, exact"""
    with s.service_away():
        if os.path.ismount(s.service.output):
            empty(s.service.output)
        else:
            gone = s.service.output.rename(s.work / "output.gone")
            shutil.rmtree(gone)
        s.service.hangup()
        s.caught_up()
        published_files(s)
        return s.recovered()


@event("output")
def output_restored(s):
    """an older copy of the output directory put back | its filters with their own dates, until the first refresh; exact"""
    copy = s.work / "output.copy"
    with s.service_away():
        s.service.stop()
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(s.service.output, copy)
        s.back()
    then = spent(s)
    wait_until(lambda: spent(s) > then + 20, CATCH_UP, "the mint goes on")
    s.caught_up()
    with s.service_away():
        s.service.stop()
        empty(s.service.output)
        shutil.copytree(copy, s.service.output, dirs_exist_ok=True)
        return s.back()


def empty(directory):
    """Removes a directory; where it is a mount point, all that is in it."""
    if os.path.ismount(directory):
        for path in directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        shutil.rmtree(directory, ignore_errors=True)


# --- the clock


@event("clock")
def clock_step(s):
    """clock set forward or back, by minutes or an hour | every filter is dated by its own reading; the schedule goes on"""
    offset = s.dice.choice([each for each in (0, 0, 240, 3600, -240, -3600) if each != s.clock.offset])
    back = offset < s.clock.offset
    with s.clock_steps.open(f"clock set to {offset:+d} s"):
        before = refreshes(s)
        s.step_clock(offset)
        # By the monotonic clock of the test: the schedule does not depend on the time of day.
        wait_until(lambda: refreshes(s) >= before + 3, CATCH_UP, "three refreshes after the step")
        s.caught_up()
        # Either no filter is dated ahead any more, or the service says that it should not be used.
        took = wait_until(lambda: not_ahead(s) or not s.service.ready(), CATCH_UP,
                          "filters are dated by the new clock, or the service is not ready")
        not_ready = not not_ahead(s)
        if not_ready:
            # It stays so until the clock has caught up; the test does not wait for that.
            s.step_clock(s.clock.segments[-2][2])
            wait_until(s.service.ready, CATCH_UP, "ready once the clock is right again")
        s.caught_up()
    return {"offset": offset, "back": back, "dated_right_s": took, "was_not_ready": not_ready}


def refreshes(s):
    return s.service.metric("nutfilter_refreshes_total")


def not_ahead(s):
    """Whether no filter is dated after the service's time."""
    for key in s.journal.counts():
        answer = s.service.filter(key)
        if not answer or answer["timestamp"] > s.clock.now() + 1:
            return False
    return True


# --- the database


@event("postgres", "synthetic")
def postgres_stopped(s):
    """Postgres stopped and started | last good filter with its true timestamp; catches up, exact"""
    mode = s.dice.choice(["fast", "immediate", "immediate"])
    cluster, failed = s.mint.database.cluster, s.service.failed_refreshes()
    with s.refreshes_fail():
        cluster.stop(mode)
        s.wait_failing(failed)
        s.last_good()
        cluster.start()
        return {"mode": mode, **s.recovered()}


@event("postgres", "synthetic")
def postgres_away_at_the_start(s):
    """the service starts while Postgres is away | serves what is stored, or 503, and everything once it is there"""
    cluster = s.mint.database.cluster
    with s.service_away():
        cluster.stop("immediate")
        s.service.kill()
        s.begin_life()
        if s.service.output:
            first = s.service.wait_served(s.key)
        else:
            wait_until(lambda: s.service.try_get(f"/v1/filter/spent/{s.key[1]}") is not None, 20, "it listens")
            expect(s.service.get(f"/v1/filter/spent/{s.key[1]}").status == 503, "not 503 while nothing is there")
            first = 0
        wait_until(lambda: s.service.failed_refreshes() >= 1, 30, "a failed refresh in the metrics")
        cluster.start()
        return {"first_answer_s": first, **s.recovered()}


@event("postgres", "synthetic")
def backend_killed(s):
    """kill -9 of a Postgres backend: ids of transactions are given out again | nothing is missed"""
    whole = s.service.metric(WHOLE)
    with s.refreshes_fail():
        for _ in range(3):
            s.mint.database.kill_backend(s.dice)
            s.mint.add(s.mint.make(20))
            s.caught_up()
        wait_until(lambda: s.service.metric(WHOLE) > whole, CATCH_UP, "everything read again")
        return s.recovered()


@event("postgres", "synthetic")
def postgres_hangs(s):
    """Postgres hangs (SIGSTOP) | last good filter meanwhile; then exact"""
    with s.refreshes_fail():
        with s.mint.lock, s.mint.database.cluster.suspended():
            s.service.hangup()
            s.last_good(3)
        return s.recovered()


@event("sqlite", "synthetic")
def database_locked(s):
    """SQLite locked for longer than a reading waits | last good filter; catches up, exact"""
    failed = s.service.failed_refreshes()
    with s.refreshes_fail():
        with s.mint.lock, s.mint.database.locked():
            s.service.hangup()
            s.wait_failing(failed)
            s.last_good()
        return s.recovered()


@event("synthetic")
def late_commit(s):
    """a long transaction commits late | every note is served after the next reading, exact"""
    rereads = s.service.metric(WHOLE)
    s.mint.commit_late(4)
    took = s.caught_up()
    expect(s.service.metric(WHOLE) == rereads, "everything was read again")
    return {"caught_up_s": took}


@event("synthetic", "cdk")
def pending_notes(s):
    """CDK's notes that are pending and spent or deleted later | served when they are spent, and not before"""
    rereads = s.service.metric(WHOLE)
    keyset, mint = s.key[1], s.mint
    with mint.lock:
        notes = mint.make(300)
        mint.commit({}, mint.statements.pend(keyset, notes))
    for start in range(0, 300, 100):
        now, gone = notes[start:start + 50], notes[start + 50:start + 100]
        mint.add(mint.make(20))
        s.caught_up()
        mint.commit({("spent", keyset): now}, [*mint.statements.spend_pending(keyset, now),
                                               *mint.statements.delete("spent", gone)])
        s.caught_up()
    expect(s.service.metric(WHOLE) == rereads, "everything was read again")
    return {"flipped": 150, "deleted": 150}


@event()
def vacuum(s):
    """VACUUM, which may renumber rows | exact"""
    with s.refreshes_fail():
        s.mint.vacuum()
        return {"caught_up_s": s.caught_up()}


@event("synthetic")
def rows_deleted(s):
    """rows deleted by hand, perhaps as many others added, then SIGHUP | warning, kept until the loss is accepted, exact"""
    lost, count = s.service.metric(LOST), s.dice.randint(1, 300)
    add = s.dice.choice([0, count])
    # No other note may come before the loss is accepted.
    with s.refreshes_fail(), s.mint.lock:
        end = s.service.log_end()
        s.mint.delete_oldest(count, add)
        s.service.hangup()
        s.caught_up()
        wait_until(lambda: s.service.metric(LOST) >= lost + count, CATCH_UP, "lost items are counted")
        expect(s.service.complaints(end, "no longer in the database"), "no warning")
        return {"deleted": count, "added": add, **accept_loss(s)}


def accept_loss(s):
    """The service starts again and holds what it no longer finds, and its operator accepts that."""
    with s.service_away():
        s.service.stop()
        s.mint.forget_gone()
        end = s.service.log_end()
        s.begin_life()
        wait_until(lambda: s.service.complaints(end, "keyset held"), CATCH_UP, "a keyset held")
        wait_until(s.service.ready, CATCH_UP, "ready while keysets are held")
        lines = s.service.complaints(end, "keyset held")
        s.service.stop()
        losses = [re.search(r"--accept-loss ([^\s\"]+)", line)[1] for line in lines]
        s.service.command += [part for loss in losses for part in ("--accept-loss", loss)]
        return {"accepted": len(losses), **s.back()}


@event()
def backup_restored(s):
    """database restored to an older state | full rebuild, warning, kept until the loss is accepted, exact"""
    mint = s.mint
    with s.refreshes_fail():
        backup = mint.backup(s.work)
    then = spent(s)
    wait_until(lambda: spent(s) > then + 20, CATCH_UP, "the mint goes on")
    ways = getattr(mint, "RESTORES", None) or mint.database.RESTORES
    way = s.dice.choice(ways)
    with s.refreshes_fail(), mint.lock:
        s.caught_up()
        rereads, end = s.service.metric(WHOLE), s.service.log_end()
        lost = spent(s) - then
        mint.restore(backup, way)
        s.service.hangup()
        wait_until(lambda: s.service.metric(WHOLE) > rereads, CATCH_UP, "everything read again")
        wait_until(lambda: s.service.metric(LOST) > 0, CATCH_UP, "items counted as lost")
        expect(s.service.complaints(end, "no longer in the database"), "no warning")
        return {"way": way, "notes_lost": lost, **accept_loss(s)}


def spent(s):
    """Spent notes of all keysets: a live wallet moves on to a new keyset, and an old one stops growing."""
    return sum(count for (kind, _), count in s.journal.counts().items() if kind == "spent")


@event()
def keyset_appears(s):
    """a new keyset | served soon"""
    with s.refreshes_fail() if "real" in s.features else contextlib.nullcontext():
        keyset = s.mint.new_keyset()
        if keyset is None:
            return {"too_many": True}
        return {"served_s": wait_until(lambda: s.service.filter(("spent", keyset)), CATCH_UP,
                                       f"the new keyset {keyset} served")}


@event()
def hash_collisions(s):
    """different notes with the same 64-bit hash | they count once; nothing is read again"""
    rereads = s.service.metric(WHOLE)
    s.mint.collide()
    took = s.caught_up()
    expect(s.service.metric(WHOLE) == rereads or s.mint.always_read_whole, "everything was read again")
    return {"caught_up_s": took}


@event("real", "nutshell")
def melts_pend_and_end(s):
    """melts stay pending, and are paid or fail later | their notes and promises count when they are final"""
    with s.refreshes_fail():
        outcome = s.dice.choice(["SETTLED", "FAILED"])
        with s.mint.lock:
            s.mint.pending_melts()
            s.caught_up()
            s.mint.settle_melts(outcome)
        return {"outcome": outcome, "caught_up_s": s.caught_up()}


# --- the rest of the machine


@event()
def hangups(s):
    """SIGHUP, many times | everything is read each time, or once for several"""
    with s.refreshes_fail():
        for _ in range(s.dice.randint(3, 30)):
            s.service.hangup()
            time.sleep(s.dice.random() * 0.05)
        return {"caught_up_s": s.caught_up()}


@event("small_disk")
def disk_full(s):
    """disk full | the last good filter stays, log and metric say so, recovers unaided"""
    ballast = s.service.output / ".ballast"
    with s.refreshes_fail():
        failed, end = s.service.failed_refreshes(), s.service.log_end()
        try:
            fill(ballast, 0)
            s.wait_failing(failed)
            s.last_good()
            expect(s.service.complaints(end, "No space left on device"), "the log does not say why")
            for free in (4096, 65_536, 200_000):
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


@event("small_disk")
def disk_full_at_the_start(s):
    """disk full at the first build | not ready, says so, and builds once there is room"""
    ballast = s.service.output / ".ballast"
    with s.service_away():
        s.service.kill()
        empty(s.service.output)
        end = s.service.log_end()
        fill(ballast, 20_480)
        s.begin_life()
        wait_until(lambda: s.service.complaints(end, "No space left on device"), 30, "the log says why")
        expect(s.service.get(f"/v1/filter/spent/{s.key[1]}").status == 503, "something is served")
        expect(not s.service.ready(), "ready without a filter")
        ballast.unlink()
        return s.recovered()


@event("output")
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


@event("sqlite")
def slow_database(s):
    """SQLite's disk slow | last good filter meanwhile, answers as fast as ever; then exact"""
    slowest, count = 0.0, 0
    with s.refreshes_fail(), system_calls(s, "pread64:delay_enter=3000"):
        s.service.hangup()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            start = time.monotonic()
            expect(s.service.filter(s.key), "not served")
            slowest, count = max(slowest, time.monotonic() - start), count + 1
            time.sleep(0.02)
    with s.refreshes_fail():
        return {"answers": count, "slowest_ms": round(slowest * 1000), **s.recovered()}


@contextlib.contextmanager
def system_calls(s, injection):
    """System calls of the running service fail or wait, by strace."""
    need("strace")
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(s.service.pid), "-e",
                               f"trace={injection.split(':', 1)[0]}", "-e", f"inject={injection}"],
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    tasks = f"/proc/{s.service.pid}/task"

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


# --- plans


def plan(dice, available, seconds, pause):
    """[(second, event)]: each event once before any comes again, at random intervals around `pause`."""
    planned, when, bag = [], pause * dice.uniform(0.3, 1), []
    for _ in itertools.count():
        if when > seconds - min(15, seconds / 6):
            return planned
        bag = bag or dice.sample(available, len(available))
        planned.append((when, bag.pop()))
        when += pause * dice.uniform(0.6, 1.4)


def live(s, planned, begun, seconds):
    """Performs what is planned, then waits for the end."""
    for when, function in planned:
        time.sleep(max(0, begun + when - time.monotonic()))
        if time.monotonic() > begun + seconds:
            return
        s.perform(function)
    time.sleep(max(0, begun + seconds - time.monotonic()))
