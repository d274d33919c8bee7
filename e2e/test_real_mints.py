"""Real mints: is what the command and the service say of them true?"""

import json
import random
import re
import subprocess
import sys
import time

import pytest

from e2e import real_mints
from e2e.conftest import ROOT
from e2e.scenario import CATCH_UP, Scenario, Skipped
from e2e.service_under_test import Failure, Service, wait_until
from e2e.wallet_checks import WalletChecks, proxy, run


def checked(binary, mint, work, notes=120):
    """Two keysets, a pending melt; then all comparisons, with the mint running."""
    with Scenario(binary, mint, work) as scenario:
        mint.begin()
        mint.spend(notes, melts=2)
        mint.new_keyset()
        mint.spend(notes)  # the rest of the first keyset, then notes of the second
        mint.pending_melts()
        scenario.start(watched=False)
        totals = WalletChecks(binary, mint, scenario.service.address.url(), work).all()
        print(f"{mint.name}: {json.dumps(totals)}")
        assert scenario.finish() == []
    return totals


@pytest.mark.quick
def test_real_nutshell_agrees_with_the_command(binary, work):
    totals = checked(binary, real_mints.Nutshell(work), work)
    assert totals["spent"] >= 320 and totals["live"] > 60 and totals["unused"] > 19_000


@pytest.mark.cashu_ts
def test_words_alone_give_notes_that_nutshells_wallet_receives(binary, work):
    """The mint is shown the live messages and nothing else; every token is read by three versions of cashu-ts."""
    mint = real_mints.Nutshell(work)
    with Scenario(binary, mint, work) as scenario:
        mint.begin()
        mint.spend(120, melts=1)
        mint.new_keyset()
        mint.spend(48)
        words, file = mint.wallet.words(), work / "words"
        file.write_text(words)
        file.chmod(0o600)
        scenario.start(watched=False)
        checks = WalletChecks(binary, mint, scenario.service.address.url(), work)
        live = {message for keyset in mint.keysets for message, _ in checks.live(keyset)}
        with proxy(mint.url, scenario.service.address.url()) as (url, seen):
            done = run([binary, "restore", "--mint", url, "--proxy", "none", "--seed-file", file], work)
        assert done.returncode == 0, done.stderr
        print(done.stderr, end="")
        shown = [output["B_"] for path, body in seen if path == "/v1/restore" for output in body["outputs"]]
        assert len(live) > 29 and sorted(shown) == sorted(live)
        assert not any(path == "/v1/checkstate" for path, _ in seen)
        assert not set(words.split()) & set(re.findall("[a-z]+", done.stderr))
        tokens = done.stdout.split()
        script = ROOT / "e2e/cashu-ts/read_tokens.mjs"
        read = subprocess.run(["node", script], input="\n".join(tokens), capture_output=True, text=True, check=True)
        other = real_mints.WalletProcess(mint.python, work / "other", mint.url)
        try:
            other.tell("receive", tokens=tokens)
            notes, amount = other.notes["received"]
            print(f"received {other.notes['balance']} of {amount} sat, {notes} notes; {read.stdout}", end="")
            assert notes == len(live) and amount - notes <= other.notes["balance"] <= amount
            assert json.loads(read.stdout) == dict.fromkeys(["@cashu/cashu-ts", "cashu-ts-3", "cashu-ts-2"], [notes, amount])
        finally:
            other.close()
        assert scenario.finish() == []


@pytest.mark.parametrize("mint", [pytest.param("nutshell", marks=[pytest.mark.quick, pytest.mark.follow]),
                                  pytest.param("nutshell_on_postgres", marks=pytest.mark.follow),
                                  pytest.param("cdk", marks=pytest.mark.real_cdk)])
def test_service_follows_a_live_mint(mint, binary, work, request, record):
    """Every filter that it serves must have what was there at its own time, while keysets appear, and melts stay pending."""
    mint, dice = request.getfixturevalue(mint), random.Random(request.config.getoption("--seed"))
    seconds, observed = 60 * request.config.getoption("--minutes"), []
    with Scenario(binary, mint, work) as scenario:
        mint.begin()
        mint.spend(24)
        scenario.start()
        mint.start_writing()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep((5 if seconds < 120 else 25) * dice.uniform(0.6, 1.4))
            if mint.mint_type == "nutshell" and dice.random() < 0.5:
                outcome = dice.choice(["SETTLED", "FAILED"])
                with mint.lock:
                    mint.pending_melts()
                    scenario.exact()
                    mint.settle_melts(outcome)
                observed.append([outcome, scenario.exact()])
            else:
                key = "spent", mint.new_keyset()
                took = wait_until(lambda key=key: scenario.service.filter(key), CATCH_UP, f"{key} served")
                observed.append(["keyset", took])
        assert scenario.finish() == []
        record(what="follow", mint=mint.name, observed=observed, answers=scenario.seen)
        assert scenario.seen > 20
        # A note that is in no filter would have been found.
        key = "spent", mint.keysets[0]
        _, hashes = scenario.promises[key]
        scenario.promises[key] = 0, hashes | {1}
        scenario.service.start()
        scenario.service.wait_served(key)
        with pytest.raises(Failure, match="lacks 1 of"):
            scenario.look(key, {})


