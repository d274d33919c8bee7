#!/usr/bin/env python3
"""The faults of the running service, row by row: what is done to it, what is promised, and what it did.

    scripts/faults/table.py --binary target/release/nutfilter [--quick] [ROW...]

Each row starts its own mint's database and its own service, breaks something, and asserts. A row that cannot be tried
here (no Postgres, no strace, not root) is skipped and says why; `--require` makes that a failure. The filters that are
served are held against `nutfilter build` of the very notes that the mint was given. Everything is on loopback and in
a temporary directory. `--quick` has fewer repetitions, and leaves out the rows that take long unless they are named.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import clients
import clocks
import crashes
import disks
import mint_databases
from bench import Bench, Failure, Skipped

# What `--quick` leaves out: seconds of waiting for time limits, or for a measurement to mean something.
LONG = {mint_databases.sqlite_locked, mint_databases.writers_are_not_held_up, mint_databases.postgres_hangs,
        clocks.clock_steps, clients.slow_clients}

ROWS = crashes.ROWS + disks.ROWS + mint_databases.ROWS + clocks.ROWS + clients.ROWS


def main():
    names = [row.__name__ for row in ROWS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, for CI")
    parser.add_argument("--require", action="store_true", help="a row that cannot be tried is a failure")
    parser.add_argument("--work", type=pathlib.Path, help="where to work, and to leave what failed")
    parser.add_argument("--output", type=pathlib.Path, help="write the table here as well, in Markdown")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(names))
    arguments = parser.parse_args()
    unknown = set(arguments.rows) - set(names)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    work = arguments.work or pathlib.Path(tempfile.mkdtemp(prefix="nutfilter-faults-"))
    # The server of Postgres is another user's.
    work.mkdir(parents=True, exist_ok=True)
    os.chmod(work, 0o755)
    lines, failed = ["| fault | promise | outcome |", "|---|---|---|"], 0
    for row in ROWS:
        if arguments.rows and row.__name__ not in arguments.rows:
            continue
        if arguments.quick and row in LONG and not arguments.rows:
            continue
        fault, promise = (part.strip() for part in row.__doc__.split("|"))
        start = time.monotonic()
        outcome, is_bad = tried(row, arguments, work)
        failed += is_bad
        print(f"{row.__name__} ({time.monotonic() - start:.1f} s): {outcome}", flush=True)
        lines.append(f"| {fault} | {promise} | {outcome} |")
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not arguments.work and not failed:
        shutil.rmtree(work, ignore_errors=True)
    if failed:
        sys.exit(f"{failed} rows failed")


def tried(row, arguments, work):
    """The outcome of a row, and whether it is a bad one."""
    try:
        with Bench(arguments.binary.resolve(), work / row.__name__, arguments.quick) as bench:
            try:
                return row(bench), False
            except Exception:
                # The logs outlive the row.
                for log in bench.work.glob("log-*"):
                    shutil.copy(log, work / f"{row.__name__}-{log.name}")
                raise
    except Skipped as reason:
        return f"NOT TRIED: {reason}", arguments.require
    except Failure as failure:
        return f"FAILED: {failure}", True
    except Exception:
        return "FAILED:\n" + traceback.format_exc(), True


if __name__ == "__main__":
    main()
