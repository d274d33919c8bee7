"""One service beside one mint: its lives, its clients, what is sampled of it, and what was found."""

import contextlib
import datetime
import hashlib
import http.client
import json
import pathlib
import random
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "load"))

import drift  # noqa: E402
import events  # noqa: E402
from databases import KEYSET  # noqa: E402
from running import SPENT, Answer, Failure, Service, expect, wait_until  # noqa: E402
from verify import Verifier  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
REFRESH = 1
RESTAMP = 30
OLD_SECONDS = 30  # a filter is never older than that, but for a trouble; usually two
READY_SECONDS = 20  # from the first answer of a life to the end of its first reading; usually one
SLACK = 1.0  # seconds by which a failure may be told later than what explains it
# What no event here may lead to: mistakes of the program, and damage, as nothing damages a file.
NEVER = ("panic", "task failed", "listener failed", "what was kept", "a kept set cannot be used", "the clock is behind",
         "no keyset ids", "filter held back")
# What a restored backup, deleted rows, VACUUM or a restart of the server lead to, and nothing else does.
EXPLAINED = ("rereading the full database", "the mint has fewer notes than before",
             "no longer has this keyset", "no compressed body")
LATE_WARNING = 5  # seconds after the event: of the kind that is read last
AT_THE_END = 45  # seconds for everything to be served that was written last


class OverTls(Service):
    """A service whose every connection is TLS."""

    def __init__(self, *arguments, authority, **options):
        self.context = ssl.create_default_context(cafile=authority)
        super().__init__(*arguments, **options)

    def request(self, path, method="GET", headers=None, timeout=30):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            body = response.read()
            return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


class Windows:
    """Times that explain something."""

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
        """What was going on between these two times, or nothing."""
        ended = begun if ended is None else ended
        return next((why for start, end, why in list(self.spans)
                     if start - SLACK <= ended and begun <= end + SLACK), None)


