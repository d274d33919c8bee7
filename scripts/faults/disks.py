"""A data directory that takes nothing, or not for good."""

import contextlib
import errno
import os
import subprocess
import time

from bench import SPENT, Skipped, expect, system_calls, tmpfs

COMPLAINTS = ("filter not renewed", "refresh failed")


def complained(service):
    return [record for words in COMPLAINTS for record in service.said(words, "ERROR")]


def fails_and_goes_on(bench, service, what):
    """Notes come, the disk does not take them, and the last good filter is served and the trouble told."""
    before = service.whole()
    failed = service.metric("nutfilter_refreshes_total") - good(service)
    bench.add(5000)
    service.hangup()
    end = time.monotonic() + 20
    while not complained(service):
        expect(time.monotonic() < end, f"nothing in the log of {what}")
        time.sleep(0.05)
    bench.expect_last_good(service, before)
    words = complained(service)[-1]["fields"]
    expect(service.health() == "degraded", f"health says {service.health()}")
    expect(service.metric("nutfilter_refreshes_total") - good(service) > failed, "no metric of a failed refresh")
    return words.get("error", "")


def good(service):
    text = service.request("/metrics").body.decode()
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.startswith('nutfilter_refreshes_total{result="ok"}'))


def recovers(bench, service):
    """By itself, and what is on the disk then is as good as what is served."""
    took = bench.expect_exact(service)
    end = time.monotonic() + 10
    while service.health() != "ok":
        expect(time.monotonic() < end, "still not well")
        time.sleep(0.05)
    tag = service.etag()
    service.kill()
    again = bench.service(data=bench.data)
    again.wait_ready(30)
    bench.expect_exact(again)
    expect(again.metric("nutfilter_data_discarded_total") == 0, "something was thrown away after it")
    expect(not again.said("rereading the full database", "WARN"), "all was read again after it")
    return took, tag


def disk_full(bench):
    """disk full | the last good filter goes on, log and metric say so, recovers unaided"""
    bench.sqlite()
    with tmpfs(bench.work / "small", 6) as bench.data, bench.stack:
        service = bench.ready(data=bench.data)
        bench.add(100)
        bench.expect_exact(service)
        ballast = bench.data / "ballast"
        fill(ballast, 0)
        said = fails_and_goes_on(bench, service, "a full disk")
        expect("o space left" in said or "storage full" in said.lower(), f"the log does not say why: {said}")
        # Some room, and not enough: it may fail at any later write.
        for free in (4096, 65536, 200_000):
            fill(ballast, free)
            service.hangup()
            time.sleep(0.3)
            service.whole()
        ballast.unlink()
        took, _ = recovers(bench, service)
    return f"recovered {took:.1f} s after there was room; said: {said}"


def disk_full_at_the_start(bench):
    """disk full at the first build | not ready, says so, and builds once there is room"""
    bench.sqlite()
    with tmpfs(bench.work / "small", 6) as bench.data, bench.stack:
        ballast = bench.data / "ballast"
        fill(ballast, 8192)
        service = bench.service(data=bench.data)
        end = time.monotonic() + 20
        while not complained(service):
            service.expect_alive()
            expect(time.monotonic() < end, "nothing in the log")
            time.sleep(0.05)
        expect(service.request(SPENT).status == 503, "something is served")
        ballast.unlink()
        took, _ = recovers(bench, service)
    return f"served {took:.1f} s after there was room"


def fill(ballast, free):
    """Leaves that many bytes of room."""
    ballast.unlink(missing_ok=True)
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            expect(error.errno == errno.ENOSPC, str(error))
        file.truncate(max(file.tell() - free, 0))


def fsync_errors(bench):
    """fsync fails (EIO) | the last good filter goes on, log and metric say so, recovers unaided"""
    bench.sqlite()
    bench.data = bench.work / "data"
    service = bench.ready()
    said = []
    # Every one; and then only a late one, when most of a refresh is done.
    for when in ("when=1+", "when=2+", "when=4+", "when=6+"):
        with system_calls(service, f"fsync,fdatasync:error=EIO:{when}"):
            told = len(complained(service))
            before = service.whole()
            bench.add(1000)
            service.hangup()
            end = time.monotonic() + 3
            while len(complained(service)) == told and time.monotonic() < end:
                time.sleep(0.05)
            failed = len(complained(service)) > told
            if failed:
                bench.expect_last_good(service, before, 0.3)
                said.append(complained(service)[-1]["fields"].get("error", ""))
        bench.expect_exact(service)
    expect(len(said) >= 2, f"only {len(said)} of 4 injections were noticed")
    took, _ = recovers(bench, service)
    return f"{len(said)} of 4 sets of injected errors hit a refresh; recovered; said: {said[0]}"


def write_errors(bench):
    """write and rename fail (EIO) | as above"""
    bench.sqlite()
    bench.data = bench.work / "data"
    service = bench.ready()
    said = []
    for injection in ("rename,renameat,renameat2:error=EIO", "pwrite64,ftruncate:error=EIO",
                      "openat:error=EMFILE:when=3+2", "mmap:error=ENOMEM:when=2+3"):
        with system_calls(service, injection):
            told = len(complained(service))
            bench.add(1000)
            service.hangup()
            time.sleep(1)
            service.whole()
            if len(complained(service)) > told:
                said.append(injection.split(":", 1)[0])
        bench.expect_exact(service)
    recovers(bench, service)
    return f"exact after each; refreshes failed by {', '.join(said) or 'none'}"


def read_only_directory(bench):
    """data directory read-only | the last good filter goes on, log and metric say so, recovers unaided"""
    if os.getuid() != 0:
        raise Skipped("only root can mount")
    bench.sqlite()
    bench.data = bench.work / "data"
    service = bench.ready()
    with read_only(bench.data):
        said = fails_and_goes_on(bench, service, "a read-only directory")
        expect("ead-only" in said, f"the log does not say why: {said}")
    took, _ = recovers(bench, service)
    return f"recovered {took:.1f} s later; said: {said}"


@contextlib.contextmanager
def read_only(directory):
    """As if the disk had been mounted anew, read-only. (Root does not care for permissions.)"""
    if subprocess.run(["mount", "--bind", directory, directory], capture_output=True, check=False).returncode != 0:
        raise Skipped("nothing can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", directory], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


ROWS = [disk_full, disk_full_at_the_start, fsync_errors, write_errors, read_only_directory]
