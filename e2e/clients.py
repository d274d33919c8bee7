"""The clients of one service, in a process of their own: they take every form of every filter, all the time.

What they see goes through a queue to the test, as tuples:
    ("version", Version)                   a filter that was not seen before
    ("wrong", text, when)                  an answer that is invalid in itself
    ("error", text, begun, ended)          a request that failed, which may have an explanation
    ("keysets", ids, when)                 what /v1/keysets lists
    ("end", summary)
"""

import base64
import binascii
import collections
import email.utils
import http.client
import json
import multiprocessing
import random
import signal
import statistics
import threading
import time
import zlib

from e2e.journal import KINDS, Version, sha256
from e2e.reference_filter import M, P
from e2e.service_under_test import exchange

TIMEOUT = 25
WORTH_COMPRESSING = 1 << 10  # bytes; the service does not compress what is shorter
FORMS = {
    "json": {"Accept-Encoding": "identity"},
    "gzip": {"Accept-Encoding": "gzip"},
}


class Wrong(Exception):
    """An answer that should not have been given."""


def demand(condition, message):
    if not condition:
        raise Wrong(message)


# --- what one answer must be, by itself


def gunzip(body):
    decoder = zlib.decompressobj(wbits=31)
    try:
        plain = decoder.decompress(body)
    except zlib.error as error:
        raise Wrong(f"the body is not gzip: {error}") from None
    demand(decoder.eof and not decoder.unused_data, "gzip that is cut, or has trailing data")
    return plain


def read_json(body):
    """(n, timestamp, content) of a NUT-25 response."""
    try:
        said = json.loads(body)
        demand(sorted(said) == ["content", "m", "n", "p", "timestamp"], f"an object with {sorted(said)}")
        content = base64.b64decode(said["content"], validate=True)
    except (ValueError, TypeError, binascii.Error) as error:
        raise Wrong(f"the body is not a filter response: {error}") from None
    demand((said["p"], said["m"]) == (P, M), f"P = {said['p']}, M = {said['m']}")
    return said["n"], said["timestamp"], content


def decoded(form, headers, body):
    """The JSON of a whole body."""
    coding = headers.get("content-encoding")
    expected = "gzip" if form == "gzip" and (coding or len(body) >= WORTH_COMPRESSING) else None
    demand(coding == expected, f"{form} was requested, the coding is {coding}")
    media = headers.get("content-type", "")
    demand(media.startswith("application/json"), f"the type is {media}")
    return gunzip(body) if coding else body


def modified(headers):
    """The time in Last-Modified, which every answer about a filter has."""
    said = headers.get("last-modified")
    demand(said, "no Last-Modified")
    return int(email.utils.parsedate_to_datetime(said).timestamp())


START = (0, 0, 0.0)  # the floor before any answer


class Seen:
    """What all clients of one service have seen, across its lives: is it consistent?"""

    def __init__(self, new_version=lambda version: None, older=lambda text, since: None):
        self.lock = threading.Lock()
        self.floor = {}  # path: (how often timestamps went back, the latest since then, when it was seen)
        self.tags = {}  # (path, tag): what it named
        self.forms = {}  # (path, n, timestamp, sha): {form: tag}
        self.new_version, self.older = new_version, older

    def begin(self, path):
        """Before a request: its answer must not be older than this."""
        with self.lock:
            return self.floor.get(path, START)

    def timestamp(self, path, floor, timestamp):
        with self.lock:
            current = self.floor.get(path, START)
            backwards = timestamp < floor[1]
            # A slow answer from before the clock was set back does not count against those after it.
            answer = (current[0] + 1 if backwards else floor[0], timestamp, time.time())
            self.floor[path] = answer if backwards else max(current, answer)
        if backwards:
            # Allowed if the clock was set back since the later timestamp was seen.
            self.older(f"{path} is dated {timestamp}, after {floor[1]} was served", floor[2])

    def whole(self, path, form, headers, body, floor, seen=None):
        """A whole body; returns its version."""
        plain = decoded(form, headers, body)
        tag, coding = headers.get("etag"), headers.get("content-encoding")
        digest = sha256(plain) + (f"-{coding}" if coding else "")
        demand(tag == f'"{digest}"', f"a body of {path} as {form} has the tag {tag}, not {digest}")
        length = headers.get("content-length")
        demand(length == str(len(body)), f"a body of {len(body)} bytes has Content-Length {length}")
        n, timestamp, content = read_json(plain)
        # What is too short for a coding has the plain form.
        form = headers.get("content-encoding", "json")
        demand(modified(headers) == timestamp, "Last-Modified is not the timestamp")
        self.timestamp(path, floor, timestamp)
        version = Version(tuple(path.split("/")[3:5]), n, timestamp, sha256(content),
                          time.time() if seen is None else seen)
        self.named(path, form, tag, version)
        return version

    def named(self, path, form, tag, version):
        """A tag names one version; a version has one tag per form."""
        name = (path, version.n, version.timestamp, version.sha)
        with self.lock:
            known = self.tags.setdefault((path, tag), name)
            forms = self.forms.get(name)
            new = forms is None
            if new:
                forms = self.forms[name] = {}
            other = forms.setdefault(form, tag)
        demand(known == name, f"the tag {tag} names {known} and {name}")
        demand(other == tag, f"{name} has the tags {other} and {tag} as {form}")
        if new:
            self.new_version(version)


