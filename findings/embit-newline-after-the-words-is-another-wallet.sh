#!/usr/bin/env bash
# embit (PyPI) 0.8.0: a line break after the words, or two spaces between them, gives another wallet, although the words are "valid".
#
# Expected: `mnemonic_to_seed` "raises a correct error if it is invalid". So words of a file, which end in a line break, are refused, or
# give the seed of the words.
# Seen: the check divides the text at any white space and strips it, so it passes. The seed is then made from the text as it stands,
# with the line break. `mnemonic_is_valid` is true, no error is raised, and the addresses are those of another wallet.
# Why it matters: `open("words").read()` restores an empty wallet from the right words. Worse, a wallet that is made so and funded cannot
# be restored by any other program, which get the same twelve words. Pass `" ".join(text.split())`.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q embit==0.8.0 bip_utils==2.12.3
"$folder/venv/bin/python" - <<'PYTHON'
from hashlib import sha256

from bip_utils import Bip39SeedGenerator
from embit import bip32, bip39, script

words = bip39.mnemonic_from_bytes(sha256(b"a wallet").digest()[:16])
texts = {"as they are": words, "with a line break": words + "\n", "with two spaces": words.replace(" ", "  ", 1)}
seen = {}
for name, text in texts.items():
    key = bip32.HDKey.from_seed(bip39.mnemonic_to_seed(text)).derive("m/84h/0h/0h/0/0")
    same = Bip39SeedGenerator(text.strip()).Generate() == bip39.mnemonic_to_seed(words)
    seen[name] = bip39.mnemonic_is_valid(text), script.p2wpkh(key.key).address(), same
    print(f"words {name}: valid {seen[name][0]}, first address {seen[name][1]}; bip_utils of the stripped text agrees: {same}")
assert [valid for valid, _, _ in seen.values()] == [True] * 3
assert len({address for _, address, _ in seen.values()}) == 3
assert all(same for _, _, same in seen.values())
PYTHON
