"""Counts instructions with gungraun and compares them with benches/instructions.txt.

    python3 benches/instructions.py             # fails if a count is more than 2 % above the accepted one
    python3 benches/instructions.py --accept    # writes the file
"""

import json
import pathlib
import subprocess
import sys

ACCEPTED = pathlib.Path(__file__).with_suffix(".txt")
BENCH = "cargo bench --locked --quiet --bench instructions -- --parallel --nosummary --output-format=json"
ALLOWED = 1.02


def counted():
    """The compiler, and instructions by row. Rows of a level that this CPU lacks count nothing."""
    rustc = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    bench = subprocess.run(BENCH.split(), stdout=subprocess.PIPE, text=True, check=True)
    counts = {}
    for row in map(json.loads, bench.stdout.splitlines()):
        metrics = row["profiles"][0]["data"]["total"]["metrics"]
        counts[f"{row['function_name']}/{row['id']}"] = metrics["Ir"]["values"]["new"]
    return rustc, counts


def read():
    rustc, *lines = ACCEPTED.read_text().splitlines()
    return rustc, {name: int(count) for count, name in map(str.split, lines)}


def main():
    rustc, counts = counted()
    if sys.argv[1:] == ["--accept"]:
        lines = [rustc, *(f"{count:>10} {name}" for name, count in sorted(counts.items()))]
        ACCEPTED.write_text("\n".join(lines) + "\n")
        return f"{len(counts)} counts accepted"
    compiler, accepted = read()
    failed = 0
    for name in sorted({*accepted, *counts}):
        before, now = accepted.get(name), counts.get(name)
        failed += (wrong := before is None or now is None or now > before * ALLOWED)
        change = f"{now / before - 1:+8.2%}" if before and now else ""
        print(f"{before or '-':>10} {now or '-':>10} {change:>8} {name}{'  FAILED' if wrong else ''}")
    if compiler != rustc:
        return f"not compared: the accepted counts are of {compiler}, these are of {rustc}"
    if failed:
        print(f"{failed} counts rose by more than 2 %, or rows are missing on one side; if this is intended: just instructions --accept")
        sys.exit(1)
    return "no count rose by more than 2 %"


print(main())
