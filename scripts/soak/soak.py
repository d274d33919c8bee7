#!/usr/bin/env python3
"""The service under load for an hour: kills, restarts of databases, full disks, rude clients. Is a byte wrong? Is there
a drift?

    scripts/soak/soak.py --time 1h --binary target/release/nutfilter --postgres --record FILE
    scripts/soak/soak.py --time 60s --binary target/release/nutfilter [--postgres]      # the quick form

A service on a CDK database on SQLite, and with `--postgres` at the same time another one, with TLS, on a nutshell
database on Postgres. Every version that any client sees is held against a journal of what was written and when; see
journal.py. `docs/testing.md` says what else is checked. Everything is on loopback. Ends with 1 and the findings if
anything is wrong. Needs nothing but Python; with root, `wrk`, `curl`, `openssl`, libzstd, and mmh3 and bitarray for
`--python` it does more, and the record says what was not tried.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
for folder in ("load", "faults"):
    sys.path.insert(0, str(HERE.parent / folder))

import answers  # noqa: E402
import drift  # noqa: E402
import events  # noqa: E402
import verify  # noqa: E402
from bench import Skipped, tmpfs  # noqa: E402
from databases import Cluster, postgres_programs  # noqa: E402
from mints import CdkSqlite, NutshellPostgres  # noqa: E402
from running import machine, processor_seconds  # noqa: E402
from side import Side  # noqa: E402
from summary import rows_of, said_of  # noqa: E402

UNITS = {"s": 1, "m": 60, "h": 3600}


def duration(text):
    found = re.fullmatch(r"(\d+)([smh])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 60s, 20m or 1h")
    return int(found.group(1)) * UNITS[found.group(2)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--time", dest="seconds", type=duration, default=60, help="such as 60s, 20m, 1h")
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--postgres", action="store_true", help="a second service at the same time, on Postgres")
    parser.add_argument("--record", type=pathlib.Path, help="write the record here, a JSON object a line")
    parser.add_argument("--seed", type=int, default=1, help="decides what is written, asked and done")
    parser.add_argument("--notes", type=int,
                        help="spent notes at the start, and a third signed (300,000; 60,000 in a short run)")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with mmh3 and bitarray")
    parser.add_argument("--work", type=pathlib.Path, help="where to work; what is left there is the logs")
    parser.add_argument("--sample", type=float, help="seconds between samples (5; 1 in a short run)")
    options = parser.parse_args()
    short = options.seconds < 300
    options.binary = options.binary.resolve()
    options.notes = options.notes or (60_000 if short else 300_000)
    options.sample = options.sample or (1 if short else 5)
    options.work = (options.work or pathlib.Path(tempfile.mkdtemp(prefix="nutfilter-soak-"))).resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    # The server of Postgres is another user's.
    os.chmod(options.work, 0o755)
    options.build = lambda records: verify.built(options.binary, records)
    options.missing = []
    options.second = None
    if verify.python_can(options.python):
        options.second = lambda records: verify.built_by_python(options.python, records)
    else:
        options.missing.append(f"the Python implementation: {options.python} has no mmh3 and bitarray")
    options.missing += [f"{what}: no {name} here" for name, what in
                        (("wrk", "bursts"), ("curl", "HTTP/2"), ("openssl", "TLS")) if not shutil.which(name)]
    if answers.zstd() is None:
        options.missing.append("zstd: no libzstd here")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    with contextlib.ExitStack() as stack:
        sides = make_sides(options, stack)
        run(options, sides)
    found = [finding for side in sides for finding in side.findings]
    if found:
        print(f"\n{len(found)} findings; logs are in {options.work}:")
        for finding in found[:50]:
            print(f"  {json.dumps(finding)}")
        sys.exit(1)


# --- the start


def make_sides(options, stack):
    sides = []
    for name in ["sqlite"] + ["postgres"] * options.postgres:
        work = options.work / name
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        data, small_disk = work / "data", True
        room = 48 + (options.notes * 2 + options.seconds * 200) * 60 // 2**20
        try:
            stack.enter_context(tmpfs(data, room))
        except Skipped as reason:
            options.missing.append(f"full disks ({name}): {reason}")
            small_disk = False
        if name == "sqlite":
            mint, tls = CdkSqlite(work, f"{options.seed} {name}"), None
        else:
            if postgres_programs() is None:
                sys.exit("--postgres: there is no Postgres here (Debian's package is `postgresql`)")
            cluster = Cluster(work / "cluster")
            stack.callback(cluster.remove)
            mint, tls = NutshellPostgres(cluster, f"{options.seed} {name}"), certificate(work)
        side = Side(options, mint.name, mint, work, f"{options.seed} {name}", small_disk, tls)
        stack.callback(side.close)
        sides.append(side)
    return sides


def certificate(work):
    """(certificate, key), or nothing where there is no openssl."""
    if not shutil.which("openssl"):
        return None
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=soak", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", work / "key.pem", "-out", work / "certificate.pem"], check=True, capture_output=True)
    return work / "certificate.pem", work / "key.pem"


# --- the run


def run(options, sides):
    for i, side in enumerate(sides):
        side.mint.fill(options.notes, options.notes // 3)
        side.new_keyset = side.mint.new_keyset()
        side.restart()
        side.verifier.start()
        # The second one begins with its long life, so that one of the two is always getting old.
        side.planned = events.plan(side.seed, options.seconds, *events.possible(side), offset=i)
    print(f"soak of {options.seconds} s, seed {options.seed}, from {time.strftime('%H:%M:%S UTC', time.gmtime())}; "
          f"not tried: {'; '.join(options.missing) or 'nothing'}", flush=True)
    began, busy = time.monotonic(), processor_seconds()
    header = {"row": "run", "seconds": options.seconds, "seed": options.seed, "notes_at_start": options.notes,
              "refresh_s": 1, "not_tried": options.missing, "machine": machine(),
              "binary_sha256": hashlib.sha256(options.binary.read_bytes()).hexdigest()}
    threads = []
    for side in sides:
        side.mint.start()
        side.start_clients()
        threads.append(threading.Thread(target=side.watch, daemon=True))
        threads.append(threading.Thread(target=side.live, args=(side.planned, began), daemon=True))
    for thread in threads:
        thread.start()
    minute = 0
    while (left := began + options.seconds - time.monotonic()) > 0:
        time.sleep(min(left, 60))
        minute += 1
        for side in sides:
            print(f"minute {minute}: {said_of(side)}", flush=True)
        write(options.record, [{**header, "finished": False}, *rows(sides)])
    end(sides, threads)
    total, idle = (after - then for after, then in zip(processor_seconds(), busy))
    header["processors_busy"] = round((total - idle) / total * machine()["cores"], 2)
    header.update(finished=True, findings=sum(len(side.findings) for side in sides))
    write(options.record, [header, *rows(sides, True)])
    for side in sides:
        print(f"\n{said_of(side, True)}", flush=True)


def end(sides, threads):
    """Everything stops in the order in which nothing is missed."""
    for side, thread in zip(sides, threads[1::2]):
        thread.join(150)
        if thread.is_alive():
            side.find("an event does not end")
    # The clients take their time to end, and ask meanwhile what is left.
    for side in sides:
        side.clients.stdin.close()
    for side in sides:
        side.ended.set()
        if side.mint.thread.is_alive() or side.mint.error:
            try:
                side.mint.stop()
            except Exception as error:
                side.find(f"the mint could not be written: {error!r}")
        side.everything_is_served()
    for side in sides:
        side.stop_clients()
    for side in sides:
        side.verifier.finish()
        with contextlib.suppress(Exception):
            side.look(side.lives[-1], side.service)
        with side.away("the end"):
            code = side.service.stop()
        if code:
            side.find(f"exit code {code} at the end")
        side.judge_errors()
        side.told = side.judge_log()
        side.judged = []
        for life in side.lives:
            findings, row = drift.judge(life["samples"])
            side.judged.append({"begun": time.strftime("%H:%M:%S", time.gmtime(life["begun"])), **row})
            for finding in findings:
                side.find(f"drift: {finding}")


def rows(sides, finished=False):
    return [row for side in sides for row in rows_of(side, finished)]


def write(path, lines):
    """All of it or nothing, also while it is written again every minute."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    part.rename(path)


if __name__ == "__main__":
    main()
