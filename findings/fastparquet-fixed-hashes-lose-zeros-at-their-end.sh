#!/usr/bin/env bash
# fastparquet (PyPI) 2026.9.0: hashes in a column of fixed length lose the zero bytes at their end.
#
# Expected: each value of a column of 32 bytes (FIXED_LEN_BYTE_ARRAY) has 32 bytes, as pyarrow and polars read it. Issue 504 of
# the repository, which is closed, reports the like of columns of any length, and these are right.
# Seen: of 5,000 digests that pyarrow wrote as `binary(32)`, the 10 that end in zero come back shorter, and sixteen zero bytes come
# back empty. A filter for such a digest finds no row, with no error. fastparquet writes such a column whole (`fixed_text`), and cuts
# only as it reads. The same digests in a column of any length are whole.
# Why it matters: one hash in 256 is another one, so it is not found, and a join loses its row. Fixed length is what one takes for
# hashes. Read such files with pyarrow, or fill the values up with `ljust(32, b"\0")`.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q fastparquet==2026.9.0 pandas==3.1.1 numpy==2.4.6 pyarrow==26.0.1 polars==2.1.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from hashlib import sha256

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from fastparquet import ParquetFile, write

digests = [sha256(b"%d" % number).digest() for number in range(5_000)]
cut = [one for one in digests if one.endswith(b"\0")]
pq.write_table(pa.table({"fixed": pa.array(digests, pa.binary(32)), "free": pa.array(digests, pa.binary())}), "digests")
pq.write_table(pa.table({"zeros": pa.array([bytes(16)], pa.binary(16))}), "zeros")

file = ParquetFile("digests")
read = file.to_pandas()
seen = {"end in zero": len(cut)}
for column in "fixed", "free":
    seen[column] = sum(len(one) != 32 for one in read[column])
    rows = (file.to_pandas(filters=[(column, "==", one)], row_filter=True) for one in (cut[0], digests[0]))
    seen[f"{column}, rows found"] = [len(one) for one in rows]
seen["pyarrow"] = sum(len(one) != 32 for one in pq.read_table("digests")["fixed"].to_pylist())
seen["polars"] = int((pl.read_parquet("digests")["fixed"].bin.size() != 32).sum())
write("again", read[["free"]], fixed_text={"free": 32}, object_encoding="bytes")
seen["written by fastparquet, read by pyarrow"] = sum(one not in set(digests) for one in pq.read_table("again")["free"].to_pylist())
seen["written by fastparquet, read by it"] = sum(one not in set(digests) for one in ParquetFile("again").to_pandas()["free"])
seen["sixteen zeros"] = ParquetFile("zeros").to_pandas()["zeros"][0]
print(seen)
assert list(seen.values()) == [10, 10, [0, 1], 0, [1, 1], 0, 0, 0, 10, b""], seen
PYTHON
