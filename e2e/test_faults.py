"""The fault table: what is done to the service or its mint, what is promised, and what it did.

Each row runs with a mint that writes all the time and with clients that take every form; every version that they see is
compared with what the database held at its time. `pytest e2e -m faults -k disk_full -s` tries one row. `--record FILE`
keeps what was observed.
"""

import pytest

from e2e import events
from e2e.clients import FORMS
from e2e.scenario import Scenario
from e2e.service_under_test import Failure, expect, faketime_library, wait_until

pytestmark = pytest.mark.faults
NOTES = 20_000  # a body of 70 KB: written in pieces, and made in a moment
SQLITE = [("cdk", "sqlite"), ("nutshell", "sqlite")]
POSTGRES = [("cdk", "postgres"), ("nutshell", "postgres")]
BOTH = [("cdk", "sqlite"), ("nutshell", "postgres")]

# event, mints that it is tried with, how often, options of the scenario
ROWS = [
    ("kill", BOTH, 12, {}),
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
    ("kill", SQLITE[:1], 4, {"output": None}),
    ("backend_killed", POSTGRES, 2, {}),
    ("postgres_hangs", POSTGRES[:1], 1, {}),
    ("database_locked", SQLITE[:1], 1, {}),
    ("slow_database", SQLITE[:1], 1, {}),
    ("late_commit", [*POSTGRES, *SQLITE], 1, {}),
    ("pending_notes", [("cdk", "sqlite"), ("cdk", "postgres")], 1, {}),
    ("backup_restored", [*SQLITE, POSTGRES[0]], 2, {}),
    ("rows_deleted", BOTH, 3, {}),
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
        scenario.finish()
        record(event=event.__name__, mint=mint.name, fault=event.__doc__.split("|")[0].strip(), times=len(scenario.happened),
               observed=[row.get("observed", row) for row in scenario.happened], findings=scenario.findings)
        assert scenario.findings == []
        assert event.needs <= scenario.features
        skipped = [row["skipped"] for row in scenario.happened if "skipped" in row]
        if skipped:
            pytest.skip(skipped[0])
        assert scenario.verifier.verified > 0


def test_requests_during_rebuilds_are_whole_versions(binary, make_mint, work):
    """requests during a rebuild | no errors; every body is exactly one version"""
    mint = make_mint("cdk", "sqlite")
    mint.fill(NOTES, NOTES // 4)
    with Scenario(binary, mint, work, refresh=3600, max_age=86_400, many_clients=True) as scenario:
        scenario.start()
        mint.start_writing()
        before = scenario.service.metric("nutfilter_refreshes_total")
        with scenario.refreshes_fail():
            wait_until(lambda: scenario.service.hangup() or
                       scenario.service.metric("nutfilter_refreshes_total") > before + 60, 120, "60 rebuilds", 0.03)
            mint.stop_writing()
            scenario.service.hangup()
        assert scenario.finish() == []
        counts = scenario.client_summary["counts"]
        assert all(counts[form] > 10 for form in FORMS if form in counts)
        assert scenario.verifier.verified > 15  # of 60; clients on a busy machine miss some


def test_a_promise_that_is_broken_is_found(binary, make_mint, work):
    """The table itself: a note that appears behind the journal's back is a finding."""
    mint = make_mint("nutshell", "sqlite")
    mint.fill(1000)
    with Scenario(binary, mint, work) as scenario:
        scenario.start()
        mint.database.run(mint.statements.spend(mint.keysets[0], mint.make(1)))
        wait_until(lambda: scenario.service.filter(scenario.key)["n"] == 1001, 30, "it is served")
        with pytest.raises(Failure, match="exact"):
            scenario.caught_up(2)
        with scenario.service_away():
            scenario.clients.stop()
            scenario.verifier.finish()
        expect(any("no state of the database had 1001 notes" in finding["what"] for finding in scenario.findings),
               f"not found: {scenario.findings}")
