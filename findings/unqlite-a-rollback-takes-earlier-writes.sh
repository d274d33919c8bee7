#!/usr/bin/env bash
# unqlite (PyPI) 1.2.0: a transaction that is rolled back takes the writes before it with it.
#
# Expected: a write outside a transaction stands, and `with db.transaction():` that raises undoes what was written within it, as with
# sqlite3 in autocommit mode.
# Seen: the first write opens a transaction of its own, which ends with `commit()`, `close()` or the end of a `transaction()` block.
# `begin()` in between ("Begin a new transaction") returns True and does nothing, so `rollback()` undoes all writes since then: a
# hundred notes, a row of a collection, and a deletion.
# Why it matters: one payment that fails takes back all that the program has written since it started, with no error.
# Call `commit()` before `begin()` or `transaction()`.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q unqlite==1.2.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from unqlite import UnQLite


def notes_left(name, commit_first):
    """Writes a hundred notes, then begins a payment that fails."""
    with UnQLite(name) as db:
        db["kept"] = "committed"
        db["spent"] = "committed"
        db.commit()
        rows = db.collection("rows")
        rows.create()
        rows.store({"amount": 8})
        for number in range(100):
            db[f"note {number}"] = "8 sat"
        del db["spent"]
        assert sum(key.startswith("note") for key in db.keys()) == 100
        if commit_first:
            db.commit()
        try:
            assert db.begin() is True
            with db.transaction():
                db["payment"] = "begun"
                raise ValueError("no route")
        except ValueError:
            pass
    with UnQLite(name) as db:
        keys = list(db.keys())
        found = {name: name in keys for name in ("kept", "spent", "payment")}
        return sum(key.startswith("note") for key in keys), found, len(db.collection("rows").all() or [])


seen = {commit_first: notes_left(f"notes {commit_first}", commit_first) for commit_first in (False, True)}
for commit_first, (notes, found, rows) in seen.items():
    print(f"commit() first: {commit_first}, notes left: {notes}, rows: {rows}, other keys: {found}")
assert seen[False] == (0, {"kept": True, "spent": True, "payment": False}, 0), seen
assert seen[True] == (100, {"kept": True, "spent": False, "payment": False}, 1), seen
PYTHON
