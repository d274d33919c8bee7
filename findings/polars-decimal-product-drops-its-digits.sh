#!/usr/bin/env bash
# polars 2.1.0: the product of two decimals of two digits has two digits, so 0.05 * 0.05 is 0.00.
#
# Expected: as in SQL, DuckDB and Arrow, the scale of a product is the sum of both scales: 0.0025. `Decimal` is the type for money
# since it is exact, and what does not fit is an error.
# Seen: an expression keeps the larger scale of both and rounds each row to it, without a warning; the precision becomes 38, so
# there is room. The same product in polars' own SQL is 0.0025. A quotient of two whole numbers is whole: 2 / 3 is 1.
# Why it matters: a fee of 0.40 % on 1,000 payments of 1.00 is 0.00 by rows and 4.00 by the sum, or in SQL. Cast one side to the
# scale of the result first.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q polars==2.1.0 duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
from decimal import Decimal

import duckdb
import polars as pl

amount, rate = pl.col("amount"), pl.col("rate")
money = pl.DataFrame({"amount": ["0.05"], "rate": ["0.05"]}).with_columns(pl.all().cast(pl.Decimal(10, 2)))
whole = pl.DataFrame({"amount": [2], "rate": [3]}).with_columns(pl.all().cast(pl.Decimal(10, 0)))
payments = pl.DataFrame({"amount": ["1.00"] * 1_000, "rate": ["0.40"] * 1_000}).with_columns(pl.all().cast(pl.Decimal(10, 2)))
seen = {
    "0.05 * 0.05, polars": money.select(amount * rate).item(),
    "0.05 * 0.05, polars, rate cast to scale 4": money.select(amount * rate.cast(pl.Decimal(38, 4))).item(),
    "0.05 * 0.05, polars' SQL": pl.SQLContext(money=money).execute("SELECT amount * rate AS x FROM money").collect().item(),
    "0.05 * 0.05, duckdb": duckdb.sql("SELECT 0.05::decimal(10, 2) * 0.05::decimal(10, 2)").fetchall()[0][0],
    "2 / 3, polars": whole.select(amount / rate).item(),
    "fees of 0.40 %, polars, by rows": payments.select((amount * rate / 100).sum()).item(),
    "fees of 0.40 %, polars, by the sum": payments.select((amount * rate).sum() / 100).item(),
    "fees of 0.40 %, polars' SQL": pl.SQLContext(p=payments).execute("SELECT sum(amount * rate / 100) AS x FROM p").collect().item(),
}
for name, value in seen.items():
    print(f"{name}: {value}")
wanted = "0.00", "0.0025", "0.0025", "0.0025", "1", "0.00", "4.00", "4.00"
assert list(seen.values()) == [Decimal(one) for one in wanted], seen
PYTHON
