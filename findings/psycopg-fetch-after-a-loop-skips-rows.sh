#!/usr/bin/env bash
# psycopg (PyPI) 3.3.9: a fetch from a server cursor that was read with `next` or a loop skips rows.
#
# Expected: a cursor has one position, `rownumber`. `next(cursor)`, a loop that is left early, `fetchone`, `fetchmany` and `fetchall`
# all go on from it, as they do with a cursor of the client. For a server cursor the documentation says that iteration reads
# `itersize` rows at once to save round trips.
# Seen: the rows that were read ahead belong to the iteration alone. After `next`, `fetchmany` begins at row 101, and `fetchall` lacks
# 99 rows of 1,000. No error follows, and `rownumber` counts what was handed out: 901. A second loop then continues with row 2, so
# rows come out of order as well. With up to 100 rows `fetchall` after `next` is empty.
# Why it matters: a program that looks at the first row and fetches the rest in batches exports a database without 99 of its rows, and
# its own count agrees with `rownumber`. Read a server cursor either by iteration or with `fetch*`, never with both.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "$(jobs -p)" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q psycopg==3.3.9 psycopg-binary==3.3.9
npm install --silent --no-audit --no-fund --ignore-scripts @electric-sql/pglite@0.5.14 @electric-sql/pglite-socket@0.2.17 >/dev/null
cat >postgres.mjs <<'JAVASCRIPT'
import { PGlite } from '@electric-sql/pglite'
import { PGLiteSocketServer } from '@electric-sql/pglite-socket'
const server = new PGLiteSocketServer({ db: await PGlite.create(), host: '127.0.0.1', port: 0 })
server.addEventListener('listening', event => console.log(event.detail.port))
await server.start()
setTimeout(() => process.exit(), 120_000)
JAVASCRIPT
node postgres.mjs >port &
for _ in {1..300}; do
    [ -s port ] && break
    sleep 0.2
done
timeout 60 venv/bin/python - "$(cat port)" <<'PYTHON'
import sys

import psycopg

connection = psycopg.connect(host="127.0.0.1", port=sys.argv[1], user="postgres", dbname="postgres", sslmode="disable")
print("server:", connection.execute("SELECT version()").fetchone()[0].split(" on ")[0])


def read(name, rows):
    """The rows that come after one `next`, and where the cursor says that it is."""
    with connection.cursor(name) if name else connection.cursor() as cursor:
        cursor.execute("SELECT generate_series(1, %s)", [rows])
        next(cursor)
        batch, rest = [row for row, in cursor.fetchmany(3)], cursor.fetchall()
        position = cursor.rownumber
        return {"fetchmany": batch, "fetchall": len(rest), "rownumber": position, "loop": [row for row, in cursor][:2]}


seen = {(kind, rows): read(kind, rows) for kind in ("", "server") for rows in (1000, 100)}
for (kind, rows), answer in seen.items():
    print(f"{kind or 'client'} cursor, {rows} rows:", answer)
assert list(seen.values()) == [
    {"fetchmany": [2, 3, 4], "fetchall": 996, "rownumber": 1000, "loop": []},
    {"fetchmany": [2, 3, 4], "fetchall": 96, "rownumber": 100, "loop": []},
    {"fetchmany": [101, 102, 103], "fetchall": 897, "rownumber": 901, "loop": [2, 3]},
    {"fetchmany": [], "fetchall": 0, "rownumber": 1, "loop": [2, 3]},
]
PYTHON
