#!/usr/bin/env python3
"""Mint, swap and melt against a mint on loopback, and note every point that was made.

What: one run of a wallet. It mints notes, swaps some of them to itself (which spends them), melts some to
an invoice of nobody, and writes down, keyset by keyset, the `Y` of every note it ever held and the `B_` of
every output it ever made, signed or not.

Why: what the mint's database ought to hold must come from somewhere else than the mint's database. The
wallet derives `Y` and `B_` itself, from its secrets and blinding factors.

How: run by `real_nutshell.py` and `real_cdk.py`, under the Python that has nutshell (`cashu`) installed;
it uses nutshell's own wallet library, which speaks to every kind of mint. The wallet lives in
`--directory`, so that a later run goes on with the notes of an earlier one.

Output: `notes.json` in `--directory`:
    {"proofs": {keyset: [Y hex]}, "signed": {keyset: [B_ hex]}, "unsigned": {keyset: [B_ hex]}}
"""

import argparse
import asyncio
import hashlib
import json
import pathlib
import secrets
import time

from bolt11 import Bolt11, Feature, Features, FeatureState, MilliSatoshi, TagChar, Tags, encode
from cashu.core.base import MeltQuoteState
from cashu.core.crypto.b_dhke import hash_to_curve, step1_alice
from cashu.wallet.wallet import Wallet

# The amounts minted in one round, and how many of these notes are then swapped. The others stay unspent,
# together with what the swap gives.
ROUND = [1, 2, 4, 8] * 12
SWAPPED_PER_ROUND = 24

# A melt of this many units makes fee reserves large enough for several blank outputs in most mints.
MELT_AMOUNT = 2000
MELT_RESERVE = 200

# How long the fake payment behind a mint quote may take.
PAYMENT_SECONDS = 30


