#!/usr/bin/env bash
# nutshell (PyPI cashu) 0.21.0: a mint that is started with another MINT_PRIVATE_KEY signs with the old one.
#
# Expected: the keys of a mint come from MINT_PRIVATE_KEY, and its fee from MINT_INPUT_FEE_PPK. With other values it makes a new keyset
# and keeps the old one for notes that are out, or it refuses to start on the old database.
# Seen: the database has a copy of the first key in each keyset's row, and the mint looks for rows by their derivation path alone. So
# keysets, keys and fee stay as they were, active, and no line says so. Only the `pubkey` of `/v1/info` is the new one's.
# Why it matters: an operator whose key leaked changes it, sees a new `pubkey`, and goes on to sign notes with the key that leaked. One
# who raises the fee earns none. Compare `/v1/keysets` before and after; a new keyset needs a new MINT_DERIVATION_PATH too.
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
cat >mint.py <<'PYTHON'
import json

from cashu.mint.app import app
from fastapi.testclient import TestClient
from loguru import logger

with TestClient(app) as mint:
    logger.remove()
    keysets = mint.get("/v1/keysets").json()["keysets"]
    keys = [mint.get(f"/v1/keys/{one['id']}").json()["keysets"][0]["keys"]["1"][:16] for one in keysets]
    answer = [[one["id"][:12], one["active"], one["input_fee_ppk"], key] for one, key in zip(keysets, keys)]
    print(json.dumps({"keysets": answer, "pubkey": mint.get("/v1/info").json()["pubkey"][:16]}))
PYTHON
start() { # database, private key, fee
    env -i PATH="$PATH" HOME="$folder" CASHU_DIR="$folder" TOR=FALSE LOGURU_AUTOINIT=FALSE LOG_LEVEL=CRITICAL MINT_RATE_LIMIT=FALSE \
        MINT_DATABASE="$folder/$1" MINT_AUTH_DATABASE="$folder/$1-auth" MINT_PRIVATE_KEY="$2" MINT_INPUT_FEE_PPK="$3" \
        MINT_BACKEND_BOLT11_SAT=FakeWallet venv/bin/python -W ignore mint.py | tail -1
}
{ start mint one 0; start mint two 100; start other two 100; } >answers
python3 - <<'PYTHON'
import json

names = "a mint with key one, fee 0", "the same mint with key two, fee 100", "a new mint with key two, fee 100"
seen = dict(zip(names, map(json.loads, open("answers"))))
for name, answer in seen.items():
    print(f"{name}:", answer)
first, same, new = seen.values()
assert [len(answer["keysets"]) for answer in seen.values()] == [1, 1, 1], seen
assert same["keysets"] == first["keysets"] and same["keysets"][0][1:3] == [True, 0], seen
assert new["keysets"][0][0] != same["keysets"][0][0] and new["keysets"][0][2] == 100 and new["keysets"][0][3] != same["keysets"][0][3], seen
assert first["pubkey"] != same["pubkey"] == new["pubkey"], seen
PYTHON
