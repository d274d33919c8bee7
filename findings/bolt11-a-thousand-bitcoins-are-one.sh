#!/usr/bin/env bash
# bolt11 (PyPI) 2.2.0: an invoice for 1,000 BTC asks for one.
#
# Expected: `decode(encode(invoice))` has the amount of the invoice, whatever the amount; BOLT11 sets no upper limit.
# Seen: the encoder divides by 1,000 as long as it can: once for each of the letters p, n, u and m, and then once more, which no letter
# stands for. So 999 and 1,500 BTC are right, and each multiple of 1,000 BTC (10^14 msat) is signed as a thousandth: 1,000 BTC as
# `lnbc1`, 21,000,000 BTC as `lnbc21000`. The invoice is valid, and `msat_to_amount` alone says the same.
# Why it matters: the receiver signs a bill for a thousandth, and the payer owes no more. On test networks round sums of 1,000 coins are
# not unusual, and nutshell makes the invoices of its FakeWallet with this package. Decode each invoice that was made, and compare.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q bolt11==2.2.0 bitstring==4.4.0 # with bitstring 5 it does not import
"$folder/venv/bin/python" - <<'PYTHON'
from bolt11 import Bolt11, MilliSatoshi, TagChar, Tags, decode, encode

BTC = 10**11  # in thousandths of a satoshi


def invoice(amount, currency):
    tags = Tags()
    tags.add(TagChar.payment_hash, "ab" * 32)
    tags.add(TagChar.payment_secret, "cd" * 32)
    tags.add(TagChar.description, "a bill")
    return encode(Bolt11(currency=currency, amount_msat=MilliSatoshi(amount * BTC), date=1_700_000_000, tags=tags), "22" * 32)


seen = {}
for currency in ("bc", "tbs", "bcrt"):
    for amount in (1, 999, 1000, 1500, 5000, 21_000_000):
        text = invoice(amount, currency)
        seen[currency, amount] = decode(text).amount_msat / BTC
        print(f"{amount} BTC: {text[:14]}..., decoded: {seen[currency, amount]:g} BTC")
for (_, amount), decoded in seen.items():
    assert decoded == (amount / 1000 if amount % 1000 == 0 else amount)
PYTHON
