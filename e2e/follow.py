"""The service follows a live nutshell, with events at random; every filter that it serves must be exact at its own time.

    python -m e2e.follow --binary target/release/nutfilter --minutes 60 [--seed 7] [--work DIR]

needs a Python with e2e/requirements.txt. Everything is on loopback. Prints a summary; exit code 1 if anything is wrong.
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time

from e2e import databases, events, real_mints
from e2e.scenario import Scenario
from e2e.service_under_test import faketime_library

# What a live mint meets; the others need a synthetic one, or take the machine away from other tests.
EVENTS = ["kill", "kill_before_ready", "terminate", "output_removed", "output_restored", "backend_killed", "clock_step",
          "clock_step", "backup_restored", "vacuum", "keyset_appears", "hash_collisions", "hash_collisions",
          "melts_pend_and_end", "hangups"]


def follow(binary, mint, work, seconds, seed, pause=25.0):
    """One run; returns its scenario, with its findings complete."""
    clock = faketime_library() is not None
    with Scenario(binary, mint, work, seed=seed, clock=clock) as scenario:
        mint.begin()
        mint.spend(24)
        scenario.start()
        mint.start_writing()
        begun = time.monotonic()
        available = [events.EVENTS[name] for name in EVENTS if events.EVENTS[name].needs <= scenario.features]
        events.live(scenario, events.plan(scenario.dice, available, seconds, pause), begun, seconds)
        scenario.finish()
        return scenario


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=pathlib.Path, required=True, help="the command nutfilter")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1, help="decides which events happen, and when")
    parser.add_argument("--work", type=pathlib.Path, help="where logs and databases are left")
    parser.add_argument("--record", type=pathlib.Path, help="write the summary here, as JSON")
    parser.add_argument("--postgres", action="store_true", help="nutshell keeps its notes in a Postgres server of ours")
    parser.add_argument("--cdk-mintd", help="follow this cdk-mintd instead of nutshell")
    options = parser.parse_args()
    work = (options.work or pathlib.Path(tempfile.mkdtemp(prefix="nutfilter-follow-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.chmod(work, 0o755)
    with contextlib.ExitStack() as stack:
        if options.cdk_mintd:
            mint = real_mints.CdkMintd(options.cdk_mintd, work, seed=options.seed)
        elif options.postgres:
            cluster = databases.Cluster()
            stack.callback(cluster.remove)
            mint = real_mints.NutshellOnPostgres(work, cluster, seed=options.seed)
        else:
            mint = real_mints.Nutshell(work, seed=options.seed)
        scenario = follow(options.binary.resolve(), mint, work, options.minutes * 60, options.seed)
    summary = {"minutes": options.minutes, "seed": options.seed, **scenario.summary()}
    print(json.dumps(summary, indent=1))
    if options.record:
        options.record.write_text(json.dumps(summary, indent=1) + "\n")
    print(f"{len(scenario.findings)} findings; {scenario.verifier.verified} filters were exact at their own times; "
          f"logs are in {work}")
    return 1 if scenario.findings else 0


if __name__ == "__main__":
    sys.exit(main())
