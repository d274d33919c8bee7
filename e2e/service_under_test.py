"""`nutfilter serve` as a process: start, stop, kill, ask, read its metrics and its log."""

import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

START_SECONDS = 60
STOP_SECONDS = 25


class Failure(Exception):
    """Something that is not as promised, in one line."""


def expect(condition, message):
    if not condition:
        raise Failure(message)


def wait_until(condition, seconds, what, pause=0.05):
    """Waits for a condition; returns how long that took."""
    start = time.monotonic()
    while not condition():
        expect(time.monotonic() - start < seconds, f"not within {seconds} s: {what}")
        time.sleep(pause)
    return round(time.monotonic() - start, 3)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def tail(file, lines=12):
    """The last lines of a log, for a message."""
    return "\n".join(pathlib.Path(file).read_text(errors="replace").splitlines()[-lines:])


def clean_environment(**variables):
    """Nothing of the caller's environment except PATH: no proxies, no settings."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1",
            **{name: str(value) for name, value in variables.items()}}


@dataclasses.dataclass
class Answer:
    """A whole HTTP answer."""

    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


@dataclasses.dataclass
class Address:
    """Where the service listens; the same over all its lives."""

    port: int

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port}{path}"


class Service:
    """The service under test, over all its lives: one address, one output directory, one log."""

    def __init__(self, binary, location, work, *, output=True, refresh=1, extra=()):
        self.work, self.log = pathlib.Path(work), pathlib.Path(work) / "service.log"
        self.output = self.work / "output" if output is True else output
        self.address = Address(free_port())
        self.process, self.started = None, 0.0
        self.command = [binary, "serve", "--mint-database", location, "--listen", f"127.0.0.1:{self.address.port}",
                        "--log-level", "info", "--log-format", "json", "--refresh", refresh, *extra]
        if self.output:
            self.command += ["--output", self.output]

    # --- life and death

    def start(self):
        """Starts the process; does not wait for it."""
        self.started = time.monotonic()
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen([str(part) for part in self.command], env=clean_environment(), cwd=self.work,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def expect_alive(self):
        expect(self.alive(), f"the service ended with code {self.process.returncode}: {tail(self.log)}")

    def hangup(self):
        """Asks for a reading of everything."""
        self.process.send_signal(signal.SIGHUP)

    def kill(self):
        if self.alive():
            self.process.kill()
            self.process.wait(10)

    def stop(self):
        """SIGTERM; the exit code must be 0."""
        self.process.terminate()
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"the service did not end within {STOP_SECONDS} s of SIGTERM") from None
        expect(code == 0, f"exit code {code} after SIGTERM: {tail(self.log)}")

    # --- what it answers

    def get(self, path, headers=None, method="GET", timeout=30):
        with contextlib.closing(self.address.connect(timeout)) as connection:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            body = response.read()
            return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)

    def try_get(self, path):
        """None where nobody answers."""
        try:
            return self.get(path)
        except (OSError, http.client.HTTPException):
            return None

    def filter(self, key):
        """The response for (kind, keyset) as an object, or None where it is not served."""
        answer = self.try_get(f"/v1/filter/{key[0]}/{key[1]}")
        return answer.json() if answer and answer.status == 200 else None

    def wait_served(self, key, seconds=START_SECONDS):
        """Until a filter is served; returns the seconds since the start of the process."""
        def served():
            self.expect_alive()
            return self.filter(key)
        wait_until(served, seconds, f"{'/'.join(key)} served", 0.02)
        return round(time.monotonic() - self.started, 3)

    def ready(self):
        answer = self.try_get("/ready")
        return bool(answer) and answer.status == 200

    def metrics(self):
        return self.get("/metrics").body.decode()

    def metric(self, name):
        """The sum over all series; 0 without any."""
        return sum(float(value) for value in re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", self.metrics(), re.M))

    # --- what it logs

    def records(self):
        """The log as objects. A line that is not JSON has the level NONE."""
        for line in filter(str.strip, self.log.read_text(errors="replace").splitlines()):
            try:
                record = json.loads(line)
                expect("message" in record["fields"], "no message")
                yield record["level"], line
            except (ValueError, KeyError, TypeError, AttributeError):
                yield "NONE", line

    def complaints(self):
        """Warnings and errors."""
        return [line for level, line in self.records() if level in ("WARN", "ERROR")]
