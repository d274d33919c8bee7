#!/usr/bin/env python3
"""Ten million spent notes: the first build, an increment of ten thousand, a restart after SIGKILL.

    scripts/load/ten_million.py --binary target/release/nutfilter --work /var/tmp/ten-million

measures each of `--mints` on each of `--databases`, with a data directory and without, and writes a JSON object per
line to `--output`. 10,000,000 notes take 3 to 5 GB of disk, one database at a time; `--notes` takes fewer.
"""

import argparse
import json
import pathlib
import shutil
import sys
import time

from databases import Cluster, PostgresMint, SqliteMint, points
from running import ISSUED, SPENT, Failure, MemoryPeak, Service, machine, processor_seconds

BUILD_SECONDS = 1800


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, help="append rows here, a JSON object a line")
    parser.add_argument("--notes", type=int, default=10_000_000)
    parser.add_argument("--more", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="increments measured")
    parser.add_argument("--mints", nargs="+", default=["cdk", "nutshell"], choices=["cdk", "nutshell"])
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--keep", action="store_true", help="leave SQLite's files where they are, for the next time")
    parser.add_argument("--modes", nargs="+", default=["disk", "memory"], choices=["disk", "memory"])
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for database in arguments.databases:
        for mint_type in arguments.mints:
            with Prepared(arguments, database, mint_type) as prepared:
                for mode in arguments.modes:
                    row = measure(arguments, prepared.mint, database, mode, prepared.seconds)
                    line = json.dumps(row)
                    print(line, flush=True)
                    if arguments.output:
                        with open(arguments.output, "a", encoding="utf-8") as output:
                            output.write(line + "\n")


class Prepared:
    """A filled database. A SQLite file of the right name that is there already is taken as it is."""

    def __init__(self, arguments, database, mint_type):
        self.arguments, self.database, self.mint_type = arguments, database, mint_type
        self.cluster = self.mint = None
        self.seconds = 0.0

    def __enter__(self):
        work, start = self.arguments.work, time.monotonic()
        if self.database == "postgres":
            self.cluster = Cluster(work / "postgres", "-c autovacuum=off")
            self.mint = PostgresMint(self.cluster, self.mint_type)
        else:
            self.mint = SqliteMint(work / f"{self.mint_type}-{self.arguments.notes}.sqlite", self.mint_type)
        if self.mint.count() < self.arguments.notes:
            self.mint.fill(self.arguments.notes, 1)
        self.seconds = time.monotonic() - start
        return self

    def __exit__(self, *_):
        self.mint.close()
        if self.cluster:
            self.cluster.remove()
        elif not self.arguments.keep:
            for file in self.arguments.work.glob(f"{self.mint.path.name}*"):
                file.unlink()


def measure(arguments, mint, database, mode, filling):
    data = arguments.work / "data" if mode == "disk" else None
    log = arguments.work / f"{mint.mint}-{database}-{mode}.log"
    log.unlink(missing_ok=True)
    if data:
        shutil.rmtree(data, ignore_errors=True)
    service = Service(arguments.binary, mint.location, log, data)
    busy = processor_seconds()
    row = {"mint": mint.mint, "database": database, "sets_in": mode, "machine": machine(), "filled_in": round(filling)}
    try:
        with MemoryPeak(service) as peak:
            ready = service.wait_ready(BUILD_SECONDS)
            total = service.wait_said("refreshed", 60)[0]["fields"]
        notes = service.n()
        row["notes"] = notes
        row["bodies_mib"] = round(published_bytes(service) / 2**20, 1)
        row["first"] = {"seconds_until_200": round(ready, 2), "refresh_seconds": total["total_ms"] / 1000,
                        "notes_a_second": round(notes / (total["total_ms"] / 1000)),
                        **built(service), "memory_mib": peak.mib(),
                        "high_water_mib": round(service.memory()["VmHWM"] / 1024, 1)}
        row["increments"] = [increment(arguments, service, mint) for _ in range(arguments.rounds)]
        row["at_rest_mib"] = {name: round(kib / 1024, 1) for name, kib in service.memory().items()}
        row["others"] = others(busy, service)
        tag = service.whole().etag
    finally:
        service.kill()
    again = Service(arguments.binary, mint.location, log, data)
    try:
        with MemoryPeak(again) as peak:
            seconds = again.wait_ready(BUILD_SECONDS)
            again.wait_said("refreshed", BUILD_SECONDS)
        row["restart"] = {"seconds_until_200": round(seconds, 3), "memory_mib": peak.mib(),
                          "same_notes": again.n() == row["increments"][-1]["notes"]}
        if data:
            row["restart"]["same_body"] = again.whole().etag == tag
            row["data_dir_mib"] = round(sum(file.stat().st_size for file in data.rglob("*") if file.is_file()) / 2**20, 1)
    finally:
        again.kill()
    return row


def increment(arguments, service, mint):
    """New notes, SIGHUP, and the time until they are served."""
    old, before = service.etag(), service.n()
    mint.add_spent(points(arguments.more, f"more {time.time_ns()}"))
    told = len(service.said("refreshed"))
    rereads = service.metric("nutfilter_full_rereads_total")
    with MemoryPeak(service) as peak:
        service.hangup()
        served = service.wait_new(old, BUILD_SECONDS)
        total = service.wait_said("refreshed", 60, told + 1)[told]["fields"]
    if service.metric("nutfilter_full_rereads_total") != rereads:
        raise Failure("everything was read again where only some notes were new")
    if service.n() != before + arguments.more:
        raise Failure(f"{service.n()} notes are served and not {before + arguments.more}")
    stages = built(service)
    reading = total["total_ms"] - stages["encode_ms"] - stages["publish_ms"]
    return {"notes": service.n(), "seconds_until_served": round(served, 3), "refresh_ms": total["total_ms"],
            "count_read_merge_record_ms": reading, **reading_stages(service), **stages,
            "count_alone_ms": round(mint.time_of_count() * 1000), "memory_mib": peak.mib()}


def built(service):
    """How the latest filter of spent notes was made."""
    fields = [record["fields"] for record in service.said("built") if record["fields"]["kind"] == "spent"][-1]
    return {"encode_ms": fields["encode_ms"], "publish_ms": fields["publish_ms"]}


def reading_stages(service):
    """How the latest reading of spent notes went, where the log says so."""
    said = [record["fields"] for record in service.said("read") if record["fields"].get("kind") == "spent"]
    names = ("read_ms", "hash_ms", "merge_ms")
    return {name: said[-1][name] for name in names if said and name in said[-1]}


def published_bytes(service):
    """The lengths of all bodies that are held: raw, JSON, gzip and zstd, of both kinds."""
    forms = [{"Accept": "application/octet-stream"}, {}, {"Accept-Encoding": "gzip"}, {"Accept-Encoding": "zstd"}]
    return sum(int(service.request(path, "HEAD", form).headers["content-length"])
               for path in (SPENT, ISSUED) for form in forms)


def others(before, service):
    """How busy the machine was with other things than this service, in processors."""
    total, idle = (after - then for after, then in zip(processor_seconds(), before))
    ours = sum(map(int, pathlib.Path(f"/proc/{service.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) / 100
    seconds = total / machine()["cores"]
    return {"processors_busy": round((total - idle) / seconds, 2), "of_them_ours": round(ours / seconds, 2)}


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"ten_million: {failure}")
