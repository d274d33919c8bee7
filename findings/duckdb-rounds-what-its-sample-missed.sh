#!/usr/bin/env bash
# DuckDB (PyPI) 2.0.1 with pandas 3.1.1: an amount that the sample missed is rounded to the type of the others.
#
# Expected: DuckDB looks at 1,000 rows of a pandas column of Python objects to find its type (`pandas_analyze_sample`). What does not
# fit that type is an error, as a word or 2^40 among small integers is.
# Seen: what can be cast is cast. One 1.5 among 6,002 ones is 2, and one Decimal 1.555 too. A payment of Decimal 0.005 is 0.01 among
# payments of 1.00. Bytes among texts become what Python prints of them. With 1,000 rows, or a larger sample, all values are right.
# Why it matters: `numeric` columns come into pandas as Decimals without a common scale. A sum by DuckDB differs from that of pandas,
# and tests have fewer than 1,000 rows. Set `pandas_analyze_sample` above the number of rows, or give pandas a type.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q duckdb==2.0.1 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" -W error - <<'PYTHON'
from decimal import Decimal

import duckdb
import pandas as pd


def odd_one(usual, odd, rows=6_003, sample=1_000):
    values = [usual] * rows
    values[2 * rows // 6] = odd
    frame = pd.DataFrame({"amount": pd.Series(values, dtype=object)})
    database = duckdb.connect()
    database.execute(f"SET pandas_analyze_sample = {sample}")
    try:
        query = "SELECT typeof(amount), amount FROM frame GROUP BY ALL ORDER BY count(*) LIMIT 1"
        return " ".join(str(one) for one in database.sql(query).fetchall()[0])
    except duckdb.Error as error:
        return type(error).__name__


inputs = {
    "1, and a word": (1, "x"),
    "1, and 2^40": (1, 2**40),
    "1, and 1.5": (1, 1.5),
    "Decimal 1, and Decimal 1.555": (Decimal("1"), Decimal("1.555")),
    "Decimal 1.00, and Decimal 0.005": (Decimal("1.00"), Decimal("0.005")),
    "text, and bytes": ("note", b"\xff"),
}
seen = {name: odd_one(*values) for name, values in inputs.items()}
for name, value in seen.items():
    print(f"{name}: {value}")
payments = inputs["Decimal 1.00, and Decimal 0.005"]
right = [odd_one(*payments, rows=1_000), odd_one(*payments, sample=10_000)]
print("the payments with 1,000 rows, and with a larger sample:", right)
assert list(seen.values())[:2] == ["InvalidInputException"] * 2, seen
assert list(seen.values())[2:] == ["INTEGER 2", "DECIMAL(1,0) 2", "DECIMAL(3,2) 0.01", "VARCHAR b'\\xff'"], seen
assert right == ["DECIMAL(4,3) 0.005"] * 2, right
PYTHON
