#!/usr/bin/env python3
"""The clients of one service, as a process: every form, all the time. Told where the service is by lines of JSON on
standard input; says on standard output what versions it saw first, what was wrong, and which requests failed.

Started by soak.py.
"""

import collections
import http.client
import itertools
import json
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import answers
import rude
from answers import FORMS, Seen, Wrong, demand

TIMEOUT = 25
KINDS = ("spent", "issued")
LATE_CODING = 5  # seconds after the beginning of a life within which bodies may lack codings


class Target:
    """Where the service is now."""

    def __init__(self, port, authority=None):
        self.port = port
        self.context = ssl.create_default_context(cafile=authority) if authority else None
        self.authority = authority

    def connect(self, timeout=TIMEOUT):
        if self.context:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def socket(self, timeout=TIMEOUT, receive=None):
        """A plain or TLS connection for those who speak for themselves."""
        plain = socket.socket()
        if receive:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        plain.settimeout(timeout)
        plain.connect(("127.0.0.1", self.port))
        return self.context.wrap_socket(plain, server_hostname="127.0.0.1") if self.context else plain

    def url(self, path):
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}{path}"


class Client:
    """One connection at a time, kept open between requests."""

    def __init__(self, fleet, seed):
        self.fleet, self.dice = fleet, random.Random(seed)
        self.connection, self.port = None, None

    def request(self, path, headers=None, method="GET", take=None):
        """(status, headers, body); the connection is renewed when the service is."""
        if self.connection is None or self.port != self.fleet.target.port:
            self.drop()
            self.connection, self.port = self.fleet.target.connect(), self.fleet.target.port
        start = time.monotonic()
        self.connection.request(method, path, headers=headers or {})
        response = self.connection.getresponse()
        body = take(response) if take else response.read()
        said = {name.lower(): value for name, value in response.getheaders()}
        if take is None:
            self.fleet.took(time.monotonic() - start, len(body))
        return response.status, said, body

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def path(self):
        known = self.fleet.keysets
        keyset = known[0] if self.dice.random() < 0.6 else self.dice.choice(known)
        return f"/v1/filter/{self.dice.choice(KINDS)}/{keyset}"

    def whole(self, form, take=None):
        path = self.path()
        floor = self.fleet.seen.begin(path)
        status, headers, body = self.request(path, FORMS[form], take=take)
        self.fleet.expect_200(path, status, body)
        self.fleet.whole(path, form, headers, body, floor)
        self.fleet.count(form)


def whole(form):
    return lambda client: client.whole(form)


def slowly(client):
    """A body over a slow line, and whole all the same: about 300 KB a second."""
    def take(response):
        pieces = []
        while piece := response.read(30_000):
            pieces.append(piece)
            time.sleep(0.1)
        return b"".join(pieces)
    client.whole(client.dice.choice(["json", "raw"]), take)
    client.fleet.count("slowly")


def ranges(client):
    """A body in pieces, each with If-Range; whoever gets 200 has the whole of a new one."""
    form, path = client.dice.choice([form for form in FORMS if form != "zstd" or client.fleet.zstd]), client.path()
    floor = client.fleet.seen.begin(path)
    status, headers, body = client.request(path, {**FORMS[form], "Range": "bytes=0-0"})
    if status == 416:
        # An empty body has no first byte.
        demand(headers.get("content-range") == "bytes */0", f"416 with {headers.get('content-range')}")
        return
    client.fleet.expect_200(path, status, body, 206)
    tag, size = headers["etag"], int(headers["content-range"].split("/")[1])
    demand(len(body) == 1, f"a byte was asked for, and {len(body)} came")
    cuts = sorted({0, size, *(client.dice.randrange(size + 1) for _ in range(3))})
    pieces = []
    for start, end in itertools.pairwise(cuts):
        wanted = client.dice.choice([f"bytes={start}-{end - 1}"] + [f"bytes={start}-"] * (end == size))
        status, headers, body = client.request(path, {**FORMS[form], "Range": wanted, "If-Range": tag})
        if status == 200:
            demand(headers["etag"] != tag, "200 for a part of the version that If-Range names")
            client.fleet.whole(path, form, headers, body, floor)
            client.fleet.count("a range of what is gone")
            return
        demand(status == 206 and headers["etag"] == tag, f"a range: {status}, {headers.get('etag')} and not {tag}")
        demand(headers["content-range"] == f"bytes {start}-{end - 1}/{size}", f"{wanted}: {headers['content-range']}")
        demand(len(body) == end - start, f"{end - start} bytes were asked for, and {len(body)} came")
        pieces.append(body)
    headers["content-length"] = str(size)
    client.fleet.whole(path, form, headers, b"".join(pieces), floor)
    client.fleet.count("ranges")


