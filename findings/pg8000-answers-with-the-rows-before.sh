#!/usr/bin/env bash
# pg8000 1.31.6: after a value that it cannot read, each query is answered with the rows of the one before.
#
# Expected: `SELECT '24:00'::time` is valid in Postgres, and Python has no such time, so it is an error. Afterwards the connection
# works as after any other error of one statement, or it is closed.
# Seen: a ValueError, after which the rest of that answer still waits in the connection. The next query returns None at once, and
# from then on each one returns the rows of the query before it. Nothing notices. Arrays that do not begin at 1 do the same
# ('[0:1]={5,6}'::int[]).
# Why it matters: the balance of account 1 is shown as that of account 2, in the right form. Close the connection after any error
# other than a `DatabaseError`, or cast such values to text.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "$(jobs -p)" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q pg8000==1.31.6
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

import pg8000.native

connection = pg8000.native.Connection("postgres", host="127.0.0.1", port=int(sys.argv[1]), database="postgres")
print("server:", connection.run("SELECT version()")[0][0].split(" on ")[0])
connection.run("CREATE TABLE account (id int, balance int)")
connection.run("INSERT INTO account VALUES (1, 100), (2, 200), (3, 300), (4, 400)")
ask = lambda number: connection.run(f"SELECT balance FROM account WHERE id = {number}")
before = [ask(number) for number in (1, 2, 3, 4)]
try:
    connection.run("SELECT '24:00'::time")
    raise SystemExit("24:00 is read")
except ValueError as error:
    print("error:", error)
after = [ask(number) for number in (1, 2, 3, 4)]
print("balances before:", before)
print("balances after: ", after)
assert before == [[[100]], [[200]], [[300]], [[400]]] and after == [None, [[100]], [[200]], [[300]]]
PYTHON
