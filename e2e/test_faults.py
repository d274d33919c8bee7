"""The fault table: what is done to the service or its mint, what is promised, and what it did.

Each row runs with a mint that writes all the time and with somebody who watches both forms of every filter.
`pytest e2e -m faults -k disk_full -s` tries one row. `--record FILE` keeps what was observed.
"""

import threading
import time

import pytest

from e2e import events
from e2e.scenario import FORMS, Scenario
from e2e.service_under_test import faketime_library, wait_until

pytestmark = pytest.mark.faults
NOTES = 20_000  # a body of 70 KB: written in pieces, and made in a moment
SQLITE = [("cdk", "sqlite"), ("nutshell", "sqlite")]
POSTGRES = [("cdk", "postgres"), ("nutshell", "postgres")]
BOTH = [("cdk", "sqlite"), ("nutshell", "postgres")]

# event, mints that it is tried with, how often, options of the scenario
ROWS = [
    ("kill", BOTH, 12, {}),
    ("kill", SQLITE[:1], 4, {"output": None}),
    ("kill_before_ready", SQLITE[:1], 2, {}),
    ("terminate", BOTH, 3, {}),
    ("kill_often", BOTH, 1, {}),
    ("output_removed", BOTH, 1, {}),
    ("output_restored", SQLITE[:1], 1, {}),
    ("disk_full", SQLITE[:1], 1, {"small_disk": 1}),
    ("disk_full_at_the_start", SQLITE[:1], 1, {"small_disk": 1}),
    ("writes_fail", SQLITE[:1], 1, {}),
    ("postgres_stopped", POSTGRES[:1], 2, {}),
    ("postgres_away_at_the_start", POSTGRES[:1], 1, {}),
    ("postgres_away_at_the_start", POSTGRES[:1], 1, {"output": None}),
    ("postgres_hangs", POSTGRES[:1], 1, {}),
    ("database_locked", SQLITE[:1], 1, {}),
    ("slow_database", SQLITE[:1], 1, {}),
    ("backup_restored", [*SQLITE, POSTGRES[0]], 2, {}),
    ("vacuum", [*SQLITE, *POSTGRES], 1, {}),
    ("hash_collisions", [*SQLITE, *POSTGRES], 1, {}),
    ("keyset_appears", BOTH, 2, {}),
    ("hangups", BOTH, 1, {}),
    ("clock_step", SQLITE[:1], 4, {"clock": True}),
]
CASES = [pytest.param(events.EVENTS[name], *mint, times, options, id="-".join([name, *options, *mint]))
         for name, mints, times, options in ROWS for mint in mints]


@pytest.mark.parametrize("event, mint_type, kind, times, options", CASES)
def test_fault(event, mint_type, kind, times, options, binary, make_mint, work, request, record):
    if options.get("clock") and not faketime_library():
        pytest.skip("libfaketime is not installed (Debian's package is faketime)")
    mint = make_mint(mint_type, kind)
    mint.fill(NOTES, NOTES // 4)
    with Scenario(binary, mint, work, seed=request.config.getoption("--seed"), **options) as scenario:
        scenario.start()
        mint.start_writing()
        for _ in range(times):
            scenario.perform(event)
        assert scenario.finish() == []
        record(event=event.__name__, mint=mint.name, fault=event.__doc__.split("|")[0].strip(),
               observed=scenario.observed[event.__name__])
        assert event.needs <= scenario.features and scenario.seen > 0


def test_requests_during_rebuilds_are_whole_versions(binary, make_mint, work):
    """requests during a rebuild | no errors; every body is exactly one version"""
    mint = make_mint("cdk", "sqlite")
    mint.fill(NOTES, NOTES // 4)
    with Scenario(binary, mint, work, refresh=3600) as scenario:
        scenario.start()
        mint.start_writing()
        before, bodies = scenario.service.metric("nutfilter_refreshes_total"), {}

        def ask(form):
            while not scenario.ended.is_set():
                answer = scenario.service.get(f"/v1/filter/spent/{mint.keysets[0]}", form)
                bodies.setdefault(answer.headers["etag"], set()).add(answer.body)
        threads = [threading.Thread(target=ask, args=[form]) for form in FORMS * 2]
        for thread in threads:
            thread.start()
        wait_until(lambda: scenario.service.hangup() or
                   scenario.service.metric("nutfilter_refreshes_total") > before + 60, 120, "60 rebuilds", 0.03)
        mint.stop_writing()
        scenario.service.hangup()
        scenario.exact()
        scenario.ended.set()
        for thread in threads:
            thread.join()
        assert scenario.finish() == [] and len(bodies) > 15
        assert all(len(of_tag) == 1 for of_tag in bodies.values())


@pytest.mark.quick
def test_a_promise_that_is_broken_is_found(binary, make_mint, work):
    """A note that the watcher takes for published, and that is in no filter, is a finding; so is a date that goes back."""
    mint = make_mint("nutshell", "sqlite")
    mint.fill(1000)
    with Scenario(binary, mint, work) as scenario:
        scenario.start()
        since, hashes = scenario.promises[scenario.key]
        wait_until(lambda: scenario.seen > 4, 30, "it watches")
        assert scenario.findings == []
        with scenario.lock:
            scenario.promises[scenario.key] = since, hashes | {1}
        wait_until(lambda: any("lacks 1 of 1001 notes" in found for found in scenario.findings), 30, "a note is missed")
        with scenario.lock:
            scenario.promises[scenario.key] = since, hashes
            scenario.dates[scenario.key] = time.time() + 3600
        wait_until(lambda: any(f"after {scenario.dates[scenario.key]}" in found or ", after " in found
                               for found in scenario.findings), 30, "a date that goes back")
