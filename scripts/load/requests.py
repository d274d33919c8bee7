#!/usr/bin/env python3
"""Requests a second and latency by `wrk`, beside a bare hyper server with the same bodies.

    scripts/load/requests.py --binary target/release/nutfilter --bare target/release/examples/bare_server --work DIR

Both servers run all the time, and are asked in turns: 304s, a body of 35 KB (10,000 notes) and one of 3.5 MB (a million
notes). Then the same while the service rebuilds the large filter every second, of notes that are really new; the bare
server is asked at that time too, as it then has the same competition for the processors. A checker takes whole bodies
meanwhile and holds their SHA-256 against their tags. An error in any answer ends the run.
"""

import argparse
import contextlib
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time

from databases import SqliteMint, points
from running import (ISSUED, SPENT, Failure, MemoryPeak, Service, check_whole, expect, machine, processor_seconds,
                     wait_until)

SMALL_NOTES, LARGE_NOTES, NEW_NOTES = 10_000, 1_000_000, 1_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--bare", type=pathlib.Path, required=True, help="the example `bare_server`")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, help="append rows here, a JSON object a line")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--memory", action="store_true", help="without a data directory")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)

    mint = SqliteMint(arguments.work / "mint.sqlite", "cdk")
    mint.fill(LARGE_NOTES, 1)
    mint.add_issued(points(SMALL_NOTES, 2))
    data = None if arguments.memory else arguments.work / "data"
    with Service(arguments.binary, mint.location, arguments.work / "log", data) as service:
        service.wait_ready()
        service.wait_said("refreshed", 60)
        with Bare(arguments.bare, [service.whole(ISSUED).body, service.whole(SPENT).body], arguments.work) as bare:
            for rebuilding in (False, True):
                for row in measure(arguments, mint, service, bare, rebuilding):
                    line = json.dumps(row)
                    print(line, flush=True)
                    if arguments.output:
                        with open(arguments.output, "a", encoding="utf-8") as output:
                            output.write(line + "\n")
    mint.close()
    shutil.rmtree(arguments.work, ignore_errors=True)


def measure(arguments, mint, service, bare, rebuilding):
    cases = [("304", ISSUED, "/0", service.request(ISSUED, "HEAD").etag), ("35 KB", ISSUED, "/0", None),
             ("3.5 MB", SPENT, "/1", None)]
    for name, path, bare_path, tag in cases:
        ours, theirs = [], []
        busy = processor_seconds()
        work = Rebuilding(mint, service) if rebuilding else contextlib.nullcontext()
        with work as rebuilds, MemoryPeak(service, 0.05) as memory:
            for _ in range(arguments.rounds):
                ours.append(wrk(arguments, service.port, path, tag))
                theirs.append(wrk(arguments, bare.port, bare_path, tag))
        total, idle = (after - then for after, then in zip(processor_seconds(), busy))
        row = {"body": name, "rebuilding": rebuilding, "sets_in": "memory" if arguments.memory else "disk",
               "connections": arguments.connections, "service": middle(ours), "bare": middle(theirs),
               "ratio_of_requests": round(middle(ours)["requests_a_second"] / middle(theirs)["requests_a_second"], 3),
               "memory_mib": memory.mib(), "machine": machine(),
               "processors_busy": round((total - idle) / total * machine()["cores"], 2)}
        if rebuilding:
            row["rebuilds"], row["bodies_checked"], row["versions_seen"] = (
                rebuilds.rebuilt, rebuilds.checked, len(rebuilds.versions))
        yield row


def middle(runs):
    """The median of each figure."""
    return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}


def wrk(arguments, port, path, tag):
    command = ["wrk", "-t", "1", "-c", str(arguments.connections), "-d", f"{arguments.seconds}s", "--timeout", "10s",
               "--latency", f"http://127.0.0.1:{port}{path}"]
    if tag:
        command += ["-H", f"If-None-Match: {tag}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expect("Socket errors" not in done and "Non-2xx" not in done, f"wrk saw errors:\n{done}")
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    latency = {share: float(value) * units[unit]
               for share, value, unit in re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)$", done, re.M)}
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", done).group(1))
    return {"requests_a_second": rate, "p50_ms": latency["50"], "p99_ms": latency["99"]}


class Bare:
    """The peer, with bodies that were fetched from the service."""

    def __init__(self, binary, bodies, work):
        files = []
        for i, body in enumerate(bodies):
            files.append(work / f"body-{i}")
            files[-1].write_bytes(body)
        self.process = subprocess.Popen([binary, "127.0.0.1:0", *files], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


class Rebuilding:
    """New notes and SIGHUP every second, and whole bodies looked at meanwhile."""

    def __init__(self, mint, service):
        self.mint, self.service = mint, service
        self.ended = threading.Event()
        self.rebuilt = self.checked = 0
        self.versions, self.error = set(), None
        self.threads = [threading.Thread(target=self.guard, args=(work,)) for work in (self.rebuild, self.check)]

    def __enter__(self):
        self.before = self.service.metric("nutfilter_refreshes_total")
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        if self.error:
            raise self.error
        self.rebuilt = int(self.service.metric("nutfilter_refreshes_total") - self.before)
        # So that the next measurement begins in quiet.
        wait_until(lambda: self.service.n() == self.mint.count(), 60, "the last notes served")
        expect(self.service.metric("nutfilter_full_rereads_total") == 0, "everything was read again")

    def guard(self, work):
        try:
            while not self.ended.is_set():
                work()
        except Exception as error:  # to be raised where it is seen
            self.error = error

    def rebuild(self):
        self.mint.add_spent(points(NEW_NOTES, f"rebuild {time.time_ns()}"))
        self.service.hangup()
        self.ended.wait(1)

    def check(self):
        for path in (SPENT, ISSUED):
            answer = self.service.request(path)
            expect(answer.status == 200, f"{path} answered {answer.status}")
            check_whole(answer)
            self.versions.add(answer.etag)
            self.checked += 1
        self.ended.wait(0.1)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"requests: {failure}")
