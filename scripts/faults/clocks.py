"""A clock that is set."""

import pathlib
import time

from bench import Skipped, expect

HOUR = 3600


def clock_steps(bench):
    """clock an hour forward and back | timestamps never decrease; schedule unaffected"""
    library = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
    if library is None:
        raise Skipped("there is no libfaketime here (Debian's package is `faketime`)")
    bench.sqlite()
    clock = bench.work / "clock"
    clock.write_text("+0\n")
    # The clock that nobody sets is left alone, as it is by whoever sets the other.
    faked = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
             "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    service = bench.ready(environment=faked)
    began, stamps, rates = int(time.time()), [service.timestamp()], []
    expect(abs(stamps[0] - began) < 60, "the clock is wrong before it is set")
    for step in (0, HOUR, -HOUR, 0, 2 * HOUR, 0):
        clock.write_text(f"{step:+d}\n")
        before, start = service.metric("nutfilter_refreshes_total"), time.monotonic()
        while time.monotonic() - start < 3:
            bench.add(10)
            time.sleep(0.3)
            stamps.append(service.timestamp())
        refreshes = service.metric("nutfilter_refreshes_total") - before
        rates.append(int(refreshes))
        # One a second, by a clock of ours.
        expect(1 <= refreshes <= 5, f"{refreshes:.0f} refreshes in 3 s, the clock {step:+d} s off")
    bench.expect_exact(service)
    expect(stamps == sorted(stamps), "a timestamp decreased")
    expect(stamps[-1] - stamps[0] > 2 * HOUR - 60, "the steps were not seen: nothing was tried")
    expect(service.health() == "ok", f"health says {service.health()}")
    last = stamps[-1]
    service.kill()
    # Neither does it after a restart, with the clock two hours behind.
    again = bench.service(environment=faked)
    again.wait_ready(30)
    bench.add(10)
    bench.expect_exact(again)
    expect(again.timestamp() >= last, "the timestamp decreased with a restart")
    return f"refreshes in 3 s each: {rates}, at an interval of 1 s"


ROWS = [clock_steps]
