#!/usr/bin/env bash
# pybloom_live (PyPI) 4.0.0: the copy of a full Bloom filter says that it is empty, and takes everything a second time.
#
# Expected: `copy()` gives a filter like the first one: full, with the same length, and `add` raises "BloomFilter is at capacity" there
# too. `copy.copy`, `copy.deepcopy`, `pickle` and `tofile` do give that.
# Seen: `copy()` has all members and the length 0, and so has `union()`. It takes 1,000 more items without an error. Its rate
# of false positives is then 5.8 %, with 0.1 % asked for. `bool(copy)` is False.
# Why it matters: the filters of several days or servers are joined by `union()`, and the check that keeps the rate does not see them.
# `if spent and y in spent:` takes the union for no filter and lets every spent note pass. Use `copy.copy`, and compare the sum of
# the lengths with the capacity before a union.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pybloom_live==4.0.0 bitarray==3.12.3 xxhash==4.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import copy
import pickle

from pybloom_live import BloomFilter


def fill(one, name):
    taken = 0
    try:
        for i in range(1_000):
            one.add(b"%s %d" % (name, i))
            taken += 1
    except IndexError:
        pass
    return taken


full = BloomFilter(capacity=1_000, error_rate=0.001)
for i in range(1_100):
    if len(full) == full.capacity:
        break
    full.add(b"note %d" % i)
members = range(900)
assert all(b"note %d" % i in full for i in members)
copies = {
    "copy()": full.copy(),
    "union()": full.union(BloomFilter(capacity=1_000, error_rate=0.001)),
    "copy.copy": copy.copy(full),
    "copy.deepcopy": copy.deepcopy(full),
    "pickle": pickle.loads(pickle.dumps(full)),
}
seen = {}
for name, one in copies.items():
    before, true = len(one), bool(one)
    taken = fill(one, b"more")
    wrong = sum(b"other %d" % i in one for i in range(20_000)) / 20_000
    seen[name] = before, true, taken > 900, wrong > 0.03
    print(f"{name}: length {before}, bool {true}, {taken} more taken, false positives {wrong:.2%}")
    assert all(b"note %d" % i in one for i in members)
assert seen["copy()"] == seen["union()"] == (0, False, True, True), seen
assert all(seen[name] == (1_000, True, False, False) for name in ("copy.copy", "copy.deepcopy", "pickle")), seen
PYTHON
