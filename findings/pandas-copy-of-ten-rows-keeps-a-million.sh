#!/usr/bin/env bash
# pandas 3.1.1: a deep copy of ten rows keeps the memory of the million rows that they came from.
#
# Expected: `head(10)` may be a view, and `.copy(deep=True)`, "a copy of the data", is the usual way to let the rest go.
# Seen: text is in Arrow arrays by default, and their copy is another view of the same buffers. Once the Series of 1,000,000 hashes in hex
# is deleted, 72 MB stay for ten rows. `memory_usage(deep=True)` says 852 bytes, and a pickle of the copy is small.
# `drop_duplicates().head(10).copy()` and `pd.concat` of slices keep everything, too. A mask, `sample`, or a list of positions copies.
# Why it matters: a cache of a few rows per file, or the last notes of each keyset, grows as if it held every file, and no tool for
# memory shows it. Take the rows with `.iloc[list(range(10))]`.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pandas==3.1.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import gc
from hashlib import sha256

import pandas
import pyarrow

hashes = [sha256(b"note %d" % i).hexdigest() for i in range(1_000_000)]
ways = {
    "head(10).copy(deep=True)": lambda rows: rows.head(10).copy(deep=True),
    "drop_duplicates().head(10).copy()": lambda rows: rows.drop_duplicates().head(10).copy(),
    "concat([head(5), tail(5)])": lambda rows: pandas.concat([rows.head(5), rows.tail(5)]),
    "iloc[list(range(10))]": lambda rows: rows.iloc[list(range(10))],
    "rows[rows.index < 10]": lambda rows: rows[rows.index < 10],
}
seen = []
for name, take in ways.items():
    few = None
    gc.collect()
    before = pyarrow.total_allocated_bytes()
    rows = pandas.Series(hashes)
    whole = pyarrow.total_allocated_bytes() - before
    few = take(rows)
    del rows
    gc.collect()
    kept = pyarrow.total_allocated_bytes() - before
    usage = few.memory_usage(deep=True)
    seen.append((len(few), kept >= whole > 70_000_000, kept < 10_000, usage < 1_000))
    print(f"{name}: {len(few)} rows of {whole:,} bytes; kept: {kept:,}; memory_usage(deep=True): {usage}")
assert seen == [(10, True, False, True)] * 3 + [(10, False, True, True)] * 2, seen
PYTHON
