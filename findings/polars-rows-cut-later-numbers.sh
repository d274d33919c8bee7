#!/usr/bin/env bash
# polars 2.1.0: a frame made of rows cuts the numbers that come after the first hundred to fit them.
#
# Expected: the type comes from the first 100 rows (`infer_schema_length`), and `strict=True`, the default, refuses what does not fit
# later. The same values as a column raise a TypeError, and a text after 100 numbers is refused in rows too.
# Seen: after 100 whole numbers, 1.5 is 1. After 100 decimals of two digits, 0.005 is 0.00, and so is the float. Dictionaries, tuples
# and `read_database` from a cursor do it, without a warning. With `infer_schema_length=None` the decimals are right.
# Why it matters: `numeric` columns of Postgres have no fixed scale, and JSON prints 1.0 as 1. Which amounts lose their digits
# depends on the order of the rows. Give a schema, or None.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q polars==2.1.0
"$folder/venv/bin/python" -W error - <<'PYTHON'
import sqlite3
from decimal import Decimal

import polars as pl


def table(values):
    sqlite3.register_converter("money_text", lambda text: Decimal(text.decode()))
    database = sqlite3.connect(":memory:", detect_types=sqlite3.PARSE_DECLTYPES)
    database.execute("CREATE TABLE payments (amount money_text)")
    database.executemany("INSERT INTO payments VALUES (?)", [(str(one),) for one in values])
    return database


def last(make):
    try:
        return str(make()["amount"][-1])
    except (TypeError, pl.exceptions.ComputeError) as error:
        return type(error).__name__


ways = {
    "dictionaries": lambda values: pl.from_dicts([{"amount": one} for one in values]),
    "tuples": lambda values: pl.DataFrame([(one,) for one in values], schema=["amount"], orient="row", strict=True),
    "a column": lambda values: pl.DataFrame({"amount": values}),
    "dictionaries, all rows inferred": lambda values: pl.from_dicts([{"amount": one} for one in values], infer_schema_length=None),
}
inputs = (1, "text"), (1, 1.5), (Decimal("1.00"), 0.005), (Decimal("1.00"), Decimal("0.005"))
seen = {}
for first, final in inputs:
    seen[first, final] = {name: last(lambda: make([first] * 100 + [final])) for name, make in ways.items()}
    print(f"100 times {first!r}, then {final!r}:", seen[first, final])
money = [Decimal("1.00")] * 100 + [Decimal("0.005")]
query = "SELECT amount FROM payments"
rows = [last(lambda: pl.read_database(query, table(money), infer_schema_length=length)) for length in (100, None)]
print("the decimals by read_database:", rows)
assert list(seen[inputs[0]].values())[:3] == ["ComputeError", "ComputeError", "TypeError"], seen
assert list(seen[inputs[1]].values())[:3] == ["1", "1", "TypeError"], seen
assert list(seen[inputs[2]].values())[:3] == ["0.00", "0.00", "TypeError"], seen
assert list(seen[inputs[3]].values()) == ["0.00", "0.00", "0.005", "0.005"], seen
assert rows == ["0.00", "0.005"], rows
PYTHON
