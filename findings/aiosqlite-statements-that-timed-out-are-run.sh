#!/usr/bin/env bash
# aiosqlite (PyPI) 0.22.1: a statement that was cancelled or timed out is run all the same, later.
#
# Expected: `wait_for(db.execute(...), 0.2)` that raises a TimeoutError has changed nothing, as asyncpg and psycopg cancel the statement
# at the server. A program that tries again, or gives the payment up, is right.
# Seen: the statement stays in the queue of the connection's thread. It is run when the lock of the other process is gone, and the
# next `commit()` on the connection writes it: one row for each try, though each raised. So does a statement that had not begun.
# Why it matters: a payment that was given up is in the books, and one that was tried three times is there three times. Call
# `rollback()` after a timeout (it is queued behind the statement), and set SQLite's own `timeout` below yours.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q aiosqlite==0.22.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import sqlite3

import aiosqlite

books = sqlite3.connect("books", isolation_level=None)
books.execute("CREATE TABLE payments (bill)")


async def pay(db, bill, tries, after):
    """Tries to write a payment while another process holds the lock."""
    raised = 0
    books.execute("BEGIN IMMEDIATE")
    for _ in range(tries):
        try:
            await asyncio.wait_for(db.execute("INSERT INTO payments VALUES (?)", (bill,)), 0.2)
        except TimeoutError:
            raised += 1
    books.execute("COMMIT")
    await after()
    await db.execute("INSERT INTO payments VALUES ('another bill')")
    await db.commit()
    return raised


async def nothing():
    pass


async def main():
    async with aiosqlite.connect("books", timeout=60) as db:
        raised = await pay(db, "given up", 3, nothing), await pay(db, "rolled back", 3, db.rollback)
    rows = dict(books.execute("SELECT bill, count(*) FROM payments GROUP BY bill"))
    print("timeouts:", raised, "rows:", rows)
    assert raised == (3, 3), raised
    assert rows == {"given up": 3, "another bill": 2}, rows


asyncio.run(main())
PYTHON
