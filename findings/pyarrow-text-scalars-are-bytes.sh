#!/usr/bin/env bash
# pyarrow 26.0.1: a scalar of text passes for bytes.
#
# Expected: `hashlib` refuses text ("Strings must be encoded before hashing"), so a column of hex digits that somebody forgot to
# decode is an error at its first item.
# Seen: what iteration over a pyarrow column of strings gives offers its UTF-8 bytes as a buffer. `hashlib.sha256`, `zlib.crc32` and
# `bytes.join` take it without a word. Only a null raises, at its place in the data.
# Why it matters: a set of hashes of such items has none of its members, and nothing says so. Ask for the type of the column, or
# call `as_py()`, which gives a `str` that is refused.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import hashlib
import zlib

import pyarrow as pa

digest = lambda item: hashlib.sha256(item).hexdigest()[:8]
column = pa.array(["00ff", "0a0b", None])
print("type of a column of hex digits:", column.type)
try:
    digest(column[0].as_py())
    raise SystemExit("str is hashed")
except TypeError as error:
    print("str:", error)
seen = [digest(column[0]), f"{zlib.crc32(column[0]):08x}", b"".join([column[1]])]
print("scalar of text:", seen, "as if it were", b"00ff", "and not", bytes.fromhex("00ff"))
try:
    digest(column[2])
    raise SystemExit("null is hashed")
except ValueError as error:
    print("null:", error)
assert seen == [digest(b"00ff"), f"{zlib.crc32(b'00ff'):08x}", b"0a0b"], seen
assert digest(b"00ff") != digest(bytes.fromhex("00ff"))
PYTHON
