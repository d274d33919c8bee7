"""Clients that are slow, and clients that ask while a filter is rebuilt."""

import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import threading
import time

from bench import ISSUED, RAW, SPENT, Skipped, check_whole, expect, points

CLIENTS = 2000
LARGE = 1_000_000  # notes: a body of 3.5 MB
CUT_WITHIN = 13  # seconds: ten are promised, from the moment at which the last client came


def slow_clients(bench):
    """2,000 slow clients | cut in 10 s; others' p99 at most doubles"""
    if shutil.which("wrk") is None:
        raise Skipped("there is no wrk here (Debian's package is `wrk`)")
    enough_descriptors()
    bench.sqlite(notes=100_000 if bench.quick else LARGE)
    bench.mint.add_issued(points(10_000, 3))
    service = bench.ready(refresh=3600)
    limit = f"--pid={service.pid}"
    subprocess.run(["prlimit", limit, "--nofile=8192:8192"], check=True)
    before = [p99(service) for _ in range(3)]
    idle_memory = service.memory()["VmRSS"]
    slow = SlowClients(service.port)
    with slow:
        during = [p99(service) for _ in range(3)]
        memory = service.memory()["VmRSS"]
        cut = slow.wait_until_cut(CUT_WITHIN + 20)
    after = [p99(service) for _ in range(3)]
    service.expect_alive()
    answer = service.whole(SPENT)
    expect(answer.status == 200, "not served any more")
    said = (f"p99 {statistics.median(before):.1f} ms before, {statistics.median(during):.1f} ms beside them, "
            f"{statistics.median(after):.1f} ms after; all cut {max(cut.values()):.1f} s after they came "
            f"({', '.join(f'{kind} {seconds:.1f}' for kind, seconds in cut.items())}); "
            f"{(memory - idle_memory) / 1024:.0f} MiB for {CLIENTS} clients")
    expect(not slow.left, f"{len(slow.left)} of {CLIENTS} clients were not cut: {slow.left_by_kind()}; {said}")
    expect(max(cut.values()) <= CUT_WITHIN, f"cut late: {said}")
    # One of the three may have met somebody else's work on this machine.
    expect(min(during) <= 2 * max(before), f"p99 more than doubled: {said}")
    return said


def enough_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < CLIENTS + 500:
        raise Skipped(f"only {hard} descriptors a process")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, CLIENTS + 500), hard))


def p99(service):
    """Of others who ask for 304s and a body of 35 KB, in ms."""
    done = subprocess.run(["wrk", "-t", "1", "-c", "8", "-d", "1s", "--latency", "--timeout", "5s",
                           f"http://127.0.0.1:{service.port}{ISSUED}"], capture_output=True, text=True, check=True).stdout
    expect("Socket errors" not in done and "Non-2xx" not in done, f"others saw errors:\n{done}")
    value, unit = re.search(r"^\s+99%\s+([\d.]+)(us|ms|s)$", done, re.M).groups()
    return float(value) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


class SlowClients:
    """A third sends its head a byte a second, a third takes a large body at 100 bytes a second, a third says nothing
    (half of it after a first good answer)."""

    KINDS = ("slow head", "slow reader", "idle")

    def __init__(self, port):
        self.port = port
        self.ports, self.left, self.cut = {}, {}, {kind: 0.0 for kind in self.KINDS}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.drip, daemon=True)

    def __enter__(self):
        for i in range(CLIENTS):
            kind = self.KINDS[i % 3]
            client = socket.socket()
            if kind == "slow reader":
                # Small, or the system would take the body in our place.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", self.port))
            if kind == "slow reader":
                client.sendall(f"GET {SPENT} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            elif kind == "slow head":
                client.sendall(f"GET {SPENT} HTTP/1.1\r\nHost: here\r\nX: ".encode())
            elif i % 2:
                client.sendall(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
                client.settimeout(10)
                client.recv(4096)
            client.setblocking(False)
            self.left[client] = kind
            self.ports[client] = client.getsockname()[1]
        self.came = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for client in self.left:
            client.close()

    def drip(self):
        """Once a second a byte here and a hundred there; whoever is cut is noted with the time."""
        while not self.ended.wait(1.0) and self.left:
            for client, kind in list(self.left.items()):
                try:
                    if kind == "slow head":
                        client.send(b"x")
                    # All of an answer to a slow head, such as 408, is read: what follows is the end.
                    while True:
                        got = client.recv(100)
                        if not got:
                            raise ConnectionError
                        if kind == "slow reader":
                            break
                except BlockingIOError:
                    continue
                except OSError:
                    if self.left.pop(client, None):
                        self.cut[kind] = time.monotonic() - self.came
                        client.close()

    def wait_until_cut(self, seconds):
        end = time.monotonic() + seconds
        while self.left and time.monotonic() < end:
            # Those who read slowly would find the end behind what is still in the system's buffers. What counts is
            # whether the service holds on to them.
            held = held_by_server(self.port)
            for client, kind in list(self.left.items()):
                if kind == "slow reader" and self.ports[client] not in held:
                    self.cut[kind] = time.monotonic() - self.came
                    self.left.pop(client, None)
                    client.close()
            time.sleep(0.2)
        return dict(self.cut)

    def left_by_kind(self):
        kinds = list(self.left.values())
        return {kind: kinds.count(kind) for kind in self.KINDS}


def held_by_server(port):
    """The ports of the clients whose connections a server at `port` of this machine has not closed."""
    held = set()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        if int(local.split(":")[1], 16) == port and state in ("01", "08"):  # established, closed by the client alone
            held.add(int(remote.split(":")[1], 16))
    return held


def requests_during_a_rebuild(bench):
    """requests during a rebuild | no errors; every body is exactly one version"""
    bench.sqlite()
    service = bench.ready(refresh=3600)
    forms = [{}, RAW, {"Accept-Encoding": "gzip"}, {"Accept-Encoding": "zstd"}, {"Range": "bytes=1000-1999"}]
    errors, versions, counts = [], set(), [0] * len(forms)
    ended = threading.Event()

    def ask(which):
        newest = 0
        try:
            while not ended.is_set():
                answer = service.request(SPENT, headers=forms[which])
                if which == 4:
                    expect(answer.status == 206 and len(answer.body) == 1000, f"a range: {answer.status}")
                else:
                    expect(answer.status == 200, f"status {answer.status}")
                    check_whole(answer)
                if which == 1:
                    n = int(answer.headers["nutfilter-n"])
                    expect(n >= newest, f"{n} notes after {newest}")
                    newest = n
                    versions.add((n, answer.body))
                counts[which] += 1
        except Exception as error:  # raised where it is seen
            errors.append(error)
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(forms))]
    for thread in threads:
        thread.start()
    with bench.being_written():
        end = time.monotonic() + (4 if bench.quick else 15)
        while time.monotonic() < end and not errors:
            service.hangup()
            time.sleep(0.02)
    ended.set()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    for n, body in sorted(versions)[::max(1, len(versions) // 40)]:
        expect(body == bench.filter_of(bench.notes[:n]), f"the filter of {n} notes is not that of the first {n}")
    service.hangup()
    bench.expect_exact(service)
    return f"{sum(counts)} answers, {len(versions)} versions seen"


ROWS = [slow_clients, requests_during_a_rebuild]
