"""The service under load, with events at random: CDK's tables on SQLite, nutshell's on Postgres, both at once.

    pytest e2e -m soak --minutes 60 --record e2e/records/soak.jsonl -s
"""

import os
import threading
import time

import pytest

from e2e import events
from e2e.scenario import Scenario, Skipped, tmpfs

# Those that end the service make its lives short; a drift shows in long ones. So they take turns.
ENDS = {"kill", "kill_before_ready", "terminate", "kill_often", "postgres_away_at_the_start",
        "output_restored", "disk_full_at_the_start", "rows_deleted", "backup_restored"}
# strace slows the service down: the fault table has these.
LEFT_OUT = {"writes_fail", "slow_database"}


def planned(scenario, seconds, long_first):
    """Short lives and long ones in turn, some minutes each; all other events in both."""
    available = [event for event in events.possible(scenario) if event.__name__ not in LEFT_OUT]
    calm = [event for event in available if event.__name__ not in ENDS]
    pause, phase = min(25.0, seconds / 8), seconds / max(2, round(seconds / 600))
    plan = []
    for i in range(round(seconds / phase)):
        some = calm if (i % 2 == 0) == long_first else available
        plan += [(when + i * phase, event) for when, event in events.plan(scenario.dice, some, phase, pause)]
    return plan


@pytest.mark.soak
def test_soak(binary, make_mint, work, request, record):
    option = request.config.getoption
    seconds, seed = option("--minutes") * 60, option("--seed")
    notes = option("--notes") or (60_000 if seconds < 300 else 300_000)
    room = 48 + int(notes * 2 + seconds * 200) * 60 // 2**20
    scenarios = []
    try:
        for mint_type, kind in (("cdk", "sqlite"), ("nutshell", "postgres")):
            place = work / kind
            place.mkdir()
            try:
                with tmpfs(place / "try", 1):
                    small_disk = room
            except Skipped as reason:
                print(f"not tried: full disks: {reason}")
                small_disk = 0
            mint = make_mint(mint_type, kind)
            mint.fill(notes, notes // 3)
            mint.new_keyset()
            scenarios.append(Scenario(binary, mint, place, seed=seed, many_clients=True, small_disk=small_disk,
                                      sample=5 if seconds >= 300 else 1))
        for scenario in scenarios:
            scenario.start()
            scenario.mint.start_writing()
        begun = time.monotonic()
        threads = [threading.Thread(target=events.live, args=(each, planned(each, seconds, i == 0), begun, seconds))
                   for i, each in enumerate(scenarios)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for scenario in scenarios:
            scenario.finish()
            record(what=f"soak of {seconds:.0f} s, seed {seed}, {os.cpu_count()} cores", **scenario.summary())
        assert [finding for scenario in scenarios for finding in scenario.findings] == []
        assert all(scenario.verifier.verified > seconds / 4 for scenario in scenarios)
    finally:
        for scenario in scenarios:
            scenario.__exit__()