@pytest.mark.follow
def test_a_thousand_infos_in_a_minute_at_the_mints_default_limit(binary, work):
    """nutshell counts all clients at one address together, but for 127.0.0.1."""
    mint = real_mints.Nutshell(work, host="::1")
    mint.is_limited = True
    service = Service(binary, mint.location, work, extra=["--mint-api", mint.url])
    try:
        mint.start_mint()
        service.start()
        wait_until(service.ready, 30, "ready")
        wait_until(lambda: service.get("/v1/info").status == 200, 30, "the mint's info")
        answers = []
        for _ in range(1_000):
            answers.append(service.get("/v1/info"))
            time.sleep(0.06)
        assert {answer.status for answer in answers} == {200}
        assert all(answer.json()["filters"] == {"supported": True} for answer in answers)
        with pytest.raises(Failure, match="answered 429"):
            for _ in range(70):
                real_mints.fetch(f"{mint.url}/v1/info")
    finally:
        service.kill()
        mint.close()


@pytest.fixture
def cdk(work, request):
    mintd = request.config.getoption("--cdk-mintd")
    if not mintd:
        raise Skipped("no --cdk-mintd; cargo install cdk-mintd --version 0.18.3 --locked --debug --no-default-features "
                      "--features fakewallet,sqlite")
    return real_mints.CdkMintd(mintd, work, seed=request.config.getoption("--seed"))


@pytest.fixture
def nutshell(work, request):
    return real_mints.Nutshell(work, seed=request.config.getoption("--seed"))


@pytest.fixture
def nutshell_on_postgres(work, request, cluster):
    return real_mints.NutshellOnPostgres(work, cluster, seed=request.config.getoption("--seed"))


@pytest.mark.parametrize("mint_type", [pytest.param("nutshell", marks=pytest.mark.cashu_ts),
                                       pytest.param("cdk", marks=pytest.mark.real_cdk)])
def test_cashu_ts_restores_alike_in_three_orders(binary, work, mint_type, request):
    """`npm ci` in e2e/cashu-ts, and a built bindings/npm, come before."""
    mint = request.getfixturevalue(mint_type)
    with Scenario(binary, mint, work) as scenario:
        mint.begin()
        scenario.start(watched=False)
        script = ROOT / "e2e/cashu-ts/restore.mjs"
        command = ["node", "--preserve-symlinks", script, mint.url, scenario.service.address.url()]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert said.returncode == 0, said.stderr
        print(said.stdout, end="")
        found = json.loads(said.stdout.splitlines()[-1])
        assert scenario.finish() == []
    filters, states_first, plain = found["orders"]
    live = filters["notes"]
    assert found["equal"] and live > 10 and plain["signed"] > 3 * live
    assert filters["messages"] == filters["signed"] == live and filters["points"] == 0
    assert states_first["messages"] > 300 + live and states_first["points"] > 300 and plain["messages"] > 300


@pytest.mark.cashu_ts
def test_a_restore_while_a_payment_runs_loses_nothing(binary, work, nutshell):
    """Its change comes in blank outputs that no filter knows yet, behind which the next counter has to be."""
    nutshell.payment_seconds = 20
    make = "from e2e.wallet import foreign_invoice; print(foreign_invoice(1, ''))"
    invoice = subprocess.run([sys.executable, "-c", make], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    with Scenario(binary, nutshell, work) as scenario:
        nutshell.begin()
        scenario.start(watched=False)
        script = ROOT / "e2e/cashu-ts/payment.mjs"
        command = ["node", "--preserve-symlinks", script, nutshell.url, scenario.service.address.url(), invoice]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert said.returncode == 0, said.stderr
        assert scenario.finish() == []
    found = json.loads(said.stdout.splitlines()[-1])
    assert found["wentOn"] == "" and found["problems"] == []
    # 2,048 sat and 2 more, without 1 that was paid and the mint's fees.
    assert found["during"] == 2048 and found["shown"] == 2
    assert 2040 < found["left"] == found["given"] < 2050


@pytest.mark.real_cdk
def test_real_cdk_agrees_with_the_command(binary, work, cdk):
    totals = checked(binary, cdk, work)
    assert totals["spent"] >= 320 and totals["live"] > 60
