"""What libFuzzer is told, and what its lines say."""

import configparser
import re

# Exit codes that the fuzzers have by default; a crash that a sanitizer ends has one of the sanitizer's own.
TIMEOUT_EXIT, OUT_OF_MEMORY_EXIT, INTERRUPTED_EXIT = 70, 71, 72

# What is said where `fuzz/options` says nothing. A case takes milliseconds: seconds are a fault of the library.
USUAL_FLAGS = {"timeout": "10", "rss_limit_mb": "2048", "report_slow_units": "2", "print_funcs": "0"}

# Kinds of what is found, by the beginning of the file that libFuzzer writes.
KINDS = {"crash": "crash", "timeout": "timeout", "oom": "out of memory", "leak": "leak", "slow-unit": "slow unit"}

PROGRESS = re.compile(
    r"^#(?P<runs>\d+)\t(?P<event>\w+)\s+(?:cov: (?P<edges>\d+) )?(?:ft: (?P<features>\d+) )?"
    r"(?:corp: (?P<files>\d+)(?:/\d+(?:b|Kb|Mb))? )?.*exec/s: \d+ rss: (?P<rss>\d+)Mb")
STATISTIC = re.compile(r"^stat::(\w+):\s+(\d+)$")
ARTIFACT = re.compile(r"Test unit written to (?P<path>.*/?(?P<kind>crash|timeout|oom|leak|slow-unit)-[0-9a-f]{40})$")
PANIC = re.compile(r"^thread '.*'(?: \(\d+\))? panicked at (?P<place>.+:\d+:\d+):$")
SUMMARY = re.compile(r"^SUMMARY: (?P<text>.*)$")
FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ (?:in )?(?P<function>.+?)(?: (?:/|\(|<)\S.*)?$")
SEED = re.compile(r"^INFO: Seed: (\d+)$")

# Frames of what carries the case to the library, and of what reports: equal in all stacks.
MACHINERY = re.compile(
    r"^(?:__?asan|__?sanitizer|__?interceptor|fuzzer::|std::|core::|alloc::|<?core::|<?std::|<?alloc::|__rust|rust_|_rust"
    r"|__libc|libc|abort|raise|gsignal|pthread|_start|main$|LLVMFuzzer|libfuzzer_sys|MallocHook|operator new|malloc|calloc"
    r"|realloc|free|mem(?:cpy|move|set|cmp)|__mem|gettimeofday)|::rust_fuzzer_test_input|^__?[a-z_]*_test_input")


class Options:
    """`fuzz/options/<target>.options`: flags of libFuzzer, as ClusterFuzz reads them, and what only we read."""

    def __init__(self, text=""):
        parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
        parser.optionxform = str
        parser.read_string(text)
        self.flags = dict(parser["libfuzzer"]) if parser.has_section("libfuzzer") else {}
        # The dictionary is found by its name; a farm's copy of it lies elsewhere.
        self.flags.pop("dict", None)
        ours = parser["nutfilter"] if parser.has_section("nutfilter") else {}
        self.small = int(ours.get("small", 64))
        self.weight = float(ours.get("weight", 1))
        self.floor = int(ours["floor"]) if "floor" in ours else None

    def arguments(self, **others):
        """All flags as arguments; `others` win over the file, and the file over what is usual."""
        flags = {**USUAL_FLAGS, **self.flags, **{name: str(value) for name, value in others.items()}}
        return [f"-{name}={value}" for name, value in flags.items()]


class Said:
    """What a fuzzer has said so far. Lines come as they are written: the last may be cut anywhere."""

    def __init__(self):
        self.rest = ""
        self.runs = 0
        self.edges = self.features = self.files = None
        # With what the corpus had: more than that was found.
        self.edges_at_first = self.features_at_first = None
        self.peak_rss_mb = 0
        self.slowest_unit_seconds = 0
        self.statistics = {}
        self.artifacts = []  # (kind, path)
        self.panic = self.panic_message = self.summary = None
        self.frames = []
        self.seed = None
        self.message_follows = False

    def read(self, text):
        """Takes the next piece, and keeps what ends without a newline for the next."""
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            self.line(line)

    def end(self):
        """The process has ended. Half a line of progress is not taken: half a number is another number."""
        self.rest = ""

    def line(self, line):
        if self.message_follows:
            self.panic_message, self.message_follows = line, False
        elif found := PROGRESS.match(line):
            self.progress(found)
        elif found := STATISTIC.match(line):
            self.statistics[found[1]] = int(found[2])
            self.runs = max(self.runs, self.statistics.get("number_of_executed_units", 0))
            self.peak_rss_mb = max(self.peak_rss_mb, self.statistics.get("peak_rss_mb", 0))
            self.slowest_unit_seconds = max(self.slowest_unit_seconds, self.statistics.get("slowest_unit_time_sec", 0))
        elif found := ARTIFACT.search(line):
            self.artifacts.append((KINDS[found["kind"]], found["path"]))
        elif found := PANIC.match(line):
            # The first one is the cause; others come of unwinding.
            if self.panic is None:
                self.panic, self.message_follows = found["place"], True
        elif found := SUMMARY.match(line):
            self.summary = found["text"]
        elif found := FRAME.match(line):
            self.frames.append(found["function"])
        elif found := SEED.match(line):
            self.seed = int(found[1])

    def progress(self, found):
        self.runs = max(self.runs, int(found["runs"]))
        self.peak_rss_mb = max(self.peak_rss_mb, int(found["rss"]))
        for name in ("edges", "features", "files"):
            if found[name] is not None:
                setattr(self, name, int(found[name]))
        # Until all of the corpus is read, counts grow by what is known already.
        if found["event"] == "INITED":
            self.edges_at_first, self.features_at_first = self.edges or 0, self.features or 0

    def signature(self, kind):
        """What tells one fault from another: where it panicked and with what words, else its nearest three functions."""
        if self.panic:
            return f"{kind}: {self.panic}: {without_numbers(self.panic_message or '')}"
        ours = [without_hash(frame) for frame in self.frames if not MACHINERY.search(frame)][:3]
        if ours:
            return f"{kind}: " + " < ".join(ours)
        return f"{kind}: {without_numbers(self.summary or 'nothing said')}"

    def story(self):
        """A line for people."""
        if self.panic:
            return f"panicked at {self.panic}: {self.panic_message or ''}"[:500]
        return (self.summary or "ended without a word")[:500]


def without_numbers(text):
    return re.sub(r"\d+", "#", text)[:200]


def without_hash(function):
    return re.sub(r"::h[0-9a-f]{16}$", "", function)
