"""A wallet that mints, swaps and melts as it is told, and writes down every point that it made.

What a mint's database should hold must come from somewhere else than that database. The wallet derives `Y` and `B_`
itself, from its secrets and blinding factors. It uses nutshell's wallet library, which works with every mint, and
runs as a process of its own: `python -m e2e.wallet --mint URL --directory DIR`. Each line of standard input is a
command; each is answered by a line, `{}` or `{"error": ...}`, when it is done and `notes.json` is written:

    {"do": "spend", "keyset": id, "notes": 48, "melts": 1, "pending_melts": 0}
    {"do": "settle"}                   take the result of melts that were pending
    {"do": "receive", "tokens": [...]} swap the notes of tokens to the wallet

`notes.json`: {"proofs": {keyset: [Y]}, "signed": {keyset: [B_]}, "unsigned": {keyset: [B_]}, "pairs": {B_: Y},
"received": the number of notes in tokens and their sum, "balance": of the wallet}
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
from cashu.wallet.helpers import deserialize_token_from_string
from cashu.wallet.helpers import receive as receive_token
from cashu.wallet.wallet import Wallet

# The amounts minted in one round, and how many notes are then swapped: new ones, and some that were kept from the round
# before. The others stay unspent.
ROUND = [1, 2, 4, 8] * 12
SWAPPED_PER_ROUND, KEPT_PER_ROUND = 24, 12
# A melt of this many units makes fee reserves large enough for several blank outputs in most mints.
MELT_AMOUNT, MELT_RESERVE = 2000, 200
PAYMENT_SECONDS = 30


class NotingWallet(Wallet):
    """A wallet that remembers every output it made and every note it got."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.made = {}    # B_ hex -> keyset, of every output ever sent to the mint
        self.signed = {}  # B_ hex -> keyset, of those that came back signed
        self.notes = {}   # Y hex -> keyset, of every note ever held
        self.pairs = {}   # B_ hex -> Y hex, of every output whose secret is known
        self.spent = 0
        self.received = [0, 0]
        self.kept = []    # notes of the last round, for the next one
        self.pending = []  # (quote, notes, blank outputs) of pending melts
        self.latest = None  # the secrets made last
        self.answer_early = False  # ask the mint not to wait for the payment of a melt

    async def generate_n_secrets(self, *args, **kwargs):
        self.latest = await super().generate_n_secrets(*args, **kwargs)
        return self.latest

    def _construct_outputs(self, amounts, secrets, rs=[], keyset_id=None):
        outputs, rs = super()._construct_outputs(amounts, secrets, rs, keyset_id)
        self.made.update((output.B_, output.id) for output in outputs)
        self.pairs.update((output.B_, y_of(secret)) for output, secret in zip(outputs, secrets))
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
            self.notes[y_of(secret)] = proof.id
            self.pairs[blinded.format().hex()] = y_of(secret)
        return proofs


def y_of(secret):
    """The `Y` of a note, in hex."""
    return hash_to_curve(secret.encode()).format().hex()


def foreign_invoice(amount, description):
    """A well-formed BOLT11 invoice over `amount` sat that no node of this mint issued."""
    tags = Tags()
    tags.add(TagChar.payment_hash, secrets.token_hex(32))
    tags.add(TagChar.payment_secret, secrets.token_hex(32))
    tags.add(TagChar.description, description)
    tags.add(TagChar.expire_time, 3600)
    tags.add(TagChar.features, Features.from_feature_list({
        Feature.var_onion_optin: FeatureState.required, Feature.payment_secret: FeatureState.required}))
    invoice = Bolt11(currency="bc", date=int(time.time()), tags=tags, amount_msat=MilliSatoshi(amount * 1000))
    return encode(invoice, hashlib.sha256(b"nobody").hexdigest())


async def mint(wallet, amount, split=None):
    """Mints `amount`, in notes of the amounts `split` or as the wallet likes."""
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
    """Melts freshly minted notes to a foreign invoice; `pending` says which outcome is expected."""
    notes = await mint(wallet, MELT_AMOUNT + MELT_RESERVE)
    quote = await wallet.melt_quote(foreign_invoice(MELT_AMOUNT, description))
    # Without an early answer, cdk-mintd would wait a minute for a payment that stays pending.
    wallet.answer_early = pending
    answer = await wallet.melt(notes, quote.request, quote.fee_reserve, quote.quote)
    wallet.answer_early = False
    expected = MeltQuoteState.pending if pending else MeltQuoteState.paid
    if MeltQuoteState(answer.state) != expected:
        raise RuntimeError(f"a melt ended {answer.state}, not {expected}")
    if pending:
        # The blank outputs were made last, as many as the fee reserve asked for.
        wallet.pending.append((quote.quote, notes, wallet.latest))
    else:
        wallet.spent += len(notes)


