"""What a process takes, sampled; and whether it takes ever more."""

import contextlib
import itertools
import os
import pathlib
import re
import statistics

WARM_UP = 0.2  # of a life, in which caches fill and the first clients come
WARM_UP_SECONDS = 60  # ... at most
SLOPE_SECONDS = 300  # a shorter life says nothing about memory
SHORT_SECONDS = 20  # ... nor a shorter one about descriptors
LEAST_SECONDS = 30  # of each such time the least counts; of a tenth of it in a shorter life

# What may be more at the end of a life than at its beginning, by the slope. Sockets come and go with the clients.
GROWTH = {"files": 3, "sockets": 12, "threads": 3, "maps": 24}
A_SET = {"files": 2, "maps": 8}  # and for each set more: its directory's lock, its bodies
# With a data directory sets are files, and what grows with the notes is what holds one body while it is made:
# 3.5 bytes of JSON and 2.7 of each coding, and as much again that an allocator keeps.
ANONYMOUS_A_NOTE = 24
ANONYMOUS_SLACK = 8 << 20
# The promise of docs/service-measurements.md: 1.5 times the bodies (raw 2.6, JSON 3.5, gzip and zstd 2.7 each) and
# 64 MiB.
BODIES_A_NOTE = 11.5
PROMISED = 64 << 20
# docs/operating.md: 8 bytes a note, up to three times while sets are merged; bodies are not in the directory's list.
DATA_A_NOTE = 24
DATA_SLACK = 4 << 20
# A set is kept in 128 runs at most, which become one then; beside them its list, a lock, and the list's successor.
DATA_FILES_A_SET, DATA_FILES_MORE = 131, 8


def sample(pid, data=None):
    """One look at a process and its data directory; bytes and counts."""
    proc = pathlib.Path(f"/proc/{pid}")
    rollup = dict(re.findall(r"^(\w+):\s+(\d+) kB", (proc / "smaps_rollup").read_text(), re.M))
    resident, anonymous = (int(rollup[name]) * 1024 for name in ("Rss", "Anonymous"))
    files = sockets = 0
    for descriptor in os.listdir(proc / "fd"):
        with contextlib.suppress(OSError):
            if os.readlink(proc / "fd" / descriptor).startswith("socket:"):
                sockets += 1
            else:
                files += 1
    row = {"anonymous": anonymous, "file": resident - anonymous, "files": files, "sockets": sockets,
           "threads": len(os.listdir(proc / "task")), "maps": (proc / "maps").read_bytes().count(b"\n")}
    if data:
        sizes = []
        for path in pathlib.Path(data).rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and path.name != "ballast":
                    sizes.append(path.stat().st_size)
        row["data_files"], row["data_bytes"] = len(sizes), sum(sizes)
    return row


def theil_sen(points):
    """The median of the slopes between all pairs of (x, y): a few wild ones do not move it."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in itertools.combinations(points, 2) if x2 > x1]
    return statistics.median(slopes) if slopes else 0.0


def warm(samples):
    """Without the beginning of a life."""
    if not samples:
        return []
    lasted = samples[-1]["at"] - samples[0]["at"]
    begin = samples[0]["at"] + min(lasted * WARM_UP, WARM_UP_SECONDS)
    return [row for row in samples if row["at"] >= begin]


def least(samples, seconds):
    """The least of each column in each such time: what is taken for a moment, such as 128 runs that are merged, is no
    drift; what leaks is never given back."""
    spans = {}
    for row in samples:
        spans.setdefault(int((row["at"] - samples[0]["at"]) // seconds), []).append(row)
    for rows in spans.values():
        columns = [name for name in rows[0] if name != "at" and all(name in row for row in rows)]
        yield {"at": statistics.fmean(row["at"] for row in rows)} | {
            name: min(row[name] for row in rows) for name in columns}


def growths(samples):
    """By how much each column grows over these samples, by its slope."""
    span = samples[-1]["at"] - samples[0]["at"]
    rows = list(least(samples, LEAST_SECONDS if span >= SLOPE_SECONDS else LEAST_SECONDS / 10))
    return {name: theil_sen([(row["at"], row[name]) for row in rows]) * span for name in rows[0] if name != "at"}


def judge(samples, short=SHORT_SECONDS, long=SLOPE_SECONDS):
    """The findings about one life, and a row for the record. Samples have `at` in seconds and `notes`."""
    findings = [wrong for row in samples for wrong in too_much(row)][:3]
    row = {"samples": len(samples), "seconds": round(samples[-1]["at"] - samples[0]["at"], 1) if samples else 0}
    rest = warm(samples)
    span = rest[-1]["at"] - rest[0]["at"] if rest else 0
    if len(rest) < 4 or span < short:
        return findings, row
    grown = growths(rest)
    row["judged_seconds"] = round(span, 1)
    row["grown"] = {name: round(value, 2) for name, value in grown.items()}
    row["most"] = {name: max(sampled[name] for sampled in rest) for name in grown}
    row["median"] = {name: statistics.median(sampled[name] for sampled in rest) for name in grown}
    more_sets = max(0, rest[-1].get("sets", 0) - rest[0].get("sets", 0))
    for name, most in GROWTH.items():
        most += A_SET.get(name, 0) * more_sets
        if grown.get(name, 0) > most:
            findings.append(f"{name} grow: by {grown[name]:.1f} in {span:.0f} s, {most} are allowed")
    if span >= long:
        more_notes = max(0, rest[-1]["notes"] - rest[0]["notes"])
        allowed = ANONYMOUS_A_NOTE * more_notes + ANONYMOUS_SLACK
        row["anonymous_allowed"] = allowed
        if grown["anonymous"] > allowed:
            findings.append(f"anonymous memory grows: by {grown['anonymous'] / 2**20:.1f} MiB in {span:.0f} s and "
                            f"{more_notes} notes, {allowed / 2**20:.1f} MiB are allowed")
    return findings, row


def too_much(row):
    """What is beyond what is promised, however it came to be."""
    notes = row.get("notes", 0)
    allowed = 1.5 * BODIES_A_NOTE * notes + PROMISED
    if row["anonymous"] > allowed:
        yield (f"{row['anonymous'] / 2**20:.0f} MiB of anonymous memory for {notes} notes, "
               f"{allowed / 2**20:.0f} are promised")
    if row.get("data_bytes", 0) > DATA_A_NOTE * notes + DATA_SLACK:
        yield f"{row['data_bytes'] / 2**20:.0f} MiB in the data directory for {notes} notes"
    if row.get("data_files", 0) > DATA_FILES_A_SET * row.get("sets", 0) + DATA_FILES_MORE:
        yield f"{row['data_files']} files in the data directory for {row.get('sets', 0)} sets"


COUNTER = re.compile(r"^(\w+_(?:total|count|sum|bucket))(\{[^}]*\})? (\S+)$", re.M)


def counters(text):
    """The counters of Prometheus' text, by name and labels."""
    return {name + (labels or ""): float(value) for name, labels, value in COUNTER.findall(text)}


def gauge(text, name):
    """All values of a gauge."""
    return [float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M)]


def counted_backwards(before, after):
    """Counters that are less than before, or gone."""
    return [f"{name} went from {value:g} to {after.get(name)}" for name, value in before.items()
            if after.get(name, -1) < value]


def server_errors(counted):
    """Answers of 500 and above except for 503, which says that there is nothing yet."""
    return [f"{name} is {value:g}" for name, value in counted.items()
            if name.startswith("nutfilter_http_requests_total") and value
            and re.search(r'status="5(?!03)\d\d"', name)]
