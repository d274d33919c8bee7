#!/usr/bin/env bash
# pandas (PyPI) 3.1.1 with zstandard 0.25.0: a .zst file that was cut is read without an error.
#
# Expected: a compressed file without its end is refused. pandas refuses the same table as .gz, .bz2 and .xz (EOFError), and polars and
# pyarrow refuse it as .zst.
# Seen: `read_csv` gives the rows up to the cut, 10,083 of 20,000 hashes, and the last may be a part of one. `zstandard.open`, which it
# uses, ends where the file ends, in the middle of a frame. Lines of JSON are refused only because the last one is half a line.
# Why it matters: a full disk or a copy that broke off cuts the file. The hashes of its end are missing from the set without a word,
# and they look unspent. Run `zstd -t`, keep a count, or read such files with polars or pyarrow.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pandas==3.1.1 zstandard==0.25.0 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import bz2
import gzip
import lzma
from hashlib import sha256
from pathlib import Path

import pandas
import polars
import pyarrow.csv
import zstandard

hashes = [sha256(b"note %d" % one).hexdigest() for one in range(20_000)]
tables = {"csv": "hash\n" + "\n".join(hashes) + "\n", "ndjson": "".join(f'{{"hash":"{one}"}}\n' for one in hashes)}
compressors = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.compress}
for name, text in tables.items():
    for suffix, compress in compressors.items():
        body = compress(text.encode())
        Path(f"whole.{name}.{suffix}").write_bytes(body)
        Path(f"cut.{name}.{suffix}").write_bytes(body[: len(body) * 6 // 10])


def rows(read, path):
    try:
        return len(read(path))
    except Exception as error:
        return type(error).__name__


ways = {f"pandas, {suffix}": (pandas.read_csv, f"csv.{suffix}") for suffix in compressors}
ways["pandas, lines of JSON, zst"] = (lambda path: pandas.read_json(path, lines=True), "ndjson.zst")
ways["zstandard.open"] = (lambda path: zstandard.open(path, "rt").read().splitlines()[1:], "csv.zst")
ways["polars, zst"] = polars.read_csv, "csv.zst"
ways["pyarrow, zst"] = pyarrow.csv.read_csv, "csv.zst"
seen = {name: [rows(read, f"{state}.{file}") for state in ("whole", "cut")] for name, (read, file) in ways.items()}
for name, (whole, cut) in seen.items():
    print(f"{name}: whole {whole}, cut {cut}")
assert all(whole == 20_000 for whole, _ in seen.values()), seen
silent = {name for name, (_, cut) in seen.items() if not isinstance(cut, str)}
assert silent == {"pandas, zst", "zstandard.open"}, seen
assert all(9_000 < seen[name][1] < 13_000 for name in silent), seen
PYTHON
