#!/usr/bin/env bash
# nutshell (PyPI cashu) 0.21.0: a spent note asked for in upper-case hex is UNSPENT.
#
# Expected: `/v1/checkstate` reads a `Y` as a point, so the case of its hex digits makes no difference, or the request is refused.
# Seen: the mint compares a `Y` as text with its database. In upper case a spent note is UNSPENT, and so is any text at all. The
# answer repeats the text of the question, so a wallet that matches answers by `Y` finds its note alive.
# Why it matters: `hex()` of SQLite and DuckDB and .NET's `Convert.ToHexString` print upper case. An audit of exported notes finds
# nothing spent, and nothing says so. Send lower case, and ask about one note that is known to be spent as a control.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/pip" install -q --no-compile --no-warn-conflicts "$@"; }
pip --no-deps cashu==0.21.0 breez-sdk-spark==0.27.2 # whose release that cashu asks for is not on PyPI; unused here
"$folder/venv/bin/python" -c 'from importlib.metadata import requires
unused = "breez", "grpcio-tools", "mypy", "types-", "setuptools", "wheel"
print(*(one for one in requires("cashu") if not one.startswith(unused)), sep="\n")' >"$folder/requirements"
pip -r "$folder/requirements" 'marshmallow<4' 'limits<5'
cd "$folder"
env -i PATH="$PATH" HOME="$folder" CASHU_DIR="$folder" TOR=FALSE LOGURU_AUTOINIT=FALSE LOG_LEVEL=CRITICAL MINT_PRIVATE_KEY=a_seed \
    MINT_DATABASE="$folder/mint" MINT_AUTH_DATABASE="$folder/auth" MINT_BACKEND_BOLT11_SAT=FakeWallet MINT_RATE_LIMIT=FALSE \
    MINT_INPUT_FEE_PPK=0 FAKEWALLET_DELAY_INCOMING_PAYMENT=0 FAKEWALLET_DELAY_OUTGOING_PAYMENT=0 "$folder/venv/bin/python" - <<'PYTHON'
import os
import time

from cashu.core.crypto.b_dhke import hash_to_curve, step1_alice, step3_alice
from cashu.core.crypto.secp import PublicKey
from cashu.mint.app import app
from fastapi.testclient import TestClient
from loguru import logger


def blind(amount):
    secret = os.urandom(32).hex()
    point, factor = step1_alice(secret)
    return {"amount": amount, "id": keyset, "B_": point.format().hex()}, secret, factor


def note(blinded, signature):
    output, secret, factor = blinded
    C = step3_alice(PublicKey(bytes.fromhex(signature["C_"])), factor, PublicKey(bytes.fromhex(keys[str(output["amount"])])))
    return {"amount": output["amount"], "id": keyset, "secret": secret, "C": C.format().hex()}


def mint_note(amount):
    quote = mint.post("/v1/mint/quote/bolt11", json={"amount": amount, "unit": "sat"}).json()["quote"]
    for _ in range(100):
        if mint.get(f"/v1/mint/quote/bolt11/{quote}").json()["state"] == "PAID":
            break
        time.sleep(0.05)
    blinded = blind(amount)
    answer = mint.post("/v1/mint/bolt11", json={"quote": quote, "outputs": [blinded[0]]}).json()
    return note(blinded, answer["signatures"][0])


def states(points):
    return [one["state"] for one in mint.post("/v1/checkstate", json={"Ys": points}).json()["states"]]


def point(one):
    return hash_to_curve(one["secret"].encode()).format().hex()


with TestClient(app) as mint:
    logger.remove()
    answer = mint.get("/v1/keys").json()["keysets"][0]
    keyset, keys = answer["id"], answer["keys"]
    old, new = mint_note(8), blind(8)
    swap = mint.post("/v1/swap", json={"inputs": [old], "outputs": [new[0]]})
    assert swap.status_code == 200, swap.text
    spent, live = point(old), point(note(new, swap.json()["signatures"][0]))
    seen = dict(zip(["spent", "SPENT IN UPPER CASE", "live", "no point"], states([spent, spent.upper(), live, "no point"])))
    print(seen)
assert list(seen.values()) == ["SPENT", "UNSPENT", "UNSPENT", "UNSPENT"], seen
PYTHON
