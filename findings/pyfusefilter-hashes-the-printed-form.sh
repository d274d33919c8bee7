#!/usr/bin/env bash
# pyfusefilter 1.3.0 with xxhash 3.6.0: an item is what `str()` prints of it.
#
# Expected: a key is 64 bits, as in the C library that it binds, or the hash of the item's bytes. What Python calls equal is one
# item: a memoryview and its bytes have the same `hash()` and are one member of a set.
# Seen: the package hashes the printed form. A memoryview prints its address, so no other view of the same bytes is found. A
# bytearray is not found by its bytes. The number 5 is found by the text "5".
# Why it matters: psycopg2 gives a column of `bytea` as memoryviews. A filter of such rows holds all of them and says no to each:
# 1,000 of 1,000 false negatives, from a structure that has none. Give it `bytes`, or hex as text. (With xxhash 4, which the package
# permits, every call raises a TypeError instead.)
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyfusefilter==1.3.0 xxhash==3.6.0
"$folder/venv/bin/python" - <<'PYTHON'
from pyfusefilter import Fuse16

items = [bytes([2]) + i.to_bytes(32, "big") for i in range(1_000)]
rows = [memoryview(item) for item in items]
assert set(rows) == set(items)
views, arrays, plain = Fuse16(rows), Fuse16([bytearray(item) for item in items]), Fuse16(items)
seen = {
    "bytes among bytes": sum(item in plain for item in items),
    "views among views, the same objects": sum(row in views for row in rows),
    "views among views, made again": sum(row in views for row in [memoryview(item) for item in items]),
    "bytes among views": sum(item in views for item in items),
    "bytes among bytearrays": sum(item in arrays for item in items),
    "number among texts": sum(i in Fuse16([str(i) for i in range(10)]) for i in range(10)),
}
for name, found in seen.items():
    print(f"{name}: {found} found")
found = list(seen.values())
assert found[:2] == [1_000, 1_000] and max(found[2:5]) < 10 and found[5] == 10, seen
PYTHON
