#!/usr/bin/env bash
# buidl 0.2.36: a block filter in which two scripts share a value finds none of its scripts.
#
# Expected: all scripts of the block are in its filter (BIP158 has no false negatives), whatever their values are. Two of N scripts
# share a value in about N / 1.57 million of blocks; the filter then has that value twice and still counts N.
# Seen: `CFilterMessage` keeps the values as a set and takes the set's size for N. With one value less, every script is mapped to
# another range: 0 of 100 are found. With 100 different values all are. Written again, the filter is another one as well, so it
# does not match its filter header.
# Why it matters: blocks have thousands of scripts, so this is one block in some 300 at 5,000. A wallet that uses the package
# skips such a block, with no error and whatever its scripts are, and does not see its payments.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q buidl==0.2.36
"$folder/venv/bin/python" - <<'PYTHON'
from hashlib import sha256

from buidl.compactfilter import GOLOMB_M, CFilterMessage, encode_gcs, hash_to_range
from buidl.script import P2WPKHScriptPubKey

N = 100
block = sha256(b"a block").digest()
key = block[::-1][:16]


def program(number):
    return sha256(b"%d" % number).digest()[:20]


def script(number):
    return b"\x00\x14" + program(number)


# Two scripts with one value.
values, second = {}, 0
while (value := hash_to_range(key, script(second), N * GOLOMB_M)) not in values:
    values[value] = second
    second += 1
first = values[value]

seen = {}
for name, numbers in {
    "100 values": list(range(100)),
    "99 values, one of them twice": [first, second, *range(98)],
}.items():
    numbers = list(dict.fromkeys(numbers))
    assert len(numbers) == N
    coded = encode_gcs(key, [script(number) for number in numbers])
    message = CFilterMessage(0, block, coded)
    found = sum(P2WPKHScriptPubKey(program(number)) in message for number in numbers)
    seen[name] = found, message.cf.serialize() == coded
    print(f"{name}: {found} of {N} scripts found; written again it is equal: {seen[name][1]}")
assert list(seen.values()) == [(100, True), (0, False)], seen
PYTHON