class Side:
    def __init__(self, options, name, mint, work, seed, small_disk=False, tls=None):
        self.options, self.name, self.mint, self.work = options, name, mint, work
        self.dice = random.Random(f"events {seed}")
        self.seed, self.small_disk, self.tls = seed, small_disk, tls
        self.data = work / "data"
        self.findings, self.happened, self.lives = [], [], []
        self.errors, self.explained = [], {}
        self.aways, self.troubles = Windows(), Windows()
        self.keysets_seen = []
        self.client_summary = {}
        self.doing = "the start"
        self.ended = threading.Event()
        self.verifier = Verifier(mint.journal, options.build, options.second, self.find)
        self.service, self.clients = None, None
        self.life_lock = threading.Lock()

    def find(self, what):
        """Something is wrong."""
        at = time.time()
        self.findings.append({"at": round(at, 3), "service": self.name, "what": what,
                              "meanwhile": self.aways.explains(at) or self.troubles.explains(at)})
        print(f"FOUND ({self.name}): {what}", flush=True)

    def scaled(self, seconds):
        """Shorter in a short run."""
        return seconds if self.options.seconds >= 300 else min(seconds, 2.5)

    # --- the lives of the service

    def begin(self):
        extra = ["--max-timestamp-age", RESTAMP]
        arguments = [self.options.binary, self.mint.location, self.work / "log", self.data, REFRESH]
        if self.tls:
            extra += ["--tls-certificate", self.tls[0], "--tls-key", self.tls[1]]
            service = OverTls(*arguments, authority=self.tls[0], extra=extra, log_level="info")
        else:
            service = Service(*arguments, extra=extra, log_level="info")
        with self.life_lock:
            self.service = service
            self.lives.append({"begun": time.time(), "pid": service.pid, "samples": [], "counters": {}})

    def restart(self):
        """A new life; returns the seconds until the first answer."""
        self.begin()
        took = round(self.service.wait_ready(60), 3)
        if self.clients:
            self.tell_clients()
        return took

    def request(self, path, method="GET", headers=None):
        return self.service.request(path, method, headers)

    def url(self, path):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.service.port}{path}"

    @contextlib.contextmanager
    def away(self, why):
        """The service is not there."""
        with self.aways.open(why), self.troubles.open(why):
            yield

    def trouble(self):
        """The service is not able to refresh."""
        return self.troubles.open(self.doing)

    def caught_up(self):
        """Waits until a filter is served that was read from now on."""
        now, start = int(time.time()), time.monotonic()

        def newer():
            self.service.expect_alive()
            answer = self.service.try_request(SPENT, "HEAD", {"Accept": "application/octet-stream"})
            return answer and answer.status == 200 and int(answer.headers["nutfilter-timestamp"]) > now
        wait_until(newer, events.CATCH_UP, "a filter of after the event served", 0.1)
        return {"caught_up_s": round(time.monotonic() - start, 2)}

    # --- the clients, a process of their own

    def start_clients(self):
        config = {"port": self.service.port, "keysets": [KEYSET], "work": str(self.work),
                  "seed": f"clients {self.seed}", "authority": str(self.tls[0]) if self.tls else None}
        self.clients = subprocess.Popen([sys.executable, HERE / "fetching.py", json.dumps(config)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def tell_clients(self):
        self.clients.stdin.write(json.dumps({"port": self.service.port}) + "\n")
        self.clients.stdin.flush()

    def listen(self):
        for line in self.clients.stdout:
            said = json.loads(line)
            self.heard(said.pop("what_is_said"), said)

    def heard(self, what, said):
        if what == "version":
            self.verifier.put(said)
        elif what == "wrong":
            self.find(said["what"])
        elif what in ("error", "rude"):
            self.errors.append((what, said["what"], said["begun"], said["ended"]))
        elif what == "keysets":
            unknown = [keyset for keyset in said["listed"]
                       if self.mint.journal.keysets.get(keyset, float("inf")) > said["seen"]]
            if unknown:
                self.find(f"keysets are listed that were not there: {unknown}")
        elif what == "end":
            self.client_summary = said

    def stop_clients(self):
        self.clients.wait(60)
        self.listener.join(10)
        if self.clients.returncode or not self.client_summary:
            self.find(f"the clients ended with {self.clients.returncode}")
        if self.client_summary.get("stuck"):
            self.find(f"{self.client_summary['stuck']} clients hang")

    def judge_errors(self):
        """Requests that failed, by kind; and the ones that nothing explains."""
        for what, kind, begun, ended in self.errors:
            # A slow client is cut off when the service ends, and that may look like anything.
            why = self.aways.explains(begun, ended)
            if kind == "a body without its coding":
                why = why or self.troubles.explains(begun, ended)
            if kind.endswith("503 for /ready"):
                # What was kept is served at once; ready it is when it has read the database.
                why = why or self.troubles.explains(begun - READY_SECONDS, ended)
            name = f"{kind} ({why})" if why else kind
            self.explained[name] = self.explained.get(name, 0) + 1
            if not why:
                self.find(f"{'a rude client' if what == 'rude' else 'a request failed'}: {kind}, from {begun:.3f} to "
                          f"{ended:.3f}, and nothing explains it")

    # --- samples

    def watch(self):
        """Looks at the process every few seconds, until the end."""
        while not self.ended.wait(self.options.sample):
            with self.life_lock:
                life, service = self.lives[-1], self.service
            try:
                self.look(life, service)
            except (OSError, http.client.HTTPException, KeyError) as error:
                self.errors.append(("error", f"a sample: {type(error).__name__}", time.time(), time.time()))
            except Exception as error:
                self.find(f"a sample: {error!r}")

    def look(self, life, service):
        at = time.time()
        row = drift.sample(life["pid"], self.data)
        answer = service.request("/metrics", timeout=20)
        text = answer.body.decode()
        counted = drift.counters(text)
        for wrong in drift.counted_backwards(life["counters"], counted) + drift.server_errors(counted):
            self.find(f"metrics: {wrong}")
        life["counters"] = counted
        served = sum(drift.gauge(text, "nutfilter_items"))
        life["samples"].append({"at": at, "notes": max(served, self.mint.journal.notes()),
                                "sets": len(self.mint.journal.sets), **row})
        dated = drift.gauge(text, "nutfilter_as_of_timestamp_seconds")
        if dated and at - min(dated) > OLD_SECONDS and not self.troubles.explains(at - OLD_SECONDS, at):
            self.find(f"a filter is {at - min(dated):.0f} s old, and nothing explains it")

    # --- what happens

    def live(self, planned, began):
        """Does what is planned, one after another."""
        for when, event in planned:
            if self.ended.wait(max(0, began + when - time.monotonic())):
                return
            at, start = time.time(), time.monotonic()
            self.doing = event.__name__
            row = {"at": round(time.monotonic() - began, 1), "event": self.doing}
            try:
                row["observed"] = event(self) or {}
                self.service.expect_alive()
            except Exception as error:
                row["failed"] = str(error) if isinstance(error, Failure) else repr(error)
                self.find(f"{self.doing}: {row['failed']}")
                if self.service.process.poll() is not None:
                    with self.away("ended by itself"):
                        self.aways.spans[-1][0] = at
                        self.restart()
            row["lasted_s"] = round(time.monotonic() - start, 2)
            self.happened.append(row)
            print(f"{self.name}: {json.dumps(row)}", flush=True)

    def everything_is_served(self):
        """After the last write: every set, as it is in the journal."""
        at = time.time()
        counts = self.mint.journal.counts()
        start = time.monotonic()
        for (kind, keyset), n in counts.items():
            path = f"/v1/filter/{kind}/{keyset}"

            def served(path=path, n=n):
                answer = self.request(path, headers={"Accept": "application/octet-stream"})
                return (answer.status == 200 and int(answer.headers["nutfilter-n"]) == n
                        and int(answer.headers["nutfilter-timestamp"]) >= int(at) - RESTAMP - 5 and answer)
            try:
                left = max(1, AT_THE_END - (time.monotonic() - start))
                wait_until(served, left, f"{path}: {n} notes at the end", 0.2)
                answer = self.request(path, headers={"Accept": "application/octet-stream"})
                expect(self.options.build(self.mint.journal.records((kind, keyset))) ==
                       hashlib.sha256(answer.body).hexdigest(), f"{path}: not exact at the end")
            except Exception as error:
                self.find(f"at the end: {error}")

    # --- the log

    def judge_log(self):
        """How often each warning and error came; errors that nothing explains, panics and notes are findings."""
        told, notes = {}, self.some_notes()
        with open(self.work / "log", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                for note in notes:
                    if note in line:
                        self.find("a note is in the log")
                try:
                    record = json.loads(line)
                    level, message = record["level"], record["fields"].get("message", "")
                except (ValueError, KeyError, TypeError):
                    if line.strip():
                        self.find(f"a line of the log is none: {line[:200]!r}")
                    continue
                if level not in ("WARN", "ERROR"):
                    continue
                key = f"{level}: {message.split(';')[0][:100]}"
                told[key] = told.get(key, 0) + 1
                at = logged_at(record)
                if any(words in message for words in NEVER):
                    self.find(f"the log: {line.strip()[:400]}")
                elif level == "ERROR" and not self.troubles.explains(at):
                    self.find(f"an error in the log that nothing explains: {line.strip()[:400]}")
                elif any(words in message for words in EXPLAINED) and not self.troubles.explains(at - LATE_WARNING, at):
                    self.find(f"a warning in the log that nothing explains: {line.strip()[:400]}")
        return told

    def some_notes(self):
        records = self.mint.journal.records(("spent", KEYSET))
        starts = list(range(0, len(records), 33))
        return {records[i + 1:i + 33].hex() for i in starts[:3] + starts[-3:]}

    def close(self):
        if self.service:
            self.service.kill()
        self.mint.close()


def logged_at(record):
    return datetime.datetime.fromisoformat(record["timestamp"].replace("Z", "+00:00")).timestamp()
