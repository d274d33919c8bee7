"""Ten million notes: the first build, increments, a restart. And requests per second.

    pytest e2e -m load --record e2e/records/load.jsonl -s
"""

import contextlib
import json
import os
import pathlib
import platform
import re
import socket
import statistics
import subprocess
import threading
import time

import pytest

from e2e.scenario import need
from e2e.service_under_test import Service, expect, wait_until

pytestmark = pytest.mark.load
BUILD_SECONDS = 1800
WHOLE = "nutfilter_whole_readings_total"
# Promised: 8 bytes per note, 16 more while everything is read, and the bodies (JSON 3.5, gzip 2.7).
MEMORY_PER_NOTE = 32
FORMS = [{}, {"Accept-Encoding": "gzip"}]


@pytest.fixture
def keep(record):
    """A function that prints a row and records it with the machine."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    cpu = model.group(1) if model else platform.machine()

    def write(row):
        print(json.dumps(row))
        record(**row, machine={"cpu": cpu, "cores": os.cpu_count(), "load_average": os.getloadavg()[0]})
    return write


def reset_peak(pid):
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def memory(pid, what):
    """MiB of memory: VmHWM, the most since then, or RssAnon, what is not of files now."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return round(int(re.search(rf"^{what}:\s+(\d+) kB", status, re.M)[1]) / 1024, 1)


@pytest.mark.parametrize("output", [True, None], ids=["files", "memory"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("mint_type", ["cdk", "nutshell"])
def test_ten_million_notes(mint_type, kind, output, binary, make_mint, work, request, keep):
    notes, key = request.config.getoption("--notes") or 10_000_000, ("spent", "00deadbeefc0ffee")
    mint = make_mint(mint_type, kind)
    # A reading of an empty table is a whole one.
    mint.fill(notes, issued=1)
    service = Service(binary, mint.location, work, output=output, refresh=1)
    row = {"what": "ten million", "mint": mint.name, "bodies_in": "files" if output else "memory", "notes": notes}
    try:
        service.start()
        pid = service.process.pid
        row["first_build_s"] = service.wait_served(key, BUILD_SECONDS)
        row["first_memory_mib"] = memory(pid, "VmHWM")
        wait_until(service.ready, 60, "the first refresh is over")
        bodies = sum(int(service.get(f"/v1/filter/spent/{key[1]}", form, "HEAD").headers["content-length"])
                     for form in FORMS)
        row["bodies_mib"], row["increments"] = round(bodies / 2**20, 1), []
        for _ in range(3):
            whole, before = service.metric(WHOLE), service.filter(key)["n"]
            spent = service.metric("nutfilter_refresh_duration_seconds_total")
            mint.fill(10_000)
            reset_peak(pid)
            served = wait_until(lambda n=before: service.filter(key)["n"] == n + 10_000,
                                BUILD_SECONDS, "10,000 more notes served", 0.05)
            expect(service.metric(WHOLE) == whole, "everything was read again for 10,000 new notes")
            took = round(service.metric("nutfilter_refresh_duration_seconds_total") - spent, 3)
            row["increments"].append({"seconds": took, "served_s": served, "memory_mib": memory(pid, "VmHWM")})
        row["memory_mib"] = memory(pid, "RssAnon")
        content = service.filter(key)["content"]
        service.kill()
        service.start()
        row["after_kill_s"] = service.wait_served(key, BUILD_SECONDS)
        assert service.filter(key)["content"] == content, "another filter after a restart"
        if output:
            promised = MEMORY_PER_NOTE * notes / 2**20 + 64
            assert max(row["first_memory_mib"], *(each["memory_mib"] for each in row["increments"])) < promised
    finally:
        service.kill()
    keep(row)


def wrk(port, path, tag, seconds=2):
    """Requests per second and latencies with 16 connections."""
    command = ["wrk", "-t", "1", "-c", "16", "-d", f"{seconds}s", "--timeout", "10s", "--latency",
               f"http://127.0.0.1:{port}{path}", *(["-H", f"If-None-Match: {tag}"] if tag else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expect("Socket errors" not in done and "Non-2xx" not in done, f"wrk saw errors:\n{done}")
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    latency = {share: float(value) * units[unit]
               for share, value, unit in re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)$", done, re.MULTILINE)}
    return {"requests_per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", done).group(1)),
            "p50_ms": latency["50"], "p99_ms": latency["99"]}


def middle(runs):
    return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}


@contextlib.contextmanager
def rebuilding(mint, service):
    """1,000 new notes and SIGHUP every second."""
    ended = threading.Event()

    def work():
        while not ended.wait(1):
            mint.fill(1000)
            service.hangup()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_requests_per_second(binary, make_mint, work, request, keep):
    need("wrk")
    mint = make_mint("cdk", "sqlite")
    mint.fill(request.config.getoption("--notes") or 1_000_000, 10_000)
    spent, issued = (f"/v1/filter/{kind}/{mint.keysets[0]}" for kind in ("spent", "issued"))
    service = Service(binary, mint.location, work, refresh=3600)
    service.start()
    try:
        service.wait_served(("spent", mint.keysets[0]), BUILD_SECONDS)
        service.wait_served(("issued", mint.keysets[0]))
        tag = service.get(issued, method="HEAD").headers["etag"]
        cases = [("304", issued, tag), ("small body", issued, None), ("large body", spent, None)]
        for busy in (False, True):
            with rebuilding(mint, service) if busy else contextlib.nullcontext():
                for name, path, etag in cases:
                    runs = [wrk(service.address.port, path, etag) for _ in range(3)]
                    keep({"what": "requests", "answer": name, "rebuilding": busy, "service": middle(runs)})
        service.stop()
    finally:
        service.kill()


@pytest.mark.parametrize("output", [True, None])
def test_readers_that_take_nothing_cost_32_kib_each(output, binary, make_mint, work):
    mint, readers = make_mint("cdk", "sqlite"), 1_000
    mint.fill(100_000)
    service = Service(binary, mint.location, work, refresh=3600, output=output)
    service.start()
    try:
        service.wait_served(("spent", mint.keysets[0]))
        wait_until(service.ready, 60, "ready")
        time.sleep(2)
        before, sockets = service.metric("process_resident_memory_bytes"), []
        for _ in range(readers):
            reader = socket.socket()
            sockets.append(reader)
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", service.address.port))
            reader.sendall(f"GET /v1/filter/spent/{mint.keysets[0]} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        time.sleep(2)
        taken = service.metric("process_resident_memory_bytes") - before
        assert taken < readers * 32 * 1024, taken
        for reader in sockets:
            reader.close()
        wait_until(lambda: service.metric("process_resident_memory_bytes") - before < taken / 2, 30, "memory is given back")
    finally:
        service.kill()
