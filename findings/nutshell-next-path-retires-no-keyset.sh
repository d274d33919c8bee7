#!/usr/bin/env bash
# nutshell (PyPI cashu) 0.21.0: the next derivation path adds a keyset and retires none.
#
# Expected: a mint that starts with the next MINT_DERIVATION_PATH rotates its keyset. The new one is active, and notes of the old
# one are only redeemed. Started with the old path again, the mint goes back.
# Seen: both stay active, whatever path comes later. If the new keyset was made for a fee, wallets choose the one without:
# nutshell's own wallet, newly set up, still mints in the old keyset. The rotation by the management interface (`mint-cli
# next-keyset`) does retire the old keyset.
# Why it matters: an operator rotates because a keyset is too large, to raise a fee, or because a key may be known. With the path
# alone nothing changes for wallets: the old keyset still signs.
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
cat >start.py <<'PYTHON'
import asyncio
import os
import socket
import threading
import time

import uvicorn
from cashu.mint.app import app
from cashu.wallet.wallet import Wallet
from loguru import logger

logger.remove()
sock = socket.socket()
sock.bind(("127.0.0.1", 0))
url = f"http://127.0.0.1:{sock.getsockname()[1]}"
server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
threading.Thread(target=server.run, args=([sock],), daemon=True).start()
for _ in range(400):
    if server.started:
        break
    time.sleep(0.05)


async def open_wallet(name, words=None):
    wallet = await Wallet.with_db(url, name, name=name, skip_db_read=True)
    await wallet._migrate_database()
    await wallet._init_private_key(words)
    await wallet.load_mint()
    return wallet


async def mint_notes(wallet, amounts):
    quote = (await wallet.request_mint(sum(amounts))).quote
    for _ in range(100):
        if (await wallet.get_mint_quote(quote)).paid:
            break
        await asyncio.sleep(0.05)
    await wallet.mint(sum(amounts), quote, amounts)


async def main():
    wallet = await open_wallet(f"wallet {os.getpid()}")
    await mint_notes(wallet, [8])
    number = {keyset.id: i for i, keyset in enumerate(wallet.keysets.values())}
    active = [(keyset.active, keyset.input_fee_ppk) for keyset in wallet.keysets.values()]
    print(f"active, fee: {active}; a new wallet mints in keyset {number[wallet.proofs[0].id]}")


asyncio.run(main())
server.should_exit = True
PYTHON
start() { # with the last number of the derivation path, and the fee of new keysets
    env -i PATH="$PATH" HOME="$folder" CASHU_DIR="$folder" TOR=FALSE LOGURU_AUTOINIT=FALSE LOG_LEVEL=CRITICAL MINT_PRIVATE_KEY=a_seed \
        MINT_DATABASE="$folder/mint" MINT_AUTH_DATABASE="$folder/auth" MINT_BACKEND_BOLT11_SAT=FakeWallet MINT_RATE_LIMIT=FALSE \
        MINT_INPUT_FEE_PPK="$2" MINT_DERIVATION_PATH="m/0'/0'/$1'" \
        FAKEWALLET_DELAY_INCOMING_PAYMENT=0 FAKEWALLET_DELAY_OUTGOING_PAYMENT=0 "$folder/venv/bin/python" start.py | grep active
}
{ start 0 0 && start 1 100 && start 0 100; } >seen
cat seen
printf 'active, fee: %s; a new wallet mints in keyset 0\n' '[(True, 0)]' '[(True, 0), (True, 100)]' '[(True, 0), (True, 100)]' | diff - seen