# --- the clients


class Client:
    """One kept connection."""

    def __init__(self, fleet, seed):
        self.fleet, self.dice = fleet, random.Random(seed)
        self.connection = None
        self.used = None  # when the last answered request began: the service was there later

    def request(self, path, headers=None, method="GET", take=None):
        """(status, headers, body)."""
        self.connection = self.connection or self.fleet.address.connect(TIMEOUT)
        begun, start = time.time(), time.monotonic()
        if take:
            self.connection.request(method, path, headers=headers or {})
            response = self.connection.getresponse()
            body = take(response)
            # Not the end: a killed service leaves the rest of its answer in the system's buffers.
            self.used = begun
            return response.status, {name.lower(): value for name, value in response.getheaders()}, body
        answer = exchange(self.connection, path, method, headers)
        self.used = begun
        self.fleet.took(time.monotonic() - start, len(answer.body))
        return answer.status, answer.headers, answer.body

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = self.used = None

    def path(self):
        known = self.fleet.keysets
        keyset = known[0] if self.dice.random() < 0.6 else self.dice.choice(known)
        return f"/v1/filter/{self.dice.choice(KINDS)}/{keyset}"

    def form(self):
        return self.dice.choice(list(FORMS))

    def whole(self, form, take=None):
        path = self.path()
        floor = self.fleet.seen.begin(path)
        status, headers, body = self.request(path, FORMS[form], take=take)
        self.fleet.expect_status(path, status, body)
        self.fleet.whole(path, form, headers, body, floor)
        self.fleet.count(form)


def whole(form):
    return lambda client: client.whole(form)


def any_form(client):
    client.whole(client.form())


def slowly(client):
    """A whole body over a slow line, about 300 KB a second."""
    def take(response):
        pieces = []
        while piece := response.read(30_000):
            pieces.append(piece)
            time.sleep(0.1)
        if response.length:  # read(n) does not tell a body that a kill has cut from a whole one
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(pieces)
    client.whole("json", take)
    # The system buffered the body, so the service may take the connection for idle and end it at any time.
    client.drop()
    client.fleet.count("slowly")


def revalidate(client):
    """HEAD, then If-None-Match with the same tag."""
    fleet, path, form = client.fleet, client.path(), client.dice.choice(list(FORMS))
    floor = fleet.seen.begin(path)
    status, head, body = client.request(path, FORMS[form], "HEAD")
    fleet.expect_status(path, status, body)
    demand(body == b"", "HEAD with a body")
    fleet.seen.timestamp(path, floor, modified(head))
    floor = fleet.seen.begin(path)
    status, headers, body = client.request(path, {**FORMS[form], "If-None-Match": head["etag"]})
    if status == 304:
        demand(body == b"" and headers["etag"] == head["etag"], "304 with a body or another tag")
        demand(modified(headers) == modified(head), "304 with another date")
        fleet.seen.timestamp(path, floor, modified(headers))
        return fleet.count("304")
    fleet.expect_status(path, status, body)
    demand(headers["etag"] != head["etag"], "200 for the version that If-None-Match names")
    fleet.whole(path, form, headers, body, floor)
    fleet.count("newer instead of 304")


def other_endpoints(client):
    """The keysets, from which the other clients choose; health and readiness; an unknown keyset."""
    fleet = client.fleet
    status, _, body = client.request("/v1/keysets")
    fleet.expect_status("/v1/keysets", status, body)
    listed = [keyset["id"] for keyset in json.loads(body)["keysets"]]
    first = fleet.keysets[0]
    demand(first in listed, f"{first} is not listed")
    fleet.keysets = [first] + [keyset for keyset in listed if keyset != first]
    fleet.say("keysets", listed, time.time())
    for path, good in (("/health", 200), ("/ready", 200), ("/v1/filter/spent/00ffffffffffffff", 400)):
        status, _, body = client.request(path)
        fleet.expect_status(path, status, body, good)
    fleet.count("others")


