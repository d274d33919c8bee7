"""Real mints: is what the command and the service say of them true?"""

import json
import subprocess

import pytest

from e2e import real_mints
from e2e.conftest import ROOT
from e2e.follow import follow
from e2e.scenario import Scenario, Skipped
from e2e.wallet_checks import WalletChecks


def checked(binary, mint, work, notes=120):
    """Two keysets, a pending melt; then all comparisons, with the mint running."""
    with Scenario(binary, mint, work) as scenario:
        mint.begin()
        mint.spend(notes, melts=2)
        mint.new_keyset()
        mint.spend(notes)  # the rest of the first keyset, then notes of the second
        mint.pending_melts()
        scenario.start(clients=False)
        totals = WalletChecks(binary, mint, scenario.service.address.url(), work).all()
        print(f"{mint.name}: {json.dumps(totals)}")
        assert scenario.finish() == []
    return totals


@pytest.mark.quick
def test_real_nutshell_agrees_with_the_command(binary, work):
    totals = checked(binary, real_mints.Nutshell(work), work)
    assert totals["spent"] >= 320 and totals["live"] > 60 and totals["unused"] > 19_000


@pytest.mark.quick
def test_service_follows_a_live_nutshell(binary, work, request, record):
    """Every filter is exact at its own time, whatever happens; `python -m e2e.follow` does this for an hour."""
    option = request.config.getoption
    seconds = 60 * option("--minutes")
    scenario = follow(binary, real_mints.Nutshell(work, seed=option("--seed")), work, seconds, option("--seed"), 10)
    record(what="follow", **scenario.summary())
    assert scenario.findings == []
    assert scenario.verifier.verified > 20 and scenario.verifier.by_reference > 3


@pytest.fixture
def cdk(work, request):
    mintd = request.config.getoption("--cdk-mintd")
    if not mintd:
        raise Skipped("no --cdk-mintd; cargo install cdk-mintd --version 0.18.3 --locked --debug --no-default-features "
                      "--features fakewallet,sqlite")
    return real_mints.CdkMintd(mintd, work)


@pytest.fixture
def nutshell(work):
    return real_mints.Nutshell(work)


@pytest.mark.parametrize("mint_type", [pytest.param("nutshell", marks=pytest.mark.cashu_ts),
                                       pytest.param("cdk", marks=pytest.mark.real_cdk)])
def test_cashu_ts_restores_alike_in_four_orders(binary, work, mint_type, request):
    """`npm ci` in e2e/cashu-ts, and a built bindings/npm, come before."""
    mint = request.getfixturevalue(mint_type)
    with Scenario(binary, mint, work) as scenario:
        mint.begin()
        scenario.start(clients=False)
        script = ROOT / "e2e/cashu-ts/restore.mjs"
        command = ["node", "--preserve-symlinks", script, mint.url, scenario.service.address.url()]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert said.returncode == 0, said.stderr
        print(said.stdout, end="")
        found = json.loads(said.stdout.splitlines()[-1])
        assert scenario.finish() == []
    old, filters, states_first, plain = found["orders"]
    live = filters["notes"]
    assert found["equal"] and live > 10 and old["signed"] > 3 * live
    assert filters["messages"] == filters["signed"] == live and filters["points"] == 0
    assert old["messages"] == old["signed"] and old["spent"] > live
    assert states_first["messages"] > 300 + live and states_first["points"] > 300 and plain["messages"] > 300


@pytest.mark.real_cdk
def test_real_cdk_agrees_with_the_command(binary, work, cdk):
    totals = checked(binary, cdk, work)
    assert totals["spent"] >= 320 and totals["live"] > 60
