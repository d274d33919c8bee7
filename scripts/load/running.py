"""A running `nutfilter serve`, what it says of itself, and what the system says of it.

Everything listens on 127.0.0.1 at a port that the system picks. Whatever was started is ended when its block is left.
"""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import platform
import re
import signal
import socket
import subprocess
import threading
import time

from databases import KEYSET

SPENT = f"/v1/filter/spent/{KEYSET}"
ISSUED = f"/v1/filter/issued/{KEYSET}"
START_SECONDS = 600


class Failure(Exception):
    """Something to tell in one line; no traceback."""


def expect(condition, message):
    """What a row asserts."""
    if not condition:
        raise Failure(message)


def wait_until(condition, seconds, what, pause=0.02):
    """Waits for a condition, and returns how long it took."""
    start = time.monotonic()
    while True:
        value = condition()
        if value:
            return time.monotonic() - start
        expect(time.monotonic() - start < seconds, f"not within {seconds} s: {what}")
        time.sleep(pause)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def machine():
    """Where figures come from, and how busy it is there."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": model.group(1) if model else platform.machine(), "cores": os.cpu_count(),
            "kernel": platform.release(), "load_average": os.getloadavg()[0],
            "time": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())}


def processor_seconds():
    """What all of the machine's processors have done so far, and what of it was idling."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(fields) / ticks, (fields[3] + fields[4]) / ticks


class Answer:
    """An HTTP answer, whole."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def etag(self):
        return self.headers.get("etag")

    def json(self):
        return json.loads(self.body)


class Service:
    """`nutfilter serve` as a process of ours."""

    def __init__(self, binary, location, log, data_dir=None, refresh=3600, prefix=(), environment=None, extra=(),
                 log_level="debug"):
        self.port = free_port()
        self.log_path = pathlib.Path(log)
        self.name = pathlib.Path(binary).name[:15]  # what the system remembers of it
        self.below = bool(prefix)
        command = [*prefix, str(binary), "serve", "--mint-database", str(location), "--host", "127.0.0.1",
                   "--port", str(self.port), "--refresh", str(refresh), "--jitter", "0", "--log-level", log_level,
                   "--log-format", "json", *map(str, extra)]
        if data_dir is not None:
            command += ["--data-dir", str(data_dir)]
        # Nothing of the caller's environment but what programs need: no settings, no proxies.
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **(environment or {})}
        self.started = time.monotonic()
        with open(self.log_path, "ab") as output:
            self.log_start = output.tell()
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        """That of the service, also below a program that started it."""
        pid = self.process.pid
        if not self.below:
            return pid
        while (name := comm(pid)) != self.name:
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            expect(children, f"there is no service below {name}")
            pid = int(children[0])
        return pid

    # --- signals

    def hangup(self):
        os.kill(self.pid, signal.SIGHUP)

    def kill(self):
        with contextlib.suppress(ProcessLookupError, Failure, FileNotFoundError):
            os.kill(self.pid, signal.SIGKILL)
        if self.below:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(2)
        self.process.kill()
        self.process.wait(10)

    def stop(self):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, Failure, FileNotFoundError):
                os.kill(self.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Failure("the service did not end within 20 s of SIGTERM") from None
        return self.process.returncode

    def expect_alive(self):
        expect(self.process.poll() is None, f"the service ended with code {self.process.returncode}")

    # --- HTTP

    def request(self, path, method="GET", headers=None, timeout=30):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            body = response.read()
            return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)
        finally:
            connection.close()

    def try_request(self, path, method="GET", headers=None):
        try:
            return self.request(path, method, headers)
        except (OSError, http.client.HTTPException):
            return None

    def wait_ready(self, seconds=START_SECONDS, path=SPENT):
        """Until the filter is served; returns the seconds since the start."""
        def served():
            self.expect_alive()
            answer = self.try_request(path, "HEAD")
            return answer is not None and answer.status == 200
        wait_until(served, seconds, f"{path} served", 0.005)
        return time.monotonic() - self.started

    def etag(self):
        return self.request(SPENT, "HEAD").etag

    def wait_new(self, etag, seconds=120):
        """Until another body than that is served; returns the seconds that took."""
        return wait_until(lambda: self.etag() not in (etag, None), seconds, "a new body", 0.003)

    def n(self):
        """How many notes the filter that is served has, by its head alone."""
        answer = self.request(SPENT, "HEAD", {"Accept": "application/octet-stream"})
        return int(answer.headers["nutfilter-n"])

    def timestamp(self):
        answer = self.request(SPENT, "HEAD", {"Accept": "application/octet-stream"})
        return int(answer.headers["nutfilter-timestamp"])

    def whole(self, path=SPENT):
        """The body of a filter, whose tag has to be its SHA-256."""
        answer = self.request(path)
        expect(answer.status == 200, f"{path} answered {answer.status}: {answer.body[:200]}")
        check_whole(answer)
        return answer

    def health(self):
        return self.request("/health").json()["status"]

    def metric(self, name):
        """The sum over all labels; 0 for what was never counted."""
        text = self.request("/metrics").body.decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for value in found)

    # --- the log

    def records(self):
        """What the log says since the start, an object a line."""
        text = self.log_path.read_bytes()[self.log_start:].decode(errors="replace")
        for line in text.splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict):
                    yield record

    def said(self, beginning, level=None):
        """The records whose message begins so."""
        return [record for record in self.records()
                if record.get("fields", {}).get("message", "").startswith(beginning)
                and level in (None, record.get("level"))]

    def wait_said(self, beginning, seconds, count=1, level=None):
        wait_until(lambda: len(self.said(beginning, level)) >= count, seconds, f"the log says {beginning!r}", 0.05)
        return self.said(beginning, level)

    # --- memory

    def memory(self):
        """KiB, by the system's account."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return {name: int(value) for name, value in re.findall(r"^(VmHWM|VmRSS|RssAnon|RssFile):\s+(\d+)", status, re.M)}


class MemoryPeak:
    """The highest memory while the block lasts, anonymous and mapped files apart, as only the sum has a mark."""

    def __init__(self, service, interval=0.005):
        self.pid, self.interval = service.pid, interval
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.anonymous = self.file = self.total = 0

    def watch(self):
        statm = pathlib.Path(f"/proc/{self.pid}/statm")
        page = os.sysconf("SC_PAGESIZE") // 1024
        while not self.ended.wait(self.interval):
            with contextlib.suppress(OSError, ValueError):
                _, resident, shared, *_ = map(int, statm.read_text().split())
                self.total = max(self.total, resident * page)
                self.file = max(self.file, shared * page)
                self.anonymous = max(self.anonymous, (resident - shared) * page)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def mib(self):
        return {"anonymous": round(self.anonymous / 1024, 1), "mapped_files": round(self.file / 1024, 1),
                "together": round(self.total / 1024, 1)}


def comm(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def check_whole(answer):
    """A body is exactly one version: the one that its tag names."""
    tag = '"' + hashlib.sha256(answer.body).hexdigest() + '"'
    expect(answer.etag == tag, f"a body of {len(answer.body)} bytes has the tag {answer.etag} and not {tag}")
    expect(len(answer.body) == int(answer.headers["content-length"]), "a body of another length than it says")


def content(answer):
    """The filter in a body, without its timestamp."""
    said = answer.json()
    return said["n"], base64.b64decode(said["content"])
