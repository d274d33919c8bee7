#!/usr/bin/env bash
# nutshell (PyPI cashu) 0.21.0, its wallet: the seed does not bring back the change of a locked send.
#
# Expected: a wallet with words (NUT-13) derives all notes that it keeps. Only the locked notes cannot come back, and they belong to
# somebody else. A restore after a locked send of 8 out of 64 sat finds 56.
# Seen: with a lock, the change has random secrets too, with "custom" as their derivation path. The words restore 0 of 56 sat.
# Without a lock the change is derived and comes back.
# Why it matters: one locked payment takes the rest of the notes that it used out of the backup, and nothing says so. Swap the
# change to yourself after a locked send. If a restore finds less than the balance, neither mint nor restore need be at fault.
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


async def restore(name, words):
    wallet = await open_wallet(name, words)
    for keyset in list(wallet.keysets):
        await wallet.restore_tokens_for_keyset(keyset, to=1, batch=25)
    await wallet.load_proofs(reload=True)
    await wallet.invalidate(wallet.proofs, check_spendable=True)
    return wallet.balance.amount


async def main():
    seen = {}
    for name in ("locked", "plain"):
        wallet = await open_wallet(name)
        await mint_notes(wallet, [64])
        lock = await wallet.create_p2pk_lock(await wallet.create_p2pk_pubkey()) if name == "locked" else None
        kept, _ = await wallet.swap_to_send(wallet.proofs, 8, secret_lock=lock)
        derived = sum(note.amount for note in kept if note.derivation_path != "custom")
        restored = await restore(f"{name}, restored", wallet.mnemonic)
        seen[name] = {"kept": sum(note.amount for note in kept), "derived": derived, "restored": restored}
    print(seen)
    # The plain note of 8 is derived and not received by anybody yet: 64 come back.
    assert seen == {"locked": {"kept": 56, "derived": 0, "restored": 0}, "plain": {"kept": 56, "derived": 56, "restored": 64}}


asyncio.run(main())
server.should_exit = True
PYTHON