class NotingWallet(Wallet):
    """A wallet that remembers every output it made and every note it got."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.made = {}    # B_ hex -> keyset, of every output ever sent to the mint
        self.signed = {}  # B_ hex -> keyset, of those that came back signed
        self.notes = {}   # Y hex -> keyset, of every note ever held
        self.spent = 0     # notes given away in swaps and melts of this run
        self.answer_early = False  # ask the mint not to wait for the payment of a melt

    def _construct_outputs(self, amounts, secrets, rs=[], keyset_id=None):
        outputs, rs = super()._construct_outputs(amounts, secrets, rs, keyset_id)
        self.made.update((output.B_, output.id) for output in outputs)
        return outputs, rs

    async def _request(self, method, path, *args, **kwargs):
        # nutshell's wallet has an option for this, but it never reaches the mint.
        if self.answer_early:
            kwargs.setdefault("headers", {})["Prefer"] = "respond-async"
        return await super()._request(method, path, *args, **kwargs)

    async def _construct_proofs(self, promises, secrets, rs, derivation_paths):
        proofs = await super()._construct_proofs(promises, secrets, rs, derivation_paths)
        for proof, secret, r in zip(proofs, secrets, rs):
            blinded, _ = step1_alice(secret, r)
            self.signed[blinded.format().hex()] = proof.id
            self.notes[hash_to_curve(secret.encode()).format().hex()] = proof.id
        return proofs


def invoice_of_nobody(amount, description):
    """A well-formed BOLT11 invoice over `amount` sat that no node of this mint issued."""
    tags = Tags()
    tags.add(TagChar.payment_hash, secrets.token_hex(32))
    tags.add(TagChar.payment_secret, secrets.token_hex(32))
    tags.add(TagChar.description, description)
    tags.add(TagChar.expire_time, 3600)
    tags.add(TagChar.features, Features.from_feature_list({
        Feature.var_onion_optin: FeatureState.required, Feature.payment_secret: FeatureState.required}))
    invoice = Bolt11(currency="bc", date=int(time.time()), tags=tags,
                     amount_msat=MilliSatoshi(amount * 1000))
    return encode(invoice, hashlib.sha256(b"nobody").hexdigest())


async def mint(wallet, amount, split=None):
    """Mints `amount`, in notes of the amounts `split` or as the wallet likes them."""
    quote = await wallet.request_mint(amount)
    deadline = time.monotonic() + PAYMENT_SECONDS
    while not (await wallet.get_mint_quote(quote.quote)).paid:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the fake payment did not arrive within {PAYMENT_SECONDS} s")
        await asyncio.sleep(0.1)
    return await wallet.mint(amount, quote.quote, split=split)


async def swap(wallet, notes):
    """Swaps `notes` to the wallet itself, into the active keyset."""
    await wallet.split(notes, 0)
    wallet.spent += len(notes)


async def melt(wallet, pending, description=""):
    """Melts freshly minted notes to an invoice of nobody; `pending` says which outcome is expected."""
    notes = await mint(wallet, MELT_AMOUNT + MELT_RESERVE)
    quote = await wallet.melt_quote(invoice_of_nobody(MELT_AMOUNT, description))
    # Without an early answer, cdk-mintd would wait a minute for a payment that stays pending.
    wallet.answer_early = pending
    answer = await wallet.melt(notes, quote.request, quote.fee_reserve, quote.quote)
    wallet.answer_early = False
    expected = MeltQuoteState.pending if pending else MeltQuoteState.paid
    if MeltQuoteState(answer.state) != expected:
        raise RuntimeError(f"a melt ended {answer.state}, not {expected}")
    wallet.spent += 0 if pending else len(notes)


async def run(args):
    wallet = await NotingWallet.with_db(args.mint, str(args.directory), unit=args.unit)
    await wallet.load_mint_keysets()
    await wallet.activate_keyset(args.keyset)
    await wallet.load_mint_info(reload=True)
    await wallet.load_proofs()

    # Notes of an older keyset go into the new one: inputs of one keyset, outputs of another.
    older = [note for note in wallet.proofs if note.id != wallet.keyset_id and not note.reserved]
    if older:
        await swap(wallet, older[:len(ROUND)])
    for _ in range(args.melts):
        await melt(wallet, pending=False)
    while wallet.spent < args.notes:
        notes = await mint(wallet, sum(ROUND), ROUND)
        await swap(wallet, notes[:SWAPPED_PER_ROUND])
    for _ in range(args.pending_melts):
        await melt(wallet, pending=True, description=args.pending_description)
    return wallet


def by_keyset(pairs, grouped):
    """Adds (point, keyset) pairs to the lists of `grouped`."""
    for point, keyset in pairs:
        grouped.setdefault(keyset, []).append(point)
    return grouped


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mint", required=True, help="URL of the mint")
    parser.add_argument("--directory", required=True, type=pathlib.Path, help="where the wallet lives")
    parser.add_argument("--unit", default="sat")
    parser.add_argument("--keyset", default=None, help="the keyset to mint in (default: any active one)")
    parser.add_argument("--notes", type=int, default=200, help="spend at least so many notes")
    parser.add_argument("--melts", type=int, default=2, help="melts that settle")
    parser.add_argument("--pending-melts", type=int, default=0, help="melts that stay pending")
    parser.add_argument("--pending-description", default="", metavar="TEXT",
                        help="description in the invoices of these; some fake Lightning wallets obey it")
    args = parser.parse_args()

    wallet = asyncio.run(run(args))

    file = args.directory / "notes.json"
    all_notes = json.loads(file.read_text()) if file.exists() else {"proofs": {}, "signed": {}, "unsigned": {}}
    by_keyset(wallet.notes.items(), all_notes["proofs"])
    by_keyset(wallet.signed.items(), all_notes["signed"])
    by_keyset(((b, k) for b, k in wallet.made.items() if b not in wallet.signed), all_notes["unsigned"])
    file.write_text(json.dumps(all_notes, indent=1))


if __name__ == "__main__":
    main()
