"""Runs a package's tests with one mutant after another, those first that are likely to notice, then the quickest."""

import collections
import concurrent.futures
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time

from building import Failure

BANDS = (0.02, 0.2, 2, float("inf"))
"""Tests up to so many seconds each are tried in all binaries, before those that take longer. The last ones are not quick."""

FIRST = 4
"""So many of the tests that noticed other mutants of a file are tried before all others, the last ones first."""

THREADS = 16
"""At most, of a binary whose tests wait rather than compute."""

MEMORY = 8 << 30
"""A mutant may take so many bytes of addresses."""

UNSTABLE = ("-Z", "unstable-options")


class Stage:
    """Some tests of one binary."""

    def __init__(self, binary, directory, tests, threads, seconds):
        self.command = [binary, "--exact", *tests, "--test-threads", str(threads), *UNSTABLE, "--fail-fast"]
        self.binary, self.directory, self.tests = binary, directory, tests
        self.cpu = int(4 * seconds) + 4
        """Seconds of CPU a mutant may take, which stop loops without an end."""
        self.wall = 6 * self.cpu + 60
        """Seconds it may take in all, which stop waiting."""

    def run(self, number):
        """With a mutant: its outcome, and what the tests said."""
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as scratch:
            process = subprocess.Popen(
                self.command, cwd=self.directory, preexec_fn=self.limit, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, env={**os.environ, "MUTANT": str(number), "RUSTC_BOOTSTRAP": "1", "TMPDIR": scratch})
            try:
                said, _ = process.communicate(timeout=self.wall)
            except subprocess.TimeoutExpired:
                said = b""
            finally:
                try:
                    # With whatever it has started.
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                if process.returncode is None:
                    process.communicate()
        return outcome(process.returncode), said.decode(errors="replace")

    def limit(self):
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (self.cpu, self.cpu + 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def outcome(code):
    """By how a process of tests ended."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timed out"
    return "caught" if code else "lived"


class Tests:
    """All tests of a package with its mutants."""

    def __init__(self, schemata, quick=False):
        begun = time.time()
        self.noticed, self.lock = collections.defaultdict(list), threading.Lock()
        """The tests that noticed the last mutants of a file, each as a stage of its own, by the file."""
        self.times = {}
        # Where cargo runs the tests of a package.
        self.directory = schemata.tree / pathlib.Path(schemata.package.root).parents[1]
        bands = [[] for _ in BANDS]
        for name, binary in schemata.binaries().items():
            times, threads = self.measured(name, binary)
            self.times[binary] = times
            for band, tests in zip(bands, split(times)):
                if tests:
                    band.append(Stage(binary, self.directory, tests, threads, sum(times[test] for test in tests)))
        self.lived = "under way" if quick else "lived"
        """What becomes of one that no test notices."""
        self.stages = [stage for band in bands[:-1 if quick else None] for stage in sorted(band, key=lambda stage: stage.cpu)]
        print(f"{schemata.name}: built, and its tests passed, in {time.time() - begun:.0f} s", flush=True)

    def measured(self, name, binary):
        """The seconds of each test of a binary, without a mutant; and how many of them are run at once."""
        cpu, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
        done = subprocess.run([binary, "--test-threads", "1", *UNSTABLE, "--report-time"], cwd=self.directory,
                              env={**os.environ, "RUSTC_BOOTSTRAP": "1"}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"{name} fails without a mutant: {done.stdout[-2000:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
        return times_of(done.stdout), max(1, min(THREADS, round((time.time() - begun) / max(cpu, 0.1))))

    def outcome(self, number, file=None):
        with self.lock:
            first = list(self.noticed[file])
        for stage in [*first, *self.stages]:
            became, said = stage.run(number)
            if became == "lived":
                continue
            if became != "caught":
                return {"outcome": became}
            who = failed(said)
            if who in self.times[stage.binary]:
                self.remember(file, Stage(stage.binary, self.directory, [who], 1, self.times[stage.binary][who]))
            return {"outcome": became, "by": who}
        return {"outcome": self.lived}

    def remember(self, file, stage):
        with self.lock:
            others = [other for other in self.noticed[file] if other.command != stage.command]
            self.noticed[file] = [stage, *others][:FIRST]

    def say(self, number):
        for stage in self.stages:
            became, said = stage.run(number)
            if became != "lived":
                return f"{became}\n{said}"
        return "lived"


def times_of(said):
    """Seconds by a test's name, as the test harness reports them."""
    return {name: float(seconds) for name, seconds in re.findall(r"^test (\S+) .*<([0-9.]+)s>$", said, re.MULTILINE)}


def split(times):
    """The tests of each band, the quickest first."""
    last = 0
    for limit in BANDS:
        yield [test for test, seconds in sorted(times.items(), key=lambda item: item[1]) if last <= seconds < limit]
        last = limit


def failed(said):
    """The first test that failed, or the last words of a process that was ended."""
    first = re.search(r"^test (\S+) .*FAILED", said, re.MULTILINE)
    return first[1] if first else said.strip()[-200:]


def run_all(tests, mutants, results, jobs):
    """Tries `mutants`, after a try without any."""
    without = tests.outcome(0)
    if without["outcome"] != tests.lived:
        raise Failure(f"the tests fail without a mutant: {without}")

    def one(mutant):
        results.add({mutant["name"]: tests.outcome(mutant["number"], mutant["file"])})

    begun = time.time()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done, _ in enumerate(pool.map(one, mutants), 1):
            if done % 50 == 0 or done == len(mutants):
                print(f"{done} of {len(mutants)} mutants in {time.time() - begun:.0f} s", flush=True)
