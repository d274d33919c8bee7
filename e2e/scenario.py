"""One service next to one mint, with clients: what happens to them, and everything that is found wrong."""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import threading
import time

from e2e import drift
from e2e.clients import ClientProcess
from e2e.journal import RECORD, Clock, Verifier, builder
from e2e.service_under_test import Failure, Service, expect, series, wait_until

SLACK = 1.0  # seconds by which a failure may be reported later than its explanation
CATCH_UP = 60  # seconds within which everything is served exactly after an event; usually two
OLD_SECONDS = 45  # how old a filter may be while the mint goes on and nothing is wrong
AHEAD_SECONDS = 1.5  # how far ahead of the service's clock a filter may be dated
WHOLE, LOST = "nutfilter_whole_readings_total", "nutfilter_items_lost_total"
HOURLY = 3600  # seconds after which the service reads everything without any cause


class Skipped(Exception):
    """Why something cannot be tried here."""


class Windows:
    """Times that explain failures of one sort."""

    def __init__(self):
        self.spans = []

    @contextlib.contextmanager
    def open(self, why):
        span = [time.time(), float("inf"), why]
        self.spans.append(span)
        try:
            yield
        finally:
            span[1] = time.time()

    def explains(self, begun, ended=None):
        """What was going on between these two times, or None."""
        ended = begun if ended is None else ended
        return next((why for start, end, why in list(self.spans)
                     if start - SLACK <= ended and begun <= end + SLACK), None)


