#!/usr/bin/env bash
# bdkpython 3.1.1: an option of `TxBuilder` that stands on a line of its own does nothing.
#
# Expected: `builder.fee_rate(...)` and `builder.add_unspendable(...)` change the builder, as the class says of itself ("After
# assigning it, you set options on it until finally calling `finish`"), or something complains about the unused result.
# Seen: each method returns another builder and leaves the first one as it was. With the two options on lines of their own the
# payment is made at 1 sat/vB instead of 50, and spends the coin that was to be kept; chained calls do what they say.
# Why it matters: nothing fails. The payment is stuck below the going fee, or the coin that was set aside (frozen because it is known
# to somebody, or promised elsewhere) is spent and linked to the others.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q bdkpython==3.1.1
"$folder/venv/bin/python" - <<'PYTHON'
import struct
from hashlib import sha256

import bdkpython as bdk

test = bdk.NetworkKind.TEST
root = bdk.DescriptorSecretKey(test, bdk.Mnemonic.from_entropy(sha256(b"a wallet").digest()[:16]), None)
external, internal = (bdk.Descriptor.new_bip84(root, kind, test) for kind in (bdk.KeychainKind.EXTERNAL, bdk.KeychainKind.INTERNAL))
wallet = bdk.Wallet(external, internal, bdk.Network.REGTEST, bdk.Persister.new_in_memory())


def payment(number, script, sats):
    """A transaction with one output to `script`."""
    spent = sha256(bytes([number])).digest() + struct.pack("<I", 0)
    output = struct.pack("<Q", sats) + bytes([len(script)]) + script
    return bdk.Transaction(struct.pack("<I", 2) + b"\x01" + spent + b"\x00" + b"\xff" * 4 + b"\x01" + output + bytes(4))


for number in range(4):
    script = bytes(wallet.reveal_next_address(bdk.KeychainKind.EXTERNAL).address.script_pubkey().to_bytes())
    wallet.apply_unconfirmed_txs([bdk.UnconfirmedTx(tx=payment(number, script, 100_000 * (number + 1)), last_seen=1_000)])
kept = max(wallet.list_unspent(), key=lambda coin: coin.txout.value.to_sat()).outpoint
receiver = bdk.Script(b"\x00\x14" + bytes(20))
rate = bdk.FeeRate.from_sat_per_vb(50)

builder = bdk.TxBuilder()
builder.fee_rate(rate)
builder.add_unspendable(kept)
# Everything but the coin to be kept.
lines = builder.drain_wallet().drain_to(receiver).finish(wallet)
chain = bdk.TxBuilder().fee_rate(rate).add_unspendable(kept).drain_wallet().drain_to(receiver).finish(wallet)

seen = []
for name, psbt in ("on lines of their own", lines), ("chained", chain):
    transaction = psbt.extract_tx()
    spends = any(str(one.previous_output.txid) == str(kept.txid) for one in transaction.input())
    seen.append((psbt.fee() < 1_000, spends))
    print(f"options {name}: fee {psbt.fee()} sat for {len(transaction.input())} inputs; spends the coin to be kept: {spends}")
assert seen == [(True, True), (False, False)], seen
PYTHON
