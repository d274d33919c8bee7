#!/usr/bin/env bash
# pyarrow 26.0.1: a pickle of ten rows has the whole column in it.
#
# Expected: `table.slice(0, 10).nbytes` is 360, so a pickle of it, as multiprocessing and task queues make it, has some hundred bytes more.
# Seen: it has 3.6 MB, all of the 100,000 hashes. The same for slices of arrays, of batches, and for what `to_batches` cuts a table into:
# 100 batches of 1,000 rows are pickled to 360 MB, where the table takes 3.6. The IPC stream of a slice has 656 bytes, and `take` copies.
# Why it matters: a job that is dealt out in a hundred parts sends a hundred times its data, and each worker holds all of it. Send IPC
# streams, or `take` the rows first.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pickle
from hashlib import sha256

import pyarrow

hashes = pyarrow.array([sha256(b"note %d" % i).digest() for i in range(100_000)])
table = pyarrow.table({"hash": hashes})
few = table.slice(0, 10)
stream = pyarrow.BufferOutputStream()
with pyarrow.ipc.new_stream(stream, few.schema) as writer:
    writer.write(few)
size = {
    "the table": len(pickle.dumps(table)),
    "10 rows of the table": len(pickle.dumps(few)),
    "10 rows of the array": len(pickle.dumps(hashes.slice(0, 10))),
    "100 batches of 1,000 rows": sum(len(pickle.dumps(batch)) for batch in table.to_batches(max_chunksize=1000)),
    "10 rows by take": len(pickle.dumps(table.take(list(range(10))))),
    "10 rows as an IPC stream": stream.getvalue().size,
}
for name, length in size.items():
    print(f"{name}: {length:,} bytes")
whole, rows, array, batches, taken, ipc = size.values()
assert few.nbytes < 1000 and whole > 3_500_000
assert rows > 0.99 * whole and array > 0.99 * whole and batches > 99 * whole
assert taken < 1000 and ipc < 1000
assert pickle.loads(pickle.dumps(few)).equals(few)
PYTHON
