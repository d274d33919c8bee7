#!/usr/bin/env python3
"""The tables of docs/service-measurements.md, from the rows that ten_million.py and requests.py wrote.

    scripts/load/tables.py scripts/load/record/FILE.jsonl
"""

import json
import pathlib
import statistics
import sys

MODE = {"disk": "data directory", "memory": "memory"}


def main():
    rows = [json.loads(line) for line in pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    large, requests = [row for row in rows if "first" in row], [row for row in rows if "bare" in row]
    if large:
        print(table(LARGE, large), end="\n\n")
    if requests:
        print(table(REQUESTS, requests))


def table(columns, rows):
    lines = [[name for name, _ in columns], ["---"] * len(columns)]
    lines += [[str(cell(row)) for _, cell in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def middle(row, name):
    """The median over the increments."""
    values = [increment[name] for increment in row["increments"] if name in increment]
    return round(statistics.median(values)) if values else None


def increment(row):
    return f"{statistics.median(each['seconds_until_served'] for each in row['increments']):.1f} s"


def split(row):
    """How the time of an increment goes."""
    publish, encode = middle(row, "publish_ms"), middle(row, "encode_ms")
    reading = middle(row, "count_read_merge_record_ms")
    return f"{reading} / {encode} / {publish} ms"


def peak(memory):
    return f"{memory['anonymous']:.0f} + {memory['mapped_files']:.0f}"


def peaks(row):
    """The highest of all increments."""
    memories = [each["memory_mib"] for each in row["increments"]]
    return peak({name: max(memory[name] for memory in memories) for name in memories[0]})


def busy(row):
    others = row["others"]
    return f"{others['processors_busy'] - others['of_them_ours']:.1f}"


LARGE = [
    ("database", lambda row: f"{row['mint']}, {row['database']}"),
    ("sets in", lambda row: MODE[row["sets_in"]]),
    ("first build", lambda row: f"{row['first']['refresh_seconds']:.1f} s"),
    ("notes a second", lambda row: f"{row['first']['notes_a_second']:,}"),
    ("memory then, MiB", lambda row: peak(row["first"]["memory_mib"])),
    ("+10,000: until served", increment),
    ("of it count, read, merge / encode / bodies", split),
    ("memory then, MiB", peaks),
    ("at rest, MiB", lambda row: f"{row['at_rest_mib']['RssAnon']:.0f} + {row['at_rest_mib']['RssFile']:.0f}"),
    ("killed: until the first 200", lambda row: f"{row['restart']['seconds_until_200']:.2f} s"),
    ("processors busy with others", busy),
]

REQUESTS = [
    ("answer", lambda row: row["body"]),
    ("rebuilding", lambda row: "every second" if row["rebuilding"] else "no"),
    ("requests/s", lambda row: f"{row['service']['requests_a_second']:,.0f}"),
    ("p50, ms", lambda row: f"{row['service']['p50_ms']:.2f}"),
    ("p99, ms", lambda row: f"{row['service']['p99_ms']:.1f}"),
    ("bare: requests/s", lambda row: f"{row['bare']['requests_a_second']:,.0f}"),
    ("p50, ms", lambda row: f"{row['bare']['p50_ms']:.2f}"),
    ("p99, ms", lambda row: f"{row['bare']['p99_ms']:.1f}"),
    ("service / bare", lambda row: f"{row['ratio_of_requests']:.2f}"),
    ("memory, MiB", lambda row: peak(row["memory_mib"])),
]


if __name__ == "__main__":
    main()
