"""What a process uses, sampled, and the ceilings that it may never exceed; and counters that go backwards."""

import contextlib
import os
import pathlib
import re

# Promised: 8 bytes per note, 16 more while everything is read, the bodies (JSON 3.5, gzip 2.7), and 64 MiB.
MEMORY_PER_NOTE, MEMORY = 32, 64 << 20
FILES, FILES_PER_SET, THREADS = 40, 4, 40
# Both bodies, twice for a moment.
OUTPUT_PER_NOTE, OUTPUT_SLACK = 13, 1 << 20
OUTPUT_FILES_PER_SET, OUTPUT_FILES_SLACK = 2, 8


def sample(pid, output=None):
    """One look at a process and its output directory; bytes and counts."""
    proc = pathlib.Path(f"/proc/{pid}")
    rollup = dict(re.findall(r"^(\w+):\s+(\d+) kB", (proc / "smaps_rollup").read_text(), re.M))
    files = sockets = 0
    for descriptor in os.listdir(proc / "fd"):
        with contextlib.suppress(OSError):
            if os.readlink(proc / "fd" / descriptor).startswith("socket:"):
                sockets += 1
            else:
                files += 1
    row = {"anonymous": int(rollup["Anonymous"]) * 1024, "files": files, "sockets": sockets,
           "threads": len(os.listdir(proc / "task"))}
    if output:
        sizes = []
        # An event may remove the directory meanwhile; os.walk passes over what is gone.
        for folder, _, names in os.walk(output):
            for name in names:
                with contextlib.suppress(OSError):
                    if name != ".ballast":
                        sizes.append(os.stat(os.path.join(folder, name)).st_size)
        row["output_files"], row["output_bytes"] = len(sizes), sum(sizes)
    return row


def judge(samples):
    """(findings about one life, its highest values). Samples have `notes` and `sets`."""
    names = sorted({name for row in samples for name in row})
    return ([wrong for row in samples for wrong in too_much(row)][:3],
            {name: max(row[name] for row in samples if name in row) for name in names if name != "at"})


def too_much(row):
    """What exceeds a ceiling."""
    allowed = MEMORY_PER_NOTE * row["notes"] + MEMORY
    if row["anonymous"] > allowed:
        yield (f"{row['anonymous'] / 2**20:.0f} MiB of anonymous memory for {row['notes']} notes; "
               f"{allowed / 2**20:.0f} MiB are allowed")
    for name, most in (("files", FILES + FILES_PER_SET * row["sets"]), ("threads", THREADS)):
        if row[name] > most:
            yield f"{row[name]} {name} for {row['sets']} sets; {most} are allowed"
    if row.get("output_bytes", 0) > OUTPUT_PER_NOTE * row["notes"] + OUTPUT_SLACK:
        yield f"{row['output_bytes'] / 2**20:.0f} MiB in the output directory for {row['notes']} notes"
    if row.get("output_files", 0) > OUTPUT_FILES_PER_SET * row["sets"] + OUTPUT_FILES_SLACK:
        yield f"{row['output_files']} files in the output directory for {row['sets']} sets"


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
