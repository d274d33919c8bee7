#!/usr/bin/env bash
# nutshell (PyPI cashu) 0.21.0: a subscriber is told SPENT when the mint refuses to swap the note.
#
# Expected: a subscription to `proof_state` (NUT-17) tells what happened. A refused swap ends as it began, with UNSPENT.
# Seen: the mint notifies PENDING and SPENT before it commits. Then it finds no key for an output of 3 sat, answers 400 and rolls
# back. The last word of the subscription is SPENT. `/v1/checkstate` says UNSPENT, and the next swap spends the note.
# Why it matters: a sender's wallet takes SPENT for "the receiver has it" and forgets a note that is still its own. Treat a
# notification as a hint, and ask `/v1/checkstate` before you throw a note away.
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
    one, told = mint_note(4), []
    with mint.websocket_connect("/v1/ws") as subscription:
        params = {"kind": "proof_state", "subId": "a", "filters": [point(one)]}
        subscription.send_json({"jsonrpc": "2.0", "method": "subscribe", "params": params, "id": 1})
        subscription.receive_json()
        told.append(subscription.receive_json()["params"]["payload"]["state"])
        refused = mint.post("/v1/swap", json={"inputs": [one], "outputs": [blind(3)[0], blind(1)[0]]})
        subscription.send_json({"jsonrpc": "2.0", "method": "unsubscribe", "params": {"subId": "a"}, "id": 2})
        for _ in range(10):
            answer = subscription.receive_json()
            if answer.get("id") == 2:
                break
            told.append(answer["params"]["payload"]["state"])
    state = states([point(one)])
    again = mint.post("/v1/swap", json={"inputs": [one], "outputs": [blind(4)[0]]}).status_code
print("swap:", refused.status_code, refused.text)
print("told:", told, "; asked afterwards:", state, "; swapped afterwards:", again)
assert refused.status_code == 400 and told == ["UNSPENT", "PENDING", "SPENT"] and state == ["UNSPENT"] and again == 200
PYTHON
