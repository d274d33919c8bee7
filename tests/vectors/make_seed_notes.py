#!/usr/bin/env python3
"""The notes that nutshell derives from a seed (NUT-13), as JSON: `make_seed_notes.py COUNT` prints so many.

It needs nutshell (`pip install -r ../../e2e/requirements.txt`). `seed-notes.json` has 24.
"""

import asyncio
import base64
import json
import random
import sys
from types import SimpleNamespace

from bip32 import BIP32
from cashu.core.crypto import b_dhke
from cashu.core.crypto.secp import PrivateKey
from cashu.wallet.secrets import WalletSecrets
from mnemonic import Mnemonic

EDGES = [0, 1, 2**31 - 2, 2**31 - 1]
KEYSETS = [lambda dice: "00" + dice.randbytes(7).hex(), lambda dice: "01" + dice.randbytes(32).hex(),
           lambda dice: base64.b64encode(dice.randbytes(9)).decode()]


def note(number, dice):
    words = Mnemonic("english").to_mnemonic(dice.randbytes(dice.choice([16, 20, 24, 28, 32])))
    seed, keyset = Mnemonic.to_seed(words), KEYSETS[number % 3](dice)
    counter = EDGES[number // 3] if number < 3 * len(EDGES) else dice.choice([dice.randrange(2**10), dice.randrange(2**31)])
    wallet = SimpleNamespace(seed=seed, bip32=BIP32.from_seed(seed))
    derive = WalletSecrets._derive_secret_hmac_sha256 if keyset[:2] == "01" and len(keyset) > 16 \
        else WalletSecrets._derive_secret_bip32
    secret, r, _ = asyncio.run(derive(wallet, counter, keyset))
    blinded, _ = b_dhke.step1_alice(secret.hex(), PrivateKey(r))
    y = b_dhke.hash_to_curve(secret.hex().encode())
    return {"words": words, "seed": seed.hex(), "keyset": keyset, "counter": counter, "secret": secret.hex(), "r": r.hex(),
            "Y": y.format().hex(), "B_": blinded.format().hex()}


dice = random.Random("seed notes")
rows = (json.dumps(note(number, dice)) for number in range(int(sys.argv[1])))
print("[\n" + ",\n".join(rows) + "\n]")
