"""What is done to a service and its mint, at times that a seed decides.

An event is a function of a `Side`; what it returns goes into the record. Those that stop the service or keep it from
its database say so by `side.away` and `side.trouble`: within these times, and nowhere else, requests may fail and the
log may have errors.
"""

import contextlib
import errno
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "load"))

from running import SPENT, expect, wait_until  # noqa: E402

RAW = {"Accept": "application/octet-stream"}
CATCH_UP = 45  # seconds within which the service has to be as new as its mint again; usually two


# --- the service ends and comes back


def kill(side):
    """SIGKILL at any moment."""
    with side.away("kill"):
        side.service.kill()
        return {"first_answer_s": side.restart()}


def kill_again_and_again(side):
    """SIGKILL before it is ready."""
    with side.away("kill_again_and_again"):
        for _ in range(4):
            side.service.kill()
            side.begin()
            time.sleep(side.dice.random() * 0.3)
        side.service.kill()
        return {"first_answer_s": side.restart()}


def terminate(side):
    """SIGTERM: requests under way end, slow ones are cut, and the exit code is 0."""
    with side.away("terminate"):
        start = time.monotonic()
        code = side.service.stop()
        took = time.monotonic() - start
        expect(code == 0, f"exit code {code} after SIGTERM")
        return {"ended_s": round(took, 2), "first_answer_s": side.restart()}


def kill_while_the_database_is_away(side):
    """The old filters are served before the database is there."""
    with side.away("kill_while_the_database_is_away"), side.trouble():
        side.mint.cluster.stop("immediate")
        side.service.kill()
        took = side.restart()
        time.sleep(2)
        expect(side.request(SPENT, "HEAD").status == 200, "the old filter is not served while the database is away")
        side.mint.cluster.start()
        return {"first_answer_s": took, **side.caught_up()}


# --- the database


def database_stopped(side):
    """Stopped at once, without an orderly end, and started after some seconds."""
    mode = side.dice.choice(["fast", "immediate", "immediate"])
    with side.trouble():
        side.mint.cluster.stop(mode)
        time.sleep(side.dice.uniform(1, side.scaled(10)))
        side.mint.cluster.start()
        return {"mode": mode, **side.caught_up()}


def database_hangs(side):
    """SIGSTOP for all of the server's processes."""
    cluster = side.mint.cluster
    with side.trouble(), side.mint.lock:
        first = int((cluster.data / "postmaster.pid").read_text().split("\n", 1)[0])
        told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=False)
        processes = [first, *map(int, told.stdout.split())]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
        try:
            time.sleep(side.scaled(5))
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
    with side.trouble():
        return side.caught_up()


def database_locked(side):
    """Nobody can read for some seconds."""
    seconds = side.dice.uniform(2, side.scaled(9))
    with side.trouble():
        with side.mint.locked():
            time.sleep(seconds)
            # How old the filters got: nearly as old as the lock if that worked.
            old = time.time() - int(side.request(SPENT, "HEAD", RAW).headers["nutfilter-timestamp"])
        return {"locked_s": round(seconds, 1), "oldest_s": round(old, 1), **side.caught_up()}


def late_commit(side):
    """A transaction that is open for several readings."""
    side.mint.commit_late(side.scaled(6))
    return side.caught_up()


def vacuum(side):
    """The table is written anew; everything may be read again."""
    with side.trouble():
        side.mint.vacuum()
        return side.caught_up()


def notes_deleted(side):
    """The mint forgets some notes."""
    with side.trouble():
        side.mint.delete_oldest(side.dice.randint(1, 300))
        return side.caught_up()


def restored(side):
    """A backup of some seconds ago takes the place of the database."""
    backup = side.work / "backup"
    with side.trouble():
        with side.mint.lock:
            side.mint.backup(backup)
            mark = side.mint.mark()
    time.sleep(side.scaled(8))
    ways = [side.mint.put_in_place] + ([side.mint.write_over] if hasattr(side.mint, "write_over") else [])
    way = side.dice.choice(ways)
    with side.trouble():
        with side.mint.lock:
            lost = side.mint.journal.notes()
            side.mint.back_to(mark, lambda: way(backup))
            lost -= side.mint.journal.notes()
        return {"way": way.__name__, "notes_lost": lost, **side.caught_up()}