async def settle(wallet):
    """Takes the result of pending melts: the change of those that were paid, the notes of those that were not."""
    still = []
    for quote, notes, blank in wallet.pending:
        answer = await outcome(wallet, quote)
        state = MeltQuoteState(answer.state)
        if state == MeltQuoteState.paid:
            change = answer.change or []
            await wallet.invalidate(notes)
            # Unblinding verifies the mint's proofs (DLEQ), and so that these are the outputs that were signed.
            await wallet._construct_proofs(change, *(part[:len(change)] for part in blank))
            wallet.spent += len(notes)
        elif state == MeltQuoteState.unpaid:
            await wallet.set_reserved_for_melt(notes, reserved=False, quote_id=None)
            await swap(wallet, notes)
        else:
            still.append((quote, notes, blank))
    wallet.pending = still


async def outcome(wallet, quote):
    """The result of a melt."""
    for _ in range(20):
        try:
            # The mint's answer as it is: the wallet's own method drops the change.
            return await super(Wallet, wallet).get_melt_quote(quote)
        except Exception as error:
            # nutshell looks after pending melts when it starts, and fails requests about them meanwhile.
            last = error
            await asyncio.sleep(0.3)
    raise last


async def receive(wallet, tokens):
    for token in map(deserialize_token_from_string, tokens):
        wallet.received[0] += len(token.proofs)
        wallet.received[1] += sum(proof.amount for proof in token.proofs)
        await receive_token(wallet, token)


async def use(wallet, keyset):
    """Reads the mint's keysets again, and mints in `keyset` from here on."""
    await wallet.load_mint_keysets()
    await wallet.activate_keyset(keyset)
    await wallet.load_mint_info(reload=True)
    await wallet.load_proofs()


async def spend(wallet, notes, melts=0, pending_melts=0, pending_description=""):
    enough = wallet.spent + notes
    # Notes of an older keyset go into the new one: inputs of one keyset, outputs of another.
    older = [note for note in wallet.proofs if note.id != wallet.keyset_id and not note.reserved]
    if older:
        await swap(wallet, older[:len(ROUND)])
    for _ in range(melts):
        await melt(wallet, pending=False)
    while wallet.spent < enough:
        minted = await mint(wallet, sum(ROUND), ROUND)
        unspent = {note.secret for note in wallet.proofs if not note.reserved}
        kept = [note for note in wallet.kept if note.secret in unspent]
        wallet.kept = minted[-KEPT_PER_ROUND:]
        await swap(wallet, kept + minted[:SWAPPED_PER_ROUND - len(kept)])
    for _ in range(pending_melts):
        await melt(wallet, pending=True, description=pending_description)


def by_keyset(points):
    grouped = {}
    for point, keyset in points.items():
        grouped.setdefault(keyset, []).append(point)
    return grouped


async def obey(args, answers):
    wallet = await NotingWallet.with_db(args.mint, str(args.directory), unit="sat")
    commands = {"spend": spend, "settle": settle, "receive": receive}
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        try:
            do = commands[command.pop("do")]
            if "keyset" in command:
                await use(wallet, command.pop("keyset"))
            await do(wallet, **command)
            answer = {}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        unsigned = {point: keyset for point, keyset in wallet.made.items() if point not in wallet.signed}
        (args.directory / "notes.json").write_text(json.dumps(
            {"proofs": by_keyset(wallet.notes), "signed": by_keyset(wallet.signed), "unsigned": by_keyset(unsigned),
             "pairs": wallet.pairs, "received": wallet.received, "balance": sum(note.amount for note in wallet.proofs)}))
        print(json.dumps(answer), file=answers, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mint", required=True, help="URL of the mint")
    parser.add_argument("--directory", required=True, type=pathlib.Path, help="where the wallet lives")
    # The library prints to standard output, which is for answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    asyncio.run(obey(parser.parse_args(), answers))


if __name__ == "__main__":
    main()
