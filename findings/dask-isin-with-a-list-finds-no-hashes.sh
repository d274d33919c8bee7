#!/usr/bin/env bash
# dask (PyPI) 2026.8.0 with pandas 3.1.1: `isin` with a list finds 1 of 200 unsigned hashes that are there.
#
# Expected: `isin` of a dask column is `isin` of its pandas partitions. pandas finds all 200, for a list of Python's integers too.
# Seen: dask makes an array of a list first. If some of its numbers are below 2^63 and some are not, numpy makes them doubles, and only
# hashes that a double holds are found. So `frame[~frame.hash.isin(spent)]` keeps 999 of 1,000 rows instead of 800, with no error.
# A list of hashes on one side of 2^63 is right, and so are a set and an array of uint64 with the same numbers.
# Why it matters: `spent = hashes.tolist()` is the usual way to a list, and notes that are spent are then kept as unspent. A test with
# small numbers is right. Give `isin` an array of uint64.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "dask[dataframe]==2026.8.0" pandas==3.1.1 numpy==2.4.6 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
from hashlib import sha256

import dask.dataframe as dd
import numpy as np
import pandas as pd

hashes = np.array([int.from_bytes(sha256(b"%d" % number).digest()[:8]) for number in range(1_000)], dtype=np.uint64)
notes = pd.DataFrame({"hash": hashes})
frame = dd.from_pandas(notes, npartitions=4)
spent = hashes[:200].tolist()
low = [one for one in spent if one < 2**63]
assert 0 < len(low) < 200

seen = {"pandas, list": int(notes.hash.isin(spent).sum())}
for kind, asked in {"list": spent, "set": set(spent), "array": np.array(spent, dtype=np.uint64), "list below 2^63": low}.items():
    seen[f"dask, {kind}"] = int(frame.hash.isin(asked).sum().compute())
seen["dask, rows left without the list"] = len(frame[~frame.hash.isin(spent)].compute())
print(seen)
assert list(seen.values()) == [200, 1, 200, 200, len(low), 999], seen
PYTHON
