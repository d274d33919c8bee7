#!/usr/bin/env bash
# pandas 3.1.1: `merge` of an unsigned and a signed column joins numbers that differ.
#
# Expected: integers are compared as integers, so 2^53 + 1 does not join 2^53; or the types must be equal, as for pyarrow's join.
# `Series.isin` finds nothing with the same two columns.
# Seen: `merge` compares the keys as doubles, without a warning (there is one for integers with floats). The result shows the exact
# number of the left side, so nothing gives it away. Of 1,000 hashes that differ in the lowest bit, 990 are joined; `isin` finds
# none.
# Why it matters: 64-bit hashes and ids are unsigned in numpy and polars, and signed in Postgres (`bigint`) and SQLite. A join of
# both finds the wrong owners. Cast both sides to one type first (`.astype("int64")` keeps all bits).
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" -W error - <<'PYTHON'
import hashlib

import pandas as pd

hashes = [int.from_bytes(hashlib.sha256(b"%d" % i).digest()[:8], "big") >> 1 for i in range(1_000)]
left = pd.DataFrame({"hash": pd.array(hashes, dtype="uint64"), "note": range(1_000)})
right = pd.DataFrame({"hash": pd.array([one ^ 1 for one in hashes], dtype="int64"), "owner": range(1_000)})
joined = left.merge(right, on="hash")
same = left.merge(right.astype({"hash": "uint64"}), on="hash")
seen = {"merge": len(joined), "isin": int(left["hash"].isin(right["hash"]).sum()), "merge, both uint64": len(same)}
print("hashes on both sides: 1000, equal: 0; found:", seen)
print("first row:", int(joined["hash"][0]), "is joined with", int(right["hash"][joined["owner"][0]]))
assert seen == {"merge": 990, "isin": 0, "merge, both uint64": 0}, seen
assert joined["hash"].dtype == "uint64" and joined["hash"][0] == hashes[0]
PYTHON