class Scenario:
    """A context: leaves nothing running. `findings` has everything that is wrong."""

    def __init__(self, binary, mint, work, *, seed=1, output=True, refresh=1, max_age=20, small_disk=0,
                 clock=False, many_clients=False, sample=1.0, extra=(), log_level="info"):
        self.mint, self.work, self.journal = mint, pathlib.Path(work), mint.journal
        self.dice, self.seed, self.many_clients, self.sample = random.Random(f"events {seed}"), seed, many_clients, sample
        self.features = set(mint.features) | ({"clock"} if clock else set()) | ({"output"} if output else set())
        self.findings, self.happened, self.lives, self.errors, self.explained = [], [], [], [], {}
        self.away, self.trouble, self.clock_steps = Windows(), Windows(), Windows()
        self.doing, self.client_summary, self.was_old = "the start", {}, False
        self.ended, self.clients, self.watcher = threading.Event(), None, None
        self.stack = contextlib.ExitStack()
        if small_disk:
            self.features.add("small_disk")
            self.stack.enter_context(tmpfs(self.work / "output", small_disk))
        self.clock = Clock()
        self.build = builder(binary)
        self.verifier = Verifier(self.journal, self.clock, self.build, self.find)
        self.service = Service(binary, mint.location, work, output=output, refresh=refresh, clock=clock,
                               extra=["--max-age", max_age, *extra], log_level=log_level)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        if self.clients:
            self.clients.process.kill()
        self.service.kill()
        self.mint.close()
        self.stack.close()

    @property
    def key(self):
        """The set that most happens to."""
        return "spent", self.mint.keysets[0]

    def find(self, what):
        """Something is wrong."""
        at = time.time()
        self.findings.append({"at": round(at, 3), "what": what, "meanwhile": self.trouble.explains(at)})
        print(f"FOUND ({self.mint.name}, {self.doing}): {what}", flush=True)

    # --- the service

    def begin_life(self):
        self.service.told_ready()  # what an earlier life said
        self.service.start()
        self.lives.append({"begun": time.time(), "samples": [], "counters": {}, "read_whole": time.time()})

    def restart(self):
        """A new life; returns the seconds until the first answer."""
        self.begin_life()
        return self.service.wait_served(self.key)

    def back(self):
        """A new life, which serves everything exactly."""
        first = self.restart()
        return {"first_answer_s": first, "caught_up_s": self.caught_up()}

    def start(self, clients=True):
        """The service, its clients, and the one who watches its process."""
        with self.away.open("the start"), self.trouble.open("the start"):
            self.restart()
            self.caught_up()
        if clients:
            self.clients = ClientProcess(self.service.address, self.key[1], self.heard, self.many_clients, self.seed)
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    @contextlib.contextmanager
    def service_away(self):
        """The service is not there: requests may fail."""
        with self.away.open(self.doing), self.trouble.open(self.doing):
            yield

    @contextlib.contextmanager
    def refreshes_fail(self):
        """The service cannot refresh, or has to read everything: filters may be old, the log may have errors."""
        with self.trouble.open(self.doing):
            yield

    def step_clock(self, offset):
        """The service's clock is set; until filters are dated right, they may be dated wrong."""
        self.clock.step(offset, lambda: self.service.set_clock(offset))

    def served_date(self):
        answer = self.service.filter(self.key)
        return answer["timestamp"] if answer else None

    def caught_up(self, seconds=CATCH_UP):
        """Waits until each filter is exactly that of a state that the database is in now or was in since."""
        now, start = time.time(), time.monotonic()
        wait_until(lambda: self.journal.known_until >= now, 30, "the mint's database read")
        for key in list(self.journal.counts()):
            wait_until(lambda key=key: self.is_exact(key, now), max(1, seconds - (time.monotonic() - start)),
                       f"{'/'.join(key)} exact after {self.doing}")
        return round(time.monotonic() - start, 2)

    def is_exact(self, key, since):
        self.service.expect_alive()
        answer = self.service.filter(key)
        if not answer:
            return False
        n, content = answer["n"], base64.b64decode(answer["content"])
        with self.journal.lock:
            history = self.journal.sets[key]
            found = [history.distinct(state) for state in history.candidates(n, [(since, float("inf"))])]
        return any(self.build(records) == content for records in found)

    def last_good(self, seconds=1.0):
        """For some time the filter that was served before is served, with its own date."""
        before, end = self.service.filter(self.key), time.monotonic() + seconds
        while time.monotonic() < end:
            answer = self.service.filter(self.key)
            expect(answer, "the last good filter is not served")
            expect(answer == before, "another filter is served")
            time.sleep(0.1)

    def wait_failing(self, failed, seconds=30):
        """Until the metric says that refreshes fail, and health that it is degraded."""
        wait_until(lambda: self.service.failed_refreshes() > failed, seconds, "a failed refresh in the metrics", 0.1)
        wait_until(lambda: self.service.health() in ("degraded", "failing"), 10, "health says degraded")

    def recovered(self):
        """By itself: exact again, and healthy."""
        took = self.caught_up()
        wait_until(lambda: self.service.health() == "ok", CATCH_UP, "health says ok")
        return {"caught_up_s": took}

    # --- what happens

    def perform(self, event, **options):
        """One event; what goes wrong in it is a finding."""
        start, self.doing = time.monotonic(), event.__name__
        row = {"event": event.__name__, "at": round(time.time(), 1)}
        try:
            row["observed"] = event(self, **options) or {}
            self.service.expect_alive()
        except Skipped as reason:
            row["skipped"] = str(reason)
        except Exception as error:
            row["failed"] = str(error) if isinstance(error, Failure) else repr(error)
            self.find(f"{self.doing}: {row['failed']}")
            if not self.service.alive():
                with self.service_away():
                    self.restart()
        row["lasted_s"] = round(time.monotonic() - start, 2)
        self.happened.append(row)
        print(f"{self.mint.name}: {json.dumps(row)}", flush=True)
        self.doing = "nothing"
        return row

    def heard(self, what, *details):
        """From the clients."""
        if what == "version":
            version, = details
            ahead = version.timestamp - version.seen - self.clock.offset
            if ahead > AHEAD_SECONDS and not self.clock_steps.explains(version.seen):
                self.find(f"{'/'.join(version.key)} is dated {ahead:.0f} s ahead of the service's clock")
            self.verifier.put(version)
        elif what == "wrong":
            self.find(details[0])
        elif what == "error":
            self.errors.append(details)
        elif what == "keysets":
            listed, seen = details
            unknown = [keyset for keyset in listed if self.journal.keysets.get(keyset, float("inf")) > seen]
            if unknown and self.journal.known_until > seen:
                self.find(f"keysets are listed that were not in the database: {unknown}")
        elif what == "end":
            self.client_summary = details[0]

    # --- samples of the process

    def watch(self):
        while not self.ended.wait(self.sample):
            life = self.lives[-1]
            try:
                self.look(life)
            except (OSError, http.client.HTTPException) as error:
                self.errors.append((f"a sample: {type(error).__name__}", time.time(), time.time()))
            except Exception as error:
                self.find(f"a sample: {error!r}")

    def judge_counters(self, life, counted, at):
        """Compares the counters with those of the sample before, which can be long ago on a busy machine."""
        for wrong in drift.counted_backwards(life["counters"], counted) + drift.server_errors(counted):
            self.find(f"metrics: {wrong}")
        before = life["samples"][-1]["at"] if life["samples"] else life["begun"]
        # A refresh notices the last of it seconds later.
        explained = self.trouble.explains(min(before, at - 5), at)
        if sum_of(counted, LOST) > sum_of(life["counters"], LOST) and not explained:
            self.find("items were lost, and nothing explains it")
        if sum_of(counted, WHOLE) > sum_of(life["counters"], WHOLE):
            explained = explained or self.away.explains(before, at) or before <= life["begun"] + 5
            if not explained and at - life["read_whole"] < HOURLY - 60 and not self.mint.always_read_whole:
                self.find("everything was read again, and nothing explains it")
            life["read_whole"] = at
        life["counters"] = counted

    def look(self, life):
        at = time.time()
        if self.service.told_ready() and not self.service.filter(self.key) and not self.away.explains(at, time.time()):
            self.find("READY=1, and a filter is not served")
        row = drift.sample(self.service.pid, self.service.output)
        text = self.service.get("/metrics", timeout=20).body.decode()
        if life is not self.lives[-1]:
            return
        self.judge_counters(life, drift.counters(text), at)
        life["samples"].append({"at": at, "notes": max(sum(series(text, "nutfilter_items")), self.journal.notes()),
                                "sets": len(self.journal.sets), **row})
        dated = self.served_date()
        old = self.clock.now() - dated if dated else 0
        is_old = old > OLD_SECONDS and not (self.trouble.explains(at - OLD_SECONDS, at) or
                                            self.clock_steps.explains(at - OLD_SECONDS, at))
        if is_old and not self.was_old:
            self.find(f"the filter is {old:.0f} s old, and nothing explains it")
        self.was_old = is_old

    # --- the end

    def finish(self):
        """Everything stops in an order in which nothing is missed; the findings are complete afterwards."""
        self.doing = "the end"
        with contextlib.suppress(Failure):
            self.service.expect_alive()
        try:
            self.mint.stop_writing()
            self.caught_up()
            # On a busy machine an event can end before the clients have downloaded anything.
            wait_until(lambda: not self.clients or self.verifier.given, 30, "the first filter of a client")
        except Exception as error:
            self.find(f"at the end: {error}")
        if self.clients and not self.clients.stop():
            self.find("the clients do not end")
        if self.client_summary.get("stuck"):
            self.find(f"{self.client_summary['stuck']} clients hang")
        self.ended.set()
        if self.watcher:
            self.watcher.join(30)
        self.verifier.finish()
        try:
            with self.service_away():
                self.service.stop()
        except Failure as failure:
            self.find(f"at the end: {failure}")
        self.judge_errors()
        self.told = self.judge_log()
        self.judged = []
        for life in self.lives:
            findings, row = drift.judge(life["samples"])
            self.judged.append(row)
            for finding in findings:
                self.find(f"drift: {finding}")
        return self.findings

    def judge_errors(self):
        """Counts failed requests by kind; those that nothing explains are findings."""
        for kind, begun, ended in self.errors:
            # A client is cut off when the service ends, and that may look like anything.
            why = self.away.explains(begun, ended)
            if "503" in kind:
                # A filter that is dated after the clock is withdrawn until it is built again.
                why = why or self.clock_steps.explains(begun, ended)
            if kind.startswith("timestamp went back"):
                why = self.clock_steps.explains(begun, ended)
                if not why and self.away.explains(begun, ended) == "output_restored":
                    # What was published then is served, with its own date, until the first refresh.
                    why = "output_restored"
            name = f"{kind.split(':')[0]} ({why})" if why else kind
            self.explained[name] = self.explained.get(name, 0) + 1
            if not why:
                self.find(f"a request failed: {kind}, from {begun:.3f} to {ended:.3f}, and nothing explains it")

    def judge_log(self):
        """Counts warnings and errors; panics, notes, lines that are not JSON and unexplained errors are findings."""
        told, unexplained, notes = {}, set(), self.some_notes()
        for level, message, at, line in self.service.records():
            at -= self.clock_offset_of(at)
            if level == "NONE":
                self.find(f"a line of the log is not JSON: {line[:200]!r}")
            if any(note in line for note in notes):
                self.find("a note is in the log")
            if level not in ("WARN", "ERROR"):
                continue
            key = f"{level}: {message.split(';')[0][:100]}"
            told[key] = told.get(key, 0) + 1
            if "panic" in line:
                self.find(f"the log: {line.strip()[:400]}")
            elif level == "ERROR" and not (self.trouble.explains(at) or self.clock_steps.spans) and key not in unexplained:
                unexplained.add(key)
                self.find(f"an error in the log that nothing explains: {line.strip()[:400]}")
        return told

    def clock_offset_of(self, stamp):
        """By how much a time of the service's clock is ahead, where that is unambiguous."""
        return next((offset for start, end, offset in reversed(self.clock.segments)
                     if start + offset <= stamp <= end + offset), 0)

    def some_notes(self):
        records = self.journal.records(self.key)
        starts = list(range(0, len(records), RECORD))
        return {records[i + 1:i + RECORD].hex() for i in starts[:3] + starts[-3:]}

    def summary(self):
        """What the run comes to, as rows of a record."""
        caught_up = [row["observed"]["caught_up_s"] for row in self.happened if "caught_up_s" in row.get("observed", {})]
        first = [row["observed"]["first_answer_s"] for row in self.happened
                 if "first_answer_s" in row.get("observed", {})]
        events = {}
        for row in self.happened:
            events[row["event"]] = events.get(row["event"], 0) + 1
        return {"mint": self.mint.name, "findings": self.findings, "versions_verified": self.verifier.verified,
                "notes_in_them": self.verifier.notes, "by_reference_filter": self.verifier.by_reference,
                "transactions": self.mint.transactions, "notes": self.journal.notes(),
                "sets": len(self.journal.sets), "lives": len(self.lives), "events": events,
                "caught_up_s": middle_and_most(caught_up), "first_answer_s": middle_and_most(first),
                "clients": self.client_summary, "failed_requests": self.explained, "log": self.told,
                "highest": self.judged}


def sum_of(counted, name):
    return sum(value for series_name, value in counted.items() if series_name.startswith(name))


def middle_and_most(values):
    return {"median": statistics.median(values), "most": max(values)} if values else {}


@contextlib.contextmanager
def tmpfs(directory, mebibytes):
    """A small disk."""
    directory.mkdir(parents=True, exist_ok=True)
    size = f"size={mebibytes}m,mode=700"
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", size, "nutfilter", directory],
                                          capture_output=True, check=False).returncode != 0:
        raise Skipped("a small tmpfs cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


def need(program):
    if shutil.which(program) is None:
        raise Skipped(f"{program} is not installed")
