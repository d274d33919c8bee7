#!/usr/bin/env bash
# nutshell (PyPI cashu) 0.21.0, its wallet: a payment that settles late leaves spent notes in the balance and drops its change.
#
# Expected: a payment is pending, settles, and `get_melt_quote` fetches the quote: PAID, with change. The wallet then removes the
# notes that it gave and stores the change, as `melt` does for a payment that settles at once.
# Seen: the wallet removes the notes only if their sum is exactly amount plus fee reserve, and it never stores change. It gave 68 of
# 1,024 sat for a bill of 64: the balance stays 1,024, and 960 are there. A check of the states leaves 956. Only a restore from the
# words finds the 4 sat of change.
# Why it matters: slow payments are often large ones. Later payments choose spent notes and are refused, and every such payment
# costs its change until somebody restores the wallet.
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
    FAKEWALLET_PAY_INVOICE_STATE=PENDING FAKEWALLET_PAYMENT_STATE=PENDING "$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import os
import socket
import threading
import time

import uvicorn
from bolt11 import Bolt11, MilliSatoshi, TagChar, Tags, encode
from cashu.core.settings import settings
from cashu.mint.app import app
from cashu.wallet.wallet import Wallet
from loguru import logger


def invoice(amount):
    tags = Tags()
    tags.add(TagChar.payment_hash, os.urandom(32).hex())
    tags.add(TagChar.payment_secret, os.urandom(32).hex())
    tags.add(TagChar.description, "a bill")
    tags.add(TagChar.expire_time, 3600)
    return encode(Bolt11(currency="bc", amount_msat=MilliSatoshi(amount * 1000), date=int(time.time()), tags=tags), "22" * 32)

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
    wallet, seen = await open_wallet("wallet"), {}
    await mint_notes(wallet, [512, 256, 128, 64, 32, 16, 8, 4, 4])
    bill = await wallet.melt_quote(invoice(64))
    given = [next(note for note in wallet.proofs if note.amount == amount) for amount in (64, 4)]
    seen["paid"] = (await wallet.melt(given, bill.request, bill.fee_reserve, bill.quote)).state
    settings.fakewallet_payment_state = "SETTLED"
    quote = await wallet.get_melt_quote(bill.quote)
    seen["polled"], seen["change"] = quote.state.name, sum(signature.amount for signature in quote.change)
    await wallet.load_proofs(reload=True)
    seen["balance"] = wallet.balance.amount
    await wallet.invalidate(wallet.proofs, check_spendable=True)
    seen["balance, states checked"] = wallet.balance.amount
    seen["restored"] = await restore("restored", wallet.mnemonic)
    print(seen)
    assert list(seen.values()) == ["PENDING", "paid", 4, 1024, 956, 960], seen


asyncio.run(main())
server.should_exit = True
PYTHON