def keyset_appears(side):
    """And is served soon."""
    keyset = side.mint.new_keyset()
    if keyset is None:
        return {"too_many": True}

    def served():
        return side.request(f"/v1/filter/spent/{keyset}", "HEAD").status == 200
    return {"served_s": round(wait_until(served, CATCH_UP, "the new keyset served", 0.1), 2)}


# --- the rest of the machine


def hangups(side):
    """SIGHUP, many times."""
    for _ in range(side.dice.randint(3, 30)):
        side.service.hangup()
        time.sleep(side.dice.random() * 0.05)
    return side.caught_up()


def disk_full(side):
    """No room in the data directory."""
    ballast = side.data / "ballast"
    with side.trouble():
        try:
            written = 0
            with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    written += file.write(bytes(1 << 16))
            time.sleep(side.scaled(6))
            # Some room, and perhaps not enough.
            with contextlib.suppress(OSError):
                os.truncate(ballast, max(0, written - side.dice.choice([4096, 200_000, 2_000_000])))
            time.sleep(side.scaled(3))
        except OSError as error:
            expect(error.errno == errno.ENOSPC, str(error))
        finally:
            ballast.unlink(missing_ok=True)
        return side.caught_up()


def burst(side):
    """16 connections that take bodies as fast as they can, for three seconds."""
    done = subprocess.run(["wrk", "-t", "1", "-c", "16", "-d", "3s", "--timeout", "20s", side.url(SPENT)],
                          capture_output=True, text=True, check=True).stdout
    expect("Socket errors" not in done and "Non-2xx" not in done, f"wrk saw errors: {done}")
    rate = next(line.split()[1] for line in done.splitlines() if line.startswith("Requests/sec"))
    return {"bodies_a_second": float(rate)}


ENDS = [kill, kill, kill_again_and_again, terminate]
COMMON = [hangups, notes_deleted, vacuum, restored, keyset_appears]


def possible(side):
    """(what ends the service, what it outlives) on this machine, for this mint."""
    ends, others = list(ENDS), list(COMMON)
    if hasattr(side.mint, "cluster"):
        ends.append(kill_while_the_database_is_away)
        others += [database_stopped, database_stopped, database_hangs, late_commit]
    else:
        others += [database_locked, database_locked]
    if side.small_disk:
        others.append(disk_full)
    if shutil.which("wrk"):
        others.append(burst)
    return ends, others


def plan(seed, seconds, ends, others, offset=0):
    """[(second, event)] of a run: lives that are short, then one that is long, and so on; a long one has to be long to
    show a drift. `offset` begins elsewhere in that, for two services that are not to do the same at one time."""
    dice = random.Random(seed)
    phases = phases_of(seconds)
    phases = phases[offset % len(phases):] + phases[:offset % len(phases)]
    planned, at, bag = [], 0.0, []
    for length, is_long in phases:
        end = at + length
        pause = min(length / 7, 35.0) if is_long else min(length / 5, 22.0)
        when = at + pause * dice.uniform(0.5, 1)
        while when < end - pause / 2 and when < seconds - min(15, seconds / 6):
            if is_long:
                # Each once, before any comes again.
                bag = bag or dice.sample(others, len(others))
                planned.append((when, bag.pop()))
            else:
                planned.append((when, dice.choice(ends)))
            when += pause * dice.uniform(0.6, 1.4)
        at = end
    return planned


def phases_of(seconds):
    """(length, whether long) of the lives: in an hour three times four minutes of short ones and 16 of one."""
    rounds = max(1, round(seconds / 1200))
    share = seconds / rounds
    return [(share * (0.2 if rounds > 1 or seconds > 300 else 0.35), False),
            (share * (0.8 if rounds > 1 or seconds > 300 else 0.65), True)] * rounds
