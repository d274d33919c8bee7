"""A clock that is set."""

import pathlib
import time

from bench import RAW, SPENT, Skipped, expect, wait_until

HOUR = 3600


def clock_steps(bench):
    """clock an hour forward and back | no filter stays dated after the clock, also after a restart; refreshes go on"""
    library = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
    if library is None:
        raise Skipped("there is no libfaketime here (Debian's package is `faketime`)")
    bench.sqlite()
    clock = bench.work / "clock"
    # The steady clock is left alone, as it is when somebody sets the other.
    faked = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
             "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def follows(service, step):
        """The filter is dated within the last seconds of the service's own clock; returns how long that took."""
        def is_dated_right():
            answer = service.try_request(SPENT, "HEAD", RAW)
            if not answer or answer.status != 200:
                return False
            ahead = int(answer.headers["nutfilter-timestamp"]) - time.time() - step
            return -10 < ahead <= 0
        return wait_until(is_dated_right, 30, f"a filter dated by a clock that is {step:+d} s off")

    clock.write_text("+0\n")
    service = bench.ready(environment=faked)
    took = []
    for step in (0, HOUR, -HOUR, 0, 2 * HOUR, 0):
        clock.write_text(f"{step:+d}\n")
        bench.add(10)
        took.append(follows(service, step))
        bench.expect_exact(service)
    expect(service.metric("nutfilter_clock_behind_seconds") > HOUR, "the metric does not say that the clock was set back")
    expect(service.health() == "ok", f"health says {service.health()}")
    service.kill()
    # The data directory is dated after the clock now.
    clock.write_text(f"{-HOUR:+d}\n")
    again = bench.ready(environment=faked)
    bench.add(10)
    follows(again, -HOUR)
    bench.expect_exact(again)
    return "right after " + ", ".join(f"{seconds:.1f}" for seconds in took) + " s"


ROWS = [clock_steps]
