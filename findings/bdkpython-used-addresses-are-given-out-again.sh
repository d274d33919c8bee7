#!/usr/bin/env bash
# bdkpython (PyPI) 3.1.1: an address that was marked as used is given to the next customer after a restart.
#
# Expected: `persist()` keeps what the wallet knows: revealed addresses, transactions, locked coins. So an address that `mark_used`
# took out of `next_unused_address` stays out when the wallet is loaded from the file.
# Seen: the marks are in memory alone. After `persist()` (True) and a load, the three marked addresses are the first to be given out,
# in the same order. A coin that was locked is still locked. Change addresses of payments that are not sent yet come again, too.
# Why it matters: a shop marks one address per bill. After a restart two customers pay to one address, and the shop cannot tell who
# paid, or ships twice. Use `reveal_next_address` for bills: its index is kept.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q bdkpython==3.1.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import struct
from hashlib import sha256

import bdkpython as bdk

test, external = bdk.NetworkKind.TEST, bdk.KeychainKind.EXTERNAL
root = bdk.DescriptorSecretKey(test, bdk.Mnemonic.from_entropy(sha256(b"a wallet").digest()[:16]), None)
descriptors = [bdk.Descriptor.new_bip84(root, kind, test) for kind in (external, bdk.KeychainKind.INTERNAL)]


def bill(wallet, persister):
    """An address for a customer who has not paid yet."""
    address = wallet.next_unused_address(external)
    assert wallet.mark_used(external, address.index)
    assert wallet.persist(persister)
    return str(address.address)


def pay(wallet, sats):
    """A payment to the wallet, so that there is a coin to lock."""
    script = bytes(wallet.reveal_next_address(external).address.script_pubkey().to_bytes())
    spent = sha256(b"a coin").digest() + bytes(4)
    output = struct.pack("<Q", sats) + bytes([len(script)]) + script
    raw = struct.pack("<I", 2) + b"\x01" + spent + b"\x00" + b"\xff" * 4 + b"\x01" + output + bytes(4)
    wallet.apply_unconfirmed_txs([bdk.UnconfirmedTx(tx=bdk.Transaction(raw), last_seen=1_000)])


persister = bdk.Persister.new_sqlite("wallet.sqlite")
wallet = bdk.Wallet(*descriptors, bdk.Network.REGTEST, persister)
pay(wallet, 100_000)
wallet.lock_outpoint(wallet.list_unspent()[0].outpoint)
before = [bill(wallet, persister) for _ in range(3)]

persister = bdk.Persister.new_sqlite("wallet.sqlite")
loaded = bdk.Wallet.load(*descriptors, persister)
after = []
for _ in range(3):
    address = loaded.next_unused_address(external)
    loaded.mark_used(external, address.index)
    after.append(str(address.address))
kept = len(loaded.list_locked_outpoints()), loaded.balance().total.to_sat()
for number, (old, new) in enumerate(zip(before, after), 1):
    print(f"customer {number}: {old}, customer {number + 3}, after the restart: {new}")
print("locked coins, balance:", kept)
assert len(set(before)) == 3 and after == before, (before, after)
assert kept == (1, 100_000), kept
PYTHON