class Fleet:
    """All clients of one service; lives in its own process."""

    def __init__(self, address, keyset, queue, many):
        self.address, self.keysets, self.queue, self.many = address, [keyset], queue, many
        self.seen = Seen(lambda version: self.say("version", version), self.older)
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.latencies = collections.defaultdict(list)
        self.bytes = 0

    def say(self, *what):
        self.queue.put(what)

    def older(self, text, since):
        self.say("error", f"timestamp went back: {text}", since, time.time())

    def whole(self, path, form, headers, body, floor):
        self.seen.whole(path, form, headers, body, floor)

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def took(self, seconds, size):
        with self.lock:
            self.latencies["small" if size < 20_000 else "large"].append(seconds)
            self.bytes += size

    @staticmethod
    def expect_status(path, status, body, good=200):
        if status == 503:
            raise ConnectionError(f"503 for {path}")
        demand(status == good, f"{path} answered {status}: {body[:200]}")

    def work(self, job, pause, seed):
        client = Client(self, seed)
        while not self.ended.is_set():
            start = time.time()
            try:
                job(client)
            except Wrong as wrong:
                self.say("wrong", str(wrong), time.time())
                client.drop()
            except (OSError, http.client.HTTPException) as error:
                # The connection may have been cut since the service last answered on it.
                start = min(start, client.used or start)
                client.drop()
                detail = str(error)[:80] if isinstance(error, ConnectionError) and error.errno is None else ""
                self.say("error", f"{type(error).__name__} {detail}".strip(), start, time.time())
                self.ended.wait(0.05)
            except Exception as error:  # a mistake of these clients, or a body that they do not expect
                client.drop()
                self.say("wrong", f"{job}: {error!r}", time.time())
                self.ended.wait(0.2)
            self.ended.wait(pause * client.dice.uniform(0.5, 1.5))

    def jobs(self):
        """(what, pause); a few clients, or as many as keep a small machine busy."""
        if not self.many:
            return [(any_form, 0.1), (revalidate, 0.1), (other_endpoints, 0.5)]
        jobs = [(whole(form), 0.12) for form in FORMS]
        return jobs + [(revalidate, 0.01), (revalidate, 0.01), (other_endpoints, 1.0), (slowly, 0.5)]

    def run(self, end, seed):
        threads = [threading.Thread(target=self.work, args=(job, pause, f"{seed} {i}"), daemon=True)
                   for i, (job, pause) in enumerate(self.jobs())]
        for thread in threads:
            thread.start()
        end.wait()
        self.ended.set()
        latest = time.monotonic() + TIMEOUT
        for thread in threads:
            thread.join(max(0, latest - time.monotonic()))
        self.say("end", {"counts": dict(self.counts), "bytes": self.bytes,
                         "several_forms": sum(len(forms) > 1 for forms in self.seen.forms.values()),
                         "latencies": {name: percentiles(taken) for name, taken in self.latencies.items()},
                         "stuck": sum(thread.is_alive() for thread in threads)})


def percentiles(seconds):
    """Count, median and 99th percentile in milliseconds."""
    seconds = sorted(seconds)
    return {"count": len(seconds), "p50_ms": round(statistics.median(seconds) * 1000, 2),
            "p99_ms": round(seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))] * 1000, 2)}


def fleet_process(address, keyset, queue, end, many, seed):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Fleet(address, keyset, queue, many).run(end, seed)


class ClientProcess:
    """Starts the fleet and hands what it says to `heard(what, *details)`."""

    def __init__(self, address, keyset, heard, many=False, seed=1):
        context = multiprocessing.get_context("spawn")
        self.queue, self.end = context.Queue(), context.Event()
        self.heard = heard
        self.process = context.Process(target=fleet_process, daemon=True,
                                       args=(address, keyset, self.queue, self.end, many, f"clients {seed}"))
        self.process.start()
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self):
        while (said := self.queue.get())[0] != "end":
            self.heard(*said)
        self.heard(*said)

    def stop(self):
        """Waits until the clients are done."""
        self.end.set()
        self.listener.join(2 * TIMEOUT)
        self.process.join(5)
        stuck = self.listener.is_alive()
        self.process.kill()
        return not stuck