def revalidate(client):
    """HEAD, and 304 for whoever has the same."""
    path, form = client.path(), client.dice.choice(list(FORMS))
    floor = client.fleet.seen.begin(path)
    status, head, body = client.request(path, FORMS[form], "HEAD")
    client.fleet.expect_200(path, status, body)
    demand(body == b"", "HEAD with a body")
    client.fleet.seen.timestamp(path, floor, answers.modified(head))
    floor = client.fleet.seen.begin(path)
    status, headers, body = client.request(path, {**FORMS[form], "If-None-Match": head["etag"]})
    if status == 304:
        demand(body == b"" and headers["etag"] == head["etag"], "304 with a body or another tag")
        stamp = answers.modified(headers)
        # The raw bytes keep their tag when all that is new is the date.
        demand(form == "raw" or stamp == answers.modified(head), "304 with another date")
        client.fleet.seen.timestamp(path, floor, stamp)
        client.fleet.count("304")
        return
    client.fleet.expect_200(path, status, body)
    demand(headers["etag"] != head["etag"], "200 for what If-None-Match names")
    client.fleet.whole(path, form, headers, body, floor)
    client.fleet.count("new instead of 304")


def look_around(client):
    """What is not a filter: the keysets, of which the others then ask for, and how the service says it is."""
    status, _, body = client.request("/v1/keysets")
    client.fleet.expect_200("/v1/keysets", status, body)
    listed = [keyset["id"] for keyset in json.loads(body)["keysets"]]
    first = client.fleet.keysets[0]
    demand(first in listed, f"{first} is not among the keysets")
    client.fleet.keysets = [first] + [keyset for keyset in listed if keyset != first]
    client.fleet.say("keysets", listed=listed, seen=time.time())
    for path, good in (("/health", (200,)), ("/ready", (200,)), ("/v1/filter/spent/00ffffffffffffff", (400,))):
        status, _, body = client.request(path)
        client.fleet.expect_200(path, status, body, *good)
    client.fleet.count("others")


def by_http2(client):
    """HTTP/2 by curl: with TLS four forms at once over one connection, else one (Debian 12's curl cannot use a
    connection again that it opened in the knowledge that it is HTTP/2)."""
    fleet = client.fleet
    forms = [form for form in FORMS if form != "zstd" or fleet.zstd]
    if not fleet.target.authority:
        forms = [client.dice.choice(forms)]
    with tempfile.TemporaryDirectory(dir=fleet.work) as directory:
        command, asked = ["curl", "-Z"], []
        for i, form in enumerate(forms):
            path, out = client.path(), pathlib.Path(directory) / str(i)
            asked.append((path, form, out, fleet.seen.begin(path)))
            command += ["--next"] * (i > 0) + ["-s", "--max-time", str(TIMEOUT), "-o", str(out), "-D", f"{out}.head"]
            command += (["--http2", "--cacert", fleet.target.authority] if fleet.target.authority
                        else ["--http2-prior-knowledge"])
            for name, value in FORMS[form].items():
                command += ["-H", f"{name}: {value}"]
            command.append(fleet.target.url(path))
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise ConnectionError(f"curl ended with {done.returncode}")
        for path, form, out, floor in asked:
            first, *lines = pathlib.Path(f"{out}.head").read_text().splitlines()
            headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
            body = out.read_bytes() if out.exists() else b""
            demand(first.startswith("HTTP/2 "), f"{first} and not HTTP/2")
            fleet.expect_200(path, int(first.split()[1]), body)
            fleet.whole(path, form, headers, body, floor)
            fleet.count("h2")


