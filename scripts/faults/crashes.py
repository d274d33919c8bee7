"""Killed at any moment."""

import os
import time

from bench import SPENT, expect


def kill_9(bench):
    """kill -9 under load | restarts, and serves the old or the new snapshot, exact"""
    bench.sqlite()
    kills, slowest, served = (12 if bench.quick else 60), 0.0, 0
    service = bench.ready()
    for i in range(kills):
        with bench.being_written():
            # Between refreshes, in the middle of them, and before the first one is over.
            end = time.monotonic() + bench.dice.random() * 0.4
            while time.monotonic() < end:
                service.hangup()
                answer = service.try_request(SPENT, "HEAD", {"Accept": "application/octet-stream"})
                if answer and answer.status == 200:
                    served = max(served, int(answer.headers["nutfilter-n"]))
                time.sleep(0.01)
            service.kill()
            service = bench.service()
            slowest = max(slowest, service.wait_ready(30))
            n = bench.expect_exact_prefix(service)
            expect(n >= served, f"after kill {i + 1} there are {n} notes, and {served} were served before")
            expect(not service.said("", "ERROR"), f"errors after kill {i + 1}: {service.said('', 'ERROR')[:1]}")
    bench.expect_exact(service)
    expect(service.metric("nutfilter_data_discarded_total") == 0, "something in the data directory was thrown away")
    return f"{kills} kills; {len(bench.notes)} notes; first answer after {slowest * 1000:.0f} ms at the latest"


def sigterm_under_load(bench):
    """SIGTERM under load | ends in order, exit code 0, and the next one is exact"""
    bench.sqlite()
    slowest = 0.0
    for _ in range(3):
        service = bench.ready()
        with bench.being_written():
            service.hangup()
            time.sleep(bench.dice.random() * 0.2)
            start = time.monotonic()
            code = service.stop()
            slowest = max(slowest, time.monotonic() - start)
            expect(code == 0, f"exit code {code}")
    service = bench.ready()
    bench.expect_exact(service)
    left = [name for name in os.listdir(bench.work / "data") if name.startswith(".tmp")]
    expect(not left, f"left behind: {left}")
    return f"ended within {slowest * 1000:.0f} ms"


ROWS = [kill_9, sigterm_under_load]
