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

With --commands it stays, and does what lines of JSON on its standard input say, each answered by a line of
JSON, `{}` or `{"error": ...}`, when it is done and `notes.json` is written:

    {"do": "spend", "keyset": id, "notes": 48, "melts": 1, "pending_melts": 0}
    {"do": "settle"}                   take what became of the melts that were pending
    {"do": "again", "since": time}     swap the notes once more that were given away since then: the mint forgot it

Output: `notes.json` in `--directory`:
    {"proofs": {keyset: [Y hex]}, "signed": {keyset: [B_ hex]}, "unsigned": {keyset: [B_ hex]}}
and with --commands
    {..., "spent_at": {Y hex: time}, "signed_at": {B_ hex: time}}
with the Unix times by which the mint had said that a note is spent, and that an output is signed.
"""

import argparse
import asyncio
import hashlib
import json
import pathlib
import secrets
import sys
import time
import traceback

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
        self.spent_at = {}   # Y hex -> time by which it was spent
        self.signed_at = {}  # B_ hex -> time by which it was signed
        self.given = []      # (time, notes) of each swap and settled melt
        self.pending = []    # (quote, notes, blank outputs) of melts that are pending
        self.latest = None   # the secrets made last

    async def generate_n_secrets(self, *args, **kwargs):
        self.latest = await super().generate_n_secrets(*args, **kwargs)
        return self.latest

    def gave(self, notes):
        """The mint has taken `notes`."""
        now = time.time()
        self.spent += len(notes)
        self.spent_at.update((y_of(note.secret), now) for note in notes)
        self.given.append((now, list(notes)))

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
            self.signed_at[blinded.format().hex()] = time.time()
            self.notes[y_of(secret)] = proof.id
        return proofs


def y_of(secret):
    """The `Y` of a note, in hex."""
    return hash_to_curve(secret.encode()).format().hex()


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
    wallet.gave(notes)


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
    if pending:
        # The blank outputs were made last, and there are as many as the fee reserve asked for.
        wallet.pending.append((quote.quote, notes, wallet.latest))
    else:
        wallet.gave(notes)


async def settle(wallet):
    """Takes what became of pending melts: the change of those that were paid, the notes of those that were not."""
    still = []
    for quote, notes, blank in wallet.pending:
        answer = await outcome(wallet, quote)
        state = MeltQuoteState(answer.state)
        if state == MeltQuoteState.paid:
            change = answer.change or []
            await wallet.invalidate(notes)
            # Unblinding verifies the mint's proofs (DLEQ), and so that these are the outputs that were signed.
            await wallet._construct_proofs(change, *(part[:len(change)] for part in blank))
            wallet.gave(notes)
        elif state == MeltQuoteState.unpaid:
            await wallet.set_reserved_for_melt(notes, reserved=False, quote_id=None)
            await swap(wallet, notes)
        else:
            still.append((quote, notes, blank))
    wallet.pending = still


async def outcome(wallet, quote):
    """What became of a melt."""
    for _ in range(20):
        try:
            # The mint's answer as it is: the wallet's own method drops the change.
            return await super(Wallet, wallet).get_melt_quote(quote)
        except Exception as error:
            # nutshell looks after pending melts by itself when it starts, and trips over those who ask meanwhile.
            last = error
            await asyncio.sleep(0.3)
    raise last


async def again(wallet, since):
    """Swaps notes that were given away already, to a mint that knows nothing of it any more."""
    lost = [notes for when, notes in wallet.given if when > since]
    wallet.given = [(when, notes) for when, notes in wallet.given if when <= since]
    for notes in lost:
        for note in notes:
            del wallet.spent_at[y_of(note.secret)]
    for notes in reversed(lost):
        await wallet.db.execute(f"DELETE FROM proofs_used WHERE secret IN ({','.join(repr(n.secret) for n in notes)})")
        for note in notes:
            note.reserved = False
        await swap(wallet, notes)


async def opened(args):
    return await NotingWallet.with_db(args.mint, str(args.directory), unit=args.unit)


async def use(wallet, keyset):
    """Speaks to the mint as it is now, and mints in `keyset` from here on."""
    await wallet.load_mint_keysets()
    await wallet.activate_keyset(keyset)
    await wallet.load_mint_info(reload=True)
    await wallet.load_proofs()


async def run(wallet, args):
    await use(wallet, args.keyset)
    enough = wallet.spent + args.notes

    # Notes of an older keyset go into the new one: inputs of one keyset, outputs of another.
    older = [note for note in wallet.proofs if note.id != wallet.keyset_id and not note.reserved]
    if older:
        await swap(wallet, older[:len(ROUND)])
    for _ in range(args.melts):
        await melt(wallet, pending=False)
    while wallet.spent < enough:
        notes = await mint(wallet, sum(ROUND), ROUND)
        await swap(wallet, notes[:SWAPPED_PER_ROUND])
    for _ in range(args.pending_melts):
        await melt(wallet, pending=True, description=args.pending_description)


async def obey(args, answers):
    """Commands from standard input, answers to `answers`, until there are no more."""
    wallet = await opened(args)
    defaults = vars(args)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        try:
            match command.pop("do"):
                case "spend":
                    await run(wallet, argparse.Namespace(**{**defaults, **command}))
                case "settle":
                    await settle(wallet)
                case "again":
                    await again(wallet, command["since"])
                case other:
                    raise ValueError(f"no such command: {other}")
            answer = {}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        write(wallet, args.directory / "notes.json", {"spent_at": wallet.spent_at, "signed_at": wallet.signed_at}, {})
        print(json.dumps(answer), file=answers, flush=True)


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
    parser.add_argument("--commands", action="store_true", help="do what standard input says, and stay")
    args = parser.parse_args()

    if args.commands:
        # The library prints; what it says goes where its log goes.
        answers, sys.stdout = sys.stdout, sys.stderr
        asyncio.run(obey(args, answers))
        return

    async def once():
        wallet = await opened(args)
        await run(wallet, args)
        return wallet

    wallet = asyncio.run(once())
    file = args.directory / "notes.json"
    write(wallet, file, {}, json.loads(file.read_text()) if file.exists() else {})


def write(wallet, file, more, all_notes):
    """Writes `notes.json`: what `all_notes` has, and what the wallet knows, and `more`."""
    all_notes = {"proofs": {}, "signed": {}, "unsigned": {}, **all_notes, **more}
    by_keyset(wallet.notes.items(), all_notes["proofs"])
    by_keyset(wallet.signed.items(), all_notes["signed"])
    by_keyset(((b, k) for b, k in wallet.made.items() if b not in wallet.signed), all_notes["unsigned"])
    file.write_text(json.dumps(all_notes, indent=1))


if __name__ == "__main__":
    main()
