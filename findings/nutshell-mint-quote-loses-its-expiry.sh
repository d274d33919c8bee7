#!/usr/bin/env bash
# nutshell (PyPI cashu) 0.21.0: a mint quote has an expiry only in the answer that makes it.
#
# Expected: MINT_QUOTE_TTL gives mint quotes an `expiry`. Each poll shows it, and after it the mint refuses the quote. It has an
# error for that, and melt quotes keep their expiry.
# Seen: the mint does not store it. From the first poll on `expiry` is null and an absent `pubkey` is "". A quote with a TTL of one
# second is minted three seconds later.
# Why it matters: a wallet that keeps the state it polled last has quotes that never expire. One that reads `pubkey` as a key fails
# at a quote that it made without. An operator who sets a TTL, to bound how long a price in dollars is open, has set none.
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
    MINT_INPUT_FEE_PPK=0 FAKEWALLET_DELAY_INCOMING_PAYMENT=0 FAKEWALLET_DELAY_OUTGOING_PAYMENT=0 \
    MINT_QUOTE_TTL=1 "$folder/venv/bin/python" - <<'PYTHON'
import os
import time

from bolt11 import Bolt11, MilliSatoshi, TagChar, Tags, encode
from cashu.core.crypto.b_dhke import step1_alice
from cashu.mint.app import app
from fastapi.testclient import TestClient
from loguru import logger


def invoice(amount):
    tags = Tags()
    tags.add(TagChar.payment_hash, os.urandom(32).hex())
    tags.add(TagChar.payment_secret, os.urandom(32).hex())
    tags.add(TagChar.description, "a bill")
    tags.add(TagChar.expire_time, 3600)
    return encode(Bolt11(currency="bc", amount_msat=MilliSatoshi(amount * 1000), date=int(time.time()), tags=tags), "22" * 32)


with TestClient(app) as mint:
    logger.remove()
    made = mint.post("/v1/mint/quote/bolt11", json={"amount": 8, "unit": "sat"}).json()
    time.sleep(3)
    late = time.time() > made["expiry"] + 1
    polled = mint.get(f"/v1/mint/quote/bolt11/{made['quote']}").json()
    output = {"amount": 8, "id": mint.get("/v1/keysets").json()["keysets"][0]["id"], "B_": step1_alice("a secret")[0].format().hex()}
    minted = mint.post("/v1/mint/bolt11", json={"quote": made["quote"], "outputs": [output]}).status_code
    melt = mint.post("/v1/melt/quote/bolt11", json={"unit": "sat", "request": invoice(8)}).json()
    kept = mint.get(f"/v1/melt/quote/bolt11/{melt['quote']}").json()["expiry"] == melt["expiry"]
print("made:", {name: made[name] for name in ("state", "expiry", "pubkey")})
print("polled:", {name: polled[name] for name in ("state", "expiry", "pubkey")})
print("minted after its expiry:", late, minted, "; melt quote keeps its expiry:", kept)
assert made["expiry"] and late and polled["expiry"] is None and polled["pubkey"] == "" and minted == 200 and kept
PYTHON
