"""A fuzzer as a process of ours: watched through its log, ended with its whole group, its CPU time counted."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from libfuzzer import Said

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
TICKS = os.sysconf("SC_CLK_TCK")


def environment(llvm):
    """What a fuzzer runs with, as `cargo fuzz run` has it; the symbolizer makes functions of addresses."""
    # Frames on the heap, to see one used after its return, cost a quarter of the time: in safe Rust there is none.
    asan = "detect_odr_violation=0:detect_stack_use_after_return=0"
    ours = {"ASAN_OPTIONS": asan, "RUST_BACKTRACE": "0"}
    symbolizer = symbolizer_of(llvm)
    if symbolizer:
        ours["ASAN_SYMBOLIZER_PATH"] = symbolizer
    return {**os.environ, **ours}


def symbolizer_of(llvm):
    for candidate in (f"/usr/lib/llvm-{llvm}/bin/llvm-symbolizer", shutil.which("llvm-symbolizer")):
        if candidate and pathlib.Path(candidate).exists():
            return candidate
    return None


def die_with_the_campaign():
    """A campaign that is killed leaves no fuzzer behind."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Job:
    """One process. Its output goes to a file and not through a pipe: nobody waits for us, and a killed campaign
    leaves what it said."""

    def __init__(self, what, target, command, log, env, on_poll=None, on_end=None, seconds=None):
        self.what, self.target, self.log = what, target, pathlib.Path(log)
        self.on_poll, self.on_end = on_poll, on_end
        self.said = Said()
        self.started = time.monotonic()
        self.deadline = self.started + seconds if seconds else None
        self.stopped = False
        self.cpu_seconds = 0.0
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            start_new_session=True, preexec_fn=die_with_the_campaign)
        self.reading = open(self.log, "r", encoding="utf-8", errors="replace", newline="\n")

    @property
    def pid(self):
        return self.process.pid

    @property
    def wall_seconds(self):
        return time.monotonic() - self.started

    def poll(self):
        """Reads on; returns whether the process has ended."""
        ended, status, usage = os.wait4(self.pid, os.WNOHANG)
        if ended:
            self.cpu_seconds = usage.ru_utime + usage.ru_stime
        else:
            self.cpu_seconds = max(self.cpu_seconds, cpu_seconds(self.pid))
        self.said.read(self.reading.read())
        if self.on_poll:
            self.on_poll(self)
        if ended:
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.said.end()
            self.reading.close()
            return True
        if self.deadline and time.monotonic() > self.deadline:
            self.kill()
        return False

    def stop(self):
        """Asks it to end; it then says its figures."""
        self.stopped = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGINT)
        self.deadline = time.monotonic() + 10

    def kill(self):
        self.stopped = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    @property
    def code(self):
        return self.process.returncode


def cpu_seconds(pid):
    """User and system time so far of a process that still runs."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    # utime, stime and those of children that were waited for.
    return sum(int(field) for field in fields[11:15]) / TICKS


def end_left_over(pids, folder):
    """Ends what a killed campaign left: only processes of these groups that run a binary of this folder."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            group = int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[2])
            if group in pids and str(folder) in (entry / "cmdline").read_text(encoding="utf-8", errors="replace"):
                os.kill(int(entry.name), signal.SIGKILL)


def run_bounded(command, env, seconds):
    """Runs a program to its end: its exit code, what it said, its CPU seconds. Past the time its whole group is ended,
    and the code is None."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   start_new_session=True, preexec_fn=die_with_the_campaign)
        deadline, late = time.monotonic() + seconds, False
        try:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                if time.monotonic() > deadline and not late:
                    late = True
                    os.killpg(process.pid, signal.SIGKILL)
                time.sleep(0.02)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        _, status, usage = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode(errors="replace")
    return None if late else process.returncode, said, usage.ru_utime + usage.ru_stime
