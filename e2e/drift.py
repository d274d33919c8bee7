"""What a process uses, sampled; and whether that grows without end."""

import contextlib
import itertools
import os
import pathlib
import re
import statistics

WARM_UP, WARM_UP_SECONDS = 0.2, 60  # of a life, and at most: caches fill, the first clients come
SLOPE_SECONDS = 300  # a shorter life says nothing about memory
SHORT_SECONDS = 60  # ... and a shorter one nothing about descriptors, least of all on a busy machine
LEAST_SECONDS = 30  # of each such span the least counts; in a shorter life of a tenth of it

# Allowed growth over a life, by its slope. Sockets come and go with the clients.
GROWTH = {"files": 3, "sockets": 12, "threads": 3, "maps": 24}
GROWTH_PER_SET = {"files": 2, "maps": 8}
# With a data directory sets are files; what grows with the notes are buffers for one body while it is made.
ANONYMOUS_PER_NOTE, ANONYMOUS_SLACK = 24, 8 << 20
# Promised: 1.5 times the bodies (raw 2.6 bytes per note, JSON 3.5, gzip 2.7) and 64 MiB.
BODY_BYTES_PER_NOTE, PROMISED = 8.8, 64 << 20
# Promised: 8 bytes per note, up to three times that while sets are merged; 128 runs per set at most.
DATA_PER_NOTE, DATA_SLACK = 24, 4 << 20
DATA_FILES_PER_SET, DATA_FILES_SLACK = 131, 8


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
        # An event may remove the directory meanwhile; os.walk passes over what is gone.
        for folder, folders, names in os.walk(data):
            if "state-filters" in folders:
                folders.remove("state-filters")  # sequences keep every segment and block that they published
            for name in names:
                with contextlib.suppress(OSError):
                    if name != "ballast":
                        sizes.append(os.stat(os.path.join(folder, name)).st_size)
        row["data_files"], row["data_bytes"] = len(sizes), sum(sizes)
    return row


def theil_sen(points):
    """The median of the slopes between all pairs of (x, y): a few outliers do not move it."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in itertools.combinations(points, 2) if x2 > x1]
    return statistics.median(slopes) if slopes else 0.0


def least(samples, seconds):
    """The least of each column in each span: what is used for a moment is not drift; a leak is never given back."""
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


def judge(samples):
    """(findings about one life, a row for the record). Samples have `at` in seconds, `notes` and `sets`."""
    findings = [wrong for row in samples for wrong in too_much(row)][:3]
    lasted = samples[-1]["at"] - samples[0]["at"] if samples else 0
    begin = samples[0]["at"] + min(lasted * WARM_UP, WARM_UP_SECONDS) if samples else 0
    rest = [row for row in samples if row["at"] >= begin]
    span = rest[-1]["at"] - rest[0]["at"] if rest else 0
    row = {"seconds": round(lasted, 1)}
    if len(rest) < 4 or span < SHORT_SECONDS:
        return findings, row
    grown = growths(rest)
    row |= {"judged_seconds": round(span, 1), "grown": {name: round(value, 2) for name, value in grown.items()},
            "median": {name: statistics.median(sampled[name] for sampled in rest) for name in grown}}
    more_sets = max(0, rest[-1]["sets"] - rest[0]["sets"])
    for name, most in GROWTH.items():
        most += GROWTH_PER_SET.get(name, 0) * more_sets
        if grown[name] > most:
            findings.append(f"{name} grow by {grown[name]:.1f} in {span:.0f} s; {most} are allowed")
    if span >= SLOPE_SECONDS:
        more_notes = max(0, rest[-1]["notes"] - rest[0]["notes"])
        allowed = row["anonymous_allowed"] = ANONYMOUS_PER_NOTE * more_notes + ANONYMOUS_SLACK
        if grown["anonymous"] > allowed:
            findings.append(f"anonymous memory grows by {grown['anonymous'] / 2**20:.1f} MiB in {span:.0f} s with "
                            f"{more_notes} more notes; {allowed / 2**20:.1f} MiB are allowed")
    return findings, row


def too_much(row):
    """What exceeds the promise at any moment."""
    allowed = 1.5 * BODY_BYTES_PER_NOTE * row["notes"] + PROMISED
    if row["anonymous"] > allowed:
        yield (f"{row['anonymous'] / 2**20:.0f} MiB of anonymous memory for {row['notes']} notes; "
               f"{allowed / 2**20:.0f} MiB are promised")
    if row.get("data_bytes", 0) > DATA_PER_NOTE * row["notes"] + DATA_SLACK:
        yield f"{row['data_bytes'] / 2**20:.0f} MiB in the data directory for {row['notes']} notes"
    if row.get("data_files", 0) > DATA_FILES_PER_SET * row["sets"] + DATA_FILES_SLACK:
        yield f"{row['data_files']} files in the data directory for {row['sets']} sets"


COUNTER = re.compile(r"^(\w+_(?:total|count|sum|bucket))(\{[^}]*\})? (\S+)$", re.M)


def counters(text):
    """The counters in Prometheus' text format, by name and labels."""
    return {name + (labels or ""): float(value) for name, labels, value in COUNTER.findall(text)}


def counted_backwards(before, after):
    """Counters that are less than before, or gone."""
    return [f"{name} went from {value:g} to {after.get(name)}" for name, value in before.items()
            if after.get(name, -1) < value]


def server_errors(counted):
    """Answers of 500 and above, except for 503."""
    return [f"{name} is {value:g}" for name, value in counted.items()
            if name.startswith("nutfilter_http_requests_total") and value
            and re.search(r'status="5(?!03)\d\d"', name)]
