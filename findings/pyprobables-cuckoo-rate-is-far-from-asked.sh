#!/usr/bin/env bash
# pyprobables 0.7.0: a cuckoo filter made for an error rate of 0.001 says yes to 72 % of what was never added.
#
# Expected: `CuckooFilter.init_error_rate(error_rate=0.001, capacity=10_000)` has a false-positive rate of about 0.001 when it is
# full. Its `error_rate` says 0.001.
# Seen: 0.72 with 10,000 items, 0.995 with 40,000. For that rate an item becomes a fingerprint of 13 bits, and both of its buckets
# depend on these bits alone. So the filter is a set of at most 8,192 values, and it fills up. With a fingerprint of 4 bytes, which
# the constructor takes by default, the rate is far below the one asked for.
# Why it matters: a filter that is sized by the error rate lets nearly all look-ups through to the database that it should spare.
# Measure the rate with items that are not members.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyprobables==0.7.0
"$folder/venv/bin/python" - <<'PYTHON'
from probables import CuckooFilter


def measure(cuckoo, items):
    for i in range(items):
        cuckoo.add(f"note {i}")
    absent = sum(not cuckoo.check(f"note {i}") for i in range(items))
    return absent, sum(cuckoo.check(f"note {i}") for i in range(items, items + 50_000)) / 50_000


seen = {}
for items in (1_000, 10_000, 40_000):
    cuckoo = CuckooFilter.init_error_rate(error_rate=0.001, capacity=items)
    absent, seen[items] = measure(cuckoo, items)
    print(f"{items} items, asked for {cuckoo.error_rate}, {cuckoo.fingerprint_size_bits} bits: {seen[items]}, {absent} members absent")
_, whole = measure(CuckooFilter(capacity=10_000, finger_size=4), 10_000)
print("10000 items, fingerprint of 4 bytes:", whole)
assert seen[1_000] > 0.05 and seen[10_000] > 0.5 and seen[40_000] > 0.9 and whole < 0.001, (seen, whole)
PYTHON