class Fleet:
    """All clients of one service."""

    def __init__(self, config, say):
        self.say = say
        self.target = Target(config["port"], config.get("authority"))
        self.keysets = list(config["keysets"])
        self.work = pathlib.Path(config["work"])
        self.zstd = answers.zstd()
        self.seen = Seen(self.new_version)
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.latencies = collections.defaultdict(list)  # (minute, class): seconds
        self.bytes = 0
        self.began = time.monotonic()

    def new_version(self, path, version, seen):
        _, _, _, kind, keyset = path.split("/")
        self.say("version", key=[kind, keyset], n=version.n, timestamp=version.timestamp, sha=version.sha, seen=seen)

    def whole(self, path, form, headers, body, floor):
        self.seen.whole(path, form, headers, body, floor, self.zstd)
        if answers.lacks_coding(form, headers, body):
            now = time.time()
            self.say("error", what="a body without its coding", begun=now - LATE_CODING, ended=now)

    def count(self, what, by=1):
        with self.lock:
            self.counts[what] += by

    def took(self, seconds, size):
        size_class = "small" if size < 20_000 else "large"
        minute = int((time.monotonic() - self.began) // 60)
        with self.lock:
            self.latencies[minute, size_class].append(seconds)
            self.bytes += size

    @staticmethod
    def expect_200(path, status, body, *good):
        if status == 503:
            raise ConnectionError(f"503 for {path}")
        demand(status in (good or (200,)), f"{path} answered {status}: {body[:200]}")

    def work_loop(self, job, pause, seed):
        client = Client(self, seed)
        while not self.ended.is_set():
            start = time.time()
            try:
                job(client)
            except Wrong as wrong:
                self.say("wrong", what=f"{wrong}", at=time.time())
                client.drop()
            except (OSError, http.client.HTTPException) as error:
                client.drop()
                name = str(error)[:80] if isinstance(error, ConnectionError) and error.errno is None else ""
                self.say("error", what=f"{type(error).__name__} {name}".strip(), begun=start, ended=time.time())
                self.ended.wait(0.05)
            except Exception as error:  # of these clients, or of a body that nobody thought of
                client.drop()
                self.say("wrong", what=f"{job}: {error!r}", at=time.time())
                self.ended.wait(0.2)
            self.ended.wait(pause * client.dice.uniform(0.5, 1.5))

    def jobs(self):
        pace = 0.12
        yield from ((whole(form), pace) for form in FORMS if form != "zstd" or self.zstd)
        yield ranges, pace / 2
        yield revalidate, 0.01
        yield revalidate, 0.01
        yield look_around, 1.0
        yield slowly, 0.5
        if shutil.which("curl"):
            yield by_http2, 1.0

    def run(self, seed):
        threads = [threading.Thread(target=self.work_loop, args=(job, pause, f"{seed} {i}"), daemon=True)
                   for i, (job, pause) in enumerate(self.jobs())]
        threads += [threading.Thread(target=rude.misbehave, args=(self, behaviour, f"{seed} {i}"), daemon=True)
                    for i, behaviour in enumerate(rude.ALL)]
        for thread in threads:
            thread.start()
        # To the end of the input, which is the end of the run.
        for line in sys.stdin:
            self.target = Target(json.loads(line)["port"], self.target.authority)
        self.ended.set()
        end = time.monotonic() + TIMEOUT
        for thread in threads:
            thread.join(max(0, end - time.monotonic()))
        minutes = {f"{minute} {name}": rude.middle(taken) for (minute, name), taken in sorted(self.latencies.items())}
        forms = collections.Counter(form for forms in self.seen.forms.values() for form in forms)
        self.say("end", counts=self.counts, minutes=minutes, bytes=self.bytes, versions_by_form=forms,
                 several_forms=sum(len(forms) > 1 for forms in self.seen.forms.values()),
                 stuck=sum(thread.is_alive() for thread in threads))


def main():
    config = json.loads(sys.argv[1])
    lock = threading.Lock()

    def say(kind, **fields):
        with lock:
            sys.stdout.write(json.dumps({"what_is_said": kind, **fields}) + "\n")
            sys.stdout.flush()
    Fleet(config, say).run(config["seed"])


if __name__ == "__main__":
    main()
