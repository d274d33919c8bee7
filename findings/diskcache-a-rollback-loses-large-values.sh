#!/usr/bin/env bash
# diskcache (PyPI) 5.6.3: a transaction that is rolled back has deleted the large values that it touched.
#
# Expected: what happens in `with cache.transact()` is atomic. If the block raises, the cache holds what it held before.
# Seen: the rows are back, but not the files in which values of 32 KiB and more are kept: each statement deletes the file of the value
# before at once. So after an overwrite, `del`, `pop`, `clear` or `evict` that was rolled back, the key is in the cache and in its
# length, `cache[key]` is a KeyError, and `get` returns the default. Values below 32 KiB come back. Each overwrite also leaves its own
# file behind without a row. `Index` loses the values too; its length still counts them.
# Why it matters: the transaction is there for the case of an error, and then the larger values are gone, without an error. Tests with
# short values are right. Set `disk_min_file_size` above the largest value if transactions may fail, or write under new keys.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q diskcache==5.6.3
cd "$folder"
venv/bin/python - <<'PYTHON'
import os

from diskcache import Cache, Index

SIZES = {"short": 30_000, "long": 40_000}
BEFORE = {name: os.urandom(size) for name, size in SIZES.items()}


def change(store, how):
    for name in SIZES:
        if how == "overwrite":
            store[name] = os.urandom(50_000)
        elif how == "del":
            del store[name]
        elif how == "pop":
            assert store.pop(name) == BEFORE[name]
    if how == "clear":
        store.clear()


def roll_back(store, how):
    store.update(BEFORE) if isinstance(store, Index) else [store.set(*one) for one in BEFORE.items()]
    try:
        with store.transact():
            change(store, how)
            raise RuntimeError("the second step failed")
    except RuntimeError:
        pass
    cache = store.cache if isinstance(store, Index) else store
    unknown = sum("unknown file" in str(one.message) for one in cache.check())
    kept = {name: (name in store, store.get(name) == value) for name, value in BEFORE.items()}
    return {"length": len(store), **kept, "files without a row": unknown}


for kind, make in {
    "Cache": Cache,
    "Index": Index,
    "Cache with files from 1 MB on": lambda name: Cache(name, disk_min_file_size=10**6),
}.items():
    for how in ("overwrite", "del", "pop", "clear"):
        seen = roll_back(make(f"{kind}-{how}"), how)
        print(f"{kind}, {how} rolled back; (in the store, as before):", seen)
        lost = (True, True) if "MB" in kind else (kind == "Cache", False)
        unknown = 2 if how == "overwrite" and "MB" not in kind else 0
        assert seen == {"length": 2, "short": (True, True), "long": lost, "files without a row": unknown}
PYTHON
